#include "learner/network/value_scale.h"

#include "common/base/check.h"
#include "learner/network/head.h"

/* In the order in which they are declared, and lie in the flat array. */
enum { COUNT, MEAN, DEVIATION };
_Static_assert(DEVIATION + 1 == NETWORK_VALUE_STATISTICS, "network.h knows how many");

static size_t place(const struct network *network, int which) {
  return network->parameter[network->value_statistics].offset + (size_t)which;
}

void value_scale_declare(struct network *network) {
  CHECK(network->config.value_size == 1 && !network->config.noisy,
        "%d values, or noisy ones, whose deviations are not rescaled", network->config.value_size);
  network->scales_value = true;
  network->value_statistics = network_declare(network, "value/count", 1, 1, 1);
  network_declare(network, "value/mean", 1, 1, 1);
  network_declare(network, "value/deviation", 1, 1, 1);
}

void value_scale_init(const struct network *network, float *host) {
  host[place(network, COUNT)] = host[place(network, MEAN)] = 0;
  host[place(network, DEVIATION)] = 1;
}

const real *network_value_statistics(const struct network *network, const struct device *device,
                                     const real *params) {
  return network->scales_value ? device_at_const(device, params, place(network, COUNT)) : NULL;
}

/* The value's column of rows like the head's, in place. */
static void scale(struct network_workspace *workspace, real *head, const real *params, float shift,
                  int B) {
  const struct network *network = workspace->network;
  struct device *device = workspace->device;
  real *value = device_at(device, head, (size_t)network->config.head_size);
  const real *statistics = network_value_statistics(network, device, params);
  const struct scale_value_rule rule = {.run = {.rows = (size_t)B},
                                        .number = {.x = value, .stride = network->outputs},
                                        .mean = device_at_const(device, statistics, MEAN),
                                        .deviation = device_at_const(device, statistics, DEVIATION),
                                        .scaled = {.x = value, .stride = network->outputs},
                                        .shift = shift};
  device->ops->run_rule(device, RULE_scale_value, &rule.run);
}

void value_scale_forward(struct network_workspace *workspace, const real *params, int B) {
  scale(workspace, workspace->head, params, 1, B);
}

void value_scale_backward(struct network_workspace *workspace, real *grads, const real *params,
                          real *dhead, int B) {
  struct device *device = workspace->device;
  scale(workspace, dhead, params, 0, B);
  device_fill(device, device_at(device, grads, place(workspace->network, COUNT)), 0,
              NETWORK_VALUE_STATISTICS);
}

/* `rows` numbers, `stride` apart, in place. */
static void rescale(struct device *device, real *number, int stride, int rows, float shift,
                    const real *now, const real *next, const real *skipped) {
  const struct rescale_value_rule rule = {
      .run = {.rows = (size_t)rows},
      .number = {.x = number, .stride = stride},
      .count = device_at_const(device, now, COUNT),
      .mean = device_at_const(device, now, MEAN),
      .deviation = device_at_const(device, now, DEVIATION),
      .next_mean = device_at_const(device, next, MEAN),
      .next_deviation = device_at_const(device, next, DEVIATION),
      .skipped = skipped,
      .rescaled = {.x = number, .stride = stride},
      .shift = shift};
  device->ops->run_rule(device, RULE_rescale_value, &rule.run);
}

void network_rescale_value(const struct network *network, struct device *device, real *params,
                           const real *next, const real *skipped) {
  const struct dense *layer;
  size_t column = (size_t)head_value_layer(network, &layer);
  real *weight = device_at(device, params, network->parameter[layer->weight].offset),
       *bias = device_at(device, params, network->parameter[layer->bias].offset),
       *now = device_at(device, params, place(network, COUNT));
  rescale(device, device_at(device, weight, column), layer->outputs, layer->inputs, 0, now, next,
          skipped);
  rescale(device, device_at(device, bias, column), 1, 1, 1, now, next, skipped);
  network_set_value_statistics(network, device, params, next, skipped);
}

void network_set_value_statistics(const struct network *network, struct device *device,
                                  real *params, const real *next, const real *skipped) {
  real *now = device_at(device, params, place(network, COUNT));
  const struct replace_rule rule = {.run = {.rows = NETWORK_VALUE_STATISTICS},
                                    .before = now,
                                    .next = next,
                                    .skipped = skipped,
                                    .now = now};
  device->ops->run_rule(device, RULE_replace, &rule.run);
}
