/* The part of a plan that falls to this host: sizes, evaluators and commands. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/check.h"
#include "common/base/log.h"
#include "deploy/plan.h"
#include "deploy/supervisor.h"
#include "envs/plugin.h"

static bool learner_given(const struct plan *plan, const char *name) {
  return options_given(&learner_options_table, &plan->learner, name);
}

/* ---- evaluators beside the learner */

// Unless told otherwise as many as suit the agent, but none where others run already, where nothing
// is trained, and with --deterministic: evaluation episodes end in no order that repeats.
static int choose_evaluators(const struct plan *plan) {
  if (plan->own.evaluators >= 0) return (int)plan->own.evaluators;
  if (plan->part.other_evaluators > 0 || plan->learner.deterministic || plan->evaluates) return 0;
  return learner_options_evaluators(&plan->learner);
}

// --over=eval, or evaluators run and nothing else is asked for: training episodes explore.
bool plan_scores_evaluation(const struct plan *plan) {
  if (strcmp(plan->learner.over, "auto") != 0) return strcmp(plan->learner.over, "eval") == 0;
  return plan->part.num_evaluators > 0 && !plan->learner.deterministic;
}

// Room for all evaluators. With those here the target and the result are about their episodes from
// the start: a target must not be reached in training before the first evaluation. Those of other
// hosts, which may never come, change nothing but the room.
static enum status add_evaluators_words(struct plan *plan, struct error *error) {
  const struct plan_part *part = &plan->part;
  struct words *words = &plan->arguments.learner;
  int all = part->num_evaluators + part->other_evaluators;
  int64_t envs = all * plan->own.eval_envs;
  bool room_given = learner_given(plan, "num_eval_envs");
  if (part->num_evaluators > 0 && plan->evaluates)
    return status_fail(error, STATUS_INVALID,
                       "--evaluators belong to a run that trains; leave them out with "
                       "--mode=evaluate");
  if (part->num_evaluators > 0 && room_given && plan->learner.num_eval_envs < envs)
    return status_fail(
        error, STATUS_INVALID,
        "--num_eval_envs=%lld is less than the %lld environments of %d evaluators with %d each: "
        "leave it out, or give fewer --evaluators or --eval_envs",
        (long long)plan->learner.num_eval_envs, (long long)envs, all, (int)plan->own.eval_envs);
  if (!room_given && plan->learner.num_eval_envs < envs)
    words_add(words, words_format("--num_eval_envs=%lld", (long long)envs));
  if (part->num_evaluators > 0 && !learner_given(plan, "over") && plan_scores_evaluation(plan))
    words_add(words, "--over=eval");
  return STATUS_OK;
}

/* ---- sizes */

// What is assumed of an environment that Acorn does not know.
static void log_assumptions(struct plan *plan) {
  const char *env = plan->arguments.env;
  if (!plugin_is_path(env) && strncmp(env, "gym:", 4) != 0) return;
  if (learner_options_has_preset(env)) return;
  learner_options_apply_preset(&plan->learner);
  log_info(
      "Acorn has no settings for %s: %d environments per actor (the fourth word), %lld steps "
      "(--total_steps), else the general settings (--help)",
      plan->env->name, plan->part.envs_per_actor, (long long)plan->learner.total_steps);
}

enum status plan_size(struct plan *plan, int64_t all_actors, struct error *error) {
  struct plan_part *part = &plan->part;
  if (!part->envs_per_actor) part->envs_per_actor = learner_default_envs_per_actor(plan->env->name);
  if (plan->own.eval_envs == 0) plan->own.eval_envs = part->envs_per_actor;
  if (plan->form->counts_actors && !plan->evaluates) log_assumptions(plan);
  int64_t num_envs = all_actors * part->envs_per_actor;
  const struct option *limit = options_find(&learner_options_table, "num_envs");
  if (num_envs < 1 || num_envs > (int64_t)limit->max)
    return status_fail(error, STATUS_INVALID,
                       "%lld actors with %d environments each are %lld environments; the learner "
                       "takes 1 to %.0f",
                       (long long)all_actors, part->envs_per_actor, (long long)num_envs,
                       limit->max);
  part->num_envs = (int)num_envs;
  if (!part->has_learner) return STATUS_OK;
  part->num_evaluators = choose_evaluators(plan);
  return add_evaluators_words(plan, error);
}

/* ---- commands */

static void make_learner_command(struct plan *plan) {
  struct words *words = &plan->arguments.learner;
  words->word[0] = words_format("%s/learner", plan->programs);
  if (!learner_given(plan, "listen"))
    words_add(words, words_format("--listen=%s", plan->part.listen));
  if (!learner_given(plan, "logdir") && plan->run_folder[0])
    words_add(words, words_format("--logdir=%s", plan->run_folder));
  words_add(words, words_format("--num_envs=%d", plan->part.num_envs));
  words_add(words, "--exit_with_parent");
  plan->learner_command = words->word;
}

bool plan_has_one_stream(const struct plan *plan) {
  return plan->part.num_actors >= sysconf(_SC_NPROCESSORS_ONLN) &&
         !options_given(&actor_options_table, &plan->actor, "streams");
}

// What all actors of this host share. Environment options may come from a --config file, which only
// the learner reads.
static void add_common_actor_words(struct plan *plan) {
  const struct plan_part *part = &plan->part;
  struct words *words = &plan->arguments.actor;
  bool named = options_given(&actor_options_table, &plan->actor, "name");
  words->word[0] = words_format("%s/actor", plan->programs);
  words_add(words, words_format("--learner=%s", part->learner));
  words_add(words, words_format("--env=%s", plan->env_word));
  if (learner_given(plan, "env_args"))
    words_add(words, words_format("--env_args=%s", plan->learner.env_args));
  if (part->evaluates) words_add(words, "--role=eval");
  if (part->actor_name && !named) words_add(words, words_format("--name=%s", part->actor_name));
  if (plan_has_one_stream(plan)) words_add(words, "--streams=1");
  words_add(words, "--exit_with_parent");
}

// The common words and those of one process; NULL ends the list.
static char **actor_command(const struct plan *plan, int task, int64_t envs, bool evaluates) {
  const struct words *common = &plan->arguments.actor;
  char **command = check_alloc((size_t)common->count + 6, sizeof(*command));
  int count = common->count;
  memcpy(command, common->word, (size_t)count * sizeof(*command));
  command[count++] = words_format("--task=%d", task);
  command[count++] = words_format("--envs=%lld", (long long)envs);
  if (!evaluates) return command;
  command[count++] = words_format("--name=%s", plan->part.evaluator_name);
  command[count++] = "--role=eval";
  command[count++] = "--streams=1";
  return command;
}

// The evaluators come after the actors.
void plan_commands(struct plan *plan) {
  const struct plan_part *part = &plan->part;
  int num_actors = part->num_actors, count = num_actors + part->num_evaluators;
  if (part->has_learner) make_learner_command(plan);
  add_common_actor_words(plan);
  plan->actor_commands = check_alloc((size_t)count, sizeof(*plan->actor_commands));
  for (int i = 0; i < num_actors; i++)
    plan->actor_commands[i] = actor_command(plan, part->first + i, part->envs_per_actor, false);
  for (int i = num_actors; i < count; i++)
    plan->actor_commands[i] = actor_command(plan, i - num_actors, plan->own.eval_envs, true);
}

static void print_command(char *const *command, FILE *out) {
  fprintf(out, "%s", strrchr(command[0], '/') + 1);
  for (int i = 1; command[i]; i++) fprintf(out, " %s", command[i]);
  fprintf(out, "\n");
}

void plan_print_commands(const struct plan *plan, FILE *out) {
  if (plan->learner_command) print_command(plan->learner_command, out);
  for (int i = 0; i < plan->part.num_actors + plan->part.num_evaluators; i++)
    print_command(plan->actor_commands[i], out);
}

int plan_run(const struct plan *plan, const char *log_folder, int lost_exit_code) {
  struct supervisor_config config = {
      .learner = plan->learner_command,
      .actors = plan->actor_commands,
      .num_actors = plan->part.num_actors + plan->part.num_evaluators,
      .num_evaluators = plan->part.num_evaluators,
      .address = plan->part.listen,
      .log_folder = log_folder,
      .lost_exit_code = lost_exit_code,
  };
  supervisor_defaults(&config);
  config.max_deaths = (int)plan->own.max_deaths;
  return supervisor_run(&config);
}
