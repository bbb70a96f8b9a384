/* epsilon_greedy: the action with the largest value, or, with probability epsilon, any. Statistics:
 * the action's value, and the largest one. */
#include "learner/learn/policy.h"
#include "learner/learn/algorithms.h"

/* A value for each action, not for each part of one. */
static int head_size(const struct space *space) {
  return space->choices.count ? 0 : space->discrete;
}

static void choose(struct device *device, void *action, float *statistics,
                   const struct network_outputs *out, const struct policy_rows *rows, int B) {
  action_values_choose(device, action, statistics, network_values(device, out, B), rows->uniform,
                       rows->epsilon, B, out->of_actions->A);
}

const struct policy policy_epsilon_greedy = {
    .name = "epsilon_greedy",
    .actions = "discrete",
    .head_size = head_size,
    .action_values = true,
    .statistics = 2,
    .choose = choose,
};
