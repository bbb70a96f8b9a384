/* The reference device's random numbers and categorical distribution. Part of ref.c. */
#ifndef ACORN_LEARNER_DEVICE_REF_REF_CATEGORICAL_H
#define ACORN_LEARNER_DEVICE_REF_REF_CATEGORICAL_H

#include "learner/device/ref/ref.h"

/* Largest logit, sum of exp(logit - largest), and that sum's logarithm plus the largest. */
struct softmax {
  REAL largest, total, normaliser;
};

static struct softmax softmax_of(const REAL *logits, int A) {
  struct softmax s = {.largest = logits[0]};
  for (int a = 1; a < A; a++)
    if (logits[a] > s.largest) s.largest = logits[a];
  for (int a = 0; a < A; a++) s.total += exp(logits[a] - s.largest);
  s.normaliser = s.largest + log(s.total);
  return s;
}

static int argmax(const REAL *logits, int A) {
  int best = 0;
  for (int a = 1; a < A; a++)
    if (logits[a] > logits[best]) best = a;
  return best;
}

/* The first action whose cumulative probability exceeds u. */
static int inverse_cdf(const REAL *logits, const struct softmax *s, REAL u, int A) {
  REAL cumulative = 0;
  for (int a = 0; a < A; a++) {
    cumulative += exp(logits[a] - s->largest);
    if (u * s->total < cumulative) return a;
  }
  return A - 1;
}

static void ref_random_uniforms(struct device *d, float *uniform, uint64_t seed,
                                const struct device_draws *draws, enum random_purpose purpose,
                                int B) {
  (void)d;
  for (int b = 0; b < B; b++)
    uniform[b] = draws->greedy[b] ? -1
                                  : random_uniform(seed, draws->environment[b], draws->life[b],
                                                   draws->step[b], purpose);
}

static void ref_categorical_sample(struct device *d, int32_t *action, float *log_prob,
                                   const real *logits_, int stride, const float *uniform, int B,
                                   int A) {
  (void)d;
  for (int b = 0; b < B; b++) {
    const REAL *logits = (const REAL *)logits_ + (size_t)b * stride;
    struct softmax s = softmax_of(logits, A);
    action[b] = uniform[b] < 0 ? argmax(logits, A) : inverse_cdf(logits, &s, (REAL)uniform[b], A);
    log_prob[b] = (float)(logits[action[b]] - s.normaliser);
  }
}

static int in_range(int32_t action, int A) {
  return action >= 0 && action < A ? action : 0;
}

static REAL entropy_of(const REAL *logits, const struct softmax *s, int A) {
  REAL entropy = 0;
  for (int a = 0; a < A; a++) {
    REAL log_p = logits[a] - s->normaliser;
    entropy -= exp(log_p) * log_p;
  }
  return entropy;
}

static void ref_categorical_evaluate(struct device *d, real *log_prob, real *entropy,
                                     const real *logits_, int stride, const int32_t *action, int B,
                                     int A) {
  (void)d;
  for (int b = 0; b < B; b++) {
    const REAL *logits = (const REAL *)logits_ + (size_t)b * stride;
    struct softmax s = softmax_of(logits, A);
    ((REAL *)log_prob)[b] = logits[in_range(action[b], A)] - s.normaliser;
    ((REAL *)entropy)[b] = entropy_of(logits, &s, A);
  }
}

static void ref_categorical_backward(struct device *d, real *dlogits_, int dstride,
                                     const real *logits_, int stride, const int32_t *action,
                                     const real *d_log_prob, const real *d_entropy, int B, int A) {
  (void)d;
  for (int b = 0; b < B; b++) {
    REAL *dlogits = (REAL *)dlogits_ + (size_t)b * dstride;
    const REAL *logits = (const REAL *)logits_ + (size_t)b * stride;
    REAL dlp = ((const REAL *)d_log_prob)[b], dent = ((const REAL *)d_entropy)[b];
    struct softmax s = softmax_of(logits, A);
    REAL entropy = entropy_of(logits, &s, A);
    for (int a = 0; a < A; a++) {
      REAL log_p = logits[a] - s.normaliser, p = exp(log_p);
      dlogits[a] = dlp * ((a == in_range(action[b], A)) - p) - dent * p * (log_p + entropy);
    }
  }
}

#endif
