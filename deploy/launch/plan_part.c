/* The part of a plan that falls to this host: sizes, evaluators and commands. */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/check.h"
#include "common/base/log.h"
#include "common/base/process.h"
#include "common/cluster/learner_address.h"
#include "deploy/launch/plan.h"
#include "deploy/launch/shell_word.h"
#include "envs/plugin.h"

enum { MOST_MORE = 3 }; /* words of a kind of actor */
static char *const none[] = {NULL};

static struct option_target learner_of(struct plan *plan) {
  return (struct option_target){&learner_options_table, &plan->learner};
}

static struct option_target actor_of(struct plan *plan) {
  return (struct option_target){&actor_options_table, &plan->actor};
}

// Sets an option to what has been checked.
static void set(struct option_target target, const char *name, const char *format, ...)
    PRINTF_LIKE(3, 4);
static void set(struct option_target target, const char *name, const char *format, ...) {
  char *value;
  struct error error;
  va_list args;
  va_start(args, format);
  int length = vasprintf(&value, format, args);
  va_end(args);
  CHECK(length >= 0, "out of memory");
  enum status status = options_set(target.table, target.config, name, value, "", &error);
  CHECK(status == STATUS_OK, "%s", error.text);
  free(value);
}

/* ---- evaluators beside the learner */

// Unless told otherwise as many as suit the agent, but none where others run already, where nothing
// is trained, and with --deterministic: evaluation episodes end in no order that repeats.
static int choose_evaluators(const struct plan *plan) {
  if (plan->part.rank > 0) return 0; // they are the first learner's
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
static enum status set_evaluators(struct plan *plan, struct error *error) {
  const struct plan_part *part = &plan->part;
  int all = part->num_evaluators + part->other_evaluators;
  int64_t envs = all * plan->own.eval_envs;
  bool room_given = plan_learner_given(plan, "num_eval_envs");
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
  if (part->num_evaluators > 0 && !plan_learner_given(plan, "over") && plan_scores_evaluation(plan))
    set(learner_of(plan), "over", "eval");
  if (room_given || plan->learner.num_eval_envs >= envs) return STATUS_OK;
  char room[32];
  snprintf(room, sizeof(room), "%lld", (long long)envs);
  return options_set(&learner_options_table, &plan->learner, "num_eval_envs", room, "", error);
}

/* ---- sizes */

// What is assumed of an environment that Acorn does not know: the learner assumes the same, so none
// of it counts as given.
static void log_assumptions(struct plan *plan) {
  const char *env = plan->arguments.env;
  if (!plugin_is_path(env) && strncmp(env, "gym:", 4) != 0) return;
  if (learner_options_has_preset(env)) return;
  learner_options_apply_preset(&plan->learner);
  log_info(
      "Acorn has no settings for %s: %d environments per actor (the fourth word), %lld steps "
      "(--total_steps), else the general settings (--help)",
      plan->env_name, plan->part.envs_per_actor, (long long)plan->learner.total_steps);
}

enum status plan_size(struct plan *plan, int64_t all_actors, struct error *error) {
  struct plan_part *part = &plan->part;
  if (!part->envs_per_actor) part->envs_per_actor = learner_default_envs_per_actor(plan->env_name);
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
  int64_t learners = plan->evaluates || plan->learner.learners_mpi ? 1 : plan->learner.learners;
  if (all_actors % learners)
    return status_fail(error, STATUS_INVALID,
                       "%lld actors cannot be spread evenly over %lld learners: give a multiple",
                       (long long)all_actors, (long long)learners);
  if (plan->own.spare_learners > 0 && plan->learner.learners_mpi)
    return status_fail(error, STATUS_INVALID,
                       "--spare_learners: leave it out; a job of --learners_mpi ends as a whole");
  int64_t here = plan->learner.learners_at[0] ? 1 : learners;
  if (plan->own.spare_learners >= here)
    return status_fail(error, STATUS_INVALID,
                       "--spare_learners=%lld of --learners=%lld, %lld of them here: one "
                       "has to be left, so at most %lld can be lost",
                       (long long)plan->own.spare_learners, (long long)learners, (long long)here,
                       (long long)here - 1);
  part->learners = (int)learners;
  if (!part->has_learner) return STATUS_OK;
  part->num_evaluators = choose_evaluators(plan);
  return set_evaluators(plan, error);
}

/* ---- commands */

bool plan_has_one_stream(const struct plan *plan) {
  return plan->part.num_actors >= process_cores() &&
         !options_given(&actor_options_table, &plan->actor, "streams");
}

// The program and the options that have been set, as words; then `more`, which hold instead. Owner:
// the caller's, for the program's life.
static char **make_command(const char *programs, struct option_target target, char *const *more) {
  const struct option_table *table = target.table;
  char **command = check_alloc((size_t)table->count + MOST_MORE + 2, sizeof(*command));
  int count = 0, length = asprintf(&command[count++], "%s/%s", programs, table->program);
  for (int i = 0; i < table->count && length >= 0; i++) {
    const char *name = table->options[i].name;
    if (!options_given(table, target.config, name)) continue;
    char *value = options_value_text(&table->options[i], target.config);
    length = asprintf(&command[count++], "--%s=%s", name, value);
    free(value);
  }
  CHECK(length >= 0, "out of memory");
  for (int i = 0; more[i]; i++) command[count++] = more[i];
  return command;
}

// This host's place among the learners of several.
static void complete_peers(struct plan *plan) {
  const struct plan_part *part = &plan->part;
  struct option_target learner = learner_of(plan);
  char all[TF_MAX_LEARNERS * TF_ADDRESS_BYTES] = "", one[PATH_MAX];
  for (int r = 0; r < part->learners; r++) {
    learner_address(one, part->hosts[r], LEARNER_PEERS_PORT);
    snprintf(all + strlen(all), sizeof(all) - strlen(all), "%s%s", r ? "," : "", one);
  }
  set(learner, "learner_rank", "%d", part->rank);
  set(learner, "learners_at", "%s", all);
  if (part->rank == 0) return;
  snprintf(one, sizeof(one), "%s/learner-%d", plan->learner.logdir, part->rank);
  set(learner, "logdir", "%s", one);
}

static void complete_learner(struct plan *plan) {
  struct option_target learner = learner_of(plan);
  if (!plan_learner_given(plan, "listen")) set(learner, "listen", "%s", plan->part.listen);
  if (!plan_learner_given(plan, "logdir") && plan->run_folder[0])
    set(learner, "logdir", "%s", plan->run_folder);
  set(learner, "num_envs", "%d", plan->part.num_envs / plan->part.learners);
  set(learner, "exit_with_parent", "true");
  if (plan->part.hosts) complete_peers(plan);
}

// What all actors of this host share. Environment options may come from a --config file, which only
// the learner reads.
static void complete_actors(struct plan *plan) {
  const struct plan_part *part = &plan->part;
  struct option_target actor = actor_of(plan);
  bool named = options_given(&actor_options_table, &plan->actor, "name");
  set(actor, "env", "%s", plan->learner.env);
  if (plan_learner_given(plan, "env_args")) set(actor, "env_args", "%s", plan->learner.env_args);
  if (part->evaluates) set(actor, "role", "eval");
  if (part->actor_name && !named) set(actor, "name", "%s", part->actor_name);
  if (plan_has_one_stream(plan)) set(actor, "streams", "1");
  set(actor, "exit_with_parent", "true");
}

// The address of the learner of that rank, from here: actors beside a learner of several hosts are
// its own. Evaluators are rank 0's.
static void address_for(char out[PATH_MAX], const struct plan_part *part, int rank) {
  if (part->hosts && !part->has_learner)
    snprintf(out, PATH_MAX, "%s", part->hosts[rank]);
  else
    learner_address(out, part->learner, part->hosts ? 0 : rank);
}

static char **actor_command(struct plan *plan, int task, int rank, int64_t envs,
                            char *const *more) {
  struct option_target actor = actor_of(plan);
  char address[PATH_MAX];
  address_for(address, &plan->part, rank);
  set(actor, "learner", "%s", address);
  set(actor, "task", "%d", task);
  set(actor, "envs", "%lld", (long long)envs);
  return make_command(plan->programs, actor, more);
}

// The evaluators come after the actors.
void plan_commands(struct plan *plan) {
  const struct plan_part *part = &plan->part;
  int count = part->num_actors + part->num_evaluators;
  char *const **actors = check_alloc((size_t)count, sizeof(*actors));
  plan->run = (struct supervisor_config){.actors = actors,
                                         .num_actors = count,
                                         .num_evaluators = part->num_evaluators,
                                         .address = part->listen};
  supervisor_defaults(&plan->run);
  plan->run.max_deaths = (int)plan->own.max_deaths;
  if (part->has_learner) {
    complete_learner(plan);
    plan->run.learner = make_command(plan->programs, learner_of(plan), none);
  }
  complete_actors(plan);
  for (int i = 0; i < part->num_actors; i++)
    actors[i] = actor_command(plan, part->first + i,
                              part->evaluates ? 0 : (part->first + i) % part->learners,
                              part->envs_per_actor, none);
  if (!part->num_evaluators) return;
  char *evaluates[] = {NULL, "--role=eval", "--streams=1", NULL};
  int length = asprintf(&evaluates[0], "--name=%s", part->evaluator_name);
  CHECK(length >= 0, "out of memory");
  for (int i = 0; i < part->num_evaluators; i++)
    actors[part->num_actors + i] = actor_command(plan, i, 0, plan->own.eval_envs, evaluates);
}

void plan_lose_learner(struct plan *plan) {
  struct plan_part *part = &plan->part;
  struct option_target learner = learner_of(plan);
  part->learners--;
  part->num_actors = plan->arguments.num_actors / part->learners * part->learners;
  part->num_envs = part->num_actors * part->envs_per_actor;
  set(learner, "learners", "%d", part->learners);
  set(learner, "resume", "true");
  set(learner, "logdir", "%s", plan->run_folder);
  plan_commands(plan);
}

static void print_command(char *const *command, FILE *out) {
  fprintf(out, "%s", strrchr(command[0], '/') + 1);
  for (int i = 1; command[i]; i++) {
    fputc(' ', out);
    shell_word_print(out, command[i]);
  }
  fputc('\n', out);
}

void plan_print_commands(const struct plan *plan, FILE *out) {
  if (plan->run.learner) print_command(plan->run.learner, out);
  for (int i = 0; i < plan->run.num_actors; i++) print_command(plan->run.actors[i], out);
}
