#include "deploy/launch_plan.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/log.h"
#include "deploy/atari_words.h"
#include "deploy/checks.h"
#include "deploy/earlier_run.h"
#include "deploy/evaluators.h"
#include "deploy/run_folder.h"
#include "envs/plugin.h"
#include "envs/registry.h"

#define word(...) words_format(__VA_ARGS__)

// The programs' own tables say whether they will take the words.
static enum status check_options(struct launch_plan *plan, struct error *error) {
  struct words *own = &plan->arguments.launch;
  options_init(&launch_options_table, &plan->own);
  plan->env_word = registry_word(plan->arguments.env);
  own->word[0] = "launch";
  enum status status =
      options_parse(&launch_options_table, &plan->own, own->count, own->word, NULL, NULL, error);
  if (status != STATUS_OK) return status;
  return checks_options(&plan->arguments, plan->env_word, &plan->learner, &plan->actor, error);
}

// Where a run stands that this one plays or continues: NULL if there can be none.
static const char *earlier_run(struct launch_plan *plan) {
  const struct arguments *arguments = &plan->arguments;
  if (!plan->evaluates && !plan->learner.resume) return NULL;
  if (plan->learner.logdir[0]) return plan->learner.logdir;
  bool found = !plan->evaluates && run_folder_newest(plan->run_folder, PATH_MAX, RUNS_FOLDER,
                                                     plan->env->name, arguments->agent);
  return found ? plan->run_folder : NULL;
}

// The environments of a run that is played or continued are those that it was trained on.
static enum status take_earlier_run(struct launch_plan *plan, struct error *error) {
  const char *folder = earlier_run(plan);
  if (!folder) return STATUS_OK;
  bool given = options_given(&learner_options_table, &plan->learner, "env_args");
  enum status status = earlier_run_take(&plan->learner, folder, error);
  bool taken = !given && options_given(&learner_options_table, &plan->learner, "env_args");
  if (taken) words_add(&plan->arguments.learner, word("--env_args=%s", plan->learner.env_args));
  return status;
}

// --game and its like become part of --env_args, of the earlier run's where there is one.
static enum status take_atari_words(struct launch_plan *plan, struct error *error) {
  char *env_args;
  enum status status =
      atari_words_add(&env_args, &plan->own, plan->arguments.env, plan->learner.env_args, error);
  if (status != STATUS_OK || !env_args) return status;
  words_add(&plan->arguments.learner, word("--env_args=%s", env_args));
  status = options_set(&learner_options_table, &plan->learner, "env_args", env_args, "", error);
  free(env_args);
  return status;
}

static enum status check_environment(struct launch_plan *plan, struct error *error) {
  struct acorn_config config;
  struct space space;
  enum status status = registry_find(&plan->env, plan->arguments.env, error);
  if (status == STATUS_OK) status = take_earlier_run(plan, error);
  if (status == STATUS_OK) status = take_atari_words(plan, error);
  if (status != STATUS_OK) return status;
  status = registry_config(&config, plan->env, plan->learner.env_args, error);
  if (status != STATUS_OK) return status;
  // It may be made for this, and may do there what an actor would die of.
  status = registry_space_apart(&space, plan->env, &config, (unsigned)plan->actor.hang_s, error);
  registry_config_deinit(&config);
  return status;
}

static void choose_envs_per_actor(struct launch_plan *plan) {
  plan->envs_per_actor = plan->arguments.envs_per_actor;
  if (!plan->envs_per_actor) plan->envs_per_actor = learner_default_envs_per_actor(plan->env->name);
}

// What is assumed of an environment that Acorn does not know.
static void say_assumptions(struct launch_plan *plan) {
  const char *env = plan->arguments.env;
  if (!plugin_is_path(env) && strncmp(env, "gym:", 4) != 0) return;
  if (learner_options_has_preset(env)) return;
  learner_options_apply_preset(&plan->learner);
  log_info(
      "Acorn has no settings for %s: %d environments per actor (the fourth word), %lld steps "
      "(--total_steps), else the general settings (--help)",
      plan->env->name, plan->envs_per_actor, (long long)plan->learner.total_steps);
}

static enum status choose_evaluators(struct launch_plan *plan, struct error *error) {
  struct launch_options *options = &plan->own;
  const struct learner_options *learner = &plan->learner;
  int suiting = learner_options_evaluators(learner);
  options->evaluators = evaluators_choose(options->evaluators, suiting, 0, learner);
  if (options->eval_envs == 0) options->eval_envs = plan->envs_per_actor;
  return evaluators_add_words(&plan->arguments.learner, (int)options->evaluators,
                              (int)options->eval_envs, learner, error);
}

enum status launch_plan_parse(struct launch_plan *plan, int argc, char **argv,
                              struct error *error) {
  static const struct argument_tables tables = {&launch_options_table, &learner_options_table,
                                                &actor_options_table};
  enum status status = arguments_parse(&plan->arguments, &tables, argc, argv, error);
  if (status != STATUS_OK || plan->arguments.help) return status;
  status = checks_order(&plan->arguments, error);
  if (status == STATUS_OK) status = check_options(plan, error);
  if (status == STATUS_OK) status = checks_listen(plan->learner.listen, error);
  if (status != STATUS_OK) return status;
  plan->evaluates = strcmp(plan->learner.mode, "evaluate") == 0;
  status = check_environment(plan, error);
  if (status != STATUS_OK) return status;
  choose_envs_per_actor(plan);
  if (!plan->evaluates) say_assumptions(plan);
  return choose_evaluators(plan, error);
}
