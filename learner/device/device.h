/* The table of operations that networks, losses and optimisers are written against. Four
 * implementations: ref/ (naive loops, the oracle, compiled for float and for double), cpu/ (blocked
 * vector kernels), cuda/ (a plugin), and guarded/ (ref with its memory out of the host's reach, for
 * tests).
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
 * with --precision=bf16). It has transfers of its own and pixel_at; only the operations on images
 * and the linear layer above them take it. Weights and their gradients are reals.
 *
 * Arrays are dense, row-major, 64-byte aligned at their allocation; outputs come first, then
 * inputs, then sizes. Outputs are overwritten unless a comment says "adds to". Outputs and inputs
 * may not overlap unless a comment says "in place".
 *
 * Dimension letters: B rows (of an inference batch, or T*N of a training batch), I inputs, O
 * outputs, H hidden size, A actions, T time steps, N sequences, P parameters. Thread: one `struct
 * device` per thread (it holds that thread's scratch memory); memory may be shared between devices
 * of the same kind. Errors: a device failure is fatal. Upstream: learner/network, learner/train,
 * learner/serve/memory.h. */
#ifndef ACORN_LEARNER_DEVICE_DEVICE_H
#define ACORN_LEARNER_DEVICE_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/random.h"
#include "common/base/space.h"
#include "common/base/status.h"
#include "common/base/step.h"
#include "learner/rules/rules.h"

typedef struct real real;
typedef struct pixel pixel;
struct device;
struct device_recording;

enum activation { ACTIVATION_NONE, ACTIVATION_RELU, ACTIVATION_TANH };

/* What a network reads of B steps. Shapes: observation (B, row_stride) bytes; the others (B). */
struct device_inputs {
  const uint8_t *observation;
  size_t row_stride;
  int num_tensors;
  struct {
    enum dtype dtype;
    int count;                   /* elements */
    size_t row_offset;           /* bytes from the start of the row, a multiple of 16 */
    int height, width, channels; /* of an image; 0: not one */
    int planes; /* of such images, one after the other: (planes, height, width, channels); 0 counts
                   as 1. Channel-first images have planes, and one channel */
  } tensor[SPACE_MAX_TENSORS];
  const void *previous_action; /* (B) int32, -1: none; or (B, box) float, none on a first row */
  const float *reward;         /* of the step into x_t, as received */
  const uint8_t *flags;        /* bit 0 (1): first: the reward input is 0, so is a box's action */
  int discrete;                /* actions, or 0 for a box */
  int box;                     /* numbers of an action, or 0 */
  bool use_previous_action, use_reward;
  bool raw_reward; /* the reward input is as received, not clipped to [-1, 1] */
  int stack;       /* frames that image shows together; 0 counts as 1 */
  /* The newest frame is the row itself; frame (B, stack - 1): the rows of `history` (rows,
   * row_stride) that are older, newest first; -1: nothing there, as before a first row. Needed by
   * image only, and only if stack > 1. */
  const uint8_t *history;
  const int32_t *frame;
};

/* Steps of a batch, (B) in an inference batch, (T+1, N) in a training batch. */
struct device_steps {
  uint8_t *observation; /* (B, row_stride) */
  float *reward;
  uint8_t *flags;
  float *statistics;     /* (B, S) of the policy that acted */
  void *action;          /* (B, action_bytes) */
  void *previous_action; /* (B, action_bytes). Only gathered */
};

/* Where steps are kept. All of a step but its observation is one record, because the steps of a
 * batch are filed far from each other: an array for each member would cost a cache line for each.
 * A record is the reward (float), the flags (1 byte of 4), S statistics (floats), the action; see
 * device_record_bytes. */
struct device_pool {
  uint8_t *observation; /* (rows, row_stride) */
  uint8_t *record;      /* (rows, record_bytes) */
  size_t row_stride, record_bytes;
  int statistics; /* S */
  int action_bytes;
  uint8_t no_action; /* each byte of a previous action where there is none: 0xff makes it -1 */
};

enum { DEVICE_RECORD_FLAGS = 4, DEVICE_RECORD_STATISTICS = 8 }; /* offsets */

/* Bytes of a record, a multiple of 4. */
size_t device_record_bytes(int statistics, int action_bytes);

enum { DEVICE_MAX_SPANS = 8, DEVICE_MAX_FOOTPRINT = 16 };

/* Where the steps of a training window lie in the pool. An element of a table in memory that
 * operations read, so small and without host pointers. */
struct device_unroll {
  const void *previous_action; /* (action_bytes) of the step before the first; device memory */
  int32_t num_spans;           /* of consecutive rows, in the order of the steps */
  int32_t depth;               /* of `before` */
  struct {
    int32_t row, count;
  } span[DEVICE_MAX_SPANS];
  /* Observations before the first step that are needed too, for stacked frames: their rows, newest
   * first. */
  int32_t before[DEVICE_MAX_FOOTPRINT];
};

/* Whose random numbers each row gets. Arrays (B). */
struct device_draws {
  int count; /* of each row */
  const uint32_t *environment, *life, *step;
  const uint8_t *greedy; /* not 0: -1 instead of numbers */
};

/* Number of inputs that embed writes per row: elements of all tensors, A (the box's numbers) if
 * use_previous_action, 1 if use_reward. */
int device_inputs_size(const struct device_inputs *in);

/* Channels of a pixel that the operation image writes for one frame: of every plane of every
 * tensor. */
int device_inputs_channels(const struct device_inputs *in);

/* Whether those lie in memory as they are written: one tensor of uint8, one plane. */
bool device_inputs_plain_image(const struct device_inputs *in);

/* A window that moves over an image: of a convolution or of pooling. */
struct device_window {
  int H, W, C; /* the image that is read */
  int O;       /* channels that are written (pooling: C) */
  int size, stride;
  bool same; /* zeros around it, so that there are ceil(H / stride) places (if their number is odd,
                one more below and on the right); false: only places inside */
};

/* Rows and columns that are written, and rows of zeros above (columns on the left) and below. */
int device_window_rows(const struct device_window *window);
int device_window_columns(const struct device_window *window);
int device_window_before(const struct device_window *window, int length);
int device_window_after(const struct device_window *window, int length);

/* How rewards and values become value targets vs and advantages. delta_t = r_{t+1} + gamma
 * V(x_{t+1}) - V(x_t). */
enum trace_kind {
  /* Ratios rho = pi/mu, clipped; advantage = rho (r + gamma vs_{t+1} - V). Source: Espeholt et al.
   * 2018, eq. 1, computed backwards (remark 1). */
  TRACE_VTRACE,
  /* Generalised advantage estimation: no ratios; advantage = sum of (gamma lambda)^k delta_{t+k},
   * vs = V + advantage. lambda = 1: Monte-Carlo returns, cut at the window's end. Source: Schulman
   * et al. 2016, eq. 16. */
  TRACE_GAE
};

/* Arguments of the operation trace; time-major (T, N) unless noted. */
struct device_trace {
  enum trace_kind kind;
  int T, N;
  float discount; /* gamma */
  float lambda, rho_clip, c_clip, pg_rho_clip;
  float reward_scale;     /* what rewards are multiplied by */
  float reward_clip;      /* then they are clipped to +-reward_clip; 0: not at all */
  const real *log_prob;   /* (T, N) log pi(a_t|x_t) of the policy that is trained */
  const float *behaviour; /* (T, N) log mu(a_t|x_t) of the policy that acted */
  const real *value;      /* (T+1, N) V(x_t) */
  const float *reward;    /* (T+1, N): reward[t+1] follows action t */
  const uint8_t *flags;   /* (T+1, N), enum step_flag */
};

/* What changes from update to update. In device memory, so that the operations of an update, once
 * recorded, can be run again as they are. */
struct device_schedule {
  int64_t step; /* of the optimiser, from 1 */
  float learning_rate, entropy_cost;
};

/* How a row of a head becomes the values of A actions. The row holds A*Z advantages (action after
 * action, the Z atoms of one together), then Z values if it is dueling. Z = 1: numbers; Z > 1:
 * logits of a distribution over Z atoms, which lie evenly from low to high (low < high), for each
 * action; its value is then the distribution's mean. */
struct device_action_values {
  int A, Z;
  bool dueling; /* value + advantage - mean of the A advantages, atom by atom; false: the advantages
                   are the values. Source: Wang et al. 2016, eq. 9 */
  float low, high;
};

/* Arguments of q_loss; time-major. v(x) below: the target network's value of the action at x that
 * is best by the online network (double_q), or else by the target network itself; rescaled back
 * to returns. */
struct device_q_loss {
  int T, N;
  int counted; /* of the T steps of a window the first that count; those after them are only looked
                  at. T: all */
  int n_steps; /* 1 or more, of the return: G_t = sum of discount^k r_{t+1+k} for k < n_steps, then
                  discount^n v(x_{t+n}). It ends before: without v at a row that is terminated, with
                  v at one that is truncated, and with v at row T */
  struct device_action_values values;
  enum loss_reduction reduction;
  bool double_q;
  float discount;
  float reward_scale, reward_clip; /* as in device_trace */
  float rescaling; /* epsilon of h(x) = sign(x) (sqrt(|x| + 1) - 1) + epsilon x, on whose scale the
                      heads are; 0: no rescaling. Z = 1 only. Source: Pohlen et al. 2018 */
  float huber;     /* errors beyond it count linearly; 0: squared throughout. Z = 1 only */
  float eta;  /* priority = eta max + (1 - eta) mean of |TD| over the window's steps that count */
  int stride; /* of the heads' rows, in reals */
  const real *online;    /* (T+1, N, stride) heads of the network that is trained */
  const real *target;    /* (T+1, N, stride) heads of the target network */
  const int32_t *action; /* (T+1, N) */
  const float *reward;   /* (T+1, N): reward[t+1] follows action t */
  const uint8_t *flags;  /* (T+1, N), enum step_flag */
  const float *weight;   /* (N) of each window's loss; NULL: 1 */
};

/* What q_loss sums over the steps that count: not truncated, among the first `counted`. Not
 * divided. */
enum q_sum {
  Q_SUM_STEPS,
  Q_SUM_LOSS,   /* weighted */
  Q_SUM_TD,     /* |TD| */
  Q_SUM_VALUE,  /* Q(x_t, a_t), on the heads' scale */
  Q_SUM_TARGET, /* what it is trained towards, on that scale; Z > 1: the target's mean */
  Q_SUM_REWARD, /* scaled and clipped */
  Q_SUMS
};

struct device_ops {
  const char *name; /* "ref", "ref_double", "cpu", "cuda", "guarded" */
  size_t real_bytes, pixel_bytes;
  bool unified;      /* operations may be given memory of alloc_host */
  bool asynchronous; /* operations may still run when the call has returned */
  int images; /* that should go through all layers of a network together: as many as the caches of
                 the device have room for, or as fill it */

  /* What device_destroy and device_describe call. */
  void (*destroy)(struct device *d);
  const char *(*describe)(const struct device *d);

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
  void (*upload_pixels)(struct device *d, pixel *y, const float *host, size_t n);
  void (*download_pixels)(struct device *d, float *host, const pixel *x, size_t n);
  /* Bytes, from and to memory of alloc_host. The host's memory belongs to the transfer until it
   * has been waited for: it is neither written (upload) nor read (download) before. */
  void (*upload_bytes)(struct device *d, void *y, const void *host, size_t bytes);
  void (*download_bytes)(struct device *d, void *host, const void *x, size_t bytes);
  /* mark: a point behind all that the device was given so far. wait: returns when all before the
   * mark is done. finish: when everything is. Thread: wait: any. */
  uint64_t (*mark)(struct device *d);
  void (*wait)(struct device *d, uint64_t mark);
  void (*finish)(struct device *d);
  /* What d is given from now on runs when all before the other device's mark is done. The host does
   * not wait. other: of the same kind. */
  void (*follow)(struct device *d, struct device *other, uint64_t mark);
  /* Recordings; NULL on devices that have none. From `record` to `recorded` operations, and
   * upload_bytes and download_bytes, are kept instead of run; `play` runs them, in the order in
   * which they were given, on what memory of both sides holds by then, the arguments as they were
   * given. Memory that they use must outlive the recording, and they must have run before, since
   * scratch memory cannot grow meanwhile. No alloc, release, mark, wait, follow or finish in
   * between. Owner: the caller, with `forget`, which waits until it is no longer played. */
  void (*record)(struct device *d);
  struct device_recording *(*recorded)(struct device *d);
  void (*play)(struct device *d, const struct device_recording *recording);
  void (*forget)(struct device *d, struct device_recording *recording);
  void (*copy)(struct device *d, real *y, const real *x, size_t n);
  void (*fill)(struct device *d, real *y, float value, size_t n);
  /* y += x. */
  void (*add)(struct device *d, real *y, const real *x, size_t n);
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
  /* dw (I, O) and db (O) are overwritten; dx (B, I) may be NULL. dy (B, O) is turned in place into
   * the gradient before the activation (y: the forward's output). */
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
   * after tensor and plane after plane. uint8 is divided by 255, others are taken as they are. The
   * newest frame's channels come first. */
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
   * stops) where row t is truncated; the discount into t+1 is 0 iff row t+1 is terminated. */
  void (*trace)(struct device *d, real *vs, real *advantage, const struct device_trace *v);

  /* ---- a rule for each of its rows (learner/rules); rule: of struct NAME_rule. Of the steps of a
   * loss: gradients are multiplied by a scale, by the reduction: 1 / steps that count (0 if none),
   * or 1 / N; 0 where a step does not count, because it is truncated. sums: over those that do, not
   * divided. */
  void (*run_rule)(struct device *d, enum rule which, const struct rule_run *rule);

  /* ---- action values: rows of `head` are `stride` reals apart */
  /* action (B): a random one where 0 <= uniform < epsilon: floor(uniform / epsilon * A), in float
   * on every device; elsewhere, so also where uniform is negative, the one with the largest value
   * (lowest index wins). statistics (B, 2): the value of that action, and the largest one (NaN if
   * one of the values is). */
  void (*epsilon_greedy)(struct device *d, int32_t *action, float *statistics, const real *head,
                         int stride, const struct device_action_values *values,
                         const float *uniform, const float *epsilon, int B);
  /* dhead (T, N, stride): the gradient of the loss at the online heads of the first T steps, 0 for
   * those that do not count and behind the head's numbers. Loss of a step: Z = 1: weight * 0.5 TD^2
   * (or Huber's), TD = y - Q(x_t, a_t), y = h(G_t) taken as a constant. Z > 1: weight *
   * cross-entropy of the online distribution of a_t with the target's distribution, projected onto
   * the atoms after r + discount^n z; there |TD| stands for that cross-entropy less the target's
   * entropy (the KL divergence). The loss is their sum, divided by the steps that count (LOSS_MEAN)
   * or by N (LOSS_SUM_OVER_TIME). td (T, N): TD, 0 where a step does not count. priority (N): 0
   * where none of the window's counts. sums: (Q_SUMS). Actions out of range count as 0. NaN in a
   * number that a step's return or value depends on, NaN out: in its td, its window's priority and
   * the sums, not in other windows. Source: Kapturowski et al. 2019, section 2.3; van Hasselt et
   * al. 2016; Z > 1: Bellemare et al. 2017, algorithm 1. */
  void (*q_loss)(struct device *d, real *dhead, real *td, float *priority, real *sums,
                 const struct device_q_loss *loss);
  /* distance (1): the mean over B rows of |q_a - q_b| / max |q_b|, Euclidean over the actions; rows
   * where q_b is 0 throughout count as 0. Source: Kapturowski et al. 2019, section 3 (Delta Q). */
  void (*q_distance)(struct device *d, real *distance, const real *head_a, const real *head_b,
                     int stride, const struct device_action_values *values, int B);

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
  /* norm (1) becomes NaN where one of x (n) is not finite, and stays as it is otherwise. */
  void (*require_finite)(struct device *d, real *norm, const real *x, size_t n);
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

/* The member every implementation starts with. */
struct device {
  const struct device_ops *ops;
  size_t memory_bytes; /* of all devices like it together, at most; 0: it takes the host's */
  size_t own_bytes;    /* of these, what this one takes besides what alloc is asked for */
  struct device_traffic traffic; /* written by the device's thread; see device_traffic_read */
};

/* Which device, and how it computes. */
struct device_options {
  const char *name; /* "cpu", "cuda", "ref", "ref_double", "guarded"; "auto": see device_choose */
  /* "float32"; "bf16" (cpu, cuda: convolutions and large products read numbers of 8 bits precision,
   * sums are float); "tf32" (cuda: the same, of 10 bits); "auto": bf16 where the machine is faster
   * at it. */
  const char *precision;
  int gpu;            /* cuda: number of the GPU among those that CUDA_VISIBLE_DEVICES shows */
  int64_t memory_mib; /* cuda: of the GPU's memory, at most; 0: all of it */
  bool urgent;        /* cuda: what it computes goes before other devices' */
};

/* "cuda" where a GPU can be used, else "cpu", for "auto"; other names as they are. *reason: why
 * there is no GPU, or "". */
const char *device_choose(const char *name, struct error *reason);

/* A device for the calling thread. Owner: the caller. cpu picks the best kernels this machine runs;
 * ACORN_CPU=v2|v3|v4 in the environment forces a set (refused with INVALID if the machine lacks
 * it). cuda: see cuda_plugin.h. */
struct device *device_ref_float_create(void);
struct device *device_ref_double_create(void);
struct device *device_guarded_create(void);
MUST_CHECK enum status device_cpu_create(struct device **out, struct error *error);
/* Makes a cpu compute in bf16; automatic: only where the machine is faster at it. Errors: INVALID:
 * the machine cannot. */
MUST_CHECK enum status device_cpu_use_bf16(struct device *d, bool automatic, struct error *error);
MUST_CHECK enum status device_create(struct device **out, const char *name, struct error *error);
MUST_CHECK enum status device_create_with(struct device **out, const char *name,
                                          const char *precision, struct error *error);
MUST_CHECK enum status device_create_by(struct device **out, const struct device_options *options,
                                        struct error *error);
void device_destroy(struct device *d);

/* "cpu (avx512)", for people. */
const char *device_describe(const struct device *d);

/* Memory of alloc_host as operations can read it: itself on a unified device, otherwise uploaded to
 * `staging`, which has as many bytes. */
static inline void *device_stage(struct device *d, void *staging, void *host, size_t bytes) {
  if (d->ops->unified) return host;
  d->ops->upload_bytes(d, staging, host, bytes);
  return staging;
}

/* An array that host and device both have, to carry what one writes to the other: the same memory
 * on a unified device, otherwise one on each side. */
struct device_shared {
  void *host, *memory;
  size_t bytes;
};

/* Zeroed on both sides. Owner: the caller, with device_unshare. */
static inline struct device_shared device_share(struct device *d, size_t bytes) {
  struct device_shared shared = {d->ops->alloc_host(d, bytes), NULL, bytes};
  shared.memory = d->ops->unified ? shared.host : d->ops->alloc(d, bytes);
  return shared;
}

static inline void device_unshare(struct device *d, struct device_shared *shared) {
  if (shared->memory && shared->memory != shared->host) d->ops->release(d, shared->memory);
  if (shared->host) d->ops->release_host(d, shared->host);
  shared->host = shared->memory = NULL;
  shared->bytes = 0;
}

/* As upload_bytes and download_bytes. */
static inline void device_shared_upload(struct device *d, const struct device_shared *shared) {
  if (shared->memory != shared->host)
    d->ops->upload_bytes(d, shared->memory, shared->host, shared->bytes);
}
static inline void device_shared_download(struct device *d, const struct device_shared *shared,
                                          size_t bytes) {
  if (shared->memory != shared->host)
    d->ops->download_bytes(d, shared->host, shared->memory, bytes);
}

/* What operations read where the host has `host`, which is in the array; NULL for NULL. */
static inline void *device_shared_at(const struct device_shared *shared, const void *host) {
  return host ? (char *)shared->memory + ((const char *)host - (const char *)shared->host) : NULL;
}

/* Zeros on devices that share the host's memory. Thread: any. */
struct device_traffic device_traffic_read(const struct device *d);

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
