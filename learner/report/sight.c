#include "learner/report/sight.h"

#include <math.h>

#include "common/base/check.h"

enum { LEAST_SIDE = 84, GAP = 2, BETWEEN = 0x404040 };

/* One plane, or three as colours: what stands in one tile of the picture. */
struct tiles {
  int height, width, channels; /* of an image as it is given: channels are stack * C */
  int colours;                 /* channels of a tile: 3 or 1 */
  int across;                  /* tiles of an image */
  int factor;
};

/* Every image has three channels, first or last. */
static bool is_coloured(const struct device_inputs *images) {
  for (int k = 0; k < images->num_tensors; k++)
    if (images->tensor[k].channels != 3 &&
        (images->tensor[k].channels != 1 || images->tensor[k].planes % 3 != 0 ||
         images->tensor[k].planes == 0))
      return false;
  return true;
}

static struct tiles tiles_of(const struct device_inputs *images) {
  int stack = images->stack > 1 ? images->stack : 1, C = device_inputs_channels(images);
  struct tiles tiles = {.height = images->tensor[0].height,
                        .width = images->tensor[0].width,
                        .channels = stack * C,
                        .colours = is_coloured(images) ? 3 : 1};
  tiles.across = tiles.channels / tiles.colours;
  int side = tiles.height < tiles.width ? tiles.height : tiles.width;
  tiles.factor = (LEAST_SIDE + side - 1) / side;
  return tiles;
}

static uint32_t colour_of(const struct tiles *tiles, const float *channel) {
  uint8_t level[3];
  for (int i = 0; i < 3; i++) {
    float x = channel[tiles->colours == 3 ? i : 0];
    level[i] = (uint8_t)lrintf(255 * fminf(1, fmaxf(0, x)));
  }
  return (uint32_t)level[0] << 16 | (uint32_t)level[1] << 8 | level[2];
}

static void draw_tile(const struct canvas *canvas, const struct tiles *tiles, int left, int top,
                      const float *image, int tile) {
  for (int y = 0; y < tiles->height; y++) {
    for (int x = 0; x < tiles->width; x++) {
      const float *shown = image + (y * tiles->width + x) * tiles->channels;
      canvas_rectangle(canvas, left + x * tiles->factor, top + y * tiles->factor, tiles->factor,
                       tiles->factor, colour_of(tiles, shown + tile * tiles->colours));
    }
  }
}

struct canvas sight_draw(const float *images, int count, const struct device_inputs *inputs) {
  struct tiles tiles = tiles_of(inputs);
  int num_tiles = count * tiles.across;
  int columns = tiles.across > 1 ? tiles.across : count, rows = num_tiles / columns;
  int width = tiles.width * tiles.factor + GAP, height = tiles.height * tiles.factor + GAP;
  struct canvas canvas = {NULL, columns * width - GAP, rows * height - GAP};
  canvas.pixels = check_alloc((size_t)canvas.width * (size_t)canvas.height, 3);
  canvas_fill(&canvas, BETWEEN);
  size_t numbers = (size_t)tiles.height * (size_t)tiles.width * (size_t)tiles.channels;
  for (int i = 0; i < num_tiles; i++)
    draw_tile(&canvas, &tiles, i % columns * width, i / columns * height,
              images + (size_t)(i / tiles.across) * numbers, i % tiles.across);
  return canvas;
}
