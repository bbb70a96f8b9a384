#include "common/picture/canvas.h"

#include <math.h>
#include <stddef.h>

static uint8_t *pixel_at(const struct canvas *canvas, int x, int y) {
  return canvas->pixels + 3 * ((size_t)y * (size_t)canvas->width + (size_t)x);
}

static int within(int value, int low, int high) {
  return value < low ? low : value > high ? high : value;
}

void canvas_fill(const struct canvas *canvas, uint32_t colour) {
  canvas_rectangle(canvas, 0, 0, canvas->width, canvas->height, colour);
}

void canvas_rectangle(const struct canvas *canvas, int x, int y, int width, int height,
                      uint32_t colour) {
  int left = within(x, 0, canvas->width), right = within(x + width, 0, canvas->width);
  int top = within(y, 0, canvas->height), bottom = within(y + height, 0, canvas->height);
  for (int row = top; row < bottom; row++) {
    for (int column = left; column < right; column++) {
      uint8_t *pixel = pixel_at(canvas, column, row);
      for (int i = 0; i < 3; i++) pixel[i] = (uint8_t)(colour >> (16 - 8 * i));
    }
  }
}

/* The distance from (x, y) to the nearest point between both ends. */
static double distance(double x, double y, double x0, double y0, double dx, double dy) {
  double squared = dx * dx + dy * dy;
  double t = squared > 0 ? ((x - x0) * dx + (y - y0) * dy) / squared : 0;
  t = fmin(1, fmax(0, t));
  return hypot(x - x0 - t * dx, y - y0 - t * dy);
}

static void blend(uint8_t *pixel, uint32_t colour, double share) {
  for (int i = 0; i < 3; i++) {
    double target = (double)((colour >> (16 - 8 * i)) & 255);
    pixel[i] = (uint8_t)lrint(pixel[i] + share * (target - pixel[i]));
  }
}

void canvas_line(const struct canvas *canvas, double x0, double y0, double x1, double y1,
                 double thickness, uint32_t colour) {
  double radius = thickness / 2, reach = radius + 1;
  int left = (int)fmax(0, floor(fmin(x0, x1) - reach));
  int right = (int)fmin(canvas->width, ceil(fmax(x0, x1) + reach));
  int top = (int)fmax(0, floor(fmin(y0, y1) - reach));
  int bottom = (int)fmin(canvas->height, ceil(fmax(y0, y1) + reach));
  for (int y = top; y < bottom; y++) {
    for (int x = left; x < right; x++) {
      double away = distance(x + 0.5, y + 0.5, x0, y0, x1 - x0, y1 - y0);
      double share = fmin(1, radius + 0.5 - away);
      if (share > 0) blend(pixel_at(canvas, x, y), colour, share);
    }
  }
}

void canvas_picture(const struct canvas *canvas, int x, int y, const struct canvas *from,
                    int factor) {
  for (int row = 0; row < from->height; row++) {
    for (int column = 0; column < from->width; column++) {
      const uint8_t *pixel = pixel_at(from, column, row);
      uint32_t colour = (uint32_t)pixel[0] << 16 | (uint32_t)pixel[1] << 8 | pixel[2];
      canvas_rectangle(canvas, x + column * factor, y + row * factor, factor, factor, colour);
    }
  }
}

uint32_t canvas_grey(uint8_t level) {
  return (uint32_t)level * 0x010101u;
}
