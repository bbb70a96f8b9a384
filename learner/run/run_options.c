#include "learner/run/run_options.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/check.h"
#include "common/base/files.h"
#include "common/base/log.h"
#include "common/cluster/tf_config.h"
#include "envs/env_words.h"
#include "envs/registry.h"

/* These say how a program is started, not what is run. */
static const char *const options_of_start[] = {"listen",
                                               "token_file",
                                               "operator_token_file",
                                               "tls_cert",
                                               "tls_key",
                                               "tls_ca",
                                               "metrics_token_file",
                                               "logdir",
                                               "resume",
                                               "exit_with_parent",
                                               "mode",
                                               "over",
                                               "module",
                                               "learners",
                                               "learner_rank",
                                               "learners_file",
                                               "learners_at",
                                               "learners_mpi",
                                               "learners_timeout_s"};
enum { NUM_OPTIONS_OF_START = sizeof(options_of_start) / sizeof(options_of_start[0]) };

static bool is_option_of_start(const char *name) {
  for (int i = 0; i < NUM_OPTIONS_OF_START; i++)
    if (strcmp(options_of_start[i], name) == 0) return true;
  return false;
}

static void say_difference(void *context, const struct option *option, const char *earlier,
                           const char *now) {
  if (!is_option_of_start(option->name))
    fprintf(context, "resuming with --%s=%s; it was %s\n", option->name, now, earlier);
}

/* What another budget does to a schedule that ends with it. */
static void say_schedule(FILE *out, const struct learner_options *earlier,
                         const struct learner_options *now) {
  bool adapts = now->algorithm.ppo.kl_threshold > 0;
  if (strcmp(now->optimizer.learning_rate_decay, "linear") != 0) {
    fprintf(out, "the learning rate does not depend on --total_steps: it stays %g%s\n",
            now->optimizer.learning_rate, adapts ? " at most" : "");
    return;
  }
  fprintf(
      out,
      "the learning rate is %s%g x (1 - step / total_steps): another --total_steps makes it jump "
      "here, and then it falls to 0 at step %lld instead of %lld\n",
      adapts ? "at most " : "", now->optimizer.learning_rate, (long long)now->total_steps,
      (long long)earlier->total_steps);
}

static char *describe_differences(const struct learner_options *earlier,
                                  const struct learner_options *now) {
  char *text;
  size_t bytes;
  FILE *out = open_memstream(&text, &bytes);
  CHECK(out, "out of memory for the differences of options");
  options_compare(&learner_options_table, earlier, now, say_difference, out);
  const struct actor_critic_options *own = &now->algorithm.actor_critic;
  if (earlier->total_steps != now->total_steps) {
    say_schedule(out, earlier, now);
    if (own->entropy_cost_decay > 0)
      fprintf(out,
              "the entropy cost is %g x (1 - %g x step / total_steps): another --total_steps makes "
              "it jump here\n",
              own->entropy_cost, own->entropy_cost_decay);
  }
  if (own->target_entropy >= 0 && own->entropy_cost != earlier->algorithm.actor_critic.entropy_cost)
    fprintf(out, "--entropy_cost has no effect: --target_entropy goes on from what it came to\n");
  fclose(out);
  return text;
}

/* ---- read */

static enum status parse_words(struct learner_options *options, int argc, char **argv,
                               struct error *error) {
  const struct option_table *table = &learner_options_table;
  enum status status = options_parse(table, options, argc, argv, NULL, NULL, error);
  if (status == STATUS_OK) status = env_words_expand(table, options, error);
  return status == STATUS_OK ? learner_options_take_mpi(options, true, error) : status;
}

static enum status take_as_before(struct learner_options *options, bool is_said,
                                  struct error *error) {
  const struct option_table *table = &learner_options_table;
  const char *later = learner_options_keep_raw(options);
  if (later && is_said) log_info("this run is from before %s: off here", later);
  if (!learner_options_count_updates(options)) return STATUS_OK;
  int64_t updates = options->algorithm.q_learning.target_update;
  char steps[32];
  snprintf(steps, sizeof(steps), "%.0f", learner_options_updates_in_steps(options));
  if (is_said)
    log_info("this run's config.txt counts --target_update in updates: %lld of them are %s steps",
             (long long)updates, steps);
  enum status status = options_set(table, options, "target_update", steps, "config.txt", error);
  return status == STATUS_OK
             ? options_set(table, options, "importance_exponent_end", "-1", "config.txt", error)
             : status;
}

/* The options in which learners have to agree, as the run has them: one that was not there at the
 * last start has older ones. */
static enum status take_shared(struct learner_options *options, const char *path,
                               struct error *error) {
  const struct option_table *table = &learner_options_table;
  struct learner_options run;
  options_init(table, &run);
  enum status status = options_read_file(table, &run, path, error);
  for (int i = 0; i < table->count && status == STATUS_OK; i++) {
    if (!learner_option_is_shared(&table->options[i])) continue;
    char *value = options_value_text(&table->options[i], &run);
    status = options_set_of_file(table, options, table->options[i].name, value, path, error);
    free(value);
  }
  options_deinit(table, &run);
  return status;
}

/* A run that is evaluated or continued brings its own options; the command line wins over them.
 * *earlier: its own alone. shared: config.txt of the run that this learner is one of, or NULL.
 * joins: it has no folder of its own yet, nor a module there. */
static enum status take_options_of_run(struct learner_options *options,
                                       struct learner_options *earlier, const char *path,
                                       const char *shared, bool evaluates, bool joins, int argc,
                                       char **argv, struct error *error) {
  const struct option_table *table = &learner_options_table;
  enum status status = options_read_file(table, earlier, path, error);
  if (status == STATUS_OK) status = take_as_before(earlier, !evaluates, error);
  if (status == STATUS_OK) learner_options_drop_foreign(earlier, false);
  options_deinit(table, options);
  options_init(table, options);
  if (status == STATUS_OK) status = options_read_file(table, options, path, error);
  if (status == STATUS_OK && shared) status = take_shared(options, shared, error);
  // A run folder's module is the one that it keeps: a config.txt that names another is not ours.
  if (status == STATUS_OK && !joins)
    status = options_set(table, options, "module", "", path, error);
  if (status == STATUS_OK) status = take_as_before(options, false, error);
  if (status == STATUS_OK) learner_options_drop_foreign(options, false);
  if (status == STATUS_OK && evaluates) learner_options_evaluate(options);
  if (status == STATUS_OK) status = parse_words(options, argc, argv, error);
  return status;
}

/* *has_run: options were taken of a run with a network. */
static enum status parse(struct learner_options *options, struct learner_options *earlier,
                         bool *has_run, int argc, char **argv, struct error *error) {
  enum status status = parse_words(options, argc, argv, error);
  if (status != STATUS_OK) return status;
  bool evaluates = strcmp(options->mode, "evaluate") == 0;
  bool learns = learner_options_learns(options);
  bool wants_run = evaluates ? learns : options->resume;
  if (!wants_run || !options->logdir[0]) return STATUS_OK;
  char path[1024], run[1024];
  snprintf(path, sizeof(path), "%s/config.txt", options->logdir);
  // A learner does as the others of its run, RUN/learner-RANK in RUN; its folder may not be made
  // yet.
  const char *own = strrchr(options->logdir, '/');
  bool is_other = own && options->learner_rank > 0;
  snprintf(run, sizeof(run), "%.*s/config.txt", own ? (int)(own - options->logdir) : 0,
           options->logdir);
  bool joins = is_other && access(path, R_OK) != 0;
  if (joins) memcpy(path, run, sizeof(path));
  if (access(path, R_OK) != 0 && !evaluates) return STATUS_OK;
  if (access(path, R_OK) != 0)
    return status_fail(error, STATUS_NOT_FOUND,
                       "--logdir=%s holds no run to evaluate: there is no config.txt in it",
                       options->logdir);
  *has_run = true;
  const char *shared = is_other && access(run, R_OK) == 0 ? run : NULL;
  return take_options_of_run(options, earlier, path, shared, evaluates, joins, argc, argv, error);
}

/* Curiosity can be left out, not added. The speed is in the unit of the coefficient that
 * --target_entropy adjusts. */
static bool may_change(const char *name, const struct algorithm_options *earlier) {
  if (strcmp(name, "curiosity") == 0) return strcmp(earlier->curiosity.kind, "none") != 0;
  if (strcmp(name, "entropy_adjustment_speed") == 0)
    return earlier->actor_critic.target_entropy < 0;
  return false;
}

/* What the arrays of a checkpoint depend on must be as it was. The kind of network comes first: the
 * sizes follow from it. */
static enum status check_same_network(const struct learner_options *earlier,
                                      const struct learner_options *now, struct error *error) {
  static const char *const names[] = {"network",
                                      "hidden",
                                      "lstm_size",
                                      "frame_stack",
                                      "previous_action",
                                      "previous_reward",
                                      "head_hidden",
                                      "normalize_observations",
                                      "normalize_images",
                                      "normalize_values",
                                      "dueling",
                                      "noisy",
                                      "atoms",
                                      "optimizer",
                                      "curiosity",
                                      "entropy_adjustment_speed"};
  enum status status = STATUS_OK;
  bool learns = learner_options_learns(earlier) && learner_options_learns(now);
  for (size_t i = 0; learns && status == STATUS_OK && i < sizeof(names) / sizeof(names[0]); i++) {
    if (may_change(names[i], &earlier->algorithm)) continue;
    const struct option *option = options_find(&learner_options_table, names[i]);
    char *before = options_value_text(option, earlier), *after = options_value_text(option, now);
    if (strcmp(before, after) != 0)
      status = status_fail(error, STATUS_MISMATCH,
                           "--%s=%s: the run in %s has --%s=%s, and its checkpoints fit nothing "
                           "else: leave --%s out, or begin a new run with another --logdir",
                           names[i], after, now->logdir, names[i], before, names[i]);
    free(before);
    free(after);
  }
  return status;
}

/* The network of a run that exists is not chosen anew. */
static enum status keep_network(const struct learner_options *earlier, struct learner_options *now,
                                struct error *error) {
  if (strcmp(now->network, "auto") != 0) return STATUS_OK;
  return options_set(&learner_options_table, now, "network", earlier->network, "", error);
}

/* Of a config.txt without a network, which is from before there was a choice by images. */
static enum status choose_as_before(struct learner_options *earlier, struct learner_options *now,
                                    struct error *error) {
  enum status status = learner_options_choose_network(earlier, false, error);
  return status == STATUS_OK ? learner_options_choose_network(now, false, error) : status;
}

/* Evaluation, the target, and checkpoints but the last one, are rank 0's. */
static enum status leave_to_first(struct learner_options *options, struct error *error) {
  static const char *const values[][2] = {{"target_return", "none"}, {"num_eval_envs", "0"},
                                          {"over", "train"},         {"video_every", "0"},
                                          {"checkpoint_secs", "0"},  {"checkpoint_steps", "0"}};
  enum status status = STATUS_OK;
  if (options->learner_rank <= 0) return STATUS_OK;
  for (size_t i = 0; i < sizeof(values) / sizeof(*values) && status == STATUS_OK; i++)
    status = options_set(&learner_options_table, options, values[i][0], values[i][1],
                         "--learner_rank", error);
  return status;
}

/* Without --listen a cluster's TF_CONFIG says where to listen. */
static enum status apply_tf_config(struct learner_options *options, struct error *error) {
  const char *json = getenv("TF_CONFIG");
  if (!json || !json[0] || options_given(&learner_options_table, options, "listen"))
    return STATUS_OK;
  struct tf_config config = {0};
  enum status status = tf_config_parse(&config, json, error);
  if (status != STATUS_OK) return status;
  if (config.role != TF_ROLE_LEARNER)
    return status_fail(
        error, STATUS_INVALID,
        "TF_CONFIG makes this task %s %d, but this program is the learner: run build/actor here",
        tf_role_name(config.role), config.index);
  if (config.num_learners > 1)
    return status_fail(error, STATUS_INVALID,
                       "TF_CONFIG has %d learners: start each by deploy/run_task.sh, or give "
                       "--listen, --learners, --learner_rank and --learners_at",
                       config.num_learners);
  return options_set(&learner_options_table, options, "listen", config.listen, "TF_CONFIG", error);
}

/* config.txt must name the same plugin to a later learner in another folder. */
static enum status make_env_absolute(struct learner_options *options, struct error *error) {
  char *word = registry_word(options->env);
  enum status status = STATUS_OK;
  if (strcmp(word, options->env) != 0)
    status = options_set(&learner_options_table, options, "env", word, "", error);
  free(word);
  return status;
}

enum status run_options_read(struct learner_options *options, char **differences, int argc,
                             char **argv, struct error *error) {
  struct learner_options earlier;
  bool has_run = false;
  *differences = NULL;
  options_init(&learner_options_table, options);
  options_init(&learner_options_table, &earlier);
  enum status status = parse(options, &earlier, &has_run, argc, argv, error);
  if (status == STATUS_OK && !has_run) learner_options_take_file(options);
  if (status == STATUS_OK && has_run) status = keep_network(&earlier, options, error);
  if (status == STATUS_OK && has_run && options->resume)
    *differences = describe_differences(&earlier, options);
  if (status == STATUS_OK) status = make_env_absolute(options, error);
  if (status == STATUS_OK) status = apply_tf_config(options, error);
  if (status == STATUS_OK) status = leave_to_first(options, error);
  if (status == STATUS_OK) {
    learner_options_apply_preset(options);
    learner_options_apply_preset(&earlier);
    if (has_run) status = choose_as_before(&earlier, options, error);
    if (has_run && status == STATUS_OK) status = check_same_network(&earlier, options, error);
  }
  if (status == STATUS_OK) status = learner_options_check(options, error);
  options_deinit(&learner_options_table, &earlier);
  return status;
}

/* Of several learners each has its share of the windows, which changes with their number. */
static int64_t minibatches_of(const struct learner_options *options) {
  int windows = learner_options_batch_size(options);
  int64_t given = options->algorithm.ppo.minibatches, fits = given;
  if (options->learners <= 1) return given;
  while (fits > 1 && windows % fits) fits--;
  if (fits != given)
    log_warn("--minibatches=%lld does not divide the %d windows of each learner: taking %lld",
             (long long)given, windows, (long long)fits);
  return fits;
}

struct update_config run_options_of_update(const struct learner_options *options) {
  struct update_config config = {
      .algorithm = options->algorithm,
      .optimizer = options->optimizer,
      .num_windows = learner_options_batch_size(options),
      .window_steps = learner_options_window_steps(options),
      .total_steps = options->total_steps,
      .target_updates = learner_options_target_updates(options),
      .seed = (uint64_t)options->seed,
  };
  config.algorithm.ppo.minibatches = minibatches_of(options);
  return config;
}

/* ---- said and written */

void run_options_say_differences(char *differences) {
  char *rest = differences;
  for (const char *line; rest && (line = strsep(&rest, "\n")) && *line;) log_info("%s", line);
  free(differences);
}

enum status run_options_write(const struct learner_options *options, const char *folder,
                              struct error *error) {
  char path[1024];
  snprintf(path, sizeof(path), "%s/config.txt", folder);
  FILE *file = files_begin(path);
  if (file)
    options_write(&learner_options_table, options, options_of_start, NUM_OPTIONS_OF_START, file);
  return files_replace(file, path, error);
}
