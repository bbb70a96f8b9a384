#include "learner/train/optimizer.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/check.h"

/* One kind: its name, what its state arrays are called, its own rates' ranges, and its step. */
struct kind {
  const char *name;
  const char *slot[OPTIMIZER_SLOTS];
  float first_start; /* value of the first state array before the first step */
  enum status (*check)(const struct optimizer_options *config, struct error *error);
  void (*apply)(struct optimizer *optimizer, real *params, const real *gradient, const real *norm,
                const struct device_schedule *schedule);
};

struct optimizer {
  const struct kind *kind;
  struct optimizer_options config;
  struct device *device;
  size_t P;
  real *slot[OPTIMIZER_SLOTS]; /* (P) each */
};

/* ---- ranges */

/* A factor of a running mean: 1 would never forget, and Adam divides by 1 - beta. */
static enum status check_decay(const char *name, double value, struct error *error) {
  if (value >= 0 && value < 1) return STATUS_OK;
  return status_fail(error, STATUS_INVALID, "--%s=%g: it must be at least 0 and below 1", name,
                     value);
}

static enum status check_positive(const char *name, double value, struct error *error) {
  if (value > 0) return STATUS_OK;
  return status_fail(error, STATUS_INVALID, "--%s=%g: it must be above 0", name, value);
}

static enum status check_adam(const struct optimizer_options *config, struct error *error) {
  enum status status = check_decay("adam_beta1", config->adam_beta1, error);
  if (status == STATUS_OK) status = check_decay("adam_beta2", config->adam_beta2, error);
  if (status == STATUS_OK) status = check_positive("adam_epsilon", config->adam_epsilon, error);
  return status;
}

static enum status check_rmsprop(const struct optimizer_options *config, struct error *error) {
  enum status status = check_decay("rmsprop_decay", config->rmsprop_decay, error);
  if (status == STATUS_OK)
    status = check_decay("rmsprop_momentum", config->rmsprop_momentum, error);
  if (status == STATUS_OK)
    status = check_positive("rmsprop_epsilon", config->rmsprop_epsilon, error);
  return status;
}

/* ---- steps */

static void apply_adam(struct optimizer *o, real *params, const real *gradient, const real *norm,
                       const struct device_schedule *schedule) {
  const struct optimizer_options *c = &o->config;
  o->device->ops->adam(o->device, params, o->slot[0], o->slot[1], gradient, norm, schedule,
                       (float)c->max_gradient_norm, (float)c->adam_beta1, (float)c->adam_beta2,
                       (float)c->adam_epsilon, c->adam_epsilon_hat, o->P);
}

static void apply_rmsprop(struct optimizer *o, real *params, const real *gradient, const real *norm,
                          const struct device_schedule *schedule) {
  const struct optimizer_options *c = &o->config;
  o->device->ops->rmsprop(o->device, params, o->slot[0], o->slot[1], gradient, norm, schedule,
                          (float)c->max_gradient_norm, (float)c->rmsprop_decay,
                          (float)c->rmsprop_momentum, (float)c->rmsprop_epsilon, o->P);
}

static const struct kind kinds[] = {
    {"adam", {"adam/m", "adam/v"}, 0, check_adam, apply_adam},
    {"rmsprop", {"rmsprop/ms", "rmsprop/mom"}, 1, check_rmsprop, apply_rmsprop},
};

/* ---- create */

static const struct kind *find_kind(const char *name) {
  for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
    if (strcmp(kinds[i].name, name) == 0) return &kinds[i];
  return NULL;
}

enum status optimizer_create(struct optimizer **out, struct device *device, size_t P,
                             const struct optimizer_options *config, struct error *error) {
  *out = NULL;
  const struct kind *kind = find_kind(config->name);
  if (!kind)
    return status_fail(error, STATUS_INVALID, "--optimizer=%s: there are adam and rmsprop",
                       config->name);
  if (!(config->max_gradient_norm >= 0))
    return status_fail(error, STATUS_INVALID,
                       "--max_gradient_norm=%g: it must be at least 0 (0: no clipping)",
                       config->max_gradient_norm);
  enum status status = kind->check(config, error);
  if (status != STATUS_OK) return status;
  struct optimizer *optimizer = check_alloc(1, sizeof(*optimizer));
  *optimizer = (struct optimizer){.kind = kind, .config = *config, .device = device, .P = P};
  for (int i = 0; i < OPTIMIZER_SLOTS; i++)
    optimizer->slot[i] = device->ops->alloc(device, P * device->ops->real_bytes);
  device_fill(device, optimizer->slot[0], kind->first_start, P);
  *out = optimizer;
  return STATUS_OK;
}

void optimizer_destroy(struct optimizer *optimizer) {
  if (!optimizer) return;
  for (int i = 0; i < OPTIMIZER_SLOTS; i++)
    optimizer->device->ops->release(optimizer->device, optimizer->slot[i]);
  free(optimizer);
}

void optimizer_apply(struct optimizer *optimizer, real *params, const real *gradient,
                     const real *norm, const struct device_schedule *schedule) {
  optimizer->kind->apply(optimizer, params, gradient, norm, schedule);
}

real *optimizer_slot(const struct optimizer *optimizer, int slot) {
  return optimizer->slot[slot];
}

const char *optimizer_slot_name(const struct optimizer *optimizer, int slot) {
  return optimizer->kind->slot[slot];
}

void scalar_adam_apply(struct scalar_adam *adam, double gradient, double learning_rate) {
  const double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8;
  adam->steps += 1;
  adam->m = beta1 * adam->m + (1 - beta1) * gradient;
  adam->v = beta2 * adam->v + (1 - beta2) * gradient * gradient;
  double m = adam->m / (1 - pow(beta1, adam->steps)), v = adam->v / (1 - pow(beta2, adam->steps));
  adam->value -= learning_rate * m / (sqrt(v) + epsilon);
}
