/* The table of operations that networks, losses and optimisers are written against. Three
 * implementations: ref/ (naive loops, the oracle, compiled for float and for double), cpu/ (blocked
 * vector kernels) and cuda/ (a plugin). tests/devices/guarded.c is ref with its memory out of the
 * host's reach.
 *
 * Memory that `alloc` returned is the device's: host code never reads or writes it. What the host
 * has to decide on it keeps itself, or downloads and waits for. Operations read and write nothing
 * but such memory, and on a `unified` device also that of `alloc_host`; structs of arguments are
 * the caller's and are read before the operation returns. Operations of one device run in the order
 * in which they were given, on an `asynchronous` device after the call has returned.
 *
 * A `real` is the device's number: float, or double on ref_double. It is an incomplete type, so
 * that no device array is read by accident: upload and download convert from and to float (or
 * double), device_at does the arithmetic. A `pixel` is a number of an image between the layers of a
 * convolutional network: a real, or two bytes where the device computes those layers in bf16 (cuda
 * with --precision=bf16). It has pixel_at and a download of its own; only the operations on images
 * and the linear layer above them take it. Weights and their gradients are reals.
 *
 * Arrays are dense, row-major, 64-byte aligned at their allocation; outputs come first, then
 * inputs, then sizes. Outputs are overwritten unless a comment says "adds to". Outputs and inputs
 * may not overlap unless a comment says "in place".
 *
 * Not a number: a gradient of NaN or infinity ends in a norm that is not finite; what a ReLU, or a
 * window of a pool, makes of NaN is the device's own choice.
 *
 * Dimension letters: B rows (of an inference batch, or T*N of a training batch; 1 or more), I
 * inputs, O outputs, H hidden size, A actions, T time steps, N sequences, P parameters. Thread: one
 * `struct device` per thread (it holds that thread's scratch memory); memory may be shared between
 * devices of the same kind. Errors: a device failure is fatal. Upstream: learner/network,
 * learner/train, learner/serve/memory.h. */
#ifndef ACORN_LEARNER_DEVICE_DEVICE_H
#define ACORN_LEARNER_DEVICE_DEVICE_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/check.h"
#include "common/base/random.h"
#include "learner/device/returns.h"
#include "learner/device/steps.h"
#include "learner/device/window.h"
#include "learner/rules/rules.h"

typedef struct real real;
typedef struct pixel pixel;
struct device;
struct device_recording;

enum activation { ACTIVATION_NONE, ACTIVATION_RELU, ACTIVATION_TANH };

/* What changes from update to update. In device memory, so that the operations of an update, once
 * recorded, can be run again as they are. */
struct device_schedule {
  int64_t step; /* of the optimiser, from 1 */
  float learning_rate, entropy_cost;
};

/* Sums of several learners' numbers by their devices, without the host. A device joins one group,
 * once, and has left it when it is destroyed. */
enum { DEVICE_GROUP_ID_BYTES = 128, DEVICE_LIBRARY_BYTES = 32 };

struct device_library {
  char name[DEVICE_LIBRARY_BYTES]; /* "NCCL 2.28.3" */
  int version;                     /* 22803 */
  uint64_t gpu;                    /* a number, below 2^52, that no other GPU has */
};

struct device_group_ops {
  /* The library that adds up. Errors: UNAVAILABLE: there is none; MISMATCH: it is too old or of
   * another major version. */
  enum status (*find)(struct device *d, struct device_library *library, struct error *error);
  /* Of a new group, by one device, for all that join it. Errors: UNAVAILABLE. */
  enum status (*make_id)(struct device *d, char id[DEVICE_GROUP_ID_BYTES], struct error *error);
  /* Waits for the others, for half of timeout_ms; a call of a sum then may take all of it. Errors:
   * UNAVAILABLE: the library's reason, or the time is over. */
  enum status (*join)(struct device *d, const char id[DEVICE_GROUP_ID_BYTES], int rank,
                      int learners, int timeout_ms, struct error *error);
  /* An operation like others, in recordings too: numbers (n) become the sums of all devices'
   * numbers, the same bits on all. NaN once this device has left. */
  void (*add_up)(struct device *d, real *numbers, size_t n);
  /* Errors: UNAVAILABLE: a sum has failed: the library's reason. */
  enum status (*check)(struct device *d, struct error *error);
  /* Sums that wait for others end, and are NaN. */
  void (*leave)(struct device *d);
};

struct device_ops {
  const char *name; /* "ref", "ref_double", "cpu", "cuda" */
  size_t real_bytes, pixel_bytes;
  bool unified;      /* operations may be given memory of alloc_host */
  bool asynchronous; /* operations may still run when the call has returned */
  int images; /* that should go through all layers of a network together: as many as the caches of
                 the device have room for, or as fill it */
  const struct device_group_ops *group; /* NULL: sums of learners go through the host */

  void (*destroy)(struct device *d); /* what device_destroy calls */

  /* ---- memory */
  /* Zeroed, 64-byte aligned; aborts when there is none. release takes what alloc gave. */
  void *(*alloc)(struct device *d, size_t bytes);
  void (*release)(struct device *d, void *memory);
  /* As alloc, for what the device's memory is too small for: on a device with memory of its own it
   * is the host's, which operations read and write over the bus. Host code does neither. */
  void *(*alloc_spilled)(struct device *d, size_t bytes);
  /* Memory of the host that transfers are fast from and to, likewise. */
  void *(*alloc_host)(struct device *d, size_t bytes);
  void (*release_host)(struct device *d, void *memory);
  /* Numbers; done when the call returns. */
  void (*upload)(struct device *d, real *y, const float *host, size_t n);
  void (*download)(struct device *d, float *host, const real *x, size_t n);
  /* Bytes, from and to memory of alloc_host. The host's memory belongs to the transfer until it
   * has been waited for: it is neither written (upload) nor read (download) before. */
  void (*upload_bytes)(struct device *d, void *y, const void *host, size_t bytes);
  void (*download_bytes)(struct device *d, void *host, const void *x, size_t bytes);
  /* mark: a point behind all that the device was given so far. wait: returns when all before the
   * mark is done; is_done: whether it is, NULL where `wait` never takes long. Thread: wait: any. */
  uint64_t (*mark)(struct device *d);
  void (*wait)(struct device *d, uint64_t mark);
  bool (*is_done)(struct device *d, uint64_t mark);
  /* What d is given from now on runs when all before the other device's mark is done. The host does
   * not wait. other: of the same kind. */
  void (*follow)(struct device *d, struct device *other, uint64_t mark);
  /* Recordings; NULL on devices that have none. From `record` to `recorded` operations, and
   * upload_bytes and download_bytes, are kept instead of run; `play` runs them, in the order in
   * which they were given, on what memory of both sides holds by then, the arguments as they were
   * given. Memory that they use must outlive the recording, and they must have run before, since
   * scratch memory cannot grow meanwhile. No alloc, release, mark, wait or follow in
   * between. `record` returns false if nothing can be recorded: what is given then runs. `recorded`
   * returns NULL if the operations cannot be; nothing has run then. Owner: the caller, with
   * `forget`, which waits until it is no longer played. */
  bool (*record)(struct device *d);
  struct device_recording *(*recorded)(struct device *d);
  void (*play)(struct device *d, const struct device_recording *recording);
  void (*forget)(struct device *d, struct device_recording *recording);
  /* y = x; (B, n) between arrays whose rows are y_stride and x_stride reals apart. */
  void (*copy_rows)(struct device *d, real *y, int y_stride, const real *x, int x_stride, int B,
                    int n);
  /* y[b] = x[row[b]], and y[row[b]] = x[b]: B rows of bytes; a negative row is skipped. No row is
   * written twice. */
  void (*gather_rows)(struct device *d, void *y, const void *x, const int32_t *row, int B,
                      size_t bytes);
  void (*scatter_rows)(struct device *d, void *y, const void *x, const int32_t *row, int B,
                       size_t bytes);

  /* ---- steps */
  /* Files step b of a batch in row[b] of the pool; a negative row is skipped. No row is written
   * twice. */
  void (*scatter_steps)(struct device *d, const struct device_pool *pool, const int32_t *row,
                        const struct device_steps *steps, int B);
  /* Copies `count` windows out of the pool, unroll[k] (count) into column `column` + k of steps
   * (length, N), with the previous actions that follow: the one before the window, then its own;
   * none on a first row. The observations before a window go before row 0 of its column: k steps
   * earlier to (-k, N). The spans of each window add up to `length` (T+1), no depth is above
   * `footprint`. */
  void (*gather_steps)(struct device *d, const struct device_steps *steps, int N, int column,
                       const struct device_pool *pool, const struct device_unroll *unroll,
                       int count, int length, int footprint);

  /* ---- inputs: y (B, I), I = device_inputs_size: tensors flattened in order (uint8 / 255, int32
   * and float32 as they are), one-hot previous action (zeros for -1) or a box's
   * as it was chosen (zeros on a first row), reward clipped to [-1, 1] unless raw_reward (0 on a
   * first row). */
  void (*embed)(struct device *d, real *y, const struct device_inputs *in, int B);

  /* ---- linear layer, w (I, O), b (O) */
  /* y (B, O) = act(x (B, I) w + b); x rows are x_stride reals apart. */
  void (*linear_forward)(struct device *d, real *y, const real *x, int x_stride, const real *w,
                         const real *b, enum activation act, int B, int I, int O);
  /* dw (I, O) and db (O) are overwritten; dx (B, I) may be NULL, and dw where dx is not. dy (B, O)
   * is turned in place into the gradient before the activation (y: the forward's output). */
  void (*linear_backward)(struct device *d, real *dx, real *dw, real *db, real *dy, const real *y,
                          const real *x, int x_stride, const real *w, enum activation act, int B,
                          int I, int O);
  /* The same layer above images: x and dx are pixels, their rows dense; I is a multiple of 8. */
  void (*linear_pixels_forward)(struct device *d, real *y, const pixel *x, const real *w,
                                const real *b, enum activation act, int B, int I, int O);
  void (*linear_pixels_backward)(struct device *d, pixel *dx, real *dw, real *db, real *dy,
                                 const real *y, const pixel *x, const real *w, enum activation act,
                                 int B, int I, int O);

  /* ---- images (B, H, W, C): pixel after pixel, its channels together. h, w: rows and columns that
   * are written. */
  /* y (B, H, W, stack * C): all tensors, images of one size; C = device_inputs_channels, tensor
   * after tensor and plane after plane. uint8 is divided by 255, others are taken as they are;
   * where in->mean is given each number is normalised, in its place of every frame, but a frame
   * that is not there is 0. The newest frame's channels come first. */
  void (*image)(struct device *d, pixel *y, const struct device_inputs *in, int B);
  /* y (B, h, w, O) = act(convolution of x with weights (size, size, C, O) + b (O)) + residual (like
   * y, or NULL). act: NONE or RELU, NONE with a residual. open: max(x, 0) is read instead of x. */
  void (*conv_forward)(struct device *d, pixel *y, const pixel *x, const real *weights,
                       const real *b, const pixel *residual, enum activation act, bool open,
                       const struct device_window *window, int B);
  /* As linear_backward, but dw and db are added to if `add`; the gradient of a residual is dy
   * itself. With `open` the gradient goes through that ReLU, too, and is added to dx. */
  void (*conv_backward)(struct device *d, pixel *dx, real *dw, real *db, pixel *dy, const pixel *y,
                        const pixel *x, const real *weights, enum activation act, bool open,
                        const struct device_window *window, int B, bool add);
  /* y (B, h, w, C): the largest of each window, zeros around it not counted; choice (like y):
   * which of the window's places (row * size + column), the first of equals. */
  void (*pool_forward)(struct device *d, pixel *y, uint8_t *choice, const pixel *x,
                       const struct device_window *window, int B);
  void (*pool_backward)(struct device *d, pixel *dx, const pixel *dy, const uint8_t *choice,
                        const struct device_window *window, int B);
  /* pool_backward, then conv_backward of the convolution, without activation, whose output was
   * pooled. dy, choice: as for pool_backward; between: like that output, scratch. */
  void (*conv_pool_backward)(struct device *d, pixel *dx, real *dw, real *db, pixel *between,
                             const pixel *dy, const uint8_t *choice, const pixel *x,
                             const real *weights, const struct device_window *window,
                             const struct device_window *pool, int B, bool add);
  /* y = max(x, 0); dx = dy where y > 0, else 0. In place allowed. */
  void (*relu)(struct device *d, pixel *y, const pixel *x, size_t n);
  void (*relu_backward)(struct device *d, pixel *dx, const pixel *dy, const pixel *y, size_t n);
  /* A device may keep weights in a form of its own from call to call, by their address. To be
   * called when any may have changed, except by noisy_forward. */
  void (*weights_changed)(struct device *d);

  /* ---- LSTM over T steps of N sequences; gate order i, f, g (cell), o; 1.0 is added to the forget
   * gate inside. gates (T, N, 4H): in: x_t Wx + b; out: the activated gates, kept for backward. h,
   * c (T, N, H): outputs of every step. wh (H, 4H). h0, c0 (N, H). reset (T, N): where bit 0 (1,
   * first) is set the state before the step is zero. */
  void (*lstm_forward)(struct device *d, real *h, real *c, real *gates, const real *wh,
                       const real *h0, const real *c0, const uint8_t *reset, int T, int N, int H);
  /* dgates (T, N, 4H): gradient with respect to x_t Wx + b. dwh (H, 4H) overwritten. dh (T, N, H):
   * gradient from above; used as scratch. Nothing flows into h0, c0 (they are data). */
  void (*lstm_backward)(struct device *d, real *dgates, real *dwh, real *dh, const real *h,
                        const real *c, const real *gates, const real *wh, const real *h0,
                        const real *c0, const uint8_t *reset, int T, int N, int H);

  /* ---- uniform (B, count) in [0, 1): random_uniform of each row's environment, life, step and
   * number; bit for bit the same on every device; -1 on greedy rows. */
  void (*random_uniforms)(struct device *d, float *uniform, uint64_t seed,
                          const struct device_draws *draws, enum random_purpose purpose, int B);

  /* ---- vs, advantage (T, N), by v->kind. Step t is masked (vs = V, advantage = 0, the trace
   * stops) where row t is truncated; the discount into t+1 is 0 iff row t+1 is terminated
   * and v is not endless. */
  void (*trace)(struct device *d, real *vs, real *advantage, const struct device_trace *v);

  /* ---- returned (T, N): the sum of discount^k r_{t+1+k} for k < n_steps, then discount^n times
   * the value at row t + n. It ends before: without a value at a row that is terminated, with it at
   * one that is truncated, and with it at row T. discounts (T, N): what that value was multiplied
   * by; 0: it was not read. from (T, N): which of the (T+1) N rows it is of. Both may be NULL. */
  void (*n_step)(struct device *d, real *returned, real *discounts, int32_t *from,
                 const struct device_n_step *n);

  /* ---- a rule for each of its rows (learner/rules); rule: of struct NAME_rule. Of the steps of a
   * loss: gradients are multiplied by a scale, by the reduction: 1 / steps that count (0 if none),
   * or 1 / N; 0 where a step does not count, because it is truncated. sums: over those that do, not
   * divided. */
  void (*run_rule)(struct device *d, enum rule which, const struct rule_run *rule);

  /* ---- noisy layers. Source: Fortunato et al. 2018, eqs. 10 and 11 (factorised noise) */
  /* noise (n): f(normal), f(x) = sign(x) sqrt(|x|), of counters first .. first + n of (seed,
   * stream). */
  void (*factor_noise)(struct device *d, real *noise, uint64_t seed, uint32_t stream,
                       uint32_t first, int n);
  /* y (I, O) = mean + deviation * in (I) out (O); I = 1 and in NULL: a bias. What the device kept
   * of weights at y is no longer used. */
  void (*noisy_forward)(struct device *d, real *y, const real *mean, const real *deviation,
                        const real *in, const real *out, int I, int O);
  /* d_deviation (I, O) = dy * in out; in as above. (The gradient of the mean is dy itself.) */
  void (*noisy_backward)(struct device *d, real *d_deviation, const real *dy, const real *in,
                         const real *out, int I, int O);

  /* ---- optimisers over P parameters; gradients are scaled by min(1, max_norm / norm) first
   * (max_norm 0: not at all), norm (1) as computed by global_norm. Where the norm is not finite
   * nothing changes. */
  void (*global_norm)(struct device *d, real *norm, const real *g, size_t P);
  /* norm (1) becomes NaN where one of x (n) or `failed` (1; NULL: nothing has) is not finite, and
   * stays as it is otherwise; `failed` becomes NaN where the norm then is not finite. */
  void (*require_finite)(struct device *d, real *norm, const real *x, size_t n, real *failed);
  /* p -= learning_rate m_hat / (sqrt(v_hat) + epsilon), where the hat is the correction for the
   * bias. epsilon_hat: TensorFlow's form, which adds it to the root of the uncorrected v: epsilon
   * then stands for epsilon / sqrt(1 - beta2^step), which is larger at first.
   * Source: Kingma and Ba 2015, algorithm 1; the other form is at the end of its section 2. */
  void (*adam)(struct device *d, real *p, real *m, real *v, const real *g, const real *norm,
               const struct device_schedule *schedule, float max_norm, float beta1, float beta2,
               float epsilon, bool epsilon_hat, size_t P);
  /* IMPALA's RMSProp: ms = decay ms + (1-decay) g^2; mom = momentum mom + learning_rate g / sqrt(ms
   * + epsilon); p -= mom. */
  void (*rmsprop)(struct device *d, real *p, real *ms, real *mom, const real *g, const real *norm,
                  const struct device_schedule *schedule, float max_norm, float decay,
                  float momentum, float epsilon, size_t P);
};

/* Between the host's memory and the device's since it was created: what transfers took, those of
 * recordings each time they were played. Operations that reach spilled memory are not counted. */
struct device_traffic {
  int64_t bytes_up, bytes_down, transfers;
};

/* Several learners that train one network. add_up: numbers (n), in the host's memory, become the
 * sums of all learners' numbers, the same bits on all; NaN where a learner is missing. All call it
 * in the same order. all_run: no other learner has ended; for what waits for their devices. */
struct device_peers {
  int rank, learners;
  bool joined;   /* the device is in a group of all learners, */
  bool by_group; /* which adds up now: in what all of them record */
  void (*add_up)(struct device_peers *self, void *numbers, size_t n, size_t real_bytes);
  bool (*all_run)(struct device_peers *self);
};

/* The member every implementation starts with. */
struct device {
  const struct device_ops *ops;
  const char *description; /* "cpu (avx512)", for people */
  size_t memory_bytes;     /* of all devices like it together, at most; 0: it takes the host's */
  size_t own_bytes;        /* of these, what this one takes besides what alloc is asked for */
  struct device_traffic traffic; /* written by the device's thread; see device_traffic_read */
  struct device_peers *peers;    /* the trainer's, of several learners; NULL: there is one */
  void *staged; /* memory of alloc_host for sums through the host; NULL: there were none */
};

/* Zeros on devices that share the host's memory. Thread: any. */
struct device_traffic device_traffic_read(const struct device *d);

/* Returns when all that d was given is done. */
static inline void device_finish(struct device *d) {
  d->ops->wait(d, d->ops->mark(d));
}

/* Numbers of one learner become those of all. */
void device_add_up(struct device *d, real *numbers, size_t n);

/* Whether the host takes part in sums, so that what has them cannot be recorded. */
static inline bool device_adds_by_host(const struct device *d) {
  return d->peers && !d->peers->by_group;
}

/* Memory for n numbers. */
static inline real *device_reals(struct device *d, size_t n) {
  return (real *)d->ops->alloc(d, n * d->ops->real_bytes);
}

/* Releases those of `count` arrays that are not NULL. */
void device_release_all(struct device *d, void *const *arrays, size_t count);

/* n numbers of y. */
void device_fill(struct device *d, real *y, float value, size_t n);

/* y = x. */
static inline void device_copy(struct device *d, real *y, const real *x, size_t n) {
  CHECK(n <= INT_MAX, "a copy of %zu numbers", n);
  d->ops->copy_rows(d, y, (int)n, x, (int)n, 1, (int)n);
}

/* As download, for pixels. */
void device_download_pixels(struct device *d, float *host, const pixel *x, size_t n);

/* x + n, in reals. */
static inline real *device_at(const struct device *d, real *x, size_t n) {
  return (real *)((char *)x + n * d->ops->real_bytes);
}
static inline const real *device_at_const(const struct device *d, const real *x, size_t n) {
  return (const real *)((const char *)x + n * d->ops->real_bytes);
}

/* x + n, in pixels. */
static inline pixel *pixel_at(const struct device *d, pixel *x, size_t n) {
  return (pixel *)((char *)x + n * d->ops->pixel_bytes);
}

#endif
