/* Devices by name. */
#include "learner/device/create.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/check.h"
#include "learner/device/cuda_plugin.h"
#include "learner/rules/rules.h"

const char *device_choose(const char *name, struct error *reason) {
  reason->text[0] = '\0';
  int gpus;
  if (strcmp(name, "auto") != 0) return name;
  return cuda_plugin_count(&gpus, reason) == STATUS_OK ? "cuda" : "cpu";
}

int device_count_gpus(void) {
  struct error ignored;
  int gpus;
  return cuda_plugin_count(&gpus, &ignored) == STATUS_OK ? gpus : 0;
}

static enum status create(struct device **out, const struct device_options *options,
                          struct error *error) {
  const char *name = options->name;
  if (strcmp(name, "cuda") == 0) return cuda_plugin_create(out, options, error);
  if (strcmp(name, "cpu") == 0) return device_cpu_create(out, error);
  if (strcmp(name, "ref") == 0) *out = device_ref_float_create();
  if (strcmp(name, "ref_double") == 0) *out = device_ref_double_create();
  if (*out) return STATUS_OK;
  return status_fail(error, STATUS_INVALID,
                     "unknown device '%s': use auto, cpu, cuda, ref or ref_double", name);
}

/* Of devices other than cuda, which does so itself. */
static enum status set_precision(struct device *d, const char *name, const char *precision,
                                 struct error *error) {
  if (strcmp(precision, "float32") == 0) return STATUS_OK;
  bool automatic = strcmp(precision, "auto") == 0;
  if (strcmp(name, "cpu") == 0 && strcmp(precision, "tf32") != 0)
    return device_cpu_use_bf16(d, automatic, error);
  if (automatic) return STATUS_OK;
  const char *own = strcmp(name, "cpu") == 0          ? "float32 or bf16"
                    : strcmp(name, "ref_double") == 0 ? "float64"
                                                      : "float32";
  return status_fail(error, STATUS_INVALID,
                     "--precision=%s: device %s computes in %s: give --precision=float32, or "
                     "--device=cuda",
                     precision, name, own);
}

enum status device_create_by(struct device **out, const struct device_options *options,
                             struct error *error) {
  *out = NULL;
  struct error reason;
  struct device_options chosen = *options;
  chosen.name = device_choose(options->name, &reason);
  enum status status = create(out, &chosen, error);
  if (status != STATUS_OK || strcmp(chosen.name, "cuda") == 0) return status;
  status = set_precision(*out, chosen.name, chosen.precision, error);
  if (status == STATUS_OK) return status;
  device_destroy(*out);
  *out = NULL;
  return status;
}

enum status device_create(struct device **out, const char *name, struct error *error) {
  return device_create_by(out, &(struct device_options){.name = name, .precision = "float32"},
                          error);
}

void device_destroy(struct device *d) {
  if (!d) return;
  if (d->staged) d->ops->release_host(d, d->staged);
  d->ops->destroy(d);
}

void device_release_all(struct device *d, void *const *arrays, size_t count) {
  for (size_t i = 0; i < count; i++)
    if (arrays[i]) d->ops->release(d, arrays[i]);
}

/* ---- with other learners */

/* By the host, which waits for the device: its memory is not the device's. */
static void add_up_staged(struct device *d, real *numbers, size_t n) {
  enum { STAGED_BYTES = 4 << 20 };
  const struct device_ops *ops = d->ops;
  size_t most = STAGED_BYTES / ops->real_bytes;
  if (!d->staged) d->staged = ops->alloc_host(d, STAGED_BYTES);
  for (size_t at = 0, count; at < n; at += count) {
    count = n - at < most ? n - at : most;
    size_t bytes = count * ops->real_bytes;
    ops->download_bytes(d, d->staged, device_at(d, numbers, at), bytes);
    device_finish(d);
    d->peers->add_up(d->peers, d->staged, count, ops->real_bytes);
    ops->upload_bytes(d, device_at(d, numbers, at), d->staged, bytes);
    device_finish(d);
  }
}

void device_add_up(struct device *d, real *numbers, size_t n) {
  if (!d->peers) return;
  if (d->peers->by_group)
    d->ops->group->add_up(d, numbers, n);
  else if (d->ops->asynchronous)
    add_up_staged(d, numbers, n);
  else
    d->peers->add_up(d->peers, numbers, n, d->ops->real_bytes);
}

static float from_bf16(uint16_t x) {
  uint32_t bits = (uint32_t)x << 16;
  float y;
  memcpy(&y, &bits, sizeof y);
  return y;
}

void device_download_pixels(struct device *d, float *host, const pixel *x, size_t n) {
  if (d->ops->pixel_bytes != sizeof(uint16_t)) {
    d->ops->download(d, host, (const real *)x, n);
    return;
  }
  uint16_t *low = check_alloc(n + 1, sizeof *low);
  d->ops->download_bytes(d, low, x, n * sizeof *low);
  device_finish(d);
  for (size_t i = 0; i < n; i++) host[i] = from_bf16(low[i]);
  free(low);
}

struct device_traffic device_traffic_read(const struct device *d) {
  return (struct device_traffic){__atomic_load_n(&d->traffic.bytes_up, __ATOMIC_RELAXED),
                                 __atomic_load_n(&d->traffic.bytes_down, __ATOMIC_RELAXED),
                                 __atomic_load_n(&d->traffic.transfers, __ATOMIC_RELAXED)};
}

void device_fill(struct device *d, real *y, float value, size_t n) {
  const struct fill_rule rule = {.run = {.rows = n}, .y = y, .value = value};
  d->ops->run_rule(d, RULE_fill, &rule.run);
}
