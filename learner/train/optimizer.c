#include "learner/train/optimizer.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/check.h"

/* One kind: its name, what its state arrays are called, and its step. */
struct kind {
  const char *name;
  const char *slot[OPTIMIZER_SLOTS];
  void (*apply)(struct optimizer *optimizer, real *params, const real *gradient, const real *norm,
                double learning_rate, int64_t step);
};

struct optimizer {
  const struct kind *kind;
  struct optimizer_config config;
  struct device *device;
  size_t P;
  real *slot[OPTIMIZER_SLOTS]; /* (P) each */
};

static void apply_adam(struct optimizer *o, real *params, const real *gradient, const real *norm,
                       double learning_rate, int64_t step) {
  const struct optimizer_config *config = &o->config;
  o->device->ops->adam(o->device, params, o->slot[0], o->slot[1], gradient, norm, (float)config->max_norm,
                       (float)learning_rate, (float)config->adam_beta1, (float)config->adam_beta2,
                       (float)config->adam_epsilon, step, o->P);
}

static void apply_rmsprop(struct optimizer *o, real *params, const real *gradient, const real *norm,
                          double learning_rate, int64_t step) {
  (void)step;
  const struct optimizer_config *config = &o->config;
  o->device->ops->rmsprop(o->device, params, o->slot[0], o->slot[1], gradient, norm, (float)config->max_norm,
                          (float)learning_rate, (float)config->rmsprop_decay,
                          (float)config->rmsprop_momentum, (float)config->rmsprop_epsilon, o->P);
}

static const struct kind kinds[] = {
    {"adam", {"adam/m", "adam/v"}, apply_adam},
    {"rmsprop", {"rmsprop/ms", "rmsprop/mom"}, apply_rmsprop},
};
enum { NUM_KINDS = sizeof(kinds) / sizeof(kinds[0]) };

static const struct kind *find_kind(const char *name) {
  for (int i = 0; i < NUM_KINDS; i++)
    if (strcmp(kinds[i].name, name) == 0) return &kinds[i];
  return NULL;
}

/* A factor of a running mean: 1 would never forget, and Adam divides by 1 - beta. */
static bool is_decay(double x) {
  return x >= 0 && x < 1;
}

static enum status check_config(const struct optimizer_config *c, struct error *error) {
  const struct {
    const char *name;
    double value;
    bool good;
    const char *range;
  } row[] = {
      {"adam_beta1", c->adam_beta1, is_decay(c->adam_beta1), "in [0, 1)"},
      {"adam_beta2", c->adam_beta2, is_decay(c->adam_beta2), "in [0, 1)"},
      {"adam_epsilon", c->adam_epsilon, c->adam_epsilon > 0, "above 0"},
      {"rmsprop_decay", c->rmsprop_decay, is_decay(c->rmsprop_decay), "in [0, 1)"},
      {"rmsprop_momentum", c->rmsprop_momentum, is_decay(c->rmsprop_momentum), "in [0, 1)"},
      {"rmsprop_epsilon", c->rmsprop_epsilon, c->rmsprop_epsilon > 0, "above 0"},
      {"max_gradient_norm", c->max_norm, c->max_norm >= 0, "at least 0 (0: no clipping)"},
  };
  for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
    bool used = i == 6 || (i < 3) == (strcmp(c->name, "adam") == 0);
    if (used && !row[i].good)
      return status_fail(error, STATUS_INVALID, "--%s=%g: it must be %s", row[i].name, row[i].value,
                         row[i].range);
  }
  return STATUS_OK;
}

enum status optimizer_create(struct optimizer **out, struct device *device, size_t P,
                             const struct optimizer_config *config, struct error *error) {
  *out = NULL;
  const struct kind *kind = find_kind(config->name);
  if (!kind)
    return status_fail(error, STATUS_INVALID, "--optimizer=%s: there are adam and rmsprop", config->name);
  enum status status = check_config(config, error);
  if (status != STATUS_OK) return status;
  struct optimizer *optimizer = check_alloc(1, sizeof(*optimizer));
  *optimizer = (struct optimizer){.kind = kind, .config = *config, .device = device, .P = P};
  optimizer->config.name = kind->name;
  for (int i = 0; i < OPTIMIZER_SLOTS; i++)
    optimizer->slot[i] = device->ops->alloc(device, P * device->ops->real_bytes);
  *out = optimizer;
  return STATUS_OK;
}

void optimizer_destroy(struct optimizer *optimizer) {
  if (!optimizer) return;
  for (int i = 0; i < OPTIMIZER_SLOTS; i++)
    optimizer->device->ops->release(optimizer->device, optimizer->slot[i]);
  free(optimizer);
}

void optimizer_apply(struct optimizer *optimizer, real *params, const real *gradient, const real *norm,
                     double learning_rate, int64_t step) {
  optimizer->kind->apply(optimizer, params, gradient, norm, learning_rate, step);
}

real *optimizer_slot(const struct optimizer *optimizer, int slot) {
  return optimizer->slot[slot];
}

const char *optimizer_slot_name(const struct optimizer *optimizer, int slot) {
  return optimizer->kind->slot[slot];
}

void scalar_adam_apply(struct scalar_adam *adam, double gradient, double learning_rate,
                       const struct optimizer_config *config) {
  double beta1 = config->adam_beta1, beta2 = config->adam_beta2;
  adam->steps += 1;
  adam->m = beta1 * adam->m + (1 - beta1) * gradient;
  adam->v = beta2 * adam->v + (1 - beta2) * gradient * gradient;
  double m = adam->m / (1 - pow(beta1, adam->steps)), v = adam->v / (1 - pow(beta2, adam->steps));
  adam->value -= learning_rate * m / (sqrt(v) + config->adam_epsilon);
}
