/* The linear layer: operations linear_forward and linear_backward. Part of cpu_kernels.c. */
#ifndef ACORN_LEARNER_DEVICE_CPU_CPU_LINEAR_H
#define ACORN_LEARNER_DEVICE_CPU_CPU_LINEAR_H

#include <string.h>

#include "learner/device/cpu/cpu.h"
#include "learner/device/cpu/cpu_gemm.h"
#include "learner/device/cpu/cpu_low.h"
#include "learner/device/cpu/cpu_pool.h"

/* ---- products, by several threads where the device has them */

/* Multiplications from which on a product is worth sharing: some 20 us of one thread. */
enum { SHARED_MULTIPLICATIONS = 1 << 20, LEAST_ROWS = 2 * TILE_ROWS, MOST_PARTS = 512 };

struct shared_gemm {
  const struct gemm *gemm;
  int num_parts, begin[MOST_PARTS + 1]; /* rows */
};

/* Every part is a share of what is left, so that those at the end, for which the others wait, are
 * small. */
static void gemm_divide(struct shared_gemm *shared, int threads) {
  int part = 0, M = shared->gemm->M;
  for (int row = 0; row < M; part++) {
    int share = (M - row) / (2 * threads);
    if (share < LEAST_ROWS) share = LEAST_ROWS;
    if (part == MOST_PARTS - 1) share = M - row;
    shared->begin[part] = row;
    row += (share + TILE_ROWS - 1) / TILE_ROWS * TILE_ROWS;
  }
  shared->begin[part] = M;
  shared->num_parts = part;
}

static void gemm_part(void *shared_, int part) {
  const struct shared_gemm *shared = shared_;
  struct gemm g = *shared->gemm;
  int row = shared->begin[part];
  g.c += (ptrdiff_t)row * g.c_stride;
  g.a += row * g.a_row;
  g.M = shared->begin[part + 1] - row;
  gemm_run(&g);
}

/* Each number of the product is summed in the same order, whatever its part is. */
static void gemm_share(struct device *d, const struct gemm *g) {
  struct cpu_pool *pool = ((struct cpu *)d)->pool;
  if (!pool || (int64_t)g->M * g->N * g->K < SHARED_MULTIPLICATIONS) {
    gemm_run(g);
    return;
  }
  struct shared_gemm shared = {.gemm = g};
  gemm_divide(&shared, cpu_pool_threads(pool));
  cpu_pool_run(pool, gemm_part, &shared, shared.num_parts);
}

/* ---- few outputs (a policy and value head): a scalar product each, vectors along the inputs */

/* w (I, O) as O rows of whole vectors, zeros at their ends. */
static void narrow_pack(float *packed, const float *w, int I, int O) {
  int padded = whole_vectors(I);
  for (int o = 0; o < O; o++)
    for (int i = 0; i < padded; i++)
      packed[(size_t)o * padded + i] = i < I ? w[(size_t)i * O + o] : 0;
}

/* `rows` rows of y (rows, O); rows x O <= W sums live in registers. */
INLINE void narrow_rows(float *y, const float *x, int x_stride, const float *packed, vf bias,
                        enum activation act, int I, const int O, const int rows) {
  vf sum[W] = {{0}};
  int padded = whole_vectors(I);
  for (int i = 0; i < I; i += W) {
    vf column[4];
    EACH(o, O) column[o] = load(packed + o * padded + i);
    EACH(r, rows) {
      vf value = load_some(x + (ptrdiff_t)r * x_stride + i, I - i);
      EACH(o, O) sum[r * O + o] += value * column[o];
    }
  }
  vf total = sum_each(sum) + bias;
  if (act == ACTIVATION_RELU) total = vmax(splat(0), total);
  if (act == ACTIVATION_TANH) total = vtanh(total);
  store_some(y, total, rows * O);
}

INLINE void narrow_forward(float *y, const float *x, int x_stride, const float *packed,
                           const float *b, enum activation act, int B, int I, const int O) {
  const int rows = 4 * O <= W ? 4 : 2;
  vf bias = {0};
  for (int j = 0; j < rows * O; j++) bias[j] = b[j % O];
  int row = 0;
  for (; row + rows <= B; row += rows)
    narrow_rows(y + (size_t)row * O, x + (size_t)row * x_stride, x_stride, packed, bias, act, I, O,
                rows);
  for (; row < B; row++)
    narrow_rows(y + (size_t)row * O, x + (size_t)row * x_stride, x_stride, packed, bias, act, I, O,
                1);
}

static bool is_narrow(int O) {
  return O <= 4 && 2 * O <= W;
}

static void narrow_choose(float *y, const float *x, int x_stride, const float *packed,
                          const float *b, enum activation act, int B, int I, int O) {
  switch (O) {
    case 1:
      narrow_forward(y, x, x_stride, packed, b, act, B, I, 1);
      break;
    case 2:
      narrow_forward(y, x, x_stride, packed, b, act, B, I, 2);
      break;
#if VECTOR_BYTES >= 32
    case 3:
      narrow_forward(y, x, x_stride, packed, b, act, B, I, 3);
      break;
    case 4:
      narrow_forward(y, x, x_stride, packed, b, act, B, I, 4);
      break;
#endif
    default:
      break;
  }
}

static void linear_forward(struct device *d, real *y, const real *x, int x_stride, const real *w,
                           const real *b, enum activation act, int B, int I, int O) {
  const float *weights = (const float *)w;
  if (low_linear(d, act, I, O)) {
    low_linear_forward(d, (float *)y, (const float *)x, x_stride, weights, (const float *)b,
                       act == ACTIVATION_RELU, B, I, O);
    return;
  }
  float *packed = cpu_scratch(d, SCRATCH_PANELS, panels_count(I, O) + (size_t)O * whole_vectors(I));
  if (is_narrow(O)) {
    narrow_pack(packed, weights, I, O);
    narrow_choose((float *)y, (const float *)x, x_stride, packed, (const float *)b, act, B, I, O);
    return;
  }
  gemm_share(d, &(struct gemm){.c = (float *)y,
                               .c_stride = O,
                               .a = (const float *)x,
                               .a_row = x_stride,
                               .a_column = 1,
                               .b = panels_choose(packed, weights, O, B, I, O),
                               .M = B,
                               .N = O,
                               .K = I,
                               .bias = (const float *)b,
                               .act = act});
}

/* ---- backward */

/* The derivative of the activation, from its output. */
INLINE vf slope(vf y, enum activation act) {
  if (act == ACTIVATION_RELU) return select_less(splat(0), y, splat(1), splat(0));
  return 1.0f - y * y;
}

/* Columns of `vectors` vectors, the last of `tail` lanes: dy *= slope(y); db = sums of dy down the
 * rows, or added to db. */
INLINE void turn_columns(float *db, float *dy, const float *y, enum activation act, bool add, int B,
                         int O, const int vectors, int tail) {
  vf sum[4] = {{0}};
  if (add) EACH(v, vectors) sum[v] = load_some(db + v * W, v == vectors - 1 ? tail : W);
  for (int b = 0; b < B; b++, dy += O, y += O) {
    EACH(v, vectors) {
      int lanes = v == vectors - 1 ? tail : W;
      vf g = load_some(dy + v * W, lanes);
      if (act != ACTIVATION_NONE) {
        g *= slope(load_some(y + v * W, lanes), act);
        store_some(dy + v * W, g, lanes);
      }
      sum[v] += g;
    }
  }
  EACH(v, vectors) store_some(db + v * W, sum[v], v == vectors - 1 ? tail : W);
}

struct turn {
  float *db, *dy;
  const float *y;
  enum activation act;
  bool add;
  int B, O;
};

enum { TURNED = 4 * W }; /* columns of a part */

static void turn_part(void *turn_, int part) {
  const struct turn *t = turn_;
  int n = part * TURNED, width = at_most_int(TURNED, t->O - n);
  if (width == TURNED && t->act == ACTIVATION_TANH)
    turn_columns(t->db + n, t->dy + n, t->y + n, ACTIVATION_TANH, t->add, t->B, t->O, 4, W);
  else if (width == TURNED)
    turn_columns(t->db + n, t->dy + n, t->y + n, t->act, t->add, t->B, t->O, 4, W);
  else
    for (int end = n + width; n < end; n += W)
      turn_columns(t->db + n, t->dy + n, t->y + n, t->act, t->add, t->B, t->O, 1,
                   at_most_int(W, end - n));
}

static void turn_and_sum(struct device *d, float *db, float *dy, const float *y,
                         enum activation act, bool add, int B, int O) {
  struct turn turn = {db, dy, y, act, add, B, O};
  cpu_pool_run(cpu_pool_for(d, (size_t)B * O), turn_part, &turn, (O + TURNED - 1) / TURNED);
}

struct pack {
  float *packed;
  const float *w;
  int I, O;
};

static void pack_part(void *pack_, int part) {
  const struct pack *pack = pack_;
  panel_pack_transposed(pack->packed, pack->w, pack->O, pack->O, pack->I, part * PANEL);
}

/* w^T of w (I, O). */
static struct panels pack_weights(struct device *d, float *packed, const float *w, int I, int O) {
  struct pack pack = {packed, w, I, O};
  cpu_pool_run(cpu_pool_for(d, (size_t)I * O), pack_part, &pack, (I + PANEL - 1) / PANEL);
  return (struct panels){.data = packed};
}

/* c = x^T dy, or added to c. transposed: c (O, I) rather than (I, O). */
static void weight_gradient(struct device *d, float *c, bool transposed, const float *dy,
                            const float *x, int x_stride, bool add, int B, int I, int O) {
  int M = transposed ? O : I, N = transposed ? I : O, stride = transposed ? x_stride : O;
  float *packed = cpu_scratch(d, SCRATCH_PANELS, panels_count(B, N));
  gemm_share(d, &(struct gemm){.c = c,
                               .c_stride = N,
                               .a = transposed ? dy : x,
                               .a_row = 1,
                               .a_column = transposed ? O : x_stride,
                               .b = panels_choose(packed, transposed ? x : dy, stride, M, B, N),
                               .M = M,
                               .N = N,
                               .K = B,
                               .accumulate = add});
}

/* dx (B, I) = dy w^T; weights: w^T packed. */
static void inputs_gradient(struct device *d, float *dx, const float *dy, struct panels weights,
                            int B, int I, int O) {
  gemm_share(d, &(struct gemm){.c = dx,
                               .c_stride = I,
                               .a = dy,
                               .a_row = O,
                               .a_column = 1,
                               .b = weights,
                               .M = B,
                               .N = I,
                               .K = O});
}

static bool is_zero(const float *x, int n) {
  vi other = {0};
  for (int i = 0; i < n; i += W) other |= load_some(x + i, n - i) != 0;
  int any = 0;
  for (int k = 0; k < W; k++) any |= other[k];
  return any == 0;
}

/* The same, but only rows of dy that are not all zero are multiplied: of two critics the policy
 * hears the lower one alone, so that half of the rows of each are. */
static void inputs_gradient_alone(struct device *d, float *dx, const float *dy,
                                  struct panels weights, int B, int I, int O) {
  float *kept = cpu_scratch(d, SCRATCH_PANELS, (size_t)B * O);
  int count = 0;
  for (int b = 0; b < B; b++)
    if (!is_zero(dy + (size_t)b * O, O))
      memcpy(kept + (size_t)count++ * O, dy + (size_t)b * O, (size_t)O * sizeof(*dy));
  inputs_gradient(d, dx, kept, weights, count, I, O);
  for (int b = B - 1; b >= 0; b--) /* from the last: a row moves up, if at all */
    if (is_zero(dy + (size_t)b * O, O))
      memset(dx + (size_t)b * I, 0, (size_t)I * sizeof(*dx));
    else if (--count != b)
      memcpy(dx + (size_t)b * I, dx + (size_t)count * I, (size_t)I * sizeof(*dx));
}

/* Rows that go through all three parts together, so that they are still in the cache. */
static int rows_at_once(int I, int O) {
  int rows = 65536 / (I + O) / BLOCK_K * BLOCK_K;
  return rows > BLOCK_K ? rows : BLOCK_K;
}

static void linear_backward(struct device *d, real *dx_, real *dw_, real *db, real *dy_,
                            const real *y_, const real *x_, int x_stride, const real *w,
                            enum activation act, int B, int I, int O) {
  unsigned state = flush_tiny();
  float *dx = (float *)dx_, *dw = (float *)dw_, *dy = (float *)dy_;
  const float *y = (const float *)y_, *x = (const float *)x_;
  if (low_linear(d, act, I, O)) {
    turn_and_sum(d, (float *)db, dy, y, act, false, B, O);
    low_linear_backward(d, dx, dw, dy, x, x_stride, (const float *)w, B, I, O);
    flush_end(state);
    return;
  }
  float *packed = cpu_scratch(d, SCRATCH_WEIGHTS, panels_count(O, I));
  struct panels weights = panels_plain(NULL, 1);
  if (dx) weights = pack_weights(d, packed, (const float *)w, I, O);
  /* Fewer outputs than lanes: dw's transpose, so that vectors run along the inputs. */
  bool transposed = dw && O < W && I > O;
  float *c = transposed ? cpu_scratch(d, SCRATCH_STATE, (size_t)O * I) : dw;
  for (int b = 0, rows = rows_at_once(I, O); b < B; b += rows) {
    if (rows > B - b) rows = B - b;
    size_t outputs = (size_t)b * O;
    turn_and_sum(d, (float *)db, dy + outputs, y + outputs, act, b > 0, rows, O);
    if (dw)
      weight_gradient(d, c, transposed, dy + outputs, x + (size_t)b * x_stride, x_stride, b > 0,
                      rows, I, O);
    if (dx)
      (dw ? inputs_gradient : inputs_gradient_alone)(d, dx + (size_t)b * I, dy + outputs, weights,
                                                     rows, I, O);
  }
  for (int i = 0; transposed && i < I; i++)
    for (int o = 0; o < O; o++) dw[(size_t)i * O + o] = c[(size_t)o * I + i];
  flush_end(state);
}

#endif
