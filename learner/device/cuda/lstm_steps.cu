/* The LSTM in bf16, a kernel for a whole pass. A block has 16 sequences and 8 units: it keeps their
 * recurrent weights in shared memory, and step by step multiplies with what all blocks of these
 * sequences wrote in the step before, then does its cells. Between steps the blocks of the same
 * sequences wait for each other. Where not all blocks are on the GPU together, each step is a
 * launch of the same kernel.
 *
 * Floor of a step: the latency of a barrier over the GPU, some 2 us; and N H H / 4 bytes (backwards
 * 4 times as many) from the second-level cache, as each block reads 16 whole rows: 1 MB for N = 64,
 * H = 256. */
#include "learner/device/cuda/blas.h"
#include "learner/device/cuda/lstm.h"
#include "learner/device/cuda/product.h"
#include "learner/device/cuda/warp_matrix.h"

enum { ROWS = 16, UNITS = 8, THREADS = 256, WARPS = THREADS / WARP, CELLS = ROWS * UNITS, PAD = 8 };

/* Smaller layers stay in float. */
enum { LEAST_WEIGHTS = 1 << 14 };

/* What a kernel is given: steps `from` up to `to` (not it), backwards from `from` down to `to`. */
struct pass {
  struct lstm l;
  const bf16 *wh;  /* (H, 4H) */
  bf16 *operand;   /* forward: (T, N, H) h before each step; backward: (T, N, 4H) dgates */
  float *dc;       /* (N, H), backward */
  unsigned *count; /* (row groups): blocks that have done their step, over all steps */
  int from, to;
};

/* A block's sequences and units. */
struct part {
  int n, u;
};

DEVICE struct part part_of_block() {
  struct part part = {(int)blockIdx.y * ROWS, (int)blockIdx.x * UNITS};
  return part;
}

/* tile (ROWS, K + PAD) = rows n.. of x (N, K), zeros behind the last; other blocks wrote x. */
DEVICE void load_rows(bf16 *tile, const bf16 *x, int n, int N, int K) {
  for (int i = (int)threadIdx.x; i < ROWS * K / 8; i += THREADS) {
    int row = i / (K / 8), k = i % (K / 8) * 8;
    uint4 word = {0, 0, 0, 0};
    if (n + row < N) word = load_from_grid(x + (size_t)(n + row) * K + k);
    *(uint4 *)(tile + (size_t)row * (K + PAD) + k) = word;
  }
}

/* Where a lane reads 16 rows by 16 columns of a tile from column k on. */
DEVICE const bf16 *left_of(const bf16 *tile, int K, int k) {
  int lane = (int)threadIdx.x % WARP;
  return tile + (size_t)(lane % 16) * (K + PAD) + k + lane / 16 * 8;
}

/* All blocks of these sequences have done `steps` steps. */
DEVICE void meet(const struct pass &p, int steps) {
  if (steps == 0) return;
  if (threadIdx.x == 0) wait_for(p.count + blockIdx.y, (unsigned)steps * gridDim.x);
  __syncthreads();
}

DEVICE void done(const struct pass &p) {
  __syncthreads();
  if (threadIdx.x == 0) arrive(p.count + blockIdx.y);
}

/* ---- forward */

enum { GATE_COLUMNS = 4 * UNITS };

/* weights (H, GATE_COLUMNS + PAD): the four gates of the block's units. */
DEVICE void load_gate_weights(bf16 *weights, const bf16 *wh, int u, int H) {
  for (int i = (int)threadIdx.x; i < 4 * H; i += THREADS) {
    int k = i / 4, gate = i % 4;
    *(uint4 *)(weights + (size_t)k * (GATE_COLUMNS + PAD) + gate * UNITS) =
        *(const uint4 *)(wh + (size_t)k * 4 * H + (size_t)gate * H + u);
  }
}

/* part (WARPS, ROWS, GATE_COLUMNS): each warp's share of tile (ROWS, H) times weights. */
DEVICE void multiply_gates(float *part, const bf16 *tile, const bf16 *weights, int H) {
  int warp = (int)threadIdx.x / WARP, lane = (int)threadIdx.x % WARP;
  float sum[4][4] = {};
  for (int k = 16 * warp; k < H; k += 16 * WARPS) {
    unsigned a[4];
    load_matrices(a, left_of(tile, H, k));
    UNROLL for (int pair = 0; pair < 2; pair++) {
      unsigned b[4];
      load_transposed(
          b, weights + (size_t)(k + lane % 16) * (GATE_COLUMNS + PAD) + 16 * pair + lane / 16 * 8);
      multiply_add(sum[2 * pair], a, b);
      multiply_add(sum[2 * pair + 1], a, b + 2);
    }
  }
  float *mine = part + (size_t)warp * ROWS * GATE_COLUMNS;
  UNROLL for (int tile_column = 0; tile_column < 4; tile_column++)
      UNROLL for (int i = 0; i < 4; i++) {
    int row = lane / 4 + i / 2 * 8, column = 8 * tile_column + lane % 4 * 2 + i % 2;
    mine[row * GATE_COLUMNS + column] = sum[tile_column][i];
  }
}

/* The cell of this thread at step t: what came from x, and the state before. */
struct cell {
  float gate[4], c_before;
};

DEVICE struct cell load_cell(const struct lstm &l, int t, int n, int u) {
  struct cell cell;
  for (int k = 0; k < 4; k++)
    cell.gate[k] = l.gates[((size_t)t * l.N + n) * 4 * l.H + (size_t)k * l.H + u];
  cell.c_before = state_before(l, l.c, l.c0, t, n, u);
  return cell;
}

DEVICE void finish_cell(const struct pass &p, struct cell cell, const float *part, int t, int n,
                        int u) {
  const struct lstm &l = p.l;
  int row = (int)threadIdx.x / UNITS, unit = (int)threadIdx.x % UNITS;
  for (int k = 0; k < 4; k++)
    for (int warp = 0; warp < WARPS; warp++)
      cell.gate[k] += part[(warp * ROWS + row) * GATE_COLUMNS + k * UNITS + unit];
  float h, c;
  cell_forward(&h, &c, cell.gate, cell.c_before);
  size_t at = ((size_t)t * l.N + n) * l.H + u;
  l.h[at] = h;
  l.c[at] = c;
  for (int k = 0; k < 4; k++)
    l.gates[((size_t)t * l.N + n) * 4 * l.H + (size_t)k * l.H + u] = cell.gate[k];
  if (t + 1 < l.T) p.operand[at + (size_t)l.N * l.H] = to_bf16(is_first(l, t + 1, n) ? 0 : h);
}

static __global__ void __launch_bounds__(THREADS) forward_steps(struct pass p) {
  DYNAMIC_SHARED(char, room);
  const struct lstm &l = p.l;
  struct part at = part_of_block();
  float *part = (float *)room;
  bf16 *weights = (bf16 *)(part + WARPS * ROWS * GATE_COLUMNS);
  bf16 *tile = weights + (size_t)l.H * (GATE_COLUMNS + PAD);
  int n = at.n + (int)threadIdx.x / UNITS, u = at.u + (int)threadIdx.x % UNITS;
  bool has_cell = threadIdx.x < CELLS && n < l.N;
  load_gate_weights(weights, p.wh, at.u, l.H);
  for (int t = p.from; t < p.to; t++) {
    struct cell cell = {};
    if (has_cell) cell = load_cell(l, t, n, u);
    meet(p, t - p.from);
    load_rows(tile, p.operand + (size_t)t * l.N * l.H, at.n, l.N, l.H);
    __syncthreads();
    multiply_gates(part, tile, weights, l.H);
    __syncthreads();
    if (has_cell) finish_cell(p, cell, part, t, n, u);
    done(p);
  }
}

static size_t forward_shared(int H) {
  return sizeof(float) * WARPS * ROWS * GATE_COLUMNS +
         sizeof(bf16) * ((size_t)H * (GATE_COLUMNS + PAD) + (size_t)ROWS * (size_t)(H + PAD));
}

/* ---- backward */

/* weights (UNITS, 4H + PAD): rows of wh. */
DEVICE void load_unit_weights(bf16 *weights, const bf16 *wh, int u, int H) {
  for (int i = (int)threadIdx.x; i < UNITS * H / 2; i += THREADS) {
    int unit = i / (H / 2), k = i % (H / 2) * 8;
    *(uint4 *)(weights + (size_t)unit * (4 * H + PAD) + k) =
        *(const uint4 *)(wh + (size_t)(u + unit) * 4 * H + k);
  }
}

/* part (WARPS, ROWS, UNITS): each warp's share of tile (ROWS, 4H) times weights^T. */
DEVICE void multiply_units(float *part, const bf16 *tile, const bf16 *weights, int H) {
  int warp = (int)threadIdx.x / WARP, lane = (int)threadIdx.x % WARP, K = 4 * H;
  float sum[4] = {};
  for (int k = 32 * warp; k < K; k += 32 * WARPS) {
    unsigned a[4], b[4];
    load_matrices(b, weights + (size_t)(lane % 8) * (K + PAD) + k + lane / 8 * 8);
    load_matrices(a, left_of(tile, K, k));
    multiply_add(sum, a, b);
    load_matrices(a, left_of(tile, K, k + 16));
    multiply_add(sum, a, b + 2);
  }
  for (int i = 0; i < 4; i++)
    part[(warp * ROWS + lane / 4 + i / 2 * 8) * UNITS + lane % 4 * 2 + i % 2] = sum[i];
}

struct cell_back {
  float gate[4], c, c_before, dh;
  bool first, cut; /* nothing goes to the step before; nothing comes from the step after */
};

DEVICE struct cell_back load_cell_back(const struct lstm &l, int t, int n, int u) {
  struct cell_back cell;
  size_t at = ((size_t)t * l.N + n) * l.H + u;
  for (int k = 0; k < 4; k++)
    cell.gate[k] = l.gates[((size_t)t * l.N + n) * 4 * l.H + (size_t)k * l.H + u];
  cell.c = l.c[at];
  cell.c_before = state_before(l, l.c, l.c0, t, n, u);
  cell.dh = l.dh[at];
  cell.first = is_first(l, t, n);
  cell.cut = t == l.T - 1 || is_first(l, t + 1, n);
  return cell;
}

DEVICE void finish_cell_back(const struct pass &p, struct cell_back cell, float *dc,
                             const float *part, int t, int n, int u) {
  const struct lstm &l = p.l;
  for (int warp = 0; !cell.cut && warp < WARPS; warp++)
    cell.dh += part[(size_t)warp * CELLS + threadIdx.x];
  float dgate[4];
  cell_backward(dgate, dc, cell.gate, cell.c, cell.c_before, cell.dh, cell.first);
  for (int k = 0; k < 4; k++) {
    size_t at = ((size_t)t * l.N + n) * 4 * l.H + (size_t)k * l.H + u;
    l.dgates[at] = dgate[k];
    p.operand[at] = to_bf16(dgate[k]);
  }
}

static __global__ void __launch_bounds__(THREADS) backward_steps(struct pass p) {
  DYNAMIC_SHARED(char, room);
  const struct lstm &l = p.l;
  struct part at = part_of_block();
  float *part = (float *)room;
  bf16 *weights = (bf16 *)(part + WARPS * CELLS), *tile = weights + (size_t)UNITS * (4 * l.H + PAD);
  int n = at.n + (int)threadIdx.x / UNITS, u = at.u + (int)threadIdx.x % UNITS;
  bool has_cell = threadIdx.x < CELLS && n < l.N;
  float dc = has_cell && p.from < l.T - 1 ? p.dc[(size_t)n * l.H + u] : 0;
  load_unit_weights(weights, p.wh, at.u, l.H);
  for (int t = p.from; t > p.to; t--) {
    struct cell_back cell = {};
    if (has_cell) cell = load_cell_back(l, t, n, u);
    meet(p, p.from - t);
    if (t < l.T - 1) {
      load_rows(tile, p.operand + (size_t)(t + 1) * l.N * 4 * l.H, at.n, l.N, 4 * l.H);
      __syncthreads();
      multiply_units(part, tile, weights, l.H);
    }
    __syncthreads();
    if (has_cell) finish_cell_back(p, cell, &dc, part, t, n, u);
    done(p);
  }
  if (has_cell) p.dc[(size_t)n * l.H + u] = dc;
}

static size_t backward_shared(int H) {
  return sizeof(float) * WARPS * CELLS + sizeof(bf16) * (ROWS + UNITS) * (size_t)(4 * H + PAD);
}

/* ---- a pass */

bool lstm_takes_steps(const struct cuda *cuda, const struct lstm *l) {
  return cuda->bf16 && !cuda->without[CUDA_TOGETHER] && l->H % 16 == 0 &&
         4 * (int64_t)l->H * l->H >= LEAST_WEIGHTS &&
         backward_shared(l->H) <= cuda->properties.sharedMemPerBlockOptin;
}

/* y (steps, N, H): h before each step; counts (row groups) = 0. */
KERNEL h_before_low(bf16 *y, unsigned *counts, int groups, struct lstm l, size_t steps) {
  size_t state = (size_t)l.N * l.H;
  for (size_t i = grid_first(); i < steps * state; i += grid_step()) {
    int row = (int)(i % state);
    y[i] = to_bf16(state_before(l, l.h, l.h0, (int)(i / state), row / l.H, row % l.H));
  }
  for (size_t i = grid_first(); i < (size_t)groups; i += grid_step()) counts[i] = 0;
}

static int groups_of(const struct lstm *l) {
  return (l->N + ROWS - 1) / ROWS;
}

static dim3 grid_of(const struct lstm *l) {
  return dim3((unsigned)(l->H / UNITS), (unsigned)groups_of(l));
}

static size_t aligned(size_t bytes) {
  return (bytes + 255) / 256 * 256;
}

/* All steps in one launch, or a launch for each. direction: 1 or -1. A single step, as inference
 * has, need not wait until the GPU has room for all blocks at the same time. */
static void launch_steps(struct cuda *cuda, void (*lstm_steps)(struct pass), struct pass *p,
                         int direction, size_t shared) {
  dim3 grid = grid_of(&p->l);
  int from = direction > 0 ? 0 : p->l.T - 1, to = direction > 0 ? p->l.T : -1;
  if (p->l.T > 1 && !cuda->without[CUDA_WAITS] &&
      grid.x * grid.y <= blocks_together(&cuda->properties, lstm_steps, THREADS, shared)) {
    p->from = from;
    p->to = to;
    LAUNCH_TOGETHER(lstm_steps, grid, dim3(THREADS), shared, cuda->stream, *p);
    return;
  }
  for (int t = from; t != to; t += direction) {
    p->from = t;
    p->to = t + direction;
    LAUNCH_SHARED(lstm_steps, grid, THREADS, shared, cuda->stream, *p);
  }
}

static struct pass pass_of(struct cuda *cuda, const struct lstm *l) {
  struct pass p = {};
  int columns;
  p.l = *l;
  p.wh = cuda_weights(cuda, &columns, l->wh, WEIGHTS_ROWS, 1, l->H, 4 * l->H);
  return p;
}

void lstm_steps_forward(struct cuda *cuda, const struct lstm *l) {
  size_t state = (size_t)l->N * (size_t)l->H, operand = aligned(l->T * state * sizeof(bf16));
  struct pass p = pass_of(cuda, l);
  char *room = (char *)cuda_scratch(cuda, operand + (size_t)groups_of(l) * sizeof(unsigned));
  p.operand = (bf16 *)room;
  p.count = (unsigned *)(room + operand);
  LAUNCH(h_before_low, blocks_for(state), BLOCK, cuda->stream, p.operand, p.count, groups_of(l), *l,
         (size_t)1);
  launch_steps(cuda, forward_steps, &p, 1, forward_shared(l->H));
}

void lstm_steps_backward(struct cuda *cuda, const struct lstm *l) {
  size_t state = (size_t)l->N * (size_t)l->H, before = aligned(l->T * state * sizeof(bf16)),
         dgates = 4 * before, dc = aligned(state * sizeof(float));
  struct pass p = pass_of(cuda, l);
  char *room =
      (char *)cuda_scratch(cuda, before + dgates + dc + (size_t)groups_of(l) * sizeof(unsigned));
  p.operand = (bf16 *)(room + before);
  p.dc = (float *)(room + before + dgates);
  p.count = (unsigned *)(room + before + dgates + dc);
  LAUNCH(h_before_low, blocks_for(l->T * state), BLOCK, cuda->stream, (bf16 *)room, p.count,
         groups_of(l), *l, (size_t)l->T);
  launch_steps(cuda, backward_steps, &p, -1, backward_shared(l->H));
  struct product product = {};
  product.c = l->dwh;
  product.c_stride = 4 * l->H;
  product.M = l->H;
  product.N = 4 * l->H;
  product.K = l->T * l->N;
  product.bf16 = true;
  product.a = operand_transposed(room, l->H);
  product.b = operand_of(p.operand, 4 * l->H);
  cuda_multiply(cuda, &product);
}
