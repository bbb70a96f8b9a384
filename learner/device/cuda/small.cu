/* A block has 64 rows at a time and 256 threads, of which each sums 4 x 4 numbers of a product. In
 * shared memory rows have 64 numbers and 4 more, so that columns are in different banks. Floor: x,
 * y, dy and dx once; below some 10,000 rows the latency of the launches. */
#include "learner/device/cuda/small.h"

enum { SIDE = 64, ROW = SIDE + 4, ROWS = 64, TILE = 4, ACROSS = SIDE / TILE, CHAIN = 4 };

/* Layers of the same rows, each of which reads what the one before it wrote. A block has the same
 * rows of all: what it hands from layer to layer no other block reads. */
struct small_chain {
  struct small_layer layer[CHAIN];
  int count;
  bool backward;
};

bool small_takes(int I, int O) {
  return I <= SIDE && O <= SIDE;
}

/* ---- in a kernel */

DEVICE float activate(enum activation act, float x) {
  if (act == ACTIVATION_RELU) return x > 0 ? x : 0;
  return act == ACTIVATION_TANH ? tanhf(x) : x;
}

/* Numbers of a matrix that a thread brings: all loads are under way before the first is needed. */
enum { EACH = SIDE * SIDE / BLOCK };
static_assert(ROWS == SIDE, "rows of dy are brought like those of a matrix");

/* shared (ROWS or SIDE, ROW) = x (rows, columns), or its transpose; zeros behind both. */
DEVICE void load_matrix(float *shared, const float *x, int stride, int rows, int columns,
                        bool transposed) {
  float value[EACH];
  UNROLL
  for (int k = 0; k < EACH; k++) {
    int i = (int)threadIdx.x + k * BLOCK, row = i / SIDE, column = i % SIDE;
    value[k] = row < rows && column < columns ? x[(size_t)row * stride + column] : 0;
  }
  UNROLL
  for (int k = 0; k < EACH; k++) {
    int i = (int)threadIdx.x + k * BLOCK, row = i / SIDE, column = i % SIDE;
    shared[transposed ? column * ROW + row : row * ROW + column] = value[k];
  }
}

/* The tile of this thread: its first row and column. */
DEVICE int tile_row() {
  return (int)threadIdx.x / ACROSS * TILE;
}
DEVICE int tile_column() {
  return (int)threadIdx.x % ACROSS * TILE;
}

/* sum += left (k, rows of the tile) x right (k, columns of the tile), over `count` of k. */
DEVICE void multiply_tile(float sum[TILE][TILE], const float *left, const float *right, int count) {
  for (int k = 0; k < count; k++) {
    float4 a = *(const float4 *)(left + k * ROW), b = *(const float4 *)(right + k * ROW);
    float of_row[TILE] = {a.x, a.y, a.z, a.w}, of_column[TILE] = {b.x, b.y, b.z, b.w};
    UNROLL
    for (int i = 0; i < TILE; i++) UNROLL
    for (int j = 0; j < TILE; j++) sum[i][j] += of_row[i] * of_column[j];
  }
}

/* ---- forward */

/* x, transposed (I, ROWS), and w: shared memory. */
DEVICE void forward_layer(const struct small_layer &l, float *x, float *w) {
  __syncthreads(); /* the layer before has been written, its weights are read no more */
  load_matrix(w, l.w, l.O, l.I, l.O, false);
  for (int first = (int)blockIdx.x * ROWS; first < l.B; first += (int)gridDim.x * ROWS) {
    __syncthreads(); /* the last rows are read no more */
    load_matrix(x, l.x + (size_t)first * l.x_stride, l.x_stride, min((int)ROWS, l.B - first), l.I,
                true);
    __syncthreads();
    float sum[TILE][TILE] = {};
    multiply_tile(sum, x + tile_row(), w + tile_column(), l.I);
    UNROLL
    for (int i = 0; i < TILE; i++) UNROLL
    for (int j = 0; j < TILE; j++) {
      int row = first + tile_row() + i, o = tile_column() + j;
      if (row < l.B && o < l.O) l.y[(size_t)row * l.O + o] = activate(l.act, sum[i][j] + l.b[o]);
    }
  }
}

KERNEL forward_layers(PARAMETER struct small_chain chain) {
  DYNAMIC_SHARED(float, x);
  for (int k = 0; k < chain.count; k++) forward_layer(chain.layer[k], x, x + SIDE * ROW);
}

static unsigned blocks_of(const struct cuda *cuda, const struct small_layer *l) {
  return blocks_for((size_t)l->B, ROWS, (size_t)cuda->properties.multiProcessorCount);
}

static const size_t MATRIX_BYTES = (size_t)SIDE * ROW * sizeof(float);

/* ---- backward */

/* g (ROWS, ROW) = dy of the rows, through the activation and back to where it was; g_across: its
 * transpose. */
DEVICE void load_gradient(float *g, float *g_across, const struct small_layer &l, int first) {
  float value[EACH], output[EACH];
  UNROLL
  for (int k = 0; k < EACH; k++) {
    int i = (int)threadIdx.x + k * BLOCK, row = i / SIDE, o = i % SIDE;
    size_t at = (size_t)(first + row) * l.O + o;
    bool is_there = first + row < l.B && o < l.O;
    value[k] = is_there ? l.dy[at] : 0;
    output[k] = is_there && l.act != ACTIVATION_NONE ? l.y[at] : 0;
  }
  UNROLL
  for (int k = 0; k < EACH; k++) {
    int i = (int)threadIdx.x + k * BLOCK, row = i / SIDE, o = i % SIDE;
    if (l.act != ACTIVATION_NONE && first + row < l.B && o < l.O)
      l.dy[(size_t)(first + row) * l.O + o] = value[k] *= slope(l.act, output[k]);
    g[row * ROW + o] = value[k];
    g_across[o * ROW + row] = value[k];
  }
}

/* dx of the rows = g w^T. */
DEVICE void inputs_of_rows(const struct small_layer &l, const float *g_across,
                           const float *w_across, int first) {
  float sum[TILE][TILE] = {};
  multiply_tile(sum, g_across + tile_row(), w_across + tile_column(), l.O);
  UNROLL
  for (int i = 0; i < TILE; i++) UNROLL
  for (int j = 0; j < TILE; j++) {
    int row = first + tile_row() + i, input = tile_column() + j;
    if (row < l.B && input < l.I) l.dx[(size_t)row * l.I + input] = sum[i][j];
  }
}

/* part (SIDE + 1, SIDE): this block's share of the gradients of the weights and, behind them, of
 * the bias. x (ROWS, I) and what follows it: shared memory. */
DEVICE void backward_layer(float *part, const struct small_layer &l, float *x) {
  float *g = x + ROWS * ROW, *g_across = g + ROWS * ROW, *w_across = g_across + SIDE * ROW;
  float sum[TILE][TILE] = {}, bias = 0;
  __syncthreads(); /* dy has been written, the weights of the layer before are read no more */
  if (l.dx) load_matrix(w_across, l.w, l.O, l.I, l.O, true);
  for (int first = (int)blockIdx.x * ROWS; first < l.B; first += (int)gridDim.x * ROWS) {
    int rows = min((int)ROWS, l.B - first);
    __syncthreads(); /* the last rows are read no more */
    load_matrix(x, l.x + (size_t)first * l.x_stride, l.x_stride, rows, l.I, false);
    load_gradient(g, g_across, l, first);
    __syncthreads();
    multiply_tile(sum, x + tile_row(), g + tile_column(), rows);
    for (int row = 0; threadIdx.x < SIDE && row < rows; row++) bias += g[row * ROW + threadIdx.x];
    if (l.dx) inputs_of_rows(l, g_across, w_across, first);
  }
  UNROLL
  for (int i = 0; i < TILE; i++)
    *(float4 *)(part + (tile_row() + i) * SIDE + tile_column()) =
        make_float4(sum[i][0], sum[i][1], sum[i][2], sum[i][3]);
  if (threadIdx.x < SIDE) part[SIDE * SIDE + threadIdx.x] = bias;
}

enum { WIDTH = 32, HEIGHT = 8, PART = (SIDE + 1) * SIDE };

/* part (layers, blocks, PART). */
KERNEL backward_layers(float *part, PARAMETER struct small_chain chain) {
  DYNAMIC_SHARED(float, x);
  for (int k = 0; k < chain.count; k++)
    backward_layer(part + ((size_t)k * gridDim.x + blockIdx.x) * PART, chain.layer[k], x);
}

/* dw, db: the sums over the blocks, in order. A block of threads has 32 numbers of a layer. */
KERNEL add_parts(PARAMETER struct small_chain chain, const float *part, int parts) {
  SHARED float all[HEIGHT][WIDTH];
  const struct small_layer &l = chain.layer[blockIdx.y];
  part += (size_t)blockIdx.y * parts * PART;
  int at = (int)(blockIdx.x * WIDTH + threadIdx.x), i = at / SIDE, o = at % SIDE;
  float sum = 0;
  for (int p = (int)threadIdx.y; p < parts; p += HEIGHT) sum += part[(size_t)p * PART + at];
  all[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y != 0 || o >= l.O) return;
  for (int k = 1; k < HEIGHT; k++) sum += all[k][threadIdx.x];
  if (i < l.I && l.dw) l.dw[(size_t)i * l.O + o] = sum;
  if (i == SIDE) l.db[o] = sum;
}

/* ---- launches */

static void launch_backward(struct cuda *cuda, const struct small_chain *chain, unsigned blocks) {
  unsigned layers = (unsigned)chain->count;
  float *part = (float *)cuda_scratch(cuda, (size_t)layers * blocks * PART * sizeof *part);
  LAUNCH_SHARED(backward_layers, blocks, BLOCK, 4 * MATRIX_BYTES, cuda->stream, part, *chain);
  LAUNCH(add_parts, dim3(PART / WIDTH, layers), dim3(WIDTH, HEIGHT), cuda->stream, *chain,
         (const float *)part, (int)blocks);
}

void small_launch(struct cuda *cuda) {
  struct small_chain *chain = cuda->chain;
  if (!chain || chain->count == 0) return;
  unsigned blocks = blocks_of(cuda, &chain->layer[0]);
  if (chain->backward)
    launch_backward(cuda, chain, blocks);
  else
    LAUNCH_SHARED(forward_layers, blocks, BLOCK, 2 * MATRIX_BYTES, cuda->stream, *chain);
  chain->count = 0;
}

/* Behind those that wait if it reads what the last of them writes, else alone. */
static void append(struct cuda *cuda, const struct small_layer *l, bool backward, bool follows) {
  struct small_chain *chain = cuda->chain;
  if (chain->backward != backward || chain->count == CHAIN || !follows) small_launch(cuda);
  chain->backward = backward;
  chain->layer[chain->count++] = *l;
}

/* Of those that wait; one of zeros where there is none. */
static const struct small_layer *last_of(struct cuda *cuda) {
  if (!cuda->chain) cuda->chain = (struct small_chain *)check_alloc(1, sizeof *cuda->chain);
  int count = cuda->chain->count;
  return &cuda->chain->layer[count > 0 ? count - 1 : 0];
}

void small_forward(struct cuda *cuda, const struct small_layer *l) {
  const struct small_layer *last = last_of(cuda);
  append(cuda, l, false,
         l->x == last->y && l->x_stride == last->O && l->I == last->O && l->B == last->B);
}

void small_backward(struct cuda *cuda, const struct small_layer *l) {
  const struct small_layer *last = last_of(cuda);
  append(cuda, l, true, l->dy == last->dx && l->O == last->I && l->B == last->B);
}
