#include "deploy/task_plan.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/check.h"
#include "common/cluster/platform.h"
#include "deploy/checks.h"
#include "deploy/evaluators.h"
#include "deploy/programs.h"
#include "envs/registry.h"

static const struct reserved_flag reserved[] = {
    {"env", "the environment is the first word"},
    {"agent", "the agent is the second word"},
    {"num_envs", "it follows from the cluster, --actors_per_worker and --envs_per_actor"},
    {"envs", "environments per actor are --envs_per_actor"},
    {"learner", "the platform's description of the cluster names the learner"},
    {"task", "actors are numbered by their place in the cluster"},
    {"role", "the platform says which task is an evaluator"},
    {"exit_with_parent", "it is always on here"},
    {NULL, NULL},
};
static const struct arguments_form form = {.counts_actors = false, .reserved = reserved};
static const struct argument_tables tables = {&task_options_table, &learner_options_table,
                                              &actor_options_table};

/* ---- words */

static enum status check_environment(struct task_plan *plan, struct error *error) {
  struct acorn_config config;
  enum status status = registry_find(&plan->env, plan->arguments.env, error);
  if (status == STATUS_OK)
    status = registry_config(&config, plan->env, plan->learner_options.env_args, error);
  if (status == STATUS_OK) registry_config_deinit(&config);
  return status;
}

// A bucket is no folder; the learner would make one with that name.
static enum status check_logdir(const char *logdir, struct error *error) {
  const char *rest = strstr(logdir, "://");
  if (!rest) return STATUS_OK;
  return status_fail(error, STATUS_INVALID,
                     "--logdir=%.300s: the learner writes files and cannot reach a bucket; name a "
                     "folder, or where the bucket is mounted (Vertex AI mounts gs://%.300s as "
                     "/gcs/%.300s)",
                     logdir, rest + 3, rest + 3);
}

enum status task_plan_parse(struct task_plan *plan, int argc, char **argv, struct error *error) {
  struct arguments *arguments = &plan->arguments;
  options_init(&task_options_table, &plan->own);
  enum status status = arguments_parse_form(arguments, &form, &tables, argc, argv, error);
  if (status != STATUS_OK || arguments->help) return status;
  arguments->launch.word[0] = "run_task";
  plan->env_word = registry_word(arguments->env);
  status = options_parse(&task_options_table, &plan->own, arguments->launch.count,
                         arguments->launch.word, NULL, NULL, error);
  if (status == STATUS_OK)
    status = checks_options(arguments, plan->env_word, &plan->learner_options, &plan->actor_options,
                            error);
  if (status == STATUS_OK) status = checks_listen(plan->learner_options.listen, error);
  if (status == STATUS_OK) status = check_logdir(plan->learner_options.logdir, error);
  if (status == STATUS_OK) status = check_environment(plan, error);
  return status;
}

/* ---- sizes */

static enum status choose_sizes(struct task_plan *plan, struct error *error) {
  const struct task_options *own = &plan->own;
  int per_worker = (int)own->actors_per_worker, others = plan->cluster.num_actors;
  plan->envs_per_actor = own->envs_per_actor ? (int)own->envs_per_actor
                                             : learner_default_envs_per_actor(plan->env->name);
  plan->actors_on_learner = (int)own->actors_on_learner;
  if (plan->actors_on_learner < 0) plan->actors_on_learner = others ? 0 : per_worker;

  int64_t num_actors = plan->actors_on_learner + (int64_t)others * per_worker;
  int64_t num_envs = num_actors * plan->envs_per_actor;
  const struct option *limit = options_find(&learner_options_table, "num_envs");
  if (num_envs < 1 || num_envs > (int64_t)limit->max)
    return status_fail(error, STATUS_INVALID,
                       "%lld actors with %d environments each are %lld environments; the learner "
                       "takes 1 to %.0f",
                       (long long)num_actors, plan->envs_per_actor, (long long)num_envs,
                       limit->max);
  plan->num_envs = (int)num_envs;
  return STATUS_OK;
}

static void choose_actors(struct task_plan *plan) {
  switch (plan->cluster.role) {
    case TF_ROLE_LEARNER:
      plan->num_actors = plan->actors_on_learner;
      plan->first = 0;
      plan->num_evaluators = evaluators_choose(
          plan->own.evaluators, learner_options_evaluators(&plan->learner_options),
          plan->cluster.num_evaluators, &plan->learner_options);
      break;
    case TF_ROLE_ACTOR:
      plan->num_actors = (int)plan->own.actors_per_worker;
      plan->first = plan->actors_on_learner + plan->cluster.index * plan->num_actors;
      break;
    case TF_ROLE_EVALUATOR:
      plan->num_actors = 1;
      plan->first = plan->cluster.index;
      break;
    case TF_ROLE_PS:
      break;
  }
}

/* ---- commands */

// Those of the cluster, which may never come, change nothing but the room.
static enum status add_evaluators_words(struct task_plan *plan, struct words *words,
                                        struct error *error) {
  const struct learner_options *learner = &plan->learner_options;
  int all = plan->cluster.num_evaluators + plan->num_evaluators;
  if (plan->num_evaluators > 0)
    return evaluators_add_words(words, all, (int)plan->own.eval_envs, learner, error);
  int64_t envs = all * plan->own.eval_envs;
  if (envs > learner->num_eval_envs &&
      !options_given(&learner_options_table, learner, "num_eval_envs"))
    words_add(words, words_format("--num_eval_envs=%lld", (long long)envs));
  return STATUS_OK;
}

static enum status make_learner_command(struct task_plan *plan, struct error *error) {
  if (plan->cluster.role != TF_ROLE_LEARNER) return STATUS_OK;
  struct words *words = &plan->arguments.learner;
  bool given = options_given(&learner_options_table, &plan->learner_options, "listen");
  snprintf(plan->listen, sizeof(plan->listen), "%.250s",
           given ? plan->learner_options.listen : plan->cluster.listen);
  words->word[0] = words_format("%s/learner", plan->programs);
  if (!given) words_add(words, words_format("--listen=%s", plan->listen));
  words_add(words, words_format("--num_envs=%d", plan->num_envs));
  words_add(words, "--exit_with_parent");
  plan->learner = words->word;
  return add_evaluators_words(plan, words, error);
}

// Beside the learner, its own address is the nearest; one that stands for all is loopback's.
static char *nearest_address(const struct task_plan *plan) {
  if (!plan->learner) return words_format("%s", plan->cluster.learner);
  const char *port = strrchr(plan->listen, ':');
  if (strncmp(plan->listen, "0.0.0.0:", 8) == 0 || strncmp(plan->listen, "[::]:", 5) == 0)
    return words_format("127.0.0.1%s", port);
  return words_format("%s", plan->listen);
}

// What all actors of this task share.
static void add_common_actor_words(struct task_plan *plan, struct words *words) {
  bool evaluates = plan->cluster.role == TF_ROLE_EVALUATOR;
  words_add(words, words_format("--learner=%s", nearest_address(plan)));
  words_add(words, words_format("--env=%s", plan->env_word));
  words_add(words,
            words_format("--envs=%d", evaluates ? (int)plan->own.eval_envs : plan->envs_per_actor));
  if (options_given(&learner_options_table, &plan->learner_options, "env_args"))
    words_add(words, words_format("--env_args=%s", plan->learner_options.env_args));
  if (evaluates) words_add(words, "--role=eval");
  if (evaluates && !options_given(&actor_options_table, &plan->actor_options, "name"))
    words_add(words, "--name=evaluator");
  // As on one machine: enough actors keep the cores busy while others wait.
  bool enough = plan->num_actors >= sysconf(_SC_NPROCESSORS_ONLN);
  if (enough && !options_given(&actor_options_table, &plan->actor_options, "streams"))
    words_add(words, "--streams=1");
  words_add(words, "--exit_with_parent");
}

static struct words *actor_command(const struct words *common, int task) {
  struct words *words = check_alloc(1, sizeof(*words));
  *words = *common;
  words_add(words, words_format("--task=%d", task));
  return words;
}

// Its name is not that of the platform's evaluators: these may run although the cluster does not
// list them, and two actors of one name supersede each other.
static struct words *evaluator_command(const struct words *common, int task, int envs) {
  struct words *words = actor_command(common, task);
  words_add(words, words_format("--envs=%d", envs));
  words_add(words, "--name=learner-evaluator");
  words_add(words, "--role=eval");
  words_add(words, "--streams=1");
  return words;
}

// The evaluators come after the actors.
static void make_actor_commands(struct task_plan *plan) {
  struct words *common = &plan->arguments.actor;
  int num_actors = plan->num_actors, num_evaluators = plan->num_evaluators;
  common->word[0] = words_format("%s/actor", plan->programs);
  add_common_actor_words(plan, common);
  plan->actors = check_alloc((size_t)(num_actors + num_evaluators), sizeof(*plan->actors));
  for (int i = 0; i < num_actors; i++)
    plan->actors[i] = actor_command(common, plan->first + i)->word;
  for (int i = 0; i < num_evaluators; i++)
    plan->actors[num_actors + i] = evaluator_command(common, i, (int)plan->own.eval_envs)->word;
}

enum status task_plan_make(struct task_plan *plan, struct error *error) {
  const struct platform_words words = platform_words();
  enum status status =
      platform_find(&plan->cluster, &plan->source, &words, (int)plan->own.port, error);
  if (status == STATUS_OK) status = programs_folder(plan->programs, error);
  if (status == STATUS_OK) status = choose_sizes(plan, error);
  if (status != STATUS_OK) return status;
  choose_actors(plan);
  status = make_learner_command(plan, error);
  if (status == STATUS_OK) make_actor_commands(plan);
  return status;
}

/* ---- */

static void print_command(char *const *command, FILE *out) {
  const char *name = strrchr(command[0], '/') + 1;
  fprintf(out, "%s", name);
  for (int i = 1; command[i]; i++) fprintf(out, " %s", command[i]);
  fprintf(out, "\n");
}

void task_plan_print(const struct task_plan *plan, FILE *out) {
  fprintf(out, "task source=%s role=%s index=%d learner=%s listen=%s num_envs=%d\n", plan->source,
          tf_role_name(plan->cluster.role), plan->cluster.index, plan->cluster.learner,
          plan->learner ? plan->listen : "", plan->num_envs);
  if (plan->learner) print_command(plan->learner, out);
  int count = plan->num_actors + plan->num_evaluators;
  for (int i = 0; i < count; i++) print_command(plan->actors[i], out);
}
