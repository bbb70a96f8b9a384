/* Defaults that depend on the environment, and options that contradict each other. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "learner/learn/algorithm.h"
#include "learner/learn/algorithms.h"
#include "learner/network/kind.h"
#include "learner/network/names.h"
#include "learner/run/options.h"

static void set(struct learner_options *options, const char *name, const char *value) {
  struct error error;
  if (options_set(&learner_options_table, options, name, value, "", &error) != STATUS_OK)
    fail_msg("%s", error.text);
}

static struct learner_options options_of(const char *env) {
  struct learner_options options;
  options_init(&learner_options_table, &options);
  set(&options, "env", env);
  return options;
}

static void an_environment_brings_its_own_defaults(void **state) {
  (void)state;
  struct learner_options cartpole = options_of("cartpole"), tmaze = options_of("tmaze");
  learner_options_apply_preset(&cartpole);
  learner_options_apply_preset(&tmaze);
  assert_int_equal(cartpole.total_steps, 1500000);
  assert_string_equal(cartpole.optimizer.learning_rate_decay, "linear");
  assert_false(cartpole.previous_action);
  assert_int_equal(tmaze.total_steps, 1000000);
  assert_string_equal(tmaze.network, "lstm");
  assert_int_equal(tmaze.algorithm.unroll_length, 40);
  assert_true(tmaze.algorithm.actor_critic.kl_cost == 0);
  assert_true(learner_options_has_preset("tmaze"));
  assert_false(learner_options_has_preset("gym:CartPole-v1"));
  options_deinit(&learner_options_table, &cartpole);
  options_deinit(&learner_options_table, &tmaze);
}

/* What depends on the number of environments: ppo's windows get shorter with more of them, its
 * epochs are few for a large batch or images; vtrace's batches are of an eighth of them. What is
 * given or of an environment's row stays. */
static void batches_fit_the_number_of_environments(void **state) {
  (void)state;
  static const struct {
    const char *env, *agent, *num_envs, *network;
    int64_t steps, windows, epochs;
  } cases[] = {{"./mine.so", "ppo", "1", "auto", 64, 0, 10},
               {"./mine.so", "ppo", "32", "auto", 64, 0, 10},
               {"./mine.so", "ppo", "32", "nature", 64, 0, 4},
               {"./mine.so", "ppo", "64", "auto", 32, 0, 10},
               {"./mine.so", "ppo", "100", "auto", 20, 0, 10},
               {"./mine.so", "ppo", "4096", "auto", 16, 0, 4},
               {"cartpole", "ppo", "1", "auto", 16, 0, 10},
               {"./mine.so", "a2c", "32", "auto", 8, 0, 0},
               {"./mine.so", "vtrace", "1", "auto", 20, 4, 0},
               {"./mine.so", "vtrace", "32", "auto", 20, 4, 0},
               {"./mine.so", "vtrace", "1000", "auto", 20, 32, 0},
               {"cartpole", "vtrace", "32", "auto", 20, 32, 0}};
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
    struct learner_options options = options_of(cases[i].env);
    set(&options, "agent", cases[i].agent);
    set(&options, "num_envs", cases[i].num_envs);
    set(&options, "network", cases[i].network);
    learner_options_apply_preset(&options);
    if (options.algorithm.unroll_length != cases[i].steps ||
        options.algorithm.batch_size != cases[i].windows ||
        (cases[i].epochs && options.algorithm.ppo.epochs != cases[i].epochs))
      fail_msg("%s, %s of %s: %lld steps, %lld windows, %lld epochs", cases[i].agent, cases[i].env,
               cases[i].num_envs, (long long)options.algorithm.unroll_length,
               (long long)options.algorithm.batch_size, (long long)options.algorithm.ppo.epochs);
    options_deinit(&learner_options_table, &options);
  }
}

/* Of all learners together; a learner's share is whole. */
static void batches_fit_several_learners(void **state) {
  (void)state;
  static const struct {
    const char *agent, *num_envs, *learners; /* num_envs: of one learner */
    int64_t steps, windows, epochs;
  } cases[] = {{"vtrace", "32", "2", 20, 8, 0}, {"vtrace", "16", "3", 20, 6, 0},
               {"vtrace", "4", "8", 20, 8, 0},  {"vtrace", "5", "3", 20, 6, 0},
               {"ppo", "32", "2", 32, 0, 10},   {"ppo", "64", "8", 16, 0, 4}};
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
    struct learner_options options = options_of("./mine.so");
    set(&options, "agent", cases[i].agent);
    set(&options, "num_envs", cases[i].num_envs);
    set(&options, "learners", cases[i].learners);
    learner_options_apply_preset(&options);
    assert_int_equal(options.algorithm.unroll_length, cases[i].steps);
    assert_int_equal(options.algorithm.batch_size, cases[i].windows);
    if (cases[i].epochs) assert_int_equal(options.algorithm.ppo.epochs, cases[i].epochs);
    options_deinit(&learner_options_table, &options);
  }
}

/* A hundredth of the run is random. */
static void a_replay_begins_in_proportion_to_the_run(void **state) {
  (void)state;
  static const struct {
    const char *total;
    int64_t least;
  } cases[] = {{"30k", 1000}, {"300k", 3000}, {NULL, 10000}, {"1e9", 10000}};
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
    struct learner_options options = options_of("gym:Mine-v0");
    set(&options, "agent", "sac");
    if (cases[i].total) set(&options, "total_steps", cases[i].total);
    learner_options_apply_preset(&options);
    assert_int_equal(options.replay_min_steps, cases[i].least);
    options_deinit(&learner_options_table, &options);
  }
}

/* The epochs of a network that is chosen once the observation is known. */
static void images_have_fewer_epochs(void **state) {
  (void)state;
  for (int k = 0; k < 3; k++) {
    bool has_image = k > 0, is_given = k > 1;
    struct learner_options options = options_of("gym:Mine-v0");
    struct error error;
    set(&options, "agent", "ppo");
    if (is_given) set(&options, "epochs", "7");
    learner_options_apply_preset(&options);
    assert_int_equal(learner_options_choose_network(&options, has_image, &error), STATUS_OK);
    assert_int_equal(options.algorithm.ppo.epochs, is_given ? 7 : has_image ? 4 : 10);
    learner_options_choose_minibatches(&options, false);
    assert_int_equal(options.algorithm.ppo.most_minibatches, has_image ? 8 : 0);
    options_deinit(&learner_options_table, &options);
  }
}

/* What is given stays, and so does a cost of entropy that is steered. */
static void continuous_actions_have_settings_of_their_own(void **state) {
  (void)state;
  static const struct {
    const char *agent, *name, *given;
    const char *hidden;
    double entropy_cost, learning_rate;
  } cases[] = {{"ppo", NULL, NULL, "256,256", 0, 3e-4},
               {"ppo", "hidden", "64,64", "64,64", 0, 3e-4},
               {"ppo", "entropy_cost", "0.003", "256,256", 0.003, 3e-4},
               {"ppo", "target_entropy", "1", "256,256", 0.01, 3e-4},
               {"a2c", NULL, NULL, "64,64", 0, 2e-3},
               {"vtrace", NULL, NULL, "128,128", 0, 7e-4},
               {"sac", NULL, NULL, "256,256", 0.01, 3e-4}};
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
    struct learner_options options = options_of("gym:Mine-v0");
    set(&options, "agent", cases[i].agent);
    set(&options, "num_envs", "32");
    if (cases[i].name) set(&options, cases[i].name, cases[i].given);
    learner_options_apply_preset(&options);
    assert_true(options.algorithm.actor_critic.kl_cost == (strcmp(options.agent, "vtrace") == 0));
    learner_options_choose_for_continuous(&options);
    assert_true(options.algorithm.actor_critic.kl_cost == 0);
    assert_string_equal(options.hidden, cases[i].hidden);
    assert_true(options.algorithm.actor_critic.entropy_cost == cases[i].entropy_cost);
    assert_true(options.optimizer.learning_rate == cases[i].learning_rate);
    assert_int_equal(options.trainer_threads, strcmp(cases[i].agent, "vtrace") == 0 ? 1 : 0);
    learner_options_choose_minibatches(&options, true);
    assert_int_equal(options.algorithm.ppo.minibatches, 0); /* chosen anew at each start */
    assert_int_equal(options.algorithm.ppo.most_minibatches, 16);
    options_deinit(&learner_options_table, &options);
  }
}

/* Four frames replace the LSTM of ppo on the Atari, of networks that have both. */
static void atari_by_ppo_stacks_frames(void **state) {
  (void)state;
  static const struct {
    const char *network, *lstm_size;
    int expected_lstm, expected_frames;
  } cases[] = {{NULL, NULL, 0, 4},
               {"nature", NULL, 0, 4},
               {NULL, "256", 256, 1},
               {"mlp", NULL, 0, 1},
               {"lstm", NULL, 64, 1}};
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
    struct learner_options options = options_of("atari");
    set(&options, "agent", "ppo");
    if (cases[i].network) set(&options, "network", cases[i].network);
    if (cases[i].lstm_size) set(&options, "lstm_size", cases[i].lstm_size);
    learner_options_apply_preset(&options);
    if (options.lstm_size != cases[i].expected_lstm ||
        options.frame_stack != cases[i].expected_frames)
      fail_msg("case %zu: lstm_size %ld, frame_stack %ld", i, (long)options.lstm_size,
               (long)options.frame_stack);
    options_deinit(&learner_options_table, &options);
  }
}

/* Agents with a policy normalise observations and values, but in environments whose settings are
 * for numbers as they are. */
static void policies_normalise_what_they_learn_from(void **state) {
  (void)state;
  static const struct {
    const char *env, *agent;
    bool normalizes;
  } cases[] = {{"./mine.so", "vtrace", true},
               {"./mine.so", "a2c", true},
               {"gym:Pendulum-v1", "ppo", true},
               {"./mine.so", "dqn", false},
               {"./mine.so", "rainbow", false},
               {"./mine.so", "r2d2", false},
               {"cartpole", "ppo", false},
               {"tmaze", "vtrace", false},
               {"catch", "a2c", true}};
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
    struct learner_options options = options_of(cases[i].env);
    set(&options, "agent", cases[i].agent);
    learner_options_apply_preset(&options);
    if (options.normalize_observations != cases[i].normalizes ||
        options.algorithm.actor_critic.normalize_values != cases[i].normalizes)
      fail_msg("%s, %s", cases[i].env, cases[i].agent);
    if (options.normalize_images != (strcmp(cases[i].agent, "ppo") == 0))
      fail_msg("images of %s", cases[i].agent);
    options_deinit(&learner_options_table, &options);
  }
}

/* What a network comes to where nobody has chosen one. */
static void the_network_follows_from_the_observation(void **state) {
  (void)state;
  static const struct {
    const char *agent;
    bool has_image;
    const char *network;
    int lstm_size, frame_stack;
  } cases[] = {{"vtrace", false, "mlp", 0, 1},
               {"vtrace", true, "impala_shallow", 256, 1},
               {"r2d2", false, "lstm", 64, 1},
               {"r2d2", true, "impala_shallow", 256, 1},
               {"dqn", false, "mlp", 0, 1},
               {"dqn", true, "nature", 0, 4},
               {"double_dqn", true, "nature", 0, 4},
               {"rainbow", true, "nature", 0, 4},
               {"a2c", true, "impala_shallow", 256, 1},
               {"random", true, "mlp", 0, 1}};
  struct error error;
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
    struct learner_options options = options_of("./mine.so");
    set(&options, "agent", cases[i].agent);
    learner_options_apply_preset(&options);
    assert_string_equal(options.network, "auto");
    assert_int_equal(learner_options_choose_network(&options, cases[i].has_image, &error),
                     STATUS_OK);
    assert_string_equal(options.network, cases[i].network);
    assert_int_equal(options.lstm_size, cases[i].lstm_size);
    assert_int_equal(options.frame_stack, cases[i].frame_stack);
    options_deinit(&learner_options_table, &options);
  }
  struct learner_options given = options_of("./mine.so"), stacked = options_of("./mine.so");
  set(&given, "network", "mlp");
  learner_options_apply_preset(&given);
  assert_int_equal(learner_options_choose_network(&given, true, &error), STATUS_OK);
  assert_string_equal(given.network, "mlp");
  set(&stacked, "frame_stack", "4");
  learner_options_apply_preset(&stacked);
  assert_int_equal(learner_options_check(&stacked, &error), STATUS_OK);
  assert_int_equal(learner_options_choose_network(&stacked, false, &error), STATUS_INVALID);
  assert_non_null(strstr(error.text, "network mlp does not stack frames"));
  options_deinit(&learner_options_table, &given);
  options_deinit(&learner_options_table, &stacked);
}

/* Even where it is the general default that was given. */
static void what_the_user_gave_stays(void **state) {
  (void)state;
  struct learner_options options = options_of("cartpole"), general = options_of("cartpole");
  set(&options, "total_steps", "77");
  set(&options, "lr", "0.5"); /* the short name */
  set(&options, "learning_rate_decay", general.optimizer.learning_rate_decay);
  learner_options_apply_preset(&options);
  assert_int_equal(options.total_steps, 77);
  assert_true(options.optimizer.learning_rate == 0.5);
  assert_string_equal(options.optimizer.learning_rate_decay, general.optimizer.learning_rate_decay);
  assert_string_not_equal(options.optimizer.learning_rate_decay, "linear");
  assert_int_equal(options.algorithm.batch_size, general.algorithm.batch_size);
  options_deinit(&learner_options_table, &options);
  options_deinit(&learner_options_table, &general);
}

static void a_budget_of_0_is_the_environments(void **state) {
  (void)state;
  struct learner_options options = options_of("cartpole");
  set(&options, "total_steps", "0");
  learner_options_apply_preset(&options);
  assert_int_equal(options.total_steps, 1500000);
  options_deinit(&learner_options_table, &options);
}

/* What a default says of another --exploration, or of a head without noise, would be no exploring,
 * or nothing else. */
static void exploration_follows_what_was_chosen(void **state) {
  (void)state;
  static const struct {
    const char *agent, *name, *value, *exploration;
    double start, end;
  } cases[] = {{"dqn", "exploration", "per_environment", "per_environment", 0.4, 0.1},
               {"dqn", "exploration", "constant", "constant", 0.4, 0.1},
               {"dqn", "exploration", "linear", "linear", 1, 0.1},
               {"rainbow", "noisy", "true", "linear", 0, 0},
               {"dqn", "noisy", "true", "linear", 0, 0},
               {"rainbow", "noisy", "false", "linear", 1, 0.1}};
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
    struct learner_options options = options_of("./mine.so");
    set(&options, "agent", cases[i].agent);
    set(&options, cases[i].name, cases[i].value);
    learner_options_apply_preset(&options);
    assert_string_equal(options.exploration, cases[i].exploration);
    assert_true(options.epsilon_start == cases[i].start && options.epsilon_end == cases[i].end);
    options_deinit(&learner_options_table, &options);
  }
}

/* Layers that are chosen for continuous actions are not taken for typed ones. */
static void images_with_continuous_actions_have_defaults(void **state) {
  (void)state;
  static const char *const agents_of_both[] = {"ppo", "vtrace", "a2c"};
  struct error error;
  for (size_t i = 0; i < sizeof(agents_of_both) / sizeof(agents_of_both[0]); i++) {
    struct learner_options options = options_of("./mine.so");
    set(&options, "agent", agents_of_both[i]);
    learner_options_apply_preset(&options);
    learner_options_choose_for_continuous(&options);
    if (learner_options_choose_network(&options, true, &error) != STATUS_OK)
      fail_msg("%s: %s", agents_of_both[i], error.text);
    assert_string_equal(options.network, "impala_shallow");
    options_deinit(&learner_options_table, &options);
  }
}

static void another_environment_gets_a_budget_and_no_more(void **state) {
  (void)state;
  struct learner_options options = options_of("./mine.so"), general = options_of("./mine.so");
  learner_options_apply_preset(&options);
  assert_int_equal(options.total_steps, 2000000);
  assert_string_equal(options.network, general.network);
  assert_true(options.algorithm.reward_scale == general.algorithm.reward_scale);
  options_deinit(&learner_options_table, &options);
  options_deinit(&learner_options_table, &general);
}

/* The names of ALGORITHMS. */
static const char *const agents[] = {
#define NAME(name, algorithm, policy, network, pace, evaluators, options, help) #name,
    ALGORITHMS(NAME)
#undef NAME
};
enum { AGENTS = sizeof(agents) / sizeof(agents[0]) };

static void presets_agree_with_each_other(void **state) {
  (void)state;
  const char *envs[] = {"cartpole", "catch", "tmaze", "synthetic", "atari", "./mine.so"};
  const char *presets[] = {"auto", "seed_atari", "r2d2_paper", "small"};
  for (size_t i = 0; i < 4 * AGENTS * sizeof(envs) / sizeof(envs[0]); i++) {
    const char *agent = agents[i / 4 % AGENTS];
    struct learner_options options = options_of(envs[i / 4 / AGENTS]);
    struct error error;
    set(&options, "agent", agent);
    if (strcmp(agent, "r2d2") == 0) set(&options, "preset", presets[i % 4]);
    learner_options_apply_preset(&options);
    if (learner_options_check(&options, &error) != STATUS_OK)
      fail_msg("%s %s: %s", envs[i / 4 / AGENTS], agent, error.text);
    options_deinit(&learner_options_table, &options);
  }
}

/* Values are clipped to the atoms: a support that is too small is nothing that an error tells. */
static void atoms_cover_the_returns(void **state) {
  (void)state;
  struct learner_options options = options_of("cartpole");
  set(&options, "agent", "rainbow");
  learner_options_apply_preset(&options);
  assert_true(options.atoms > 1);
  assert_true(options.value_low <= 0);
  double most = options.algorithm.reward_scale /
                (1 - options.algorithm.discount); /* a reward of 1 each step */
  assert_true(options.value_high >= most - 1e-9);
  options_deinit(&learner_options_table, &options);
}

/* Of settings that have been measured, whatever a step of the target is counted in. */
static void targets_are_copied_after_as_many_updates_as_were_tried(void **state) {
  (void)state;
  static const struct {
    const char *env, *agent, *preset;
    int updates;
  } cases[] = {{"cartpole", "dqn", "auto", 100},      {"cartpole", "rainbow", "auto", 100},
               {"cartpole", "r2d2", "auto", 100},     {"tmaze", "r2d2", "auto", 200},
               {"./mine.so", "r2d2", "auto", 200},    {"atari", "double_dqn", "auto", 500},
               {"atari", "r2d2", "seed_atari", 2500}, {"atari", "r2d2", "r2d2_paper", 2500},
               {"atari", "r2d2", "auto", 100},        {"./mine.so", "dqn", "auto", 63},
               {"./mine.so", "rainbow", "auto", 63}};
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
    struct learner_options options = options_of(cases[i].env);
    set(&options, "agent", cases[i].agent);
    set(&options, "preset", cases[i].preset);
    learner_options_apply_preset(&options);
    assert_int_equal(learner_options_target_updates(&options), cases[i].updates);
    options_deinit(&learner_options_table, &options);
  }
}

static void a_target_is_copied_after_whole_updates(void **state) {
  (void)state;
  static const struct {
    const char *target_update, *replay_ratio;
    int updates; /* of 5 windows that begin every 8 steps */
  } cases[] = {{"1", "1", 1},      {"59", "1", 1},    {"61", "1", 2},  {"4000", "1", 100},
               {"4000", "3", 300}, {"40", "0.75", 1}, {"1e15", "1", 0}};
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
    struct learner_options options = options_of("./mine.so");
    set(&options, "agent", "dqn");
    set(&options, "unroll_length", "8");
    set(&options, "batch_size", "5");
    set(&options, "target_update", cases[i].target_update);
    set(&options, "replay_ratio", cases[i].replay_ratio);
    int64_t updates = learner_options_target_updates(&options);
    assert_true(cases[i].updates ? updates == cases[i].updates : updates == 25000000000000);
    options_deinit(&learner_options_table, &options);
  }
}

/* By default; what is given stays. */
static void a_short_run_explores_for_a_tenth_of_it(void **state) {
  (void)state;
  static const struct {
    const char *env, *total, *given;
    int steps;
  } cases[] = {
      {"./mine.so", "300k", NULL, 30000}, {"./mine.so", "10M", NULL, 100000},
      {"./mine.so", "5", NULL, 100000},   {"./mine.so", "300k", "200k", 200000},
      {"cartpole", "20k", NULL, 2000}, /* too, where the environment has settings of its own */
      {"cartpole", "20k", "20k", 20000},  {"atari", "1M", NULL, 100000},
      {"atari", "12M", NULL, 250000},
  };
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
    struct learner_options options = options_of(cases[i].env);
    set(&options, "agent", "dqn");
    set(&options, "total_steps", cases[i].total);
    if (cases[i].given) set(&options, "epsilon_steps", cases[i].given);
    learner_options_apply_preset(&options);
    assert_int_equal(options.epsilon_steps, cases[i].steps);
    options_deinit(&learner_options_table, &options);
  }
}

/* As the networks themselves say. */
static void networks_read_images_if_their_kinds_do(void **state) {
  (void)state;
  static const struct network_kind *const kinds[] = {
#define KIND(name, of_images, lstm_size) &kind_##name,
      NETWORKS(KIND)
#undef KIND
  };
  for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
    struct learner_options options = options_of("./mine.so");
    set(&options, "network", kinds[i]->name);
    assert_int_equal(learner_options_pixels(&options), kinds[i]->embeds);
    options_deinit(&learner_options_table, &options);
  }
  struct learner_options unknown = options_of("./mine.so");
  assert_false(learner_options_pixels(&unknown)); /* auto, of which nothing is known yet */
  options_deinit(&learner_options_table, &unknown);
}

/* Those of distributions have another scale than what is known of a new window. */
static void priorities_have_one_scale(void **state) {
  (void)state;
  for (int i = 0; i < AGENTS; i++) {
    struct learner_options options = options_of("atari");
    set(&options, "agent", agents[i]);
    learner_options_apply_preset(&options);
    if (options.atoms > 1) assert_string_equal(options.initial_priority, "max");
    options_deinit(&learner_options_table, &options);
  }
}

/* Noise explores in the place of random actions. */
static void agents_with_noise_take_no_random_action(void **state) {
  (void)state;
  const char *envs[] = {"cartpole", "catch", "tmaze", "synthetic", "atari", "./mine.so"};
  int noisy = 0;
  for (size_t i = 0; i < AGENTS * sizeof(envs) / sizeof(envs[0]); i++) {
    struct learner_options options = options_of(envs[i / AGENTS]);
    set(&options, "agent", agents[i % AGENTS]);
    learner_options_apply_preset(&options);
    noisy += options.noisy;
    if (options.noisy && (options.epsilon_start > 0 || options.epsilon_end > 0))
      fail_msg("%s %s: epsilon from %g to %g", options.env, options.agent, options.epsilon_start,
               options.epsilon_end);
    options_deinit(&learner_options_table, &options);
  }
  assert_true(noisy > 0);
}

/* ---- docs/algorithms.md: "| part | `--option` | dqn | double_dqn | rainbow | r2d2 |" */

enum { CELL = 64 };

/* Of a line that has an option in its second cell. */
static bool parse_row(const char *line, char option[CELL], char value[4][CELL]) {
  const char *at = strstr(line, " | `--");
  return at && sscanf(at, " | `--%63[a-z_0-9]` | %63s | %63s | %63s | %63s |", option, value[0],
                      value[1], value[2], value[3]) == 5;
}

static void expect_default(const char *agent, const char *name, const char *value) {
  struct learner_options options = options_of("./mine.so");
  set(&options, "agent", agent);
  learner_options_apply_preset(&options);
  char *text = options_value_text(options_find(&learner_options_table, name), &options);
  struct learner_options documented = options_of("./mine.so");
  set(&documented, name, value);
  char *should = options_value_text(options_find(&learner_options_table, name), &documented);
  if (strcmp(text, should) != 0)
    fail_msg("%s has --%s=%s, docs/algorithms.md says %s", agent, name, text, should);
  free(text);
  free(should);
  options_deinit(&learner_options_table, &options);
  options_deinit(&learner_options_table, &documented);
}

static void the_page_has_the_defaults_of_agents_with_a_replay(void **state) {
  (void)state;
  static const char *const columns[] = {"dqn", "double_dqn", "rainbow", "r2d2"};
  char line[4096], option[CELL], value[4][CELL];
  int rows = 0;
  FILE *page = fopen("docs/algorithms.md", "r");
  assert_non_null(page);
  while (fgets(line, sizeof(line), page)) {
    if (!parse_row(line, option, value)) continue;
    for (int a = 0; a < 4; a++) expect_default(columns[a], option, value[a]);
    rows++;
  }
  fclose(page);
  assert_true(rows >= 15);
}

static void agents_replay_if_their_algorithms_do(void **state) {
  (void)state;
  for (int i = 0; i < AGENTS; i++) {
    struct learner_options options = options_of("catch");
    set(&options, "agent", agents[i]);
    const struct algorithm *algorithm = algorithms_find(agents[i])->algorithm;
    assert_int_equal(learner_options_replays(&options),
                     algorithm && algorithm->target != TARGET_NONE);
    options_deinit(&learner_options_table, &options);
  }
}

/* Options of a run of Catch, and a word of the error; NULL: there is none. */
struct contradiction {
  const char *set[4][2];
  const char *word;
};

static void check_contradictions(const struct contradiction *table, size_t count) {
  for (size_t i = 0; i < count; i++) {
    struct learner_options options = options_of("catch");
    struct error error = {.text = ""};
    for (int k = 0; k < 4 && table[i].set[k][0]; k++)
      set(&options, table[i].set[k][0], table[i].set[k][1]);
    enum status status = learner_options_check(&options, &error);
    assert_int_equal(status, table[i].word ? STATUS_INVALID : STATUS_OK);
    if (table[i].word) assert_non_null(strstr(error.text, table[i].word));
    options_deinit(&learner_options_table, &options);
  }
}

static void contradictions_are_named(void **state) {
  (void)state;
  static const struct contradiction table[] = {
      {{{"num_envs", "8"}, {"max_envs", "7"}}, "--max_envs=7 is less than --num_envs=8"},
      {{{"num_envs", "8"}, {"max_envs", "8"}}, NULL},
      {{{"checkpoint", "file"}}, "--checkpoint=file"},
      {{{"checkpoint", "file"}, {"mode", "evaluate"}, {"logdir", "run"}}, NULL},
      {{{"over", "eval"}, {"deterministic", "true"}}, "--over=eval and --deterministic"},
      {{{"over", "train"}, {"deterministic", "true"}}, NULL},
      {{{"mode", "evaluate"}}, "--mode=evaluate needs --logdir=RUN"},
      {{{"mode", "evaluate"}, {"agent", "random"}}, NULL},
      {{{"burn_in", "5"}}, "--burn_in: agent vtrace has no such option"},
      {{{"agent", "a2c"}, {"window_stride", "5"}},
       "--window_stride: agent a2c has no such option (--agent=r2d2|dqn|double_dqn|rainbow|sac)"},
      {{{"partial_returns", "false"}}, "--partial_returns: agent vtrace"},
      {{{"replay_steps", "50000"}}, "--replay_steps: agent vtrace"},
      {{{"replay_steps", "1000000"}}, "--replay_steps: agent vtrace"}, /* though the default */
      {{{"agent", "a2c"}, {"epsilon_start", "0.5"}}, "--epsilon_start: agent a2c"},
      {{{"agent", "a2c"}, {"rho_clip", "2"}}, "--rho_clip: agent a2c"},
      {{{"agent", "ppo"}, {"rho_clip", "2"}}, "--rho_clip: agent ppo"},
      {{{"clip_ratio", "0.1"}},
       "--clip_ratio: agent vtrace has no such option (--agent=ppo): leave it out"},
      {{{"agent", "dqn"}, {"clip_ratio", "0.1"}, {"lambda", "1"}},
       "--lambda, --clip_ratio: agent dqn has no such option (--agent=vtrace|a2c|ppo): leave them"},
      {{{"agent", "ppo"}, {"clip_ratio", "0.1"}}, NULL},
      {{{"n_steps", "3"}}, "--n_steps: agent vtrace"},
      {{{"dueling", "true"}}, "--dueling: agent vtrace"},
      {{{"noisy", "true"}}, "--noisy: agent vtrace"},
      {{{"atoms", "51"}}, "--atoms: agent vtrace"},
      {{{"atoms", "51"}, {"n_steps", "3"}, {"huber", "1"}},
       "--n_steps, --huber, --atoms: agent vtrace has no such option"},
      {{{"agent", "dqn"}, {"entropy_cost", "0.5"}}, "--entropy_cost: agent dqn has no such option"},
      {{{"agent", "r2d2"}, {"lambda", "0.5"}, {"lr", "0.1"}}, "--lambda: agent r2d2"},
      {{{"agent", "rainbow"}, {"env", "atari"}}, NULL},
      {{{"intrinsic_weight", "2"}}, "--intrinsic_weight is for --curiosity=rnd"},
      {{{"preset", "small"}}, "--preset=small: these are settings of r2d2"},
      {{{"agent", "dqn"}, {"preset", "small"}}, "--preset=small: these are settings of r2d2"},
      {{{"agent", "r2d2"}, {"preset", "small"}}, NULL},
      {{{"agent", "random"}, {"atoms", "51"}}, NULL},
      {{{"agent", "dqn"}, {"dueling", "true"}, {"noisy", "true"}, {"atoms", "51"}}, NULL},
      {{{"agent", "dqn"}, {"env", "cartpole"}, {"atoms", "51"}}, NULL},
      {{{"agent", "dqn"}, {"atoms", "51"}, {"huber", "1"}}, "--huber=1: with --atoms=51"},
      {{{"agent", "r2d2"}, {"unroll_length", "10"}, {"burn_in", "11"}},
       "--burn_in=11 is longer than --unroll_length=10"},
      {{{"agent", "r2d2"}, {"unroll_length", "10"}, {"burn_in", "10"}}, NULL},
      {{{"agent", "dqn"}, {"unroll_length", "4"}, {"n_steps", "5"}, {"partial_returns", "false"}},
       "--n_steps=5 and --unroll_length=4: without --partial_returns no step"},
      {{{"agent", "dqn"}, {"unroll_length", "5"}, {"n_steps", "5"}, {"partial_returns", "false"}},
       NULL},
      {{{"agent", "dqn"}, {"unroll_length", "4"}, {"n_steps", "5"}}, NULL},
      {{{"agent", "r2d2"}, {"unroll_length", "10"}, {"burn_in", "5"}, {"window_stride", "11"}},
       "--window_stride=11: windows train on 10"},
      {{{"agent", "r2d2"}, {"unroll_length", "10"}, {"burn_in", "5"}, {"window_stride", "10"}},
       NULL},
      {{{"agent", "rainbow"}, {"atoms", "51"}, {"value_low", "10"}},
       "--value_low=10 and --value_high=10"},
      {{{"agent", "rainbow"}, {"atoms", "51"}, {"value_rescaling", "0.001"}},
       "--value_rescaling=0.001: with --atoms=51"},
      {{{"agent", "rainbow"}, {"atoms", "51"}, {"huber", "1"}}, "--huber=1: with --atoms=51"},
      {{{"agent", "rainbow"}, {"huber", "1"}, {"value_rescaling", "0.001"}}, NULL},
      {{{"network", "nature"}, {"frame_stack", "4"}, {"unroll_length", "3"}},
       "--frame_stack=4 needs --unroll_length of at least 4"},
      {{{"network", "nature"}, {"frame_stack", "4"}, {"unroll_length", "4"}}, NULL},
      {{{"agent", "dqn"}, {"network", "nature"}, {"frame_stack", "4"}, {"unroll_length", "2"}},
       NULL},
  };
  check_contradictions(table, sizeof(table) / sizeof(table[0]));
}

static void what_another_choice_leaves_unread_is_refused(void **state) {
  (void)state;
  static const struct contradiction table[] = {
      {{{"agent", "dqn"}, {"max_lag", "3"}}, "--max_lag is for --agent=vtrace|a2c|ppo: give that"},
      {{{"agent", "a2c"}, {"max_lag", "3"}}, NULL},
      {{{"rmsprop_momentum", "0.9"}}, "--rmsprop_momentum is for --optimizer=rmsprop"},
      {{{"optimizer", "rmsprop"}, {"adam_beta1", "0.9"}}, "--adam_beta1 is for --optimizer=adam"},
      {{{"optimizer", "rmsprop"}, {"rmsprop_momentum", "0.9"}}, NULL},
      {{{"agent", "dqn"}, {"value_low", "0"}}, "--value_low is for --atoms above 1"},
      {{{"entropy_adjustment_speed", "5"}}, "--entropy_adjustment_speed is for --target_entropy"},
      {{{"entropy_adjustment_speed", "5"}, {"target_entropy", "0.5"}}, NULL},
      {{{"agent", "dqn"}, {"exploration", "constant"}, {"epsilon_end", "0.1"}},
       "--epsilon_end is for --exploration=linear"},
      {{{"agent", "r2d2"}, {"epsilon_steps", "9"}}, "--epsilon_steps is for --exploration=linear"},
      {{{"agent", "dqn"}, {"exploration", "linear"}, {"epsilon_steps", "9"}}, NULL},
  };
  check_contradictions(table, sizeof(table) / sizeof(table[0]));
}

static void actors_hold_as_many_environments_as_suits_them(void **state) {
  (void)state;
  assert_int_equal(learner_default_envs_per_actor("cartpole"), 16);
  assert_int_equal(learner_default_envs_per_actor("synthetic"), 4);
  assert_int_equal(learner_default_envs_per_actor("./mine.so"), 16);
}

/* Runs that differ in one of these are no seeds of one experiment. */
static void options_of_agents_are_of_the_experiment(void **state) {
  (void)state;
  static const struct {
    const char *name;
    bool is;
  } cases[] = {{"lambda", true},        {"rho_clip", true},
               {"epochs", true},        {"n_steps", true},
               {"epsilon_start", true}, {"replay_steps", true},
               {"hidden", true},        {"learning_rate", true},
               {"unroll_length", true}, {"env", true},
               {"seed", false},         {"num_envs", false},
               {"listen", false},       {"total_steps", false},
               {"gpu", false},          {"trainer_threads", false}};
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
    const struct option *option = options_find(&learner_options_table, cases[i].name);
    assert_non_null(option);
    if (learner_option_is_of_experiment(option) != cases[i].is) fail_msg("%s", cases[i].name);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(an_environment_brings_its_own_defaults),
      cmocka_unit_test(batches_fit_the_number_of_environments),
      cmocka_unit_test(a_replay_begins_in_proportion_to_the_run),
      cmocka_unit_test(images_have_fewer_epochs),
      cmocka_unit_test(continuous_actions_have_settings_of_their_own),
      cmocka_unit_test(batches_fit_several_learners),
      cmocka_unit_test(atari_by_ppo_stacks_frames),
      cmocka_unit_test(policies_normalise_what_they_learn_from),
      cmocka_unit_test(the_network_follows_from_the_observation),
      cmocka_unit_test(what_the_user_gave_stays),
      cmocka_unit_test(a_budget_of_0_is_the_environments),
      cmocka_unit_test(exploration_follows_what_was_chosen),
      cmocka_unit_test(images_with_continuous_actions_have_defaults),
      cmocka_unit_test(another_environment_gets_a_budget_and_no_more),
      cmocka_unit_test(presets_agree_with_each_other),
      cmocka_unit_test(atoms_cover_the_returns),
      cmocka_unit_test(targets_are_copied_after_as_many_updates_as_were_tried),
      cmocka_unit_test(a_target_is_copied_after_whole_updates),
      cmocka_unit_test(a_short_run_explores_for_a_tenth_of_it),
      cmocka_unit_test(networks_read_images_if_their_kinds_do),
      cmocka_unit_test(priorities_have_one_scale),
      cmocka_unit_test(agents_with_noise_take_no_random_action),
      cmocka_unit_test(the_page_has_the_defaults_of_agents_with_a_replay),
      cmocka_unit_test(agents_replay_if_their_algorithms_do),
      cmocka_unit_test(contradictions_are_named),
      cmocka_unit_test(what_another_choice_leaves_unread_is_refused),
      cmocka_unit_test(options_of_agents_are_of_the_experiment),
      cmocka_unit_test(actors_hold_as_many_environments_as_suits_them),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
