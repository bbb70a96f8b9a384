/* squashed_normal: independent normal distributions over the numbers of a box of actions, squashed
 * by tanh into its bounds; means and deviations are outputs of the network. A number is kept on the
 * scale on which its bounds are -1 and 1. Statistics: log mu(a|x). Upstream: algorithms.c. */
#include "learner/learn/algorithms.h"
#include "learner/learn/policy.h"

/* A number without bounds that are a scale has no place that -1 and 1 stand for. */
static int means_and_deviations(const struct space *space) {
  for (int i = 0; i < space->box; i++)
    if (!(space_half_width(space, i) > 0)) return 0;
  return 2 * space->box;
}

static int numbers(const struct space *space) {
  return space->box;
}

static struct rule_row_in log_std(struct device *device, const struct network_outputs *out) {
  size_t column = (size_t)out->size / 2;
  return (struct rule_row_in){.x = device_at(device, out->head, column), .stride = out->stride};
}

static void choose(struct device *device, void *action, float *statistics,
                   const struct network_outputs *out, const struct policy_rows *rows, int B) {
  const struct squashed_sample_rule rule = {.run = {.rows = (size_t)B, .A = out->size / 2},
                                            .mean = {.x = out->head, .stride = out->stride},
                                            .log_std = log_std(device, out),
                                            .uniform = rows->uniform,
                                            .action = action,
                                            .log_prob = statistics};
  device->ops->run_rule(device, RULE_squashed_sample, &rule.run);
}

static void chosen_backward(struct device *device, real *d_head, const struct network_outputs *out,
                            const struct policy_rows *rows, const real *d_action, int stride,
                            const real *d_log_prob, int B) {
  const struct squashed_backward_rule rule = {
      .run = {.rows = (size_t)B, .A = out->size / 2},
      .mean = {.x = out->head, .stride = out->stride},
      .log_std = log_std(device, out),
      .uniform = rows->uniform,
      .d_action = {.x = d_action, .stride = stride},
      .d_log_prob = d_log_prob,
      .d_mean = {.x = d_head, .stride = out->stride},
      .d_log_std = {.x = device_at(device, d_head, (size_t)out->size / 2), .stride = out->stride}};
  device->ops->run_rule(device, RULE_squashed_backward, &rule.run);
}

const struct policy policy_squashed_normal = {
    .name = "squashed_normal",
    .actions = "bounded continuous",
    .head_size = means_and_deviations,
    .without_value = true,
    .draws = numbers,
    .statistics = 1,
    .choose = choose,
    .chosen_backward = chosen_backward,
    .send = policy_send_box,
};
