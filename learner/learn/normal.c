/* normal: independent normal distributions over the numbers of a box of actions. Their means are
 * outputs of the network, their deviations parameters of their own. A number with bounds is chosen
 * on the scale on which these are -1 and 1, so that one deviation to begin with suits every
 * environment; it is kept as it was drawn, and clipped to the bounds on its way to the environment.
 * Statistics: log mu(a|x). Upstream: algorithms.c. */
#include "learner/learn/algorithms.h"
#include "learner/learn/policy.h"

static int numbers(const struct space *space) {
  return space->box;
}

/* Columns of the head: means, the value, log standard deviations. */
static size_t log_std_column(const struct network_outputs *out) {
  return (size_t)(out->stride - out->size);
}

static struct rule_row_in log_stds(const struct device *device, const struct network_outputs *out) {
  return (struct rule_row_in){.x = device_at(device, out->head, log_std_column(out)),
                              .stride = out->stride};
}

static void choose(struct device *device, void *action, float *statistics,
                   const struct network_outputs *out, const struct policy_rows *rows, int B) {
  const struct normal_sample_rule rule = {.run = {.rows = (size_t)B, .A = out->size},
                                          .mean = {.x = out->head, .stride = out->stride},
                                          .log_std = log_stds(device, out),
                                          .uniform = rows->uniform,
                                          .action = action,
                                          .log_prob = statistics};
  device->ops->run_rule(device, RULE_normal_sample, &rule.run);
}

static void evaluate(struct device *device, real *log_prob, real *entropy,
                     const struct network_outputs *out, const void *action, int B) {
  const struct normal_evaluate_rule rule = {.run = {.rows = (size_t)B, .A = out->size},
                                            .mean = {.x = out->head, .stride = out->stride},
                                            .log_std = log_stds(device, out),
                                            .action = action,
                                            .log_prob = log_prob,
                                            .entropy = entropy};
  device->ops->run_rule(device, RULE_normal_evaluate, &rule.run);
}

static void backward(struct device *device, real *d_head, const struct network_outputs *out,
                     const void *action, const real *d_log_prob, const real *d_entropy, int B) {
  const struct normal_backward_rule rule = {
      .run = {.rows = (size_t)B, .A = out->size},
      .mean = {.x = out->head, .stride = out->stride},
      .log_std = log_stds(device, out),
      .action = action,
      .d_log_prob = d_log_prob,
      .d_entropy = d_entropy,
      .d_mean = {.x = d_head, .stride = out->stride},
      .d_log_std = {.x = device_at(device, d_head, log_std_column(out)), .stride = out->stride}};
  device->ops->run_rule(device, RULE_normal_backward, &rule.run);
}

void policy_send_box(void *sent, const void *chosen, const struct space *space) {
  for (int i = 0; i < space->box; i++) {
    float x = ((const float *)chosen)[i], low = space->low[i], high = space->high[i];
    float half = space_half_width(space, i);
    if (half > 0) x = low + (x + 1) * half;
    ((float *)sent)[i] = x < low ? low : x > high ? high : x; /* a NaN stays: actors refuse it */
  }
}

const struct policy policy_normal = {
    .name = "normal",
    .actions = "continuous",
    .head_size = numbers,
    .log_stds = numbers,
    .draws = numbers,
    .statistics = 1,
    .choose = choose,
    .evaluate = evaluate,
    .backward = backward,
    .send = policy_send_box,
};
