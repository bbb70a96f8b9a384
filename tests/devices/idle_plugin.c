/* A device that computes nothing, as a plugin: what is left of a learner's speed is the host's.
 * ACORN_CUDA_PLUGIN=build/tests/libidle.so ACORN_IDLE_US=1000 build/learner --device=cuda: a batch
 * of inference takes so long (0 if it is not set), while the host goes on as on a GPU; batches of
 * one device take their time one after the other. All that is downloaded is 0. */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "learner/device/plugin.h"

enum { MARKS = 64, ALIGNMENT = 64 };

struct idle {
  struct device device;
  int64_t batch_us;
  int64_t busy_until_us;
  uint64_t marks;
  _Atomic int64_t done_us[MARKS]; /* mark k: [k % MARKS] */
};

static void *take(struct device *d, size_t bytes) {
  (void)d;
  size_t rounded = (bytes + ALIGNMENT) / ALIGNMENT * ALIGNMENT;
  void *memory = aligned_alloc(ALIGNMENT, rounded);
  return memory ? memset(memory, 0, rounded) : NULL;
}

static void give_back(struct device *d, void *memory) {
  (void)d;
  free(memory);
}

/* The one operation that a batch has once: it stands for all of them. */
static void compute(struct device *d, float *uniform, uint64_t seed,
                    const struct device_draws *draws, enum random_purpose purpose, int B) {
  (void)uniform, (void)seed, (void)draws, (void)purpose, (void)B;
  struct idle *idle = (struct idle *)d;
  int64_t now_us = clock_now_us();
  if (idle->busy_until_us < now_us) idle->busy_until_us = now_us;
  idle->busy_until_us += idle->batch_us;
}

static uint64_t mark(struct device *d) {
  struct idle *idle = (struct idle *)d;
  uint64_t number = ++idle->marks;
  atomic_store(&idle->done_us[number % MARKS], idle->busy_until_us);
  return number;
}

static int64_t left_us(struct device *d, uint64_t number) {
  struct idle *idle = (struct idle *)d;
  return atomic_load(&idle->done_us[number % MARKS]) - clock_now_us();
}

static void wait(struct device *d, uint64_t number) {
  int64_t us = left_us(d, number);
  if (us > 0) clock_sleep_us(us);
}

static bool is_done(struct device *d, uint64_t number) {
  return left_us(d, number) <= 0;
}

static void destroy(struct device *d) {
  free(d);
}

/* Stands for any operation: its arguments are the caller's to remove. */
static void nothing(void) {}

static struct device_ops ops = {.name = "cuda",
                                .real_bytes = sizeof(float),
                                .pixel_bytes = sizeof(float),
                                .asynchronous = true,
                                .images = 1,
                                .destroy = destroy,
                                .alloc = take,
                                .alloc_spilled = take,
                                .alloc_host = take,
                                .release = give_back,
                                .release_host = give_back,
                                .random_uniforms = compute,
                                .mark = mark,
                                .wait = wait,
                                .is_done = is_done};

static void open_plugin(const struct device_plugin_host *host) {
  (void)host;
#define NOTHING(name) ops.name = (__typeof__(ops.name))nothing
  NOTHING(upload);
  NOTHING(download);
  NOTHING(upload_bytes);
  NOTHING(download_bytes);
  NOTHING(follow);
  NOTHING(copy_rows);
  NOTHING(gather_rows);
  NOTHING(scatter_rows);
  NOTHING(scatter_steps);
  NOTHING(gather_steps);
  NOTHING(embed);
  NOTHING(linear_forward);
  NOTHING(linear_backward);
  NOTHING(linear_pixels_forward);
  NOTHING(linear_pixels_backward);
  NOTHING(image);
  NOTHING(conv_forward);
  NOTHING(conv_backward);
  NOTHING(pool_forward);
  NOTHING(pool_backward);
  NOTHING(conv_pool_backward);
  NOTHING(relu);
  NOTHING(relu_backward);
  NOTHING(weights_changed);
  NOTHING(lstm_forward);
  NOTHING(lstm_backward);
  NOTHING(trace);
  NOTHING(n_step);
  NOTHING(run_rule);
  NOTHING(factor_noise);
  NOTHING(noisy_forward);
  NOTHING(noisy_backward);
  NOTHING(global_norm);
  NOTHING(require_finite);
  NOTHING(adam);
  NOTHING(rmsprop);
#undef NOTHING
}

static enum status count(int *gpus, struct error *error) {
  (void)error;
  *gpus = 1;
  return STATUS_OK;
}

static enum status create(struct device **out, const struct device_options *options,
                          struct error *error) {
  (void)error;
  struct idle *idle = calloc(1, sizeof(*idle));
  const char *us = getenv("ACORN_IDLE_US");
  if (!idle) abort();
  idle->device = (struct device){.ops = &ops, .description = "idle", .memory_bytes = SIZE_MAX / 2};
  if (us && options->urgent) idle->batch_us = atoll(us);
  *out = &idle->device;
  return STATUS_OK;
}

const struct device_plugin acorn_device_plugin = {DEVICE_PLUGIN_VERSION, sizeof(struct device_ops),
                                                  open_plugin, count, create};
