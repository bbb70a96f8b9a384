/* What convolutions and pooling move over images.
 * Upstream: learner/device. */
#ifndef ACORN_LEARNER_DEVICE_WINDOW_H
#define ACORN_LEARNER_DEVICE_WINDOW_H

#include <stdbool.h>

/* A window that moves over an image: of a convolution or of pooling. */
struct device_window {
  int H, W, C; /* the image that is read */
  int O;       /* channels that are written (pooling: C) */
  int size, stride;
  bool same; /* zeros around it, so that there are ceil(H / stride) places (if their number is odd,
                one more below and on the right); false: only places inside */
};

/* Rows and columns that are written, and rows of zeros above (columns on the left) and below. */
int device_window_rows(const struct device_window *window);
int device_window_columns(const struct device_window *window);
int device_window_before(const struct device_window *window, int length);
int device_window_after(const struct device_window *window, int length);

#endif
