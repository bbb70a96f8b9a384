/* Copies of weights in bf16, in the order that a kernel reads them. A copy is made where it is
 * first asked for and kept by the weights' address until weights_changed. What a captured graph
 * reads is renewed by weights_changed itself, in one launch for all, so that a graph that ends with
 * weights_changed leaves the copies right for its next run.
 * Upstream: linear.cu, lstm.cu, conv_tiles.cu, conv_columns.cu. */
#ifndef ACORN_LEARNER_DEVICE_CUDA_WEIGHTS_H
#define ACORN_LEARNER_DEVICE_CUDA_WEIGHTS_H

#include "learner/device/cuda/cuda.h"

enum weight_order {
  WEIGHTS_ROWS,  /* (places C, O), both rounded up to a multiple of 8, zeros behind */
  WEIGHTS_TILES, /* (places, C, O) of a window as (K, N): K = places of C channels rounded up to a
                    multiple of 8, N = O rounded up to tile_columns; zeros between. The columns are
                    permuted, see tile_channel */
  /* The same of the windows that take the gradient of what was written back to what was read:
     places in reverse, channels O in and C out. One for each remainder of rows and columns by the
     stride, rows first, one after the other; places that such a window has not are zeros. */
  WEIGHTS_TILES_BACK
};

/* Of WEIGHTS_TILES_BACK: the window forwards, with the zeros before the image that is read. */
struct weight_window {
  int size, stride, above, left;
};

struct weight_copy {
  const float *from; /* (places, C, O) */
  bf16 *to;          /* (rows, columns) */
  int order;         /* enum weight_order */
  int places, C, O;
  int rows, columns;
  struct weight_window window;
};

/* The copy of `from` (places, C, O) in that order, renewed if need be, and its number of
 * columns. */
const bf16 *cuda_weights(struct cuda *cuda, int *columns, const float *from,
                         enum weight_order order, int places, int C, int O);

/* The same of WEIGHTS_TILES_BACK. */
const bf16 *cuda_weights_back(struct cuda *cuda, int *columns, const float *from,
                              const struct weight_window *window, int C, int O);

/* The weights at this address are no longer what the copies are of. Called behind an operation that
 * writes weights (noisy_forward). */
void cuda_weights_written(struct cuda *cuda, const float *from);

void cuda_weights_destroy(struct cuda *cuda);

/* Columns of a tile product that writes so many channels: 16, 32 or 64; 0 where there are more. */
static inline int tile_columns(int channels) {
  return channels <= 16 ? 16 : channels <= 32 ? 32 : channels <= 64 ? 64 : 0;
}

/* Channels of one place in WEIGHTS_TILES: 16 bytes at a time are read. */
static inline int tile_channels(int channels) {
  return (channels + 7) / 8 * 8;
}

/* The side of the windows that go back, in steps of the stride. */
static inline int weight_side_back(const struct weight_window *window) {
  return (window->size + window->stride - 1) / window->stride;
}

/* Rows of WEIGHTS_TILES, and of one window of WEIGHTS_TILES_BACK: a product takes 16 at a time. */
static inline int tile_rows(int places, int channels) {
  return (places * tile_channels(channels) + 15) / 16 * 16;
}

#endif
