/* Options that contradict each other, or that the agent does not have; config.txt files of
 * earlier versions. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/log.h"
#include "learner/run/agents.h"
#include "learner/run/options.h"

/* ---- options that contradict each other */

static enum status check_serving(const struct learner_options *options, struct error *error) {
  int64_t max = options->max_envs ? options->max_envs : 2 * options->num_envs;
  if (max < options->num_envs)
    return status_fail(
        error, STATUS_INVALID,
        "--max_envs=%lld is less than --num_envs=%lld: leave it out, or give it at least that",
        (long long)max, (long long)options->num_envs);
  if (options->checkpoint[0] && strcmp(options->mode, "evaluate") != 0)
    return status_fail(error, STATUS_INVALID,
                       "--checkpoint=%.300s: a named checkpoint is for --mode=evaluate; training "
                       "goes on from the newest one, with --resume",
                       options->checkpoint);
  if (options->deterministic && strcmp(options->over, "eval") == 0)
    return status_fail(error, STATUS_INVALID,
                       "--over=eval and --deterministic exclude each other: evaluation episodes "
                       "end when they end; leave one of the two out");
  if (strcmp(options->mode, "evaluate") == 0 && learner_options_learns(options) &&
      !options->logdir[0])
    return status_fail(
        error, STATUS_INVALID,
        "--mode=evaluate needs --logdir=RUN: the run folder whose checkpoint is played");
  return STATUS_OK;
}

static bool is_mlp(const struct learner_options *options) {
  return strcmp(options->network, "mlp") == 0;
}

static bool is_of_images(const struct learner_options *options) {
  return agents_list_has("impala_shallow|impala_deep|nature", options->network);
}

static bool is_of_vectors(const struct learner_options *options) {
  return agents_list_has("mlp|lstm", options->network);
}

static bool lacks_memory(const struct learner_options *options) {
  return !learner_options_remembers(options);
}

/* Options of parts that these networks do not have. */
static const struct {
  const char *name;
  bool (*is_lacking)(const struct learner_options *options);
  const char *says;
} parts[] = {{"lstm_size", is_mlp, "has no memory; --network=lstm has"},
             {"burn_in", lacks_memory, "has no memory (--lstm_size=0)"},
             {"hidden", is_of_images, "has layers of its own"},
             {"activation", is_of_images, "has that of its own"},
             {"normalize_images", is_of_vectors, "sees no images"}};
enum { NUM_PARTS = sizeof(parts) / sizeof(parts[0]) };

static bool is_typed(const struct learner_options *options, const char *name) {
  return options_given(&learner_options_table, options, name) &&
         !options_of_file(&learner_options_table, options, name);
}

/* What was typed of these; a run's config.txt has them all. */
static enum status check_parts(const struct learner_options *options, struct error *error) {
  for (int i = 0; i < NUM_PARTS; i++) {
    const char *name = parts[i].name;
    if (!is_typed(options, name) || !parts[i].is_lacking(options)) continue;
    char *value = options_value_text(options_find(&learner_options_table, name), options);
    bool is_none = agents_list_has("0|-1|false", value);
    enum status status =
        is_none ? STATUS_OK
                : status_fail(error, STATUS_INVALID, "--%s=%s: network %s %s: leave it out", name,
                              value, options->network, parts[i].says);
    free(value);
    if (status != STATUS_OK) return status;
  }
  return STATUS_OK;
}

/* A replay's pages are long enough for any frames. */
enum status learner_options_check_network(const struct learner_options *options,
                                          struct error *error) {
  if (learner_options_chooses_network(options)) return STATUS_OK; /* checked once it is known */
  if (options->frame_stack > 1 && !learner_options_pixels(options))
    return status_fail(error, STATUS_INVALID,
                       "--frame_stack=%lld: network %s does not stack frames; impala_shallow, "
                       "impala_deep and nature do",
                       (long long)options->frame_stack, options->network);
  if (options->frame_stack > options->algorithm.unroll_length && !learner_options_replays(options))
    return status_fail(error, STATUS_INVALID,
                       "--frame_stack=%lld needs --unroll_length of at least %lld",
                       (long long)options->frame_stack, (long long)options->frame_stack);
  return check_parts(options, error);
}

static enum status check_windows(const struct learner_options *options, struct error *error) {
  if (options->algorithm.q_learning.burn_in > options->algorithm.unroll_length)
    return status_fail(error, STATUS_INVALID,
                       "--burn_in=%lld is longer than --unroll_length=%lld: most of each window "
                       "would not be trained on; give at most as many steps",
                       (long long)options->algorithm.q_learning.burn_in,
                       (long long)options->algorithm.unroll_length);
  if (q_learning_counted_steps(&options->algorithm) < 1)
    return status_fail(error, STATUS_INVALID,
                       "--n_steps=%lld and --unroll_length=%lld: without --partial_returns no step "
                       "of a window would count; give an unroll of at least n_steps",
                       (long long)options->algorithm.q_learning.n_steps,
                       (long long)options->algorithm.unroll_length);
  int counted = q_learning_counted_steps(&options->algorithm);
  if (options->window_stride > counted)
    return status_fail(error, STATUS_INVALID,
                       "--window_stride=%lld: windows train on %d of their steps, so some would be "
                       "left out; give at most as many",
                       (long long)options->window_stride, counted);
  return STATUS_OK;
}

static enum status check_atoms(const struct learner_options *options, struct error *error) {
  if (options->atoms == 1) return STATUS_OK;
  if (!(options->value_low < options->value_high))
    return status_fail(error, STATUS_INVALID,
                       "--value_low=%g and --value_high=%g: the first atom must be below the last",
                       options->value_low, options->value_high);
  if (options->algorithm.q_learning.value_rescaling > 0 || options->algorithm.q_learning.huber > 0)
    return status_fail(
        error, STATUS_INVALID,
        "--%s=%g: with --atoms=%lld values are distributions, whose loss has none; "
        "give 0",
        options->algorithm.q_learning.value_rescaling > 0 ? "value_rescaling" : "huber",
        options->algorithm.q_learning.value_rescaling > 0
            ? options->algorithm.q_learning.value_rescaling
            : options->algorithm.q_learning.huber,
        (long long)options->atoms);
  return STATUS_OK;
}

/* ---- options of other agents */

enum { NAMED_OPTIONS = 3 };

/* Adds an option to a list in words, of which the first are named. */
static void add_name(char names[256], int count, const char *name) {
  size_t used = strlen(names);
  if (count < NAMED_OPTIONS)
    snprintf(names + used, 256 - used, "%s--%s", count ? ", " : "", name);
  else if (count == NAMED_OPTIONS)
    snprintf(names + used, 256 - used, " ...");
}

/* What would be ignored. */
static enum status check_foreign(const struct learner_options *options, struct error *error) {
  const struct option_table *table = &learner_options_table;
  char names[256] = "", others[256] = "";
  int count = 0;
  for (int i = 0; i < table->count; i++) {
    const struct option *option = &table->options[i];
    if (!learner_option_is_foreign(option, options) || !is_typed(options, option->name)) continue;
    add_name(names, count++, option->name);
    agents_list_with(others, option);
  }
  if (!count) return STATUS_OK;
  return status_fail(error, STATUS_INVALID,
                     "%s: agent %s has no such option (--agent=%s): leave %s out", names,
                     options->agent, others, count > 1 ? "them" : "it");
}

/* ---- options of other choices */

static bool has_no_replay(const struct learner_options *options) {
  return !learner_options_replays(options);
}

static bool is_curious(const struct learner_options *options) {
  return algorithm_is_curious(&options->algorithm);
}

static bool adjusts_entropy(const struct learner_options *options) {
  return options->algorithm.actor_critic.target_entropy >= 0;
}

static bool has_atoms(const struct learner_options *options) {
  return options->atoms > 1;
}

static bool explores_linearly(const struct learner_options *options) {
  return strcmp(options->exploration, "linear") == 0;
}

static bool is_adam(const struct learner_options *options) {
  return strcmp(options->optimizer.name, "adam") == 0;
}

static bool is_rmsprop(const struct learner_options *options) {
  return strcmp(options->optimizer.name, "rmsprop") == 0;
}

/* Options that are read with one choice of another. */
static const struct choice {
  const char *names;
  bool (*is_made)(const struct learner_options *options);
  const char *says;
} choices[] = {
    {"max_lag", has_no_replay, "--agent=vtrace|a2c|ppo"},
    {"intrinsic_discount|intrinsic_weight|extrinsic_weight|predictor_share", is_curious,
     "--curiosity=rnd"},
    {"entropy_adjustment_speed", adjusts_entropy, "--target_entropy"},
    {"value_low|value_high", has_atoms, "--atoms above 1"},
    {"epsilon_end|epsilon_steps", explores_linearly, "--exploration=linear"},
    {"adam_beta1|adam_beta2|adam_epsilon|adam_epsilon_hat", is_adam, "--optimizer=adam"},
    {"rmsprop_decay|rmsprop_momentum|rmsprop_epsilon", is_rmsprop, "--optimizer=rmsprop"}};

/* The choice that an option needs and that is not made, or NULL. */
static const struct choice *choice_lacking(const struct option *option,
                                           const struct learner_options *options) {
  for (size_t i = 0; i < sizeof(choices) / sizeof(choices[0]); i++)
    if (agents_list_has(choices[i].names, option->name))
      return choices[i].is_made(options) ? NULL : &choices[i];
  return NULL;
}

static enum status check_choices(const struct learner_options *options, struct error *error) {
  for (int i = 0; i < learner_options_table.count; i++) {
    const struct option *option = &learner_options_table.options[i];
    const struct choice *choice = choice_lacking(option, options);
    if (choice && is_typed(options, option->name))
      return status_fail(error, STATUS_INVALID, "--%s is for %s: give that, or leave it out",
                         option->name, choice->says);
  }
  return STATUS_OK;
}

void learner_options_drop_foreign(struct learner_options *options, bool is_said) {
  const struct option_table *table = &learner_options_table;
  char names[256] = "";
  int count = 0;
  for (int i = 0; learner_options_learns(options) && i < table->count; i++) {
    const struct option *option = &table->options[i];
    if (!options_of_file(table, options, option->name)) continue;
    if (choice_lacking(option, options)) options_reset(table, options, option);
    if (!learner_option_is_foreign(option, options)) continue;
    char *before = options_value_text(option, options);
    options_reset(table, options, option);
    char *after = options_value_text(option, options);
    if (strcmp(before, after) != 0) add_name(names, count++, option->name);
    free(before);
    free(after);
  }
  if (count && is_said)
    log_info("--config: %s: agent %s has no such option: ignored", names, options->agent);
}

/* What a config.txt says of parts that its network does not have: a launcher hands the values of a
 * file on as words, which are refused. */
static void drop_parts(struct learner_options *options) {
  const struct option_table *table = &learner_options_table;
  for (int i = 0; i < NUM_PARTS; i++)
    if (options_of_file(table, options, parts[i].name) && parts[i].is_lacking(options))
      options_reset(table, options, options_find(table, parts[i].name));
}

/* ---- config.txt of earlier versions */

/* A config.txt without importance_exponent_end is from before it, when --target_update counted
 * updates. */
bool learner_options_count_updates(const struct learner_options *options) {
  const struct option_table *table = &learner_options_table;
  return options_of_file(table, options, "target_update") &&
         !options_given(table, options, "importance_exponent_end") &&
         learner_options_replays(options);
}

double learner_options_updates_in_steps(const struct learner_options *options) {
  double steps =
      (double)options->algorithm.q_learning.target_update * learner_options_update_steps(options);
  return fmin(fmax(1, steps), 1e15);
}

void learner_options_take_file(struct learner_options *options) {
  // A config.txt names them all, of which the command line may replace some; a file of a few
  // lines does not.
  static const char *const also[] = {"n_steps", "replay_ratio", "priority_exponent",
                                     "importance_exponent", "unroll_length"};
  bool is_whole = true;
  for (size_t i = 0; i < sizeof(also) / sizeof(also[0]); i++)
    is_whole = is_whole && options_given(&learner_options_table, options, also[i]);
  learner_options_drop_foreign(options, true);
  const char *later = is_whole ? learner_options_keep_raw(options) : NULL;
  drop_parts(options); /* by which normalize_images may no longer be there */
  if (later) log_info("--config: it is from before %s: off here", later);
  if (!is_whole || !learner_options_count_updates(options)) return;
  int64_t updates = options->algorithm.q_learning.target_update;
  options->algorithm.q_learning.target_update = llround(learner_options_updates_in_steps(options));
  log_info("--config: it counts --target_update in updates: %lld of them are %lld steps",
           (long long)updates, (long long)options->algorithm.q_learning.target_update);
}

/* ---- all of it */

enum status learner_options_check(const struct learner_options *options, struct error *error) {
  enum status status = check_serving(options, error);
  if (status == STATUS_OK) status = learner_options_check_network(options, error);
  if (status != STATUS_OK || !learner_options_learns(options)) return status;
  status = learner_options_check_preset(options, error);
  if (status != STATUS_OK) return status;
  status = check_foreign(options, error);
  if (status == STATUS_OK) status = check_choices(options, error);
  if (status != STATUS_OK || !learner_options_replays(options)) return status;
  status = check_windows(options, error);
  return status == STATUS_OK ? check_atoms(options, error) : status;
}
