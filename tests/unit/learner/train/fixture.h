/* What the tests of training share: updates on the small world of the networks' fixture, and the
 * V-trace loss once more, from its definition (a sum over the future of every step) in double. */
#ifndef ACORN_TESTS_UNIT_LEARNER_TRAIN_FIXTURE_H
#define ACORN_TESTS_UNIT_LEARNER_TRAIN_FIXTURE_H

#include "learner/learn/algorithms.h"
#include "learner/learn/actor_critic.h"
#include "learner/run/run_options.h"
#include "learner/train/update.h"
#include "tests/unit/learner/network/fixture.h"

enum { UNROLL = 7, COLUMNS = 5, STEPS = UNROLL * COLUMNS, MAX_P = 2000, MAX_STATES = COLUMNS * 16 };

static inline struct learner_options fixture_options(void) {
  return (struct learner_options){.agent = "vtrace",
                                  .replay_ratio = UNROLL * COLUMNS, /* an update for each step */
                                  .algorithm = {.unroll_length = UNROLL,
                                                .batch_size = COLUMNS,
                                                .discount = 0.9,
                                                .reward_scale = 0.75,
                                                .reward_clip = 2,
                                                .loss_reduction = "mean",
                                                .actor_critic = {.lambda = 0.8,
                                                                 .rho_clip = 1.1,
                                                                 .c_clip = 0.9,
                                                                 .pg_rho_clip = 1.3,
                                                                 .baseline_cost = 0.5,
                                                                 .entropy_cost = 0.05,
                                                                 .kl_cost = 0.02,
                                                                 .target_entropy = -1,
                                                                 .entropy_adjustment_speed = 10},
                                                .ppo = {.epochs = 2,
                                                        .minibatches = COLUMNS,
                                                        .clip_ratio = 0.3,
                                                        .value_clip = 0.5,
                                                        .normalize_advantages = true}},
                                  .optimizer = {.name = "adam",
                                                .learning_rate = 0.01,
                                                .learning_rate_decay = "none",
                                                .adam_beta1 = 0.9,
                                                .adam_beta2 = 0.99,
                                                .adam_epsilon = 1e-5,
                                                .rmsprop_decay = 0.95,
                                                .rmsprop_momentum = 0.3,
                                                .rmsprop_epsilon = 0.01},
                                  .seed = 11};
}

static inline struct update *fixture_update_by(struct device *device, const struct network *network,
                                               const struct learner_options *config,
                                               const struct policy *policy) {
  struct update *update;
  struct update_config of_update = run_options_of_update(config);
  of_update.policy = policy;
  struct error error;
  if (update_create(&update, device, network, algorithms_find(config->agent)->algorithm, &of_update,
                    &error) != STATUS_OK)
    fail_msg("%s", error.text);
  return update;
}

/* By the policy for discrete actions. */
static inline struct update *fixture_update(struct device *device, const struct network *network,
                                            const struct learner_options *config) {
  return fixture_update_by(device, network, config, algorithms_find(config->agent)->policies[0]);
}

static inline struct update_stats fixture_step(struct update *update,
                                               const struct train_batch *batch,
                                               int64_t environment_steps) {
  struct update_stats stats;
  struct error error;
  update_start(update, batch, environment_steps);
  if (update_finish(update, &stats, &error) != STATUS_OK) fail_msg("%s", error.text);
  return stats;
}

/* Where an agent's term of that name stands. */
static inline int fixture_term(const char *agent, const char *name) {
  const struct algorithm *algorithm = algorithms_find(agent)->algorithm;
  for (int i = 0; i < algorithm->num_terms; i++)
    if (strcmp(algorithm->terms[i].name, name) == 0) return i;
  fail_msg("%s has no term %s", agent, name);
  return -1;
}

/* The checkpoint item of that name. */
static inline struct checkpoint_item fixture_item(struct update *update, const char *name) {
  struct checkpoint_item items[CHECKPOINT_MAX_ITEMS];
  int count = update_items(update, items);
  for (int i = 0; i < count; i++)
    if (strcmp(items[i].name, name) == 0) return items[i];
  fail_msg("no item %s", name);
  return items[0];
}

/* All that a checkpoint has. copies: from a to b; else they are compared. */
static inline void fixture_match_states(struct update *a, struct update *b, bool copies) {
  struct checkpoint_item items[2][CHECKPOINT_MAX_ITEMS];
  update_save(a);
  if (!copies) update_save(b);
  int count = update_items(a, items[0]);
  assert_int_equal(update_items(b, items[1]), count);
  for (int i = 0; i < count; i++) {
    size_t bytes = checkpoint_item_bytes(&items[0][i]);
    assert_string_equal(items[0][i].name, items[1][i].name);
    if (copies)
      memcpy(items[1][i].data, items[0][i].data, bytes);
    else if (memcmp(items[0][i].data, items[1][i].data, bytes) != 0)
      fail_msg("%s differs", items[0][i].name);
  }
  if (copies) update_load(b);
}

/* Saves, and gathers the flat array whose items start with `prefix` ("adam/m"). */
static inline void fixture_saved(double *flat, struct update *update, const char *prefix,
                                 const struct network *network) {
  int count;
  const struct network_parameter *parameter = network_parameters(network, &count);
  update_save(update);
  for (int i = 0; i < count; i++) {
    char name[64];
    snprintf(name, sizeof(name), "%s/%s", prefix, parameter[i].name);
    const float *data = fixture_item(update, name).data;
    for (size_t k = 0; k < parameter[i].count; k++) flat[parameter[i].offset + k] = data[k];
  }
}

/* ---- the loss from its definition */

struct reference_losses {
  double policy, baseline, entropy, kl, total;
  double value, reward, rho_clipped, lag, explained_variance;
  int steps;
};

struct reference_targets {
  double vs[STEPS + COLUMNS], advantage[STEPS]; /* vs of step T is its value */
  double deviation, advantage_deviation;        /* that losses are divided by: 1 unless
                                            reference_deviation set them */
};

static inline double reference_log_prob(const double *logits, int action) {
  double total = 0;
  for (int a = 0; a < ACTIONS; a++) total += exp(logits[a]);
  return logits[action] - log(total);
}

static inline double reference_entropy(const double *logits) {
  double entropy = 0;
  for (int a = 0; a < ACTIONS; a++)
    entropy -= exp(reference_log_prob(logits, a)) * reference_log_prob(logits, a);
  return entropy;
}

static inline double reference_reward(const struct learner_options *config,
                                      const struct train_batch *b, int i) {
  double reward = config->algorithm.reward_scale * b->reward[i + b->N];
  return config->algorithm.reward_clip > 0
             ? fmax(-config->algorithm.reward_clip, fmin(config->algorithm.reward_clip, reward))
             : reward;
}

/* All but vtrace correct nothing. */
static inline bool reference_is_gae(const struct learner_options *config) {
  return strcmp(config->agent, "vtrace") != 0;
}

static inline double reference_rho(const struct learner_options *config,
                                   const struct train_batch *b, const double *head, int i) {
  if (reference_is_gae(config)) return 1;
  return exp(reference_log_prob(head + i * (ACTIONS + 1), ((const int32_t *)b->action)[i]) -
             b->statistics[i]);
}

static inline double reference_clip(const struct learner_options *config, double clip, double rho) {
  return reference_is_gae(config) ? rho : fmin((float)clip, rho);
}

static inline double reference_discount(const struct learner_options *config,
                                        const struct train_batch *b, int i) {
  return b->flags[i + b->N] & STEP_TERMINATED ? 0 : (float)config->algorithm.discount;
}

static inline double reference_value(const double *head, int i) {
  return head[i * (ACTIONS + 1) + ACTIONS];
}

/* vs_s = V_s + sum over u >= s of (product of discount_i lambda min(c, rho_i), s <= i < u) delta_u;
 * the sum ends before a truncated step. Espeholt et al. 2018, eq. 1. */
static inline void reference_targets(struct reference_targets *out,
                                     const struct learner_options *config,
                                     const struct train_batch *b, const double *head) {
  int T = b->T, N = b->N;
  out->deviation = out->advantage_deviation = 1;
  for (int i = 0; i < (T + 1) * N; i++) {
    out->vs[i] = reference_value(head, i);
    double factor = 1;
    for (int u = i; u < T * N && !(b->flags[u] & STEP_TRUNCATED); u += N) {
      double rho = reference_rho(config, b, head, u), discount = reference_discount(config, b, u);
      double delta = reference_reward(config, b, u) + discount * reference_value(head, u + N) -
                     reference_value(head, u);
      out->vs[i] +=
          factor * reference_clip(config, config->algorithm.actor_critic.rho_clip, rho) * delta;
      factor *= discount * (float)config->algorithm.actor_critic.lambda *
                reference_clip(config, config->algorithm.actor_critic.c_clip, rho);
    }
  }
  for (int i = 0; i < T * N; i++) {
    double target =
        reference_reward(config, b, i) + reference_discount(config, b, i) * out->vs[i + N];
    out->advantage[i] = reference_clip(config, config->algorithm.actor_critic.pg_rho_clip,
                                       reference_rho(config, b, head, i)) *
                        (target - reference_value(head, i));
    if (reference_is_gae(config)) out->advantage[i] = out->vs[i] - reference_value(head, i);
    if (b->flags[i] & STEP_TRUNCATED) out->advantage[i] = 0;
  }
}

/* The standard deviation of the targets of the steps that count and of as many before as params'
 * value/count says, of which there are mean and deviation; and that of the advantages. */
static inline void reference_deviation(struct reference_targets *targets,
                                       const struct network *network, const double *params,
                                       const struct train_batch *b) {
  double count = *reference_parameter(network, params, "value/count"),
         mean = *reference_parameter(network, params, "value/mean"),
         deviation = *reference_parameter(network, params, "value/deviation");
  double number = count, sum = count * mean,
         squares = count * (deviation * deviation + mean * mean);
  for (int i = 0; i < b->T * b->N; i++) {
    if (b->flags[i] & STEP_TRUNCATED) continue;
    number += 1, sum += targets->vs[i], squares += targets->vs[i] * targets->vs[i];
  }
  targets->deviation = sqrt(squares / number - sum / number * (sum / number));
  number = sum = squares = 0;
  for (int i = 0; i < b->T * b->N; i++) {
    double advantage = targets->advantage[i];
    if (b->flags[i] & STEP_TRUNCATED) continue;
    number += 1, sum += advantage, squares += advantage * advantage;
  }
  targets->advantage_deviation = sqrt(squares / number - sum / number * (sum / number));
}

/* Of the steps that are not truncated, in two passes. */
static inline double reference_explained_variance(const struct train_batch *b, const double *head,
                                                  const struct reference_targets *targets) {
  double steps = 0, target = 0, error = 0, target_variance = 0, error_variance = 0;
  for (int pass = 0; pass < 2; pass++)
    for (int i = 0; i < b->T * b->N; i++) {
      if (b->flags[i] & STEP_TRUNCATED) continue;
      double vs = targets->vs[i], off = vs - reference_value(head, i);
      if (pass == 0) {
        steps++, target += vs, error += off;
      } else {
        target_variance += (vs - target / steps) * (vs - target / steps);
        error_variance += (off - error / steps) * (off - error / steps);
      }
    }
  return 1 - error_variance / target_variance;
}

/* Means over the steps that are not truncated; the targets are constants. */
static inline struct reference_losses reference_losses(const struct learner_options *config,
                                                       const struct train_batch *b,
                                                       const double *head,
                                                       const struct reference_targets *targets,
                                                       double entropy_cost, int64_t version) {
  struct reference_losses sum = {.steps = 0};
  for (int i = 0; i < b->T * b->N; i++) {
    if (b->flags[i] & STEP_TRUNCATED) continue;
    double log_prob = reference_log_prob(head + i * (ACTIONS + 1), ((const int32_t *)b->action)[i]),
           value = reference_value(head, i);
    sum.steps++;
    double error = (targets->vs[i] - value) / targets->deviation;
    sum.policy -= log_prob * targets->advantage[i] / targets->advantage_deviation;
    sum.baseline += 0.5 * error * error;
    sum.entropy += reference_entropy(head + i * (ACTIONS + 1));
    double log_ratio = log_prob - b->statistics[i];
    sum.kl += exp(log_ratio) - 1 - log_ratio;
    sum.value += value;
    sum.reward += reference_reward(config, b, i);
    sum.rho_clipped +=
        !reference_is_gae(config) &&
        reference_rho(config, b, head, i) > 1.05 * config->algorithm.actor_critic.rho_clip;
    sum.lag += (double)(version - step_stamp_version(*train_batch_stamp(b, i / b->N, i % b->N)));
  }
  double *member[] = {&sum.policy, &sum.baseline, &sum.entropy,     &sum.kl,
                      &sum.value,  &sum.reward,   &sum.rho_clipped, &sum.lag};
  for (size_t k = 0; k < sizeof(member) / sizeof(member[0]); k++) *member[k] /= sum.steps;
  sum.explained_variance = reference_explained_variance(b, head, targets);
  sum.total = sum.policy + config->algorithm.actor_critic.baseline_cost * sum.baseline -
              entropy_cost * sum.entropy + config->algorithm.actor_critic.kl_cost * sum.kl;
  return sum;
}

/* Heads of all T+1 steps of a batch, with parameters in double. */
static inline void reference_heads(double *head, struct device *device,
                                   const struct network *network,
                                   const struct network_config *config, const double *params,
                                   const struct train_batch *batch) {
  int S = network_state_size(network);
  float saved[MAX_STATES];
  double state[MAX_STATES];
  struct device_inputs inputs = fixture_batch_inputs(network, batch);
  if (S) device->ops->download(device, saved, batch->state, (size_t)(batch->N * S));
  for (int i = 0; i < batch->N * S; i++) state[i] = saved[i];
  reference_forward(head, state, network, config, params, &inputs, batch->T + 1, batch->N);
}

#endif
