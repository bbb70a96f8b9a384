/* Copies of rows of bytes: operations gather_rows and scatter_rows. `width` threads, a power of
 * two, share a row; each copies 16 or 4 bytes at a time where rows and arrays are aligned to as
 * many. Floor: 2 B bytes of traffic. */
#include "learner/device/cuda/cuda.h"
#include "learner/device/cuda/wide.h"

template <int V>
KERNEL copy_indexed(uint8_t *y, const uint8_t *x, const int32_t *row, int B, size_t bytes,
                    int width, bool scatters) {
  size_t b = (size_t)blockIdx.x * (blockDim.x / (unsigned)width) + threadIdx.x / (unsigned)width;
  if (b >= (size_t)B || row[b] < 0) return;
  size_t other = (size_t)row[b], lane = threadIdx.x & (unsigned)(width - 1);
  uint8_t *to = y + (scatters ? other : b) * bytes;
  const uint8_t *from = x + (scatters ? b : other) * bytes;
  for (size_t i = lane * V; i < bytes; i += (size_t)width * V)
    store_pack<uint8_t, V>(to + i, load_pack<uint8_t, V>(from + i));
}

static void copy_rows_of(struct device *d, void *y, const void *x, const int32_t *row, int B,
                         size_t bytes, bool scatters) {
  struct cuda *cuda = cuda_of(d);
  if (B == 0 || bytes == 0) return;
  uintptr_t all = (uintptr_t)y | (uintptr_t)x | bytes;
  size_t unit = all % 16 == 0 ? 16 : all % 4 == 0 ? 4 : 1;
  int width = 4;
  while (width < BLOCK && (size_t)width < bytes / unit) width *= 2;
  size_t each = (size_t)(BLOCK / width);
  unsigned blocks = (unsigned)(((size_t)B + each - 1) / each);
  uint8_t *to = (uint8_t *)y;
  const uint8_t *from = (const uint8_t *)x;
  if (unit == 16)
    LAUNCH(copy_indexed<16>, blocks, BLOCK, cuda->stream, to, from, row, B, bytes, width, scatters);
  else if (unit == 4)
    LAUNCH(copy_indexed<4>, blocks, BLOCK, cuda->stream, to, from, row, B, bytes, width, scatters);
  else
    LAUNCH(copy_indexed<1>, blocks, BLOCK, cuda->stream, to, from, row, B, bytes, width, scatters);
}

void cuda_gather_rows(struct device *d, void *y, const void *x, const int32_t *row, int B,
                      size_t bytes) {
  copy_rows_of(d, y, x, row, B, bytes, false);
}

void cuda_scatter_rows(struct device *d, void *y, const void *x, const int32_t *row, int B,
                       size_t bytes) {
  copy_rows_of(d, y, x, row, B, bytes, true);
}
