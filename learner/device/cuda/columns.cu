#include "learner/device/cuda/columns.h"

/* A block is 32 columns wide and 8 rows high. Its rows are a chunk of the array, and each chunk
 * leaves a row of sums, which a second kernel adds in order. */
enum { WIDTH = 32, HEIGHT = 8, LEAST_ROWS = 8 * HEIGHT, MOST_CHUNKS = 128 };

static int chunks_of(const struct cuda *cuda, const struct columns *c) {
  size_t wanted = 4 * (size_t)cuda->properties.multiProcessorCount,
         across = ((size_t)c->O + WIDTH - 1) / WIDTH;
  size_t chunks = (wanted + across - 1) / across, most = (c->rows + LEAST_ROWS - 1) / LEAST_ROWS;
  if (chunks > most) chunks = most;
  if (chunks > MOST_CHUNKS) chunks = MOST_CHUNKS;
  return chunks > 0 ? (int)chunks : 1;
}

size_t columns_bytes(const struct cuda *cuda, const struct columns *c) {
  return ((size_t)chunks_of(cuda, c) * c->O * sizeof(float) + 255) / 256 * 256;
}

/* N rows from `row` on, HEIGHT apart: all are read before the first is written. Returns their
 * sum. */
template <int N>
DEVICE float turn_rows(const struct columns &c, size_t row, int o) {
  float g[N], y[N], sum = 0;
  for (int k = 0; k < N; k++) {
    size_t i = (row + (size_t)k * HEIGHT) * c.O + o;
    g[k] = c.dy[i];
    y[k] = c.act == ACTIVATION_NONE ? 0 : c.y[i];
  }
  for (int k = 0; k < N; k++) {
    size_t at = row + (size_t)k * HEIGHT;
    if (c.act != ACTIVATION_NONE) c.dy[at * c.O + o] = g[k] *= slope(c.act, y[k]);
    if (c.low) c.low[at * c.low_stride + o] = to_bf16(g[k]);
    sum += g[k];
  }
  return sum;
}

/* The sum down the columns of a block's (HEIGHT, WIDTH) numbers, for its first row of threads. */
DEVICE float sum_down(float x) {
  SHARED float all[HEIGHT][WIDTH];
  all[threadIdx.y][threadIdx.x] = x;
  __syncthreads();
  float sum = 0;
  for (int k = 0; k < HEIGHT; k++) sum += all[k][threadIdx.x];
  return sum;
}

/* sum (chunks, O). */
KERNEL turn_chunk(struct columns c, float *sum, size_t rows_of_chunk) {
  int o = (int)(blockIdx.x * WIDTH + threadIdx.x);
  size_t first = blockIdx.y * rows_of_chunk, end = first + rows_of_chunk;
  if (end > c.rows) end = c.rows;
  float total = 0;
  if (o < c.O) {
    size_t row = first + threadIdx.y;
    for (; row + 3 * HEIGHT < end; row += 4 * HEIGHT) total += turn_rows<4>(c, row, o);
    for (; row < end; row += HEIGHT) total += turn_rows<1>(c, row, o);
  }
  total = sum_down(total);
  if (threadIdx.y == 0 && o < c.O) sum[(size_t)blockIdx.y * c.O + o] = total;
}

KERNEL add_chunks(float *y, const float *sum, bool add, int chunks, int O) {
  int o = (int)(blockIdx.x * WIDTH + threadIdx.x);
  float total = 0;
  for (int k = threadIdx.y; o < O && k < chunks; k += HEIGHT) total += sum[(size_t)k * O + o];
  total = sum_down(total);
  if (threadIdx.y == 0 && o < O) y[o] = add ? y[o] + total : total;
}

void cuda_turn_columns(struct cuda *cuda, const struct columns *c, void *room) {
  int chunks = chunks_of(cuda, c);
  float *sum = chunks > 1 || c->add ? (float *)room : c->sum;
  unsigned across = (unsigned)((c->O + WIDTH - 1) / WIDTH);
  dim3 block(WIDTH, HEIGHT);
  LAUNCH(turn_chunk, dim3(across, (unsigned)chunks), block, cuda->stream, *c, sum,
         (c->rows + (size_t)chunks - 1) / (size_t)chunks);
  if (sum != c->sum)
    LAUNCH(add_chunks, across, block, cuda->stream, c->sum, (const float *)sum, c->add, chunks,
           c->O);
}
