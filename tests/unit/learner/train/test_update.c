/* One training step and several: losses and statistics against their definition, Adam on the tests'
 * own gradients, schedules, the entropy coefficient, and what happens to a batch with a NaN. */
#include "common/base/check.h"
#include "tests/unit/learner/train/fixture.h"
#include "tests/unit/support/emulated_cuda.h"
#include "tests/unit/support/skip.h"
#include "learner/device/create.h"

struct world {
  struct network_config config;
  struct network *network;
  struct device *device;
  struct train_batch *batch;
};

static struct world world_open_with(const char *network, const char *device, bool normalizes) {
  struct world w = {.config = fixture_config(network, 1, ACTIVATION_TANH),
                    .device = fixture_device(device)};
  w.config.normalize = w.config.scale_value = normalizes;
  w.network = fixture_network(&w.config);
  w.batch = fixture_batch(w.device, w.network, UNROLL, COLUMNS, 2);
  return w;
}

static struct world world_open(const char *network, const char *device) {
  return world_open_with(network, device, false);
}

static void world_close(struct world *w) {
  train_batch_destroy(w->device, w->batch);
  device_destroy(w->device);
  network_destroy(w->network);
}

static void assert_near(double got, double expected, double tolerance, const char *what) {
  if (!(fabs(got - expected) <= tolerance * (1 + fabs(expected))))
    fail_msg("%s: %.9g, expected %.9g", what, got, expected);
}

/* ---- losses and statistics */

static void statistics_follow_their_definition(void **state) {
  (void)state;
  static const struct {
    const char *network, *device;
    double tolerance;
    bool normalizes;
  } table[] = {{"mlp", "ref_double", 1e-6, false}, {"lstm", "ref_double", 1e-6, true},
               {"mlp", "ref", 2e-5, true},         {"lstm", "ref", 2e-5, false},
               {"mlp", "cpu", 2e-5, false},        {"lstm", "cpu", 2e-5, true},
               {"mlp", "guarded", 2e-5, true},     {"lstm", "guarded", 2e-5, false}};
  for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
    struct world w = world_open_with(table[i].network, table[i].device, table[i].normalizes);
    struct learner_options config = fixture_options();
    struct update *update = fixture_update(w.device, w.network, &config);
    double params[MAX_P], head[(STEPS + COLUMNS) * (ACTIONS + 1)], tolerance = table[i].tolerance;
    struct reference_targets targets;
    struct host_batch seen = fixture_host_batch(w.device, w.batch);
    for (int step = 0; step < 3; step++) {
      fixture_saved(params, update, "params", w.network);
      reference_heads(head, seen.ref, w.network, &w.config, params, seen.batch);
      reference_targets(&targets, &config, seen.batch, head);
      if (w.config.scale_value) reference_deviation(&targets, w.network, params, seen.batch);
      struct reference_losses expected = reference_losses(
          &config, seen.batch, head, &targets, config.algorithm.actor_critic.entropy_cost, step);
      struct update_stats got = fixture_step(update, w.batch, 0);
      assert_near(got.losses.term[TERM_POLICY_LOSS], expected.policy, tolerance, "policy loss");
      assert_near(got.losses.term[TERM_BASELINE_LOSS], expected.baseline, tolerance,
                  "baseline loss");
      assert_near(got.losses.entropy, expected.entropy, tolerance, "entropy");
      assert_near(got.losses.term[TERM_KL], expected.kl, tolerance, "kl");
      assert_near(got.losses.total, expected.total, tolerance, "total loss");
      assert_near(got.losses.term[TERM_VALUE], expected.value, tolerance, "value");
      assert_near(got.losses.term[TERM_REWARD], expected.reward, tolerance, "reward");
      assert_near(got.losses.term[ACTOR_CRITIC_NUM_TERMS /* V-trace's own: rho_clipped */],
                  expected.rho_clipped, tolerance, "share of clipped steps");
      assert_near(got.losses.term[TERM_EXPLAINED_VARIANCE], expected.explained_variance,
                  10 * tolerance, "explained variance");
      assert_near(got.lag_updates, expected.lag, tolerance, "lag");
      assert_int_equal(got.steps, expected.steps);
      assert_true(got.steps < STEPS &&
                  got.losses.term[ACTOR_CRITIC_NUM_TERMS /* V-trace's own: rho_clipped */] > 0 &&
                  got.losses.term[ACTOR_CRITIC_NUM_TERMS /* V-trace's own: rho_clipped */] < 1);
      assert_int_equal(update_version(update), step + 1);
    }
    host_batch_destroy(&seen);
    update_destroy(update);
    world_close(&w);
  }
}

/* Of every agent with values on the scale of their targets: an update adopts the statistics of its
 * own targets and of those before, and no value changes by that, unless the first ones are far
 * away. Steps of no size: nothing else moves the parameters. */
static void every_agent_adopts_the_statistics_of_its_targets(void **state) {
  (void)state;
  static char agents[][8] = {"vtrace", "a2c", "ppo"};
  for (size_t a = 0; a < sizeof(agents) / sizeof(agents[0]); a++) {
    struct world w = {.config = fixture_config("mlp", 1, ACTIVATION_TANH),
                      .device = fixture_device("ref_double")};
    w.config.scale_value = true;
    w.network = fixture_network(&w.config);
    w.batch = fixture_batch(w.device, w.network, UNROLL, COLUMNS, 2);
    struct learner_options config = fixture_options();
    config.agent = agents[a];
    config.optimizer.learning_rate = 0;
    struct update *update = fixture_update(w.device, w.network, &config);
    struct host_batch seen = fixture_host_batch(w.device, w.batch);
    enum { HEADS = (STEPS + COLUMNS) * (ACTIONS + 1) };
    double params[MAX_P], head[HEADS], later[MAX_P], later_head[HEADS];
    for (int step = 0; step < 3; step++) {
      fixture_saved(params, update, "params", w.network);
      reference_heads(head, seen.ref, w.network, &w.config, params, seen.batch);
      struct reference_targets targets;
      reference_targets(&targets, &config, seen.batch, head);
      double count = *reference_parameter(w.network, params, "value/count"),
             sum = count * *reference_parameter(w.network, params, "value/mean");
      reference_deviation(&targets, w.network, params, seen.batch);
      for (int i = 0; i < STEPS; i++)
        if (!(seen.batch->flags[i] & STEP_TRUNCATED)) count += 1, sum += targets.vs[i];
      fixture_step(update, w.batch, 0);
      fixture_saved(later, update, "params", w.network);
      reference_heads(later_head, seen.ref, w.network, &w.config, later, seen.batch);
      assert_near(*reference_parameter(w.network, later, "value/count"), count, 0, "count");
      assert_near(*reference_parameter(w.network, later, "value/mean"), sum / count, 1e-6, "mean");
      assert_near(*reference_parameter(w.network, later, "value/deviation"), targets.deviation,
                  1e-6, "deviation");
      double beyond = fabs(sum / count) - 3 * targets.deviation;
      for (int i = ACTIONS; step == 0 && beyond > 0 && i < HEADS; i += ACTIONS + 1)
        head[i] += copysign(beyond, sum);
      for (int i = 0; i < HEADS; i++) assert_near(later_head[i], head[i], 2e-6, "an output");
    }
    host_batch_destroy(&seen);
    update_destroy(update);
    world_close(&w);
  }
}

/* Nothing of a truncated step but its value, and nothing of the last row but its observation and
 * reward, counts. */
static void masked_fields_do_not_count(void **state) {
  (void)state;
  struct world w = world_open("lstm", "ref");
  struct learner_options config = fixture_options();
  struct update_stats stats[2];
  float gradient_norm[2];
  for (int pass = 0; pass < 2; pass++) {
    struct update *update = fixture_update(w.device, w.network, &config);
    for (int i = 0; pass == 1 && i < STEPS + COLUMNS; i++) {
      if (i < STEPS && !(w.batch->flags[i] & STEP_TRUNCATED)) continue;
      w.batch->statistics[i] += 1;
      *train_batch_stamp(w.batch, i / COLUMNS, i % COLUMNS) += step_stamp(5, 0);
      ((int32_t *)w.batch->action)[i] = (((int32_t *)w.batch->action)[i] + 1) % ACTIONS;
    }
    stats[pass] = fixture_step(update, w.batch, 0);
    gradient_norm[pass] = (float)stats[pass].gradient_norm;
    update_destroy(update);
  }
  assert_memory_equal(&stats[0], &stats[1], sizeof(stats[0]));
  assert_true(gradient_norm[0] == gradient_norm[1] && gradient_norm[0] > 0);
  world_close(&w);
}

/* ---- optimiser and schedules */

/* The gradient at these parameters: that of a fresh update whose Adam keeps it (beta1 = 0: m = g).
 */
static void gradient_at(double *gradient, const struct world *w,
                        const struct learner_options *config, const double *params) {
  struct learner_options plain = *config;
  plain.optimizer.name = "adam";
  plain.optimizer.adam_beta1 = 0;
  plain.optimizer.max_gradient_norm = 0;
  struct update *update = fixture_update(w->device, w->network, &plain);
  memcpy((void *)(uintptr_t)update_parameters(update), params,
         update_num_parameters(update) * sizeof(double));
  fixture_step(update, w->batch, 0);
  fixture_saved(gradient, update, "adam/m", w->network);
  update_destroy(update);
}

struct adam {
  double m[MAX_P], v[MAX_P];
};

static void adam_step(double *params, struct adam *adam, const double *gradient,
                      const struct learner_options *config, double learning_rate, int step,
                      size_t P) {
  double norm = 0, b1 = (float)config->optimizer.adam_beta1,
         b2 = (float)config->optimizer.adam_beta2;
  for (size_t i = 0; i < P; i++) norm += gradient[i] * gradient[i];
  norm = sqrt(norm);
  double scale =
      config->optimizer.max_gradient_norm > 0 && norm > config->optimizer.max_gradient_norm
          ? config->optimizer.max_gradient_norm / norm
          : 1;
  for (size_t i = 0; i < P; i++) {
    double g = gradient[i] * scale;
    adam->m[i] = b1 * adam->m[i] + (1 - b1) * g;
    adam->v[i] = b2 * adam->v[i] + (1 - b2) * g * g;
    /* TensorFlow's epsilon hat stands beside the root that is not corrected yet. */
    double correction = sqrt(1 - pow(b2, step)), epsilon = config->optimizer.adam_epsilon;
    double root = config->optimizer.adam_epsilon_hat ? (sqrt(adam->v[i]) + epsilon) / correction
                                                     : sqrt(adam->v[i]) / correction + epsilon;
    params[i] -= learning_rate * adam->m[i] / (1 - pow(b1, step)) / root;
  }
}

static void several_steps_are_adam(void **state) {
  (void)state;
  static const struct {
    const char *network;
    double max_norm, epsilon;
    bool epsilon_hat;
  } table[] = {{"mlp", 0, 1e-5, false},    {"lstm", 0, 1e-5, false}, {"mlp", 0.1, 1e-5, false},
               {"lstm", 0.1, 1e-5, false}, {"mlp", 0, 0.1, false},   {"mlp", 0, 0.1, true}};
  for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
    struct world w = world_open(table[i].network, "ref_double");
    struct learner_options config = fixture_options();
    config.optimizer.max_gradient_norm = table[i].max_norm;
    config.optimizer.adam_epsilon = table[i].epsilon;
    config.optimizer.adam_epsilon_hat = table[i].epsilon_hat;
    config.optimizer.learning_rate_decay = "linear";
    config.total_steps = 1000;
    struct update *update = fixture_update(w.device, w.network, &config);
    size_t P = update_num_parameters(update);
    double params[MAX_P], gradient[MAX_P];
    static struct adam adam;
    memset(&adam, 0, sizeof(adam));
    memcpy(params, update_parameters(update), P * sizeof(double));
    for (int step = 1; step <= 6; step++) {
      fixture_fill_batch(w.device, w.batch, (uint32_t)(100 + step));
      gradient_at(gradient, &w, &config, params);
      adam_step(params, &adam, gradient, &config, config.optimizer.learning_rate * (1 - 0.1 * step),
                step, P);
      struct update_stats stats = fixture_step(update, w.batch, 100 * step);
      assert_near(stats.learning_rate, config.optimizer.learning_rate * (1 - 0.1 * step), 1e-12,
                  "learning rate");
      if (table[i].max_norm > 0) assert_true(stats.gradient_norm > table[i].max_norm);
    }
    const double *got = (const double *)update_parameters(update);
    for (size_t k = 0; k < P; k++) assert_near(got[k], params[k], 1e-6, "parameter");
    update_destroy(update);
    world_close(&w);
  }
}

static void learning_rate_ends_at_zero(void **state) {
  (void)state;
  struct world w = world_open("mlp", "ref");
  struct learner_options config = fixture_options();
  config.optimizer.learning_rate_decay = "linear";
  config.total_steps = 100;
  struct update *update = fixture_update(w.device, w.network, &config);
  assert_near(fixture_step(update, w.batch, 0).learning_rate, 0.01, 1e-12, "at the start");
  assert_near(fixture_step(update, w.batch, 75).learning_rate, 0.0025, 1e-12, "at three quarters");
  double before[MAX_P], after[MAX_P];
  fixture_saved(before, update, "params", w.network);
  assert_true(fixture_step(update, w.batch, 100).learning_rate == 0);
  assert_true(fixture_step(update, w.batch, 250).learning_rate == 0);
  fixture_saved(after, update, "params", w.network);
  assert_memory_equal(before, after, update_num_parameters(update) * sizeof(double));
  update_destroy(update);
  world_close(&w);
}

/* ---- entropy coefficient */

static void entropy_approaches_its_target(void **state) {
  (void)state;
  static const struct {
    double target, start;
    bool grows;
  } table[] = {{1.05, 0.001, true}, {0.2, 0.5, false}};
  for (size_t i = 0; i < 2; i++) {
    struct world w = world_open("mlp", "ref");
    struct learner_options config = fixture_options();
    config.algorithm.actor_critic.target_entropy = table[i].target;
    config.algorithm.actor_critic.entropy_cost = table[i].start;
    struct update *update = fixture_update(w.device, w.network, &config);
    /* The batch is the same every time, so the policy would get ever more certain. */
    double first = fixture_step(update, w.batch, 0).entropy_cost;
    struct update_stats stats = {0};
    for (int step = 0; step < 600; step++) stats = fixture_step(update, w.batch, 0);
    assert_near(first, table[i].start, 1e-9, "the coefficient at the start");
    assert_true((stats.entropy_cost > first) == table[i].grows);
    if (table[i].grows) assert_near(stats.losses.entropy, table[i].target, 0.1, "entropy");
    update_destroy(update);
    world_close(&w);
  }
}

/* p moves by Adam on speed * coefficient * (entropy - target), at the learning rate of the moment
 * as every parameter does, and stops at 20 / speed. */
static void entropy_coefficient_follows_its_loss(void **state) {
  (void)state;
  struct world w = world_open("mlp", "ref");
  struct learner_options config = fixture_options();
  config.algorithm.actor_critic.target_entropy = 0.7;
  config.algorithm.actor_critic.entropy_adjustment_speed = 4;
  config.optimizer.learning_rate_decay = "linear";
  config.total_steps = 1000;
  struct update *update = fixture_update(w.device, w.network, &config);
  double p = log(config.algorithm.actor_critic.entropy_cost) / 4, m = 0, v = 0;
  for (int step = 1; step <= 5; step++) {
    int64_t environment_steps = 240 * (step - 1);
    double rate = config.optimizer.learning_rate * (1 - (double)environment_steps / 1000);
    struct update_stats stats = fixture_step(update, w.batch, environment_steps);
    assert_near(stats.entropy_cost, exp(4 * p), 1e-9, "coefficient");
    double plain = stats.losses.term[TERM_POLICY_LOSS] +
                   0.5 * stats.losses.term[TERM_BASELINE_LOSS] - exp(4 * p) * stats.losses.entropy +
                   0.02 * stats.losses.term[TERM_KL];
    assert_near(stats.losses.total - plain, exp(4 * p) * (stats.losses.entropy - 0.7), 1e-9,
                "its loss");
    double g = 4 * exp(4 * p) * (stats.losses.entropy - 0.7);
    m = 0.9 * m + 0.1 * g;
    v = 0.999 * v + 0.001 * g * g;
    p -= rate * m / (1 - pow(0.9, step)) / (sqrt(v / (1 - pow(0.999, step))) + 1e-8);
  }
  update_destroy(update);

  /* A rate far too high: the coefficient ends at e^-20 or e^20, not at infinity. */
  config.optimizer.learning_rate = 100;
  config.algorithm.actor_critic.target_entropy = 1e6;
  config.optimizer.learning_rate_decay = "none";
  update = fixture_update(w.device, w.network, &config);
  fixture_step(update, w.batch, 0);
  update_save(update);
  assert_near(*(double *)fixture_item(update, "update/entropy").data, 5, 1e-12, "largest p");
  update_destroy(update);
  world_close(&w);
}

/* Such a batch has no mean entropy, neither 0 nor another one. */
static void a_batch_in_which_no_step_counts_leaves_the_entropy_coefficient(void **state) {
  (void)state;
  struct world w = world_open("mlp", "ref");
  struct host_batch host = fixture_host_batch(w.device, w.batch);
  struct learner_options config = fixture_options();
  config.algorithm.actor_critic.target_entropy = 0.7;
  struct update *update = fixture_update(w.device, w.network, &config);
  fixture_step(update, w.batch, 0);
  update_save(update);
  double before = *(double *)fixture_item(update, "update/entropy").data;
  memset(host.batch->flags, STEP_TRUNCATED, STEPS);
  host_batch_write(&host, w.device, w.batch);
  assert_int_equal(fixture_step(update, w.batch, 0).steps, 0);
  update_save(update);
  assert_true(*(double *)fixture_item(update, "update/entropy").data == before);
  update_destroy(update);
  host_batch_destroy(&host);
  world_close(&w);
}

static void entropy_cost_decays(void **state) {
  (void)state;
  static const struct {
    double decay, at[4]; /* at steps 0, 50, 100 and 250 of 100 */
  } table[] = {{0, {0.2, 0.2, 0.2, 0.2}}, {0.5, {0.2, 0.15, 0.1, 0.1}}, {1, {0.2, 0.1, 0, 0}}};
  for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
    struct world w = world_open("mlp", "ref_double");
    struct learner_options config = fixture_options();
    config.algorithm.actor_critic.entropy_cost = 0.2;
    config.algorithm.actor_critic.entropy_cost_decay = table[i].decay;
    config.total_steps = 100;
    struct update *update = fixture_update(w.device, w.network, &config);
    static const int64_t steps[] = {0, 50, 100, 250};
    for (int k = 0; k < 4; k++) {
      struct update_stats stats = fixture_step(update, w.batch, steps[k]);
      assert_near(stats.entropy_cost, table[i].at[k], 1e-12, "entropy cost");
    }
    update_destroy(update);
    world_close(&w);
  }
}

/* ---- errors */

static void refuses_what_makes_no_sense(void **state) {
  (void)state;
  struct world w = world_open("mlp", "ref");
  struct learner_options good = fixture_options(), bad[16];
  for (int i = 0; i < 16; i++) bad[i] = good;
  bad[0].algorithm.unroll_length = 0;
  bad[1].algorithm.batch_size = 0;
  bad[2].optimizer.name = "sgd";
  bad[3].optimizer.learning_rate_decay = "cosine";
  bad[4].optimizer.learning_rate_decay = "linear";
  bad[5].algorithm.actor_critic.target_entropy = 0.5,
  bad[5].algorithm.actor_critic.entropy_cost = 0;
  bad[6].algorithm.actor_critic.target_entropy = 0.5,
  bad[6].algorithm.actor_critic.entropy_adjustment_speed = 0;
  bad[7].optimizer.adam_beta1 = 1;
  bad[8].optimizer.adam_beta2 = NAN;
  bad[9].optimizer.adam_epsilon = 0;
  bad[10].optimizer.name = "rmsprop", bad[10].optimizer.rmsprop_decay = 1;
  bad[11].optimizer.name = "rmsprop", bad[11].optimizer.rmsprop_epsilon = 0;
  bad[12].optimizer.max_gradient_norm = -1;
  bad[13].algorithm.actor_critic.target_entropy = -0.5;
  bad[14].algorithm.actor_critic.entropy_cost_decay = 1;
  bad[15].algorithm.actor_critic.entropy_cost_decay = 1, bad[15].total_steps = 100;
  bad[15].algorithm.actor_critic.target_entropy = 0.5;
  static const char *const says[] = {"5 windows of 0 steps",
                                     "0 windows",
                                     "--optimizer=sgd",
                                     "--learning_rate_decay=cosine",
                                     "--total_steps",
                                     "--entropy_cost",
                                     "--entropy_adjustment_speed=0",
                                     "--adam_beta1=1",
                                     "--adam_beta2=",
                                     "--adam_epsilon=0",
                                     "--rmsprop_decay=1",
                                     "--rmsprop_epsilon=0",
                                     "--max_gradient_norm=-1",
                                     "--target_entropy=-0.5",
                                     "--entropy_cost_decay=1 needs --total_steps above 0",
                                     "--entropy_cost_decay=1 and --target_entropy=0.5"};
  for (size_t i = 0; i < sizeof(says) / sizeof(says[0]); i++) {
    struct update *update;
    struct update_config of_update = run_options_of_update(&bad[i]);
    of_update.policy = &policy_categorical;
    struct error error = {""};
    assert_int_equal(
        update_create(&update, w.device, w.network, &algorithm_vtrace, &of_update, &error),
        STATUS_INVALID);
    assert_null(update);
    if (!strstr(error.text, says[i])) fail_msg("'%s' does not say '%s'", error.text, says[i]);
  }
  struct network_config config = fixture_config("random", 0, ACTIVATION_NONE);
  struct network *random = fixture_network(&config);
  struct update *update;
  struct update_config of_update = run_options_of_update(&good);
  of_update.policy = &policy_categorical;
  struct error error;
  assert_int_equal(update_create(&update, w.device, random, &algorithm_vtrace, &of_update, &error),
                   STATUS_INVALID);
  network_destroy(random);
  world_close(&w);
}

/* ---- statistics of observations */

/* Of the floats of a batch's steps but the last, which begins the next window. */
static void expect_statistics(struct update *update, const struct train_batch *batch, int updates) {
  const float *count = fixture_item(update, "params/observation/count").data,
              *mean = fixture_item(update, "params/observation/mean").data,
              *variance = fixture_item(update, "params/observation/variance").data;
  for (int k = 0; k < FLOATS; k++) {
    double sum = 0, squares = 0;
    for (int i = 0; i < STEPS; i++) {
      double x = ((const float *)(batch->observation + (size_t)i * STRIDE))[k];
      sum += x, squares += x * x;
    }
    sum /= STEPS;
    assert_true(count[k] == (float)(updates * STEPS));
    assert_near(mean[k], sum, 1e-5, "mean");
    assert_near(variance[k], squares / STEPS - sum * sum, 1e-5, "variance");
  }
}

/* Neither the optimiser nor, in an evaluation, anything else moves them. */
static void statistics_are_those_of_the_steps(void **state) {
  (void)state;
  static char *const agents[] = {"vtrace", "ppo", "a2c"};
  static const char *const devices[] = {"ref_double", "ref", "cpu", "guarded", "cuda"};
  emulated_cuda_use();
  for (int i = 0; i < 15; i++) {
    struct world w = world_open_with(i % 2 ? "lstm" : "mlp", devices[i % 5], true);
    struct host_batch seen = fixture_host_batch(w.device, w.batch);
    struct learner_options config = fixture_options();
    config.agent = agents[i / 5];
    config.optimizer.name = i % 2 ? "rmsprop" : "adam";
    struct update *update = fixture_update(w.device, w.network, &config);
    double gradient[MAX_P];
    for (int step = 1; step <= 3; step++) {
      fixture_step(update, w.batch, 0);
      update_save(update);
      expect_statistics(update, seen.batch, step);
    }
    fixture_saved(gradient, update, i % 2 ? "rmsprop/mom" : "adam/m", w.network);
    for (int k = 1; k <= 3 * FLOATS + NETWORK_VALUE_STATISTICS; k++)
      assert_true(gradient[update_num_parameters(update) - (size_t)k] == 0);
    update_destroy(update);
    host_batch_destroy(&seen);
    world_close(&w);
  }
}

enum poison { NAN_REWARD, INFINITE_REWARD, NAN_OBSERVATION, NAN_BEHAVIOUR, HUGE_REWARD };

static void poison_batch(struct train_batch *batch, enum poison poison) {
  int i = 2 * COLUMNS + 1;
  batch->flags[i] = batch->flags[i - COLUMNS] = 0;
  switch (poison) {
    case NAN_REWARD:
      batch->reward[i] = NAN;
      break;
    case INFINITE_REWARD:
      batch->reward[i] = INFINITY;
      break;
    case NAN_OBSERVATION:
      ((float *)(batch->observation + (size_t)i * STRIDE))[1] = NAN;
      break;
    case NAN_BEHAVIOUR:
      batch->statistics[i] = NAN;
      break;
    case HUGE_REWARD:
      batch->reward[i] = 3e38f;
      break;
  }
}

static void a_number_that_is_not_finite_stops_the_run(void **state) {
  (void)state;
  static const struct {
    enum poison poison;
    const char *says;
  } table[] = {{NAN_REWARD, "the mean reward is"},
               {INFINITE_REWARD, "the mean reward is"},
               {NAN_OBSERVATION, "the mean value is"},
               {NAN_BEHAVIOUR, "is"},
               {HUGE_REWARD, "loss is inf"}};
  static const struct {
    const char *network, *device;
    bool normalizes;
  } on[] = {{"mlp", "ref", true},
            {"lstm", "ref", false},
            {"mlp", "cpu", false},
            {"lstm", "cpu", true},
            {"mlp", "cuda", true}};
  enum { ON = sizeof(on) / sizeof(on[0]) };
  emulated_cuda_use();
  for (size_t i = 0; i < ON * sizeof(table) / sizeof(table[0]); i++) {
    struct world w = world_open_with(on[i % ON].network, on[i % ON].device, on[i % ON].normalizes);
    struct host_batch host = fixture_host_batch(w.device, w.batch);
    struct learner_options config = fixture_options();
    config.algorithm.reward_clip = 0;
    config.algorithm.actor_critic.target_entropy = 0.5;
    struct update *update = fixture_update(w.device, w.network, &config);
    double before[3][MAX_P], after[3][MAX_P];
    static const char *const arrays[] = {"params", "adam/m", "adam/v"};
    for (int step = 0; step < 3; step++) fixture_step(update, w.batch, 0);
    for (int k = 0; k < 3; k++) fixture_saved(before[k], update, arrays[k], w.network);
    double entropy = *(double *)fixture_item(update, "update/entropy").data;

    poison_batch(host.batch, table[i / ON].poison);
    host_batch_write(&host, w.device, w.batch);
    struct update_stats stats;
    struct error error = {""};
    update_start(update, w.batch, 0);
    assert_int_equal(update_finish(update, &stats, &error), STATUS_CORRUPT);
    /* A huge target is divided by a deviation that is huge, too. */
    bool is_divided = table[i / ON].poison == HUGE_REWARD && on[i % ON].normalizes;
    const char *says = is_divided ? "norm is nan" : table[i / ON].says;
    if (!strstr(error.text, "update 4: ") || !strstr(error.text, says))
      fail_msg("'%s' does not say 'update 4' and '%s'", error.text, says);
    for (int k = 0; k < 3; k++) {
      fixture_saved(after[k], update, arrays[k], w.network);
      assert_memory_equal(before[k], after[k], update_num_parameters(update) * sizeof(double));
    }
    assert_true(entropy == *(double *)fixture_item(update, "update/entropy").data);
    assert_int_equal(update_version(update), 3);

    /* And it can go on. */
    fixture_fill_batch(host.ref, host.batch, 2);
    host_batch_write(&host, w.device, w.batch);
    fixture_step(update, w.batch, 0);
    assert_int_equal(update_version(update), 4);
    update_destroy(update);
    host_batch_destroy(&host);
    world_close(&w);
  }
}

/* A sum that no term names, beside a gradient that is finite: a2c does not use mu. */
static void a_sum_that_nobody_names_stops_the_run_too(void **state) {
  (void)state;
  struct loss_term terms[LOSS_MAX_TERMS];
  struct algorithm algorithm = algorithm_a2c;
  for (int i = 0; i < algorithm.num_terms; i++) {
    terms[i] = algorithm_a2c.terms[i];
    terms[i].checked = NULL;
  }
  algorithm.terms = terms;
  struct world w = world_open("mlp", "guarded");
  struct learner_options config = fixture_options();
  struct update *update;
  struct update_stats stats;
  struct error error;
  struct update_config of_update = run_options_of_update(&config);
  of_update.policy = &policy_categorical;
  assert_int_equal(update_create(&update, w.device, w.network, &algorithm, &of_update, &error),
                   STATUS_OK);
  double before[MAX_P], after[MAX_P];
  fixture_saved(before, update, "params", w.network);
  float statistics[STEPS + COLUMNS];
  for (int i = 0; i < STEPS + COLUMNS; i++) statistics[i] = NAN;
  w.device->ops->upload_bytes(w.device, w.batch->statistics, statistics, sizeof(statistics));
  device_finish(w.device);
  update_start(update, w.batch, 0);
  assert_int_equal(update_finish(update, &stats, &error), STATUS_CORRUPT);
  fixture_saved(after, update, "params", w.network);
  assert_memory_equal(before, after, sizeof(*before) * update_num_parameters(update));
  assert_int_equal(update_version(update), 0);
  update_destroy(update);
  world_close(&w);
}

/* ---- stacked frames */

enum { SIDE = 36, PIXELS = SIDE * SIDE, STACK = 2, PAIR = 2 };

/* A step of windows whose frames before have been told otherwise since: first the images, without
 * the frames, then the loss of an update, with them. */
static double loss_of_stacked(const char *name) {
  struct network_config config = {.network = "nature",
                                  .head_size = ACTIONS,
                                  .value_size = 1,
                                  .inputs = {.row_stride = PIXELS,
                                             .num_tensors = 1,
                                             .tensor = {{DTYPE_UINT8, PIXELS, 0, SIDE, SIDE, 1}},
                                             .discrete = ACTIONS,
                                             .stack = STACK}};
  struct learner_options options = fixture_options();
  options.algorithm.unroll_length = 1;
  options.algorithm.batch_size = PAIR;
  struct device *device = fixture_device(name);
  struct network *network = fixture_network(&config);
  struct update *update = fixture_update(device, network, &options);
  struct step_shape shape = discrete_shape(PIXELS, 0, STACK - 1);
  struct host_batch host = host_batch_create(1, PAIR, &shape);
  struct train_batch *batch = train_batch_create(device, 1, PAIR, &shape);
  for (int i = 0; i < 3 * PAIR * PIXELS; i++)
    host.batch->history[i] = (uint8_t)(1 + (i / PIXELS * 40 + i) % 255);
  host_batch_write(&host, device, batch);

  float *seen = check_alloc(PAIR * update_image_numbers(update), sizeof(*seen));
  pixel *images =
      device->ops->alloc(device, PAIR * update_image_numbers(update) * device->ops->pixel_bytes);
  for (int depth = 1; depth >= 0; depth--) {
    for (int n = 0; n < PAIR; n++) batch->depth[n] = depth;
    assert_int_equal(update_images(update, images, batch, PAIR), PAIR);
    device_download_pixels(device, seen, images, PAIR * update_image_numbers(update));
    device_finish(device);
    for (int i = 0; i < PAIR * PIXELS; i++) {
      assert_true(seen[STACK * i] > 0);
      assert_int_equal(seen[STACK * i + 1] > 0, depth);
    }
  }
  for (int n = 0; n < PAIR; n++) batch->depth[n] = 1;
  double loss = fixture_step(update, batch, 0).losses.total;
  device->ops->release(device, images);
  free(seen);
  update_destroy(update);
  host_batch_destroy(&host);
  train_batch_destroy(device, batch);
  network_destroy(network);
  device_destroy(device);
  return loss;
}

static void frames_are_stacked_as_the_batch_says_now(void **state) {
  (void)state;
  emulated_cuda_use();
  assert_near(loss_of_stacked("cuda"), loss_of_stacked("ref"), 1e-5, "loss");
}

/* ---- memory */

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
static void steps_allocate_nothing(void **state) {
  (void)state;
  SKIP("the sanitizer has its own allocator");
}
#else
static int allocations;
void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t n, size_t bytes);
void *__libc_memalign(size_t alignment, size_t bytes);

void *malloc(size_t bytes) {
  allocations++;
  return __libc_malloc(bytes);
}

void *calloc(size_t n, size_t bytes) {
  allocations++;
  return __libc_calloc(n, bytes);
}

void *aligned_alloc(size_t alignment, size_t bytes) {
  allocations++;
  return __libc_memalign(alignment, bytes);
}

static void steps_allocate_nothing(void **state) {
  (void)state;
  static const char *const networks[] = {"mlp", "lstm"}, *const devices[] = {"ref", "cpu"};
  for (int i = 0; i < 4; i++) {
    struct world w = world_open(networks[i % 2], devices[i / 2]);
    struct learner_options config = fixture_options();
    int none = allocations;
    struct update *update = fixture_update(w.device, w.network, &config);
    assert_true(allocations > none);  /* they are counted */
    fixture_step(update, w.batch, 0); /* a device's scratch memory grows to what is needed */
    int before = allocations;
    for (int step = 0; step < 10; step++) fixture_step(update, w.batch, 0);
    update_save(update);
    update_load(update);
    assert_int_equal(allocations, before);
    update_destroy(update);
    world_close(&w);
  }
}
#endif

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(statistics_follow_their_definition),
      cmocka_unit_test(every_agent_adopts_the_statistics_of_its_targets),
      cmocka_unit_test(masked_fields_do_not_count),
      cmocka_unit_test(several_steps_are_adam),
      cmocka_unit_test(learning_rate_ends_at_zero),
      cmocka_unit_test(a_batch_in_which_no_step_counts_leaves_the_entropy_coefficient),
      cmocka_unit_test(entropy_cost_decays),
      cmocka_unit_test(entropy_approaches_its_target),
      cmocka_unit_test(entropy_coefficient_follows_its_loss),
      cmocka_unit_test(refuses_what_makes_no_sense),
      cmocka_unit_test(statistics_are_those_of_the_steps),
      cmocka_unit_test(a_number_that_is_not_finite_stops_the_run),
      cmocka_unit_test(a_sum_that_nobody_names_stops_the_run_too),
      cmocka_unit_test(frames_are_stacked_as_the_batch_says_now),
      cmocka_unit_test(steps_allocate_nothing),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
