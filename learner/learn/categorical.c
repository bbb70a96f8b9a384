/* categorical: softmax over the logits of a discrete action space, of each choice where an action
 * has several, by rules (learner/rules/categorical.rule.h). Statistics: log mu(a|x).
 * Upstream: algorithms.c. */
#include "learner/learn/algorithms.h"
#include "learner/learn/policy.h"

static int head_size(const struct space *space) {
  return space->discrete;
}

static int draws(const struct space *space) {
  return space_num_choices(&space->choices);
}

static void choose(struct device *device, void *action, float *statistics,
                   const struct network_outputs *out, const struct policy_rows *rows, int B) {
  const struct categorical_sample_rule rule = {.run = {.rows = (size_t)B, .A = out->size},
                                               .logits = {.x = out->head, .stride = out->stride},
                                               .choices = *out->choices,
                                               .uniform = rows->uniform,
                                               .action = action,
                                               .log_prob = statistics};
  device->ops->run_rule(device, RULE_categorical_sample, &rule.run);
}

static void evaluate(struct device *device, real *log_prob, real *entropy,
                     const struct network_outputs *out, const void *action, int B) {
  const struct categorical_evaluate_rule rule = {.run = {.rows = (size_t)B, .A = out->size},
                                                 .logits = {.x = out->head, .stride = out->stride},
                                                 .choices = *out->choices,
                                                 .action = action,
                                                 .log_prob = log_prob,
                                                 .entropy = entropy};
  device->ops->run_rule(device, RULE_categorical_evaluate, &rule.run);
}

static void backward(struct device *device, real *d_head, const struct network_outputs *out,
                     const void *action, const real *d_log_prob, const real *d_entropy, int B) {
  const struct categorical_backward_rule rule = {.run = {.rows = (size_t)B, .A = out->size},
                                                 .logits = {.x = out->head, .stride = out->stride},
                                                 .choices = *out->choices,
                                                 .action = action,
                                                 .d_log_prob = d_log_prob,
                                                 .d_entropy = d_entropy,
                                                 .d_logits = {.x = d_head, .stride = out->stride}};
  device->ops->run_rule(device, RULE_categorical_backward, &rule.run);
}

const struct policy policy_categorical = {
    .name = "categorical",
    .actions = "discrete",
    .head_size = head_size,
    .draws = draws,
    .statistics = 1,
    .choose = choose,
    .evaluate = evaluate,
    .backward = backward,
};
