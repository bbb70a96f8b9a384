/* The reference device: naive loops that read like the formulas, and the oracle that the other
 * devices are tested against. Compiled twice (Makefile): REAL is float or double, REF_DEVICE
 * names the two symbols it exports. */
#include <stdlib.h>
#include <string.h>
#include <tgmath.h>

#include "common/base/check.h"
#undef I /* tgmath.h's imaginary unit; here I is the number of inputs */
#include "learner/device/device.h"
#include "learner/device/ref_image.h"

#define PASTE_(a, b) a##b
#define PASTE(a, b) PASTE_(a, b)

enum { FLAG_FIRST = 1, FLAG_TERMINATED = 2, FLAG_TRUNCATED = 4 };

struct ref {
  struct device device;
  REAL *carry; /* (H): lstm_backward's cell gradient */
  int carry_size;
};

/* ---- memory */

static void *ref_alloc(struct device *d, size_t bytes) {
  (void)d;
  return check_alloc(1, bytes ? bytes : 1);
}

static void ref_release(struct device *d, void *memory) {
  (void)d;
  free(memory);
}

static void ref_upload(struct device *d, real *y_, const float *host, size_t n) {
  (void)d;
  REAL *y = (REAL *)y_;
  for (size_t i = 0; i < n; i++) y[i] = (REAL)host[i];
}

static void ref_download(struct device *d, float *host, const real *x_, size_t n) {
  (void)d;
  const REAL *x = (const REAL *)x_;
  for (size_t i = 0; i < n; i++) host[i] = (float)x[i];
}

static void ref_copy(struct device *d, real *y, const real *x, size_t n) {
  (void)d;
  memcpy(y, x, n * sizeof(REAL));
}

static void ref_fill(struct device *d, real *y_, float value, size_t n) {
  (void)d;
  REAL *y = (REAL *)y_;
  for (size_t i = 0; i < n; i++) y[i] = (REAL)value;
}

static void ref_copy_rows(struct device *d, real *y_, int y_stride, const real *x_, int x_stride,
                          int B, int n) {
  (void)d;
  REAL *y = (REAL *)y_;
  const REAL *x = (const REAL *)x_;
  for (int b = 0; b < B; b++)
    for (int i = 0; i < n; i++) y[(size_t)b * y_stride + i] = x[(size_t)b * x_stride + i];
}

/* ---- inputs */

/* Element i of one tensor as a number; the bytes need no alignment. */
static REAL element(const uint8_t *tensor, enum device_dtype dtype, int i) {
  int32_t whole;
  float number;
  switch (dtype) {
    case DEVICE_UINT8:
      return (REAL)tensor[i] / (REAL)255;
    case DEVICE_INT32:
      memcpy(&whole, tensor + 4 * (size_t)i, 4);
      return (REAL)whole;
    case DEVICE_FLOAT32:
      memcpy(&number, tensor + 4 * (size_t)i, 4);
      return (REAL)number;
  }
  CHECK(false, "unknown dtype %d", (int)dtype);
  return 0;
}

static REAL clip(REAL x, REAL limit) {
  return x > limit ? limit : x < -limit ? -limit : x;
}

static void ref_embed(struct device *d, real *y_, const struct device_inputs *in, int B) {
  (void)d;
  REAL *y = (REAL *)y_;
  for (int b = 0; b < B; b++) {
    const uint8_t *row = in->observation + (size_t)b * in->row_stride;
    for (int k = 0; k < in->num_tensors; k++)
      for (int i = 0; i < in->tensor[k].count; i++)
        *y++ = element(row + in->tensor[k].row_offset, in->tensor[k].dtype, i);
    if (in->use_previous_action)
      for (int a = 0; a < in->num_actions; a++) *y++ = in->previous_action[b] == a;
    if (in->use_reward) *y++ = in->flags[b] & FLAG_FIRST ? 0 : clip((REAL)in->reward[b], 1);
  }
}

/* ---- linear layer */

static void ref_linear_forward(struct device *d, real *y_, const real *x_, int x_stride,
                               const real *w_, const real *b_, enum activation act, int B, int I,
                               int O) {
  (void)d;
  REAL *y = (REAL *)y_;
  const REAL *x = (const REAL *)x_, *w = (const REAL *)w_, *bias = (const REAL *)b_;
  for (int b = 0; b < B; b++)
    for (int o = 0; o < O; o++) {
      REAL sum = bias[o];
      for (int i = 0; i < I; i++) sum += x[(size_t)b * x_stride + i] * w[(size_t)i * O + o];
      y[(size_t)b * O + o] = activate(act, sum);
    }
}

static void ref_linear_backward(struct device *d, real *dx_, real *dw_, real *db_, real *dy_,
                                const real *y_, const real *x_, int x_stride, const real *w_,
                                enum activation act, int B, int I, int O) {
  (void)d;
  REAL *dx = (REAL *)dx_, *dw = (REAL *)dw_, *db = (REAL *)db_, *dy = (REAL *)dy_;
  const REAL *y = (const REAL *)y_, *x = (const REAL *)x_, *w = (const REAL *)w_;
  if (act != ACTIVATION_NONE)
    for (size_t i = 0; i < (size_t)B * O; i++) dy[i] *= slope(act, y[i]);
  memset(dw, 0, (size_t)I * O * sizeof(REAL));
  memset(db, 0, (size_t)O * sizeof(REAL));
  for (int b = 0; b < B; b++)
    for (int o = 0; o < O; o++) {
      REAL g = dy[(size_t)b * O + o];
      db[o] += g;
      for (int i = 0; i < I; i++) dw[(size_t)i * O + o] += x[(size_t)b * x_stride + i] * g;
    }
  for (int b = 0; dx && b < B; b++)
    for (int i = 0; i < I; i++) {
      REAL sum = 0;
      for (int o = 0; o < O; o++) sum += dy[(size_t)b * O + o] * w[(size_t)i * O + o];
      dx[(size_t)b * I + i] = sum;
    }
}

/* ---- LSTM */

static REAL sigmoid(REAL x) {
  return 1 / (1 + exp(-x));
}

/* One sequence, one step: gates (4H) in place, h, c (H) from h_prev, c_prev (H; NULL: zeros). */
static void lstm_step(REAL *h, REAL *c, REAL *gates, const REAL *wh, const REAL *h_prev,
                      const REAL *c_prev, int H) {
  for (int k = 0; h_prev && k < H; k++)
    for (int j = 0; j < 4 * H; j++) gates[j] += h_prev[k] * wh[(size_t)k * 4 * H + j];
  for (int j = 0; j < H; j++) {
    REAL i = gates[j] = sigmoid(gates[j]);
    REAL f = gates[H + j] = sigmoid(gates[H + j] + 1);
    REAL g = gates[2 * H + j] = tanh(gates[2 * H + j]);
    REAL o = gates[3 * H + j] = sigmoid(gates[3 * H + j]);
    c[j] = f * (c_prev ? c_prev[j] : 0) + i * g;
    h[j] = o * tanh(c[j]);
  }
}

/* The row of x (T, N, H) before step t of sequence n: x0's at t = 0, NULL after a reset. */
static const REAL *previous(const REAL *x, const REAL *x0, const uint8_t *reset, int t, int n,
                            int N, int H) {
  if (reset[(size_t)t * N + n] & FLAG_FIRST) return NULL;
  return t > 0 ? x + ((size_t)(t - 1) * N + n) * H : x0 + (size_t)n * H;
}

static void ref_lstm_forward(struct device *d, real *h_, real *c_, real *gates_, const real *wh_,
                             const real *h0_, const real *c0_, const uint8_t *reset, int T, int N,
                             int H) {
  (void)d;
  REAL *h = (REAL *)h_, *c = (REAL *)c_, *gates = (REAL *)gates_;
  const REAL *h0 = (const REAL *)h0_, *c0 = (const REAL *)c0_;
  for (int t = 0; t < T; t++)
    for (int n = 0; n < N; n++) {
      size_t row = (size_t)t * N + n;
      lstm_step(h + row * H, c + row * H, gates + row * 4 * H, (const REAL *)wh_,
                previous(h, h0, reset, t, n, N, H), previous(c, c0, reset, t, n, N, H), H);
    }
}

/* The cell's pointwise part backwards: dgates (4H) from dh (H); dc (H) goes from after the step
 * to before it. */
static void lstm_step_backward(REAL *dgates, REAL *dc, const REAL *dh, const REAL *c,
                               const REAL *c_prev, const REAL *gates, int H) {
  for (int j = 0; j < H; j++) {
    REAL i = gates[j], f = gates[H + j], g = gates[2 * H + j], o = gates[3 * H + j];
    REAL squashed = tanh(c[j]);
    REAL dcell = dc[j] + dh[j] * o * (1 - squashed * squashed);
    dgates[j] = dcell * g * i * (1 - i);
    dgates[H + j] = dcell * (c_prev ? c_prev[j] : 0) * f * (1 - f);
    dgates[2 * H + j] = dcell * i * (1 - g * g);
    dgates[3 * H + j] = dh[j] * squashed * o * (1 - o);
    dc[j] = c_prev ? dcell * f : 0;
  }
}

static REAL *carry_of(struct device *d, int H) {
  struct ref *ref = (struct ref *)d;
  if (ref->carry_size < H) {
    free(ref->carry);
    ref->carry = check_alloc((size_t)H, sizeof(REAL));
    ref->carry_size = H;
  }
  memset(ref->carry, 0, (size_t)H * sizeof(REAL));
  return ref->carry;
}

static void ref_lstm_backward(struct device *d, real *dgates_, real *dwh_, real *dh_,
                              const real *h_, const real *c_, const real *gates_, const real *wh_,
                              const real *h0_, const real *c0_, const uint8_t *reset, int T, int N,
                              int H) {
  REAL *dgates = (REAL *)dgates_, *dwh = (REAL *)dwh_, *dh = (REAL *)dh_;
  const REAL *h = (const REAL *)h_, *c = (const REAL *)c_, *wh = (const REAL *)wh_,
             *gates = (const REAL *)gates_;
  memset(dwh, 0, (size_t)H * 4 * H * sizeof(REAL));
  for (int n = 0; n < N; n++) {
    REAL *dc = carry_of(d, H);
    for (int t = T - 1; t >= 0; t--) {
      size_t row = (size_t)t * N + n;
      REAL *dg = dgates + row * 4 * H;
      const REAL *h_prev = previous(h, (const REAL *)h0_, reset, t, n, N, H);
      lstm_step_backward(dg, dc, dh + row * H, c + row * H,
                         previous(c, (const REAL *)c0_, reset, t, n, N, H), gates + row * 4 * H, H);
      for (int k = 0; h_prev && k < H; k++)
        for (int j = 0; j < 4 * H; j++) {
          dwh[(size_t)k * 4 * H + j] += h_prev[k] * dg[j];
          if (t > 0) dh[(row - N) * H + k] += dg[j] * wh[(size_t)k * 4 * H + j];
        }
    }
  }
}

/* ---- categorical distribution */

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
                                uint32_t first_environment, uint32_t life, const uint32_t *step,
                                enum random_purpose purpose, int B) {
  (void)d;
  for (int b = 0; b < B; b++)
    uniform[b] = random_uniform(seed, first_environment + (uint32_t)b, life, step[b], purpose);
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

/* ---- V-trace */

static REAL reward_after(const struct device_vtrace *v, int t, int n) {
  REAL reward = (REAL)v->reward_scale * (REAL)v->reward[(size_t)(t + 1) * v->N + n];
  return v->reward_clip > 0 ? clip(reward, (REAL)v->reward_clip) : reward;
}

static REAL ratio(const struct device_vtrace *v, size_t i) {
  return exp(((const REAL *)v->log_prob)[i] - (REAL)v->behaviour[i]);
}

static REAL at_most(REAL x, float limit) {
  return x < (REAL)limit ? x : (REAL)limit;
}

static void ref_vtrace(struct device *d, real *vs_, real *advantage_,
                       const struct device_vtrace *v) {
  (void)d;
  REAL *vs = (REAL *)vs_, *advantage = (REAL *)advantage_;
  const REAL *value = (const REAL *)v->value;
  for (int n = 0; n < v->N; n++) {
    REAL vs_next = value[(size_t)v->T * v->N + n], excess = 0; /* excess: vs(t+1) - V(t+1) */
    for (int t = v->T - 1; t >= 0; t--) {
      size_t i = (size_t)t * v->N + n, next = i + v->N;
      if (v->flags[i] & FLAG_TRUNCATED) {
        vs[i] = vs_next = value[i];
        advantage[i] = excess = 0;
        continue;
      }
      REAL discount = v->flags[next] & FLAG_TERMINATED ? 0 : (REAL)v->discount;
      REAL rho = ratio(v, i), reward = reward_after(v, t, n);
      advantage[i] = at_most(rho, v->pg_rho_clip) * (reward + discount * vs_next - value[i]);
      REAL delta = at_most(rho, v->rho_clip) * (reward + discount * value[next] - value[i]);
      excess = delta + discount * (REAL)v->lambda * at_most(rho, v->c_clip) * excess;
      vs[i] = vs_next = value[i] + excess;
    }
  }
}

static REAL unmasked_steps(const struct device_vtrace *v) {
  size_t count = 0;
  for (size_t i = 0; i < (size_t)v->T * v->N; i++) count += !(v->flags[i] & FLAG_TRUNCATED);
  return (REAL)count;
}

static void ref_vtrace_loss(struct device *d, real *d_log_prob_, real *d_entropy_, real *d_value_,
                            real *sums_, const struct device_vtrace *v, const real *vs_,
                            const real *advantage_, const real *entropy_, float baseline_cost,
                            float entropy_cost, float kl_cost) {
  (void)d;
  REAL *d_log_prob = (REAL *)d_log_prob_, *d_entropy = (REAL *)d_entropy_,
       *d_value = (REAL *)d_value_;
  const REAL *vs = (const REAL *)vs_, *advantage = (const REAL *)advantage_,
             *entropy = (const REAL *)entropy_;
  const REAL *value = (const REAL *)v->value, *log_prob = (const REAL *)v->log_prob;
  double sums[8] = {0};
  REAL steps = unmasked_steps(v), scale = steps > 0 ? 1 / steps : 0;
  for (int t = 0; t < v->T; t++)
    for (int n = 0; n < v->N; n++) {
      size_t i = (size_t)t * v->N + n;
      REAL on = !(v->flags[i] & FLAG_TRUNCATED);
      d_log_prob[i] = on * scale * (-advantage[i] - (REAL)kl_cost);
      d_entropy[i] = -on * scale * (REAL)entropy_cost;
      d_value[i] = on * scale * (REAL)baseline_cost * (value[i] - vs[i]);
      if (on == 0) continue;
      sums[0] += 1;
      sums[1] -= log_prob[i] * advantage[i];
      sums[2] += 0.5 * (vs[i] - value[i]) * (vs[i] - value[i]);
      sums[3] += entropy[i];
      sums[4] += (REAL)v->behaviour[i] - log_prob[i];
      sums[5] += value[i];
      sums[6] += reward_after(v, t, n);
      sums[7] += ratio(v, i) > (REAL)v->rho_clip;
    }
  for (int k = 0; k < 8; k++) ((REAL *)sums_)[k] = (REAL)sums[k];
}

/* ---- optimisers */

static void ref_global_norm(struct device *d, real *norm, const real *g, size_t P) {
  (void)d;
  double sum = 0;
  for (size_t i = 0; i < P; i++) sum += (double)((const REAL *)g)[i] * (double)((const REAL *)g)[i];
  *(REAL *)norm = (REAL)sqrt(sum);
}

/* What every gradient is multiplied by before the optimiser sees it. */
static REAL clip_scale(const real *norm, float max_norm) {
  REAL n = *(const REAL *)norm;
  return max_norm > 0 && n > (REAL)max_norm ? (REAL)max_norm / n : 1;
}

static void ref_adam(struct device *d, real *p_, real *m_, real *v_, const real *g_,
                     const real *norm, float max_norm, float lr, float beta1, float beta2,
                     float epsilon, int64_t step, size_t P) {
  (void)d;
  REAL *p = (REAL *)p_, *m = (REAL *)m_, *v = (REAL *)v_;
  REAL scale = clip_scale(norm, max_norm), b1 = (REAL)beta1, b2 = (REAL)beta2;
  REAL unbias_m = (REAL)(1 / (1 - pow((double)beta1, (double)step)));
  REAL unbias_v = (REAL)(1 / (1 - pow((double)beta2, (double)step)));
  for (size_t i = 0; i < P; i++) {
    REAL g = ((const REAL *)g_)[i] * scale;
    m[i] = b1 * m[i] + (1 - b1) * g;
    v[i] = b2 * v[i] + (1 - b2) * g * g;
    p[i] -= (REAL)lr * (m[i] * unbias_m) / (sqrt(v[i] * unbias_v) + (REAL)epsilon);
  }
}

static void ref_rmsprop(struct device *d, real *p_, real *ms_, real *mom_, const real *g_,
                        const real *norm, float max_norm, float lr, float decay, float momentum,
                        float epsilon, size_t P) {
  (void)d;
  REAL *p = (REAL *)p_, *ms = (REAL *)ms_, *mom = (REAL *)mom_;
  REAL scale = clip_scale(norm, max_norm);
  for (size_t i = 0; i < P; i++) {
    REAL g = ((const REAL *)g_)[i] * scale;
    ms[i] = (REAL)decay * ms[i] + (1 - (REAL)decay) * g * g;
    mom[i] = (REAL)momentum * mom[i] + (REAL)lr * g / sqrt(ms[i] + (REAL)epsilon);
    p[i] -= mom[i];
  }
}

/* ---- the table */

static void ref_destroy(struct device *d) {
  free(((struct ref *)d)->carry);
  free(d);
}

static const char *ref_describe(const struct device *d) {
  return d->ops->name;
}

static const struct device_ops REF_OPS = {
    .name = sizeof(REAL) == sizeof(float) ? "ref" : "ref_double",
    .real_bytes = sizeof(REAL),
    .destroy = ref_destroy,
    .describe = ref_describe,
    .alloc = ref_alloc,
    .release = ref_release,
    .upload = ref_upload,
    .download = ref_download,
    .copy = ref_copy,
    .fill = ref_fill,
    .copy_rows = ref_copy_rows,
    .embed = ref_embed,
    .linear_forward = ref_linear_forward,
    .linear_backward = ref_linear_backward,
    .image = ref_image,
    .conv_forward = ref_conv_forward,
    .conv_backward = ref_conv_backward,
    .pool_forward = ref_pool_forward,
    .pool_backward = ref_pool_backward,
    .relu = ref_relu,
    .relu_backward = ref_relu_backward,
    .weights_changed = ref_weights_changed,
    .lstm_forward = ref_lstm_forward,
    .lstm_backward = ref_lstm_backward,
    .random_uniforms = ref_random_uniforms,
    .categorical_sample = ref_categorical_sample,
    .categorical_evaluate = ref_categorical_evaluate,
    .categorical_backward = ref_categorical_backward,
    .vtrace = ref_vtrace,
    .vtrace_loss = ref_vtrace_loss,
    .global_norm = ref_global_norm,
    .adam = ref_adam,
    .rmsprop = ref_rmsprop,
};

struct device *PASTE(REF_DEVICE, _create)(void) {
  struct ref *ref = check_alloc(1, sizeof *ref);
  ref->device.ops = &REF_OPS;
  return &ref->device;
}
