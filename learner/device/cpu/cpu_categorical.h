/* The categorical distribution: operations categorical_*. Part of cpu_kernels.c. W rows at a
 * time, a lane each: their logits are first turned into columns (A, W), so that the loops run
 * over actions. */
#ifndef ACORN_LEARNER_DEVICE_CPU_CPU_CATEGORICAL_H
#define ACORN_LEARNER_DEVICE_CPU_CPU_CATEGORICAL_H

#include "learner/device/cpu/cpu.h"
#include "learner/device/cpu/cpu_math.h"

/* Of W rows: largest logit, sum of exp(logit - largest), logarithm of all exponentials' sum. */
struct softmax {
  vf largest, total, normaliser;
};

/* columns (A, W) = W rows of logits, or the first `lanes` and zeros. */
INLINE void columns_read(float *columns, const float *logits, int stride, int lanes, int A) {
  for (int a = 0; a < A; a++)
    store(columns + (size_t)a * W, load_column(logits + a, stride, lanes));
}

INLINE void columns_write(float *y, int stride, const float *columns, int lanes, int A) {
  for (int a = 0; a < A; a++) store_column(y + a, stride, load(columns + (size_t)a * W), lanes);
}

/* exponentials (A, W): exp(logit - largest). */
INLINE struct softmax softmax_of(float *exponentials, const float *columns, int A) {
  struct softmax s = {.largest = load(columns), .total = {0}};
  for (int a = 1; a < A; a++) s.largest = vmax(s.largest, load(columns + (size_t)a * W));
  for (int a = 0; a < A; a++) {
    vf e = vexp(load(columns + (size_t)a * W) - s.largest);
    store(exponentials + (size_t)a * W, e);
    s.total += e;
  }
  s.normaliser = s.largest + vlog(s.total);
  return s;
}

INLINE int at_most_lanes(int left) {
  return left < W ? left : W;
}

/* Out of range counts as 0. */
INLINE vi actions_read(const int32_t *x, int lanes, int A) {
  vi action = load_int_some(x, lanes);
  return action & ((action >= 0) & (action < A));
}

/* columns[action] of every lane. */
INLINE vf chosen(const float *columns, vi action, int A) {
  vf x = load(columns);
  for (int a = 1; a < A; a++)
    x = select_equal(action, splat_int(a), load(columns + (size_t)a * W), x);
  return x;
}

/* ---- sample */

/* How many actions' cumulative probabilities do not exceed the draw: the index of the first that
 * does. */
INLINE vi inverse_cdf(const float *exponentials, vf draw, int A) {
  vf cumulative = {0}, index = {0};
  for (int a = 0; a < A - 1; a++) {
    cumulative += load(exponentials + (size_t)a * W);
    index += select_less(draw, cumulative, splat(0), splat(1));
  }
  return __builtin_convertvector(index, vi);
}

INLINE vi argmax(const float *columns, int A) {
  vf best = load(columns), index = {0};
  for (int a = 1; a < A; a++) {
    vf logit = load(columns + (size_t)a * W);
    index = select_less(best, logit, splat((float)a), index);
    best = vmax(best, logit);
  }
  return __builtin_convertvector(index, vi);
}

static void categorical_sample(struct device *d, int32_t *action, float *log_prob,
                               const real *logits, int stride, const float *uniform, int B, int A) {
  float *columns = cpu_scratch(d, SCRATCH_STATE, (size_t)2 * A * W),
        *exponentials = columns + (size_t)A * W;
  for (int b = 0; b < B; b += W) {
    int lanes = at_most_lanes(B - b);
    columns_read(columns, (const float *)logits + (size_t)b * stride, stride, lanes, A);
    struct softmax s = softmax_of(exponentials, columns, A);
    vf u = load_some(uniform + b, lanes);
    vi drawn = inverse_cdf(exponentials, u * s.total, A);
    vi greedy = u < 0;
    vi taken = (greedy & argmax(columns, A)) | (~greedy & drawn);
    store_int_some(action + b, taken, lanes);
    store_some(log_prob + b, chosen(columns, taken, A) - s.normaliser, lanes);
  }
}

/* ---- evaluate and backward */

/* entropy = -sum p log p. */
INLINE vf entropy_of(const float *exponentials, const float *columns, const struct softmax *s,
                     int A) {
  vf sum = {0};
  for (int a = 0; a < A; a++)
    sum += load(exponentials + (size_t)a * W) * (load(columns + (size_t)a * W) - s->normaliser);
  return -sum / s->total;
}

static void categorical_evaluate(struct device *d, real *log_prob, real *entropy,
                                 const real *logits, int stride, const int32_t *action, int B,
                                 int A) {
  float *columns = cpu_scratch(d, SCRATCH_STATE, (size_t)2 * A * W),
        *exponentials = columns + (size_t)A * W;
  for (int b = 0; b < B; b += W) {
    int lanes = at_most_lanes(B - b);
    columns_read(columns, (const float *)logits + (size_t)b * stride, stride, lanes, A);
    struct softmax s = softmax_of(exponentials, columns, A);
    vf of_action = chosen(columns, actions_read(action + b, lanes, A), A) - s.normaliser;
    store_some((float *)log_prob + b, of_action, lanes);
    store_some((float *)entropy + b, entropy_of(exponentials, columns, &s, A), lanes);
  }
}

/* columns (A, W) go from logits to their gradient. */
INLINE void columns_backward(float *columns, const float *exponentials, const struct softmax *s,
                             vi action, vf dlp, vf dent, int A) {
  vf entropy = entropy_of(exponentials, columns, s, A), inverse = 1.0f / s->total;
  for (int a = 0; a < A; a++) {
    vf p = load(exponentials + (size_t)a * W) * inverse,
       log_p = load(columns + (size_t)a * W) - s->normaliser;
    vf taken = select_equal(action, splat_int(a), dlp, splat(0));
    store(columns + (size_t)a * W, taken - p * (dlp + dent * (log_p + entropy)));
  }
}

static void categorical_backward(struct device *d, real *dlogits, int dstride, const real *logits,
                                 int stride, const int32_t *action, const real *d_log_prob,
                                 const real *d_entropy, int B, int A) {
  float *columns = cpu_scratch(d, SCRATCH_STATE, (size_t)2 * A * W),
        *exponentials = columns + (size_t)A * W;
  for (int b = 0; b < B; b += W) {
    int lanes = at_most_lanes(B - b);
    columns_read(columns, (const float *)logits + (size_t)b * stride, stride, lanes, A);
    struct softmax s = softmax_of(exponentials, columns, A);
    columns_backward(columns, exponentials, &s, actions_read(action + b, lanes, A),
                     load_some((const float *)d_log_prob + b, lanes),
                     load_some((const float *)d_entropy + b, lanes), A);
    columns_write((float *)dlogits + (size_t)b * dstride, dstride, columns, lanes, A);
  }
}

#endif
