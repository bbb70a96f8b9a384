/* Drawing into a picture in memory: what environments show of themselves, and what is drawn beside
 * it. Coordinates are pixels from the top left corner; what lies outside is not drawn. A colour is
 * 0xRRGGBB.
 * Upstream: envs, deploy/inspect/watch, learner/report/sight.c. Thread: any (no state). */
#ifndef ACORN_COMMON_PICTURE_CANVAS_H
#define ACORN_COMMON_PICTURE_CANVAS_H

#include <stdint.h>

/* Shapes: pixels: (height, width, 3), RGB. Owner: the caller. */
struct canvas {
  uint8_t *pixels;
  int width, height;
};

void canvas_fill(const struct canvas *canvas, uint32_t colour);
void canvas_rectangle(const struct canvas *canvas, int x, int y, int width, int height,
                      uint32_t colour);

/* A line with round ends and smooth edges; a disc where both ends are the same. */
void canvas_line(const struct canvas *canvas, double x0, double y0, double x1, double y1,
                 double thickness, uint32_t colour);

/* Draws another picture at (x, y), each of its pixels as factor x factor. */
void canvas_picture(const struct canvas *canvas, int x, int y, const struct canvas *from,
                    int factor);

/* One colour for a byte of grey. */
uint32_t canvas_grey(uint8_t level);

#endif
