#include "tests/devices/guarded.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/check.h"
#include "common/base/crc32c.h"
#include "learner/device/create.h"
#include "learner/device/plain_pixels.h"
#include "tests/devices/guarded_memory.h"

/* A transfer between its call and the wait for it. */
struct transfer {
  uint64_t number; /* counts up */
  void *host;
  size_t bytes;
  void *copy;   /* download: what will arrive */
  uint32_t crc; /* upload: of what the host's memory held */
  struct transfer *next;
};

struct guarded {
  struct device device;
  struct device *ref;
  pthread_mutex_t lock; /* guards what follows: any thread may wait */
  struct transfer *first, **end;
  uint64_t transfers; /* so far */
};

enum { POISON = 0xa5 }; /* what a download's memory holds until it is waited for */

static struct device *inner(const struct device *d) {
  return ((const struct guarded *)d)->ref;
}

/* CHECKs the arrays that an operation is given, and runs it. */
#define GIVEN(...)                                                                        \
  guarded_check((const void *const[]){__VA_ARGS__},                                       \
                (int)(sizeof((const void *const[]){__VA_ARGS__}) / sizeof(const void *)), \
                __func__)
#define RUN(operation, ...)                          \
  do {                                               \
    guarded_open();                                  \
    inner(d)->ops->operation(inner(d), __VA_ARGS__); \
    guarded_close();                                 \
  } while (0)

/* ---- memory */

static void *alloc(struct device *d, size_t bytes) {
  (void)d;
  return guarded_alloc(bytes);
}

static void release(struct device *d, void *memory) {
  (void)d;
  guarded_release(memory);
}

/* ---- transfers */

static void append(struct guarded *guarded, const struct transfer *transfer) {
  struct transfer *kept = check_alloc(1, sizeof(*kept));
  *kept = *transfer;
  pthread_mutex_lock(&guarded->lock);
  kept->number = ++guarded->transfers;
  *guarded->end = kept;
  guarded->end = &kept->next;
  pthread_mutex_unlock(&guarded->lock);
}

static void upload_bytes(struct device *d, void *y, const void *host, size_t bytes) {
  GIVEN(y);
  RUN(upload_bytes, y, host, bytes);
  append((struct guarded *)d,
         &(struct transfer){.host = (void *)host, .bytes = bytes, .crc = crc32c(host, bytes)});
}

static void download_bytes(struct device *d, void *host, const void *x, size_t bytes) {
  GIVEN(x);
  void *copy = check_alloc(bytes, 1);
  RUN(download_bytes, copy, x, bytes);
  memset(host, POISON, bytes);
  append((struct guarded *)d, &(struct transfer){.host = host, .bytes = bytes, .copy = copy});
}

static void complete(struct transfer *transfer) {
  if (transfer->copy)
    memcpy(transfer->host, transfer->copy, transfer->bytes);
  else
    CHECK(crc32c(transfer->host, transfer->bytes) == transfer->crc,
          "device guarded: %zu bytes that were uploaded changed before they were waited for",
          transfer->bytes);
  free(transfer->copy);
  free(transfer);
}

static uint64_t mark(struct device *d) {
  struct guarded *guarded = (struct guarded *)d;
  pthread_mutex_lock(&guarded->lock);
  uint64_t number = guarded->transfers;
  pthread_mutex_unlock(&guarded->lock);
  return number;
}

static void wait_for(struct device *d, uint64_t number) {
  struct guarded *guarded = (struct guarded *)d;
  pthread_mutex_lock(&guarded->lock);
  while (guarded->first && guarded->first->number <= number) {
    struct transfer *done = guarded->first;
    guarded->first = done->next;
    complete(done);
  }
  if (!guarded->first) guarded->end = &guarded->first;
  pthread_mutex_unlock(&guarded->lock);
}

static void finish(struct device *d) {
  wait_for(d, mark(d));
}

/* Operations have run by now; what was downloaded arrives when the host waits for it. */
static void follow(struct device *d, struct device *other, uint64_t mark) {
  (void)d, (void)other, (void)mark;
}

/* Of numbers: done when they return, and so is all before them. */
static void upload(struct device *d, real *y, const float *host, size_t n) {
  GIVEN(y);
  RUN(upload, y, host, n);
  finish(d);
}

static void download(struct device *d, float *host, const real *x, size_t n) {
  GIVEN(x);
  RUN(download, host, x, n);
  finish(d);
}

static void *alloc_host(struct device *d, size_t bytes) {
  (void)d;
  return check_alloc(1, bytes);
}

static void release_host(struct device *d, void *memory) {
  finish(d); /* of or into this memory */
  free(memory);
}

/* ---- operations, in the order of device.h */

static void copy_rows(struct device *d, real *y, int y_stride, const real *x, int x_stride, int B,
                      int n) {
  GIVEN(y, x);
  RUN(copy_rows, y, y_stride, x, x_stride, B, n);
}

static void gather_rows(struct device *d, void *y, const void *x, const int32_t *row, int B,
                        size_t bytes) {
  GIVEN(y, x, row);
  RUN(gather_rows, y, x, row, B, bytes);
}

static void scatter_rows(struct device *d, void *y, const void *x, const int32_t *row, int B,
                         size_t bytes) {
  GIVEN(y, x, row);
  RUN(scatter_rows, y, x, row, B, bytes);
}

static void scatter_steps(struct device *d, const struct device_pool *pool, const int32_t *row,
                          const struct device_steps *steps, int B) {
  GIVEN(pool->observation, pool->record, row, steps->observation, steps->reward, steps->flags,
        steps->statistics, steps->action);
  RUN(scatter_steps, pool, row, steps, B);
}

/* What a device cannot check: it is in its own memory. */
static void check_unrolls(const struct device_unroll *unroll, int count, int length,
                          int footprint) {
  for (int k = 0; k < count; k++) {
    int steps = 0;
    for (int s = 0; s < unroll[k].num_spans; s++) steps += unroll[k].span[s].count;
    CHECK(steps == length && unroll[k].depth <= footprint,
          "a window of %d steps with %d before it among windows of %d with %d", steps,
          unroll[k].depth, length, footprint);
    GIVEN(unroll[k].previous_action);
  }
}

static void gather_steps(struct device *d, const struct device_steps *steps, int N, int column,
                         const struct device_pool *pool, const struct device_unroll *unroll,
                         int count, int length, int footprint) {
  GIVEN(steps->observation, steps->reward, steps->flags, steps->statistics, steps->action,
        steps->previous_action, pool->observation, pool->record, unroll);
  guarded_open();
  check_unrolls(unroll, count, length, footprint);
  guarded_close();
  RUN(gather_steps, steps, N, column, pool, unroll, count, length, footprint);
}

static void check_inputs(const struct device_inputs *in) {
  GIVEN(in->observation, in->previous_action, in->reward, in->flags, in->history, in->frame,
        in->mean, in->deviation);
}

static void embed(struct device *d, real *y, const struct device_inputs *in, int B) {
  GIVEN(y);
  check_inputs(in);
  RUN(embed, y, in, B);
}

static void linear_forward(struct device *d, real *y, const real *x, int x_stride, const real *w,
                           const real *b, enum activation act, int B, int I, int O) {
  GIVEN(y, x, w, b);
  RUN(linear_forward, y, x, x_stride, w, b, act, B, I, O);
}

static void linear_backward(struct device *d, real *dx, real *dw, real *db, real *dy, const real *y,
                            const real *x, int x_stride, const real *w, enum activation act, int B,
                            int I, int O) {
  GIVEN(dx, dw, db, dy, y, x, w);
  RUN(linear_backward, dx, dw, db, dy, y, x, x_stride, w, act, B, I, O);
}

static void image(struct device *d, pixel *y, const struct device_inputs *in, int B) {
  GIVEN(y);
  check_inputs(in);
  RUN(image, y, in, B);
}

static void conv_forward(struct device *d, pixel *y, const pixel *x, const real *weights,
                         const real *b, const pixel *residual, enum activation act, bool open,
                         const struct device_window *window, int B) {
  GIVEN(y, x, weights, b, residual);
  RUN(conv_forward, y, x, weights, b, residual, act, open, window, B);
}

static void conv_backward(struct device *d, pixel *dx, real *dw, real *db, pixel *dy,
                          const pixel *y, const pixel *x, const real *weights, enum activation act,
                          bool open, const struct device_window *window, int B, bool add) {
  GIVEN(dx, dw, db, dy, y, x, weights);
  RUN(conv_backward, dx, dw, db, dy, y, x, weights, act, open, window, B, add);
}

static void pool_forward(struct device *d, pixel *y, uint8_t *choice, const pixel *x,
                         const struct device_window *window, int B) {
  GIVEN(y, choice, x);
  RUN(pool_forward, y, choice, x, window, B);
}

static void pool_backward(struct device *d, pixel *dx, const pixel *dy, const uint8_t *choice,
                          const struct device_window *window, int B) {
  GIVEN(dx, dy, choice);
  RUN(pool_backward, dx, dy, choice, window, B);
}

static void relu(struct device *d, pixel *y, const pixel *x, size_t n) {
  GIVEN(y, x);
  RUN(relu, y, x, n);
}

static void relu_backward(struct device *d, pixel *dx, const pixel *dy, const pixel *y, size_t n) {
  GIVEN(dx, dy, y);
  RUN(relu_backward, dx, dy, y, n);
}

static void weights_changed(struct device *d) {
  inner(d)->ops->weights_changed(inner(d));
}

static void lstm_forward(struct device *d, real *h, real *c, real *gates, const real *wh,
                         const real *h0, const real *c0, const uint8_t *reset, int T, int N,
                         int H) {
  GIVEN(h, c, gates, wh, h0, c0, reset);
  RUN(lstm_forward, h, c, gates, wh, h0, c0, reset, T, N, H);
}

static void lstm_backward(struct device *d, real *dgates, real *dwh, real *dh, const real *h,
                          const real *c, const real *gates, const real *wh, const real *h0,
                          const real *c0, const uint8_t *reset, int T, int N, int H) {
  GIVEN(dgates, dwh, dh, h, c, gates, wh, h0, c0, reset);
  RUN(lstm_backward, dgates, dwh, dh, h, c, gates, wh, h0, c0, reset, T, N, H);
}

static void random_uniforms(struct device *d, float *uniform, uint64_t seed,
                            const struct device_draws *draws, enum random_purpose purpose, int B) {
  GIVEN(uniform, draws->environment, draws->life, draws->step, draws->greedy);
  RUN(random_uniforms, uniform, seed, draws, purpose, B);
}

static void check_trace(const struct device_trace *v) {
  GIVEN(v->log_prob, v->behaviour, v->value, v->reward, v->flags);
}

static void trace(struct device *d, real *vs, real *advantage, const struct device_trace *v) {
  GIVEN(vs, advantage);
  check_trace(v);
  RUN(trace, vs, advantage, v);
}

static void n_step(struct device *d, real *returned, real *discounts, int32_t *from,
                   const struct device_n_step *n) {
  GIVEN(returned, discounts, from, n->reward, n->flags, n->value);
  RUN(n_step, returned, discounts, from, n);
}

/* A rule's arrays, from its members. */
#define GIVEN_REAL(member) GIVEN(rule->member);
#define GIVEN_FLOAT(member) GIVEN(rule->member);
#define GIVEN_INT(member) GIVEN(rule->member);
#define GIVEN_ONE(member) GIVEN(rule->member);
#define GIVEN_ROW(member) GIVEN(rule->member.x, rule->member.from, rule->member.pick);
#define GIVEN_AT(member) GIVEN_ROW(member)
#define GIVEN_WINDOW(member) GIVEN(rule->member);
#define GIVEN_EVERY(member) GIVEN(rule->member.x);
#define GIVEN_FLOATS(member) GIVEN(rule->member);
#define GIVEN_CHOICES(member)
#define GIVEN_DRAWS(member) GIVEN(rule->member);
#define GIVEN_CHOSEN(member) GIVEN(rule->member);
#define GIVEN_ARRAY(member, TYPE) GIVEN_##TYPE(member)
#define CHECK_RULE(name, KIND)                                        \
  static void check_##name(const void *arguments) {                   \
    const struct name##_rule *rule = arguments;                       \
    MEMBERS_OF_##name(GIVEN_ARRAY, GIVEN_ARRAY, NO_MEMBER, NO_MEMBER) \
  }
RULES(CHECK_RULE)

static void run_rule(struct device *d, enum rule which, const struct rule_run *rule) {
#define CHECK_NAME(name, KIND) check_##name,
  static void (*const check[])(const void *) = {RULES(CHECK_NAME)};
#undef CHECK_NAME
  GIVEN(rule->schedule, rule->flags, rule->sums);
  check[which](rule);
  RUN(run_rule, which, rule);
}

static void factor_noise(struct device *d, real *noise, uint64_t seed, uint32_t stream,
                         uint32_t first, int n) {
  GIVEN(noise);
  RUN(factor_noise, noise, seed, stream, first, n);
}

static void noisy_forward(struct device *d, real *y, const real *mean, const real *deviation,
                          const real *in, const real *out, int I, int O) {
  GIVEN(y, mean, deviation, in, out);
  RUN(noisy_forward, y, mean, deviation, in, out, I, O);
}

static void noisy_backward(struct device *d, real *d_deviation, const real *dy, const real *in,
                           const real *out, int I, int O) {
  GIVEN(d_deviation, dy, in, out);
  RUN(noisy_backward, d_deviation, dy, in, out, I, O);
}

static void global_norm(struct device *d, real *norm, const real *g, size_t P) {
  GIVEN(norm, g);
  RUN(global_norm, norm, g, P);
}

static void require_finite(struct device *d, real *norm, const real *x, size_t n, real *failed) {
  GIVEN(norm, x, failed);
  RUN(require_finite, norm, x, n, failed);
}

static void adam(struct device *d, real *p, real *m, real *v, const real *g, const real *norm,
                 const struct device_schedule *schedule, float max_norm, float beta1, float beta2,
                 float epsilon, bool epsilon_hat, size_t P) {
  GIVEN(p, m, v, g, norm, schedule);
  RUN(adam, p, m, v, g, norm, schedule, max_norm, beta1, beta2, epsilon, epsilon_hat, P);
}

static void rmsprop(struct device *d, real *p, real *ms, real *mom, const real *g, const real *norm,
                    const struct device_schedule *schedule, float max_norm, float decay,
                    float momentum, float epsilon, size_t P) {
  GIVEN(p, ms, mom, g, norm, schedule);
  RUN(rmsprop, p, ms, mom, g, norm, schedule, max_norm, decay, momentum, epsilon, P);
}

/* ---- the table */

static void destroy(struct device *d) {
  struct guarded *guarded = (struct guarded *)d;
  for (struct transfer *left = guarded->first, *next; left; left = next) {
    next = left->next;
    free(left->copy);
    free(left);
  }
  inner(d)->ops->destroy(inner(d));
  pthread_mutex_destroy(&guarded->lock);
  free(guarded);
}

static const struct device_ops GUARDED_OPS = {
    .name = "guarded",
    .real_bytes = sizeof(float),
    .pixel_bytes = sizeof(float),
    .asynchronous = true,
    .images = 32,
    .destroy = destroy,
    .alloc = alloc,
    .release = release,
    .alloc_spilled = alloc,
    .alloc_host = alloc_host,
    .release_host = release_host,
    .upload = upload,
    .download = download,
    .upload_bytes = upload_bytes,
    .download_bytes = download_bytes,
    .mark = mark,
    .wait = wait_for,
    .follow = follow,
    .copy_rows = copy_rows,
    .gather_rows = gather_rows,
    .scatter_rows = scatter_rows,
    .scatter_steps = scatter_steps,
    .gather_steps = gather_steps,
    .embed = embed,
    .linear_forward = linear_forward,
    .linear_backward = linear_backward,
    .linear_pixels_forward = plain_linear_pixels_forward,
    .linear_pixels_backward = plain_linear_pixels_backward,
    .image = image,
    .conv_forward = conv_forward,
    .conv_backward = conv_backward,
    .pool_forward = pool_forward,
    .pool_backward = pool_backward,
    .conv_pool_backward = plain_conv_pool_backward,
    .relu = relu,
    .relu_backward = relu_backward,
    .weights_changed = weights_changed,
    .lstm_forward = lstm_forward,
    .lstm_backward = lstm_backward,
    .random_uniforms = random_uniforms,
    .trace = trace,
    .run_rule = run_rule,
    .n_step = n_step,
    .factor_noise = factor_noise,
    .noisy_forward = noisy_forward,
    .noisy_backward = noisy_backward,
    .global_norm = global_norm,
    .require_finite = require_finite,
    .adam = adam,
    .rmsprop = rmsprop,
};

struct device *device_guarded_create(void) {
  struct guarded *guarded = check_alloc(1, sizeof(*guarded));
  guarded->device.ops = &GUARDED_OPS;
  guarded->ref = device_ref_float_create();
  guarded->device.description = GUARDED_OPS.name;
  guarded->end = &guarded->first;
  pthread_mutex_init(&guarded->lock, NULL);
  return &guarded->device;
}
