#include "envs/gymnasium/screen.h"

#include <math.h>
#include <string.h>

/* Moves the taps so that all of them lie within the axis. */
static void place(struct screen_taps *taps, int first, const float weight[SCREEN_TAPS], int size) {
  int last = size - SCREEN_TAPS, shift = first > last ? first - last : 0;
  *taps = (struct screen_taps){.first = first - shift};
  for (int i = 0; i + shift < SCREEN_TAPS; i++) taps->weight[i + shift] = weight[i];
}

static int common_divisor(int a, int b) {
  return b ? common_divisor(b, a % b) : a;
}

/* In units in which pixels before and after have whole lengths, so that sums are exact. Returns the
 * sum of a pixel's weights. */
static float area_taps(struct screen_taps taps[SCREEN_SIDE], int size) {
  int unit = common_divisor(size, SCREEN_SIDE), before = SCREEN_SIDE / unit, after = size / unit;
  for (int i = 0; i < SCREEN_SIDE; i++) {
    int from = i * after, to = from + after, first = from / before;
    float weight[SCREEN_TAPS] = {0};
    for (int k = 0; k < SCREEN_TAPS; k++) {
      int low = (first + k) * before, high = low + before;
      if (low < from) low = from;
      if (high > to) high = to;
      if (high > low) weight[k] = (float)(high - low);
    }
    place(&taps[i], first, weight, size);
  }
  return (float)after;
}

/* Weights in 1/2048, as OpenCV has them for bytes. */
static float linear_taps(struct screen_taps taps[SCREEN_SIDE], int size) {
  enum { ONE = 2048 };
  for (int i = 0; i < SCREEN_SIDE; i++) {
    double at = (i + 0.5) * size / SCREEN_SIDE - 0.5;
    int first = (int)floor(at);
    float second = (float)lrint((at - first) * ONE);
    place(&taps[i], first, (float[SCREEN_TAPS]){ONE - second, second}, size);
  }
  return ONE;
}

void screen_init(struct screen *screen, int width, int height, enum screen_resize resize) {
  float (*make)(struct screen_taps *, int) = resize == SCREEN_AREA ? area_taps : linear_taps;
  screen->width = width;
  screen->height = height;
  screen->scale = 1 / (make(screen->column, width) * make(screen->row, height));
}

void screen_maximum(uint8_t *restrict a, const uint8_t *restrict b, size_t bytes) {
  for (size_t i = 0; i < bytes; i++) a[i] = a[i] > b[i] ? a[i] : b[i];
}

/* One row of the output, still as wide as the input. */
static void shrink_down(float *restrict line, const uint8_t *restrict in,
                        const struct screen_taps *taps, int width) {
  const uint8_t *row = in + (size_t)taps->first * width;
  float w0 = taps->weight[0], w1 = taps->weight[1], w2 = taps->weight[2], w3 = taps->weight[3];
  for (int x = 0; x < width; x++)
    line[x] = w0 * row[x] + w1 * row[x + width] + w2 * row[x + 2 * width] + w3 * row[x + 3 * width];
}

void screen_shrink(const struct screen *screen, uint8_t *out, const uint8_t *in) {
  float line[SCREEN_MAX_WIDTH];
  for (int y = 0; y < SCREEN_SIDE; y++, out += SCREEN_SIDE) {
    shrink_down(line, in, &screen->row[y], screen->width);
    for (int x = 0; x < SCREEN_SIDE; x++) {
      const struct screen_taps *taps = &screen->column[x];
      const float *at = line + taps->first, *weight = taps->weight;
      float sum = at[0] * weight[0] + at[1] * weight[1] + at[2] * weight[2] + at[3] * weight[3];
      out[x] = (uint8_t)(sum * screen->scale + 0.5f);
    }
  }
}
