/* From two grey screens of the Atari to one small frame: the maximum of both, since the games draw
 * some things only in every second frame, and a smaller size.
 * Upstream: atari.c. Thread: one per struct. */
#ifndef ACORN_ENVS_GYMNASIUM_SCREEN_H
#define ACORN_ENVS_GYMNASIUM_SCREEN_H

#include <stddef.h>
#include <stdint.h>

enum { SCREEN_SIDE = 84, SCREEN_MAX_WIDTH = 160, SCREEN_MAX_HEIGHT = 250, SCREEN_TAPS = 4 };

enum screen_resize {
  SCREEN_AREA,  /* each pixel is the mean over its area: OpenCV's INTER_AREA, what DeepMind used */
  SCREEN_LINEAR /* between the two nearest pixels: OpenCV's INTER_LINEAR, what SEED RL used */
};

/* One output pixel along one axis. */
struct screen_taps {
  int first; /* first + SCREEN_TAPS is within the axis */
  float weight[SCREEN_TAPS];
};

struct screen {
  int width, height;
  float scale; /* 1 / the sum of weights over both axes */
  struct screen_taps row[SCREEN_SIDE], column[SCREEN_SIDE];
};

void screen_init(struct screen *screen, int width, int height, enum screen_resize resize);

/* `a` becomes the maximum of both. Shapes: a, b: (bytes). */
void screen_maximum(uint8_t *a, const uint8_t *b, size_t bytes);

/* Shapes: out: (SCREEN_SIDE, SCREEN_SIDE); in: (height, width). */
void screen_shrink(const struct screen *screen, uint8_t *out, const uint8_t *in);

#endif
