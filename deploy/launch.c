/* A whole run on this machine: what run_local.sh starts. Checks every word before anything starts,
 * chooses the run folder and the learner's address, and hands the commands to the supervisor. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "actor/options.h"
#include "common/base/check.h"
#include "common/base/log.h"
#include "common/base/process.h"
#include "deploy/after_run.h"
#include "deploy/arguments.h"
#include "deploy/atari_words.h"
#include "deploy/checks.h"
#include "deploy/earlier_run.h"
#include "deploy/options.h"
#include "deploy/private_folder.h"
#include "deploy/probe.h"
#include "deploy/programs.h"
#include "deploy/run_folder.h"
#include "deploy/supervisor.h"
#include "envs/plugin.h"
#include "envs/registry.h"
#include "learner/options.h"

enum { EXIT_USAGE = 2, EXIT_TARGET_MISSED = 3 };
#define word(...) words_format(__VA_ARGS__)

static const char runs_folder[] = "runs";

struct launch {
  struct arguments arguments;
  struct launch_options own;
  struct learner_options learner; // as the learner will read them
  struct actor_options actor;
  const struct acorn_env *env;
  char *env_word; // as the programs get it: the path of a plugin is absolute
  bool evaluates;
  int envs_per_actor;

  char programs[PATH_MAX]; // folder of the learner and actor programs
  char private_folder[PRIVATE_FOLDER_BYTES];
  char run_folder[PATH_MAX]; // "": none, the run only evaluates
  bool is_new;               // the run folder has been made here
  bool had_runs;             // there was a folder for run folders
  char log_folder[PATH_MAX];
  char address[PATH_MAX];
  char *const **actors; // (num_actors + evaluators) commands
};

/* ---- help */

static void print_usage(FILE *out) {
  fprintf(
      out,
      "Usage: ./run_local.sh ENV AGENT NUM_ACTORS [ENVS_PER_ACTOR] [--flag=value ...]\n\n"
      "Trains AGENT on ENV on this machine: one learner and NUM_ACTORS actor processes, each with\n"
      "ENVS_PER_ACTOR environments (default: what suits ENV). Ctrl-C stops the run and keeps a\n"
      "checkpoint; the run folder is runs/ENV-AGENT-TIME unless --logdir names one.\n\n"
      "  ./run_local.sh cartpole vtrace 4\n"
      "  ./run_local.sh cartpole vtrace 4 32 --seed=7 --target_return=475\n"
      "  ./run_local.sh tmaze vtrace 2 --env_args='{\"length\": 20}' --logdir=runs/maze\n"
      "  ./run_local.sh cartpole vtrace 4 --resume\n"
      "  ./run_local.sh cartpole vtrace 1 --mode=evaluate --logdir=RUN --episodes=100\n\n");
}

static void print_help(void) {
  print_usage(stdout);
  printf("Environments:\n");
  for (const struct acorn_env *const *env = registry_all(); *env; env++)
    printf("  %-12s %s\n", (*env)->name, (*env)->about);
  printf("  %-12s %s\n", "atari", "the games of the Atari 2600: see docs/gymnasium.md");
  printf("  %-12s %s\n", "gym:ID", "any Gymnasium environment with discrete actions");
  printf("  %-12s %s\n", "football", "Google Research Football, where it is installed");
  printf("  %-12s %s\n", "dmlab", "DeepMind Lab, where it is installed");
  printf("  %-12s %s\n", "./my_env.so", "one's own: see docs/environments.md");
  printf("\nOptions of the run (those of the learner and of the actors follow):\n\n");
  options_help(&launch_options_table, stdout);
  printf("\nOptions of the learner:\n\n");
  options_help(&learner_options_table, stdout);
  printf("\nOptions of the actors:\n\n");
  options_help(&actor_options_table, stdout);
}

/* ---- checks, before anything starts */

// The programs' own tables say whether they will take the words.
static enum status check_options(struct launch *launch, struct error *error) {
  struct words *own = &launch->arguments.launch;
  options_init(&launch_options_table, &launch->own);
  launch->env_word = registry_word(launch->arguments.env);
  own->word[0] = "launch";
  enum status status =
      options_parse(&launch_options_table, &launch->own, own->count, own->word, NULL, NULL, error);
  if (status != STATUS_OK) return status;
  return checks_options(&launch->arguments, launch->env_word, &launch->learner, &launch->actor,
                        error);
}

// Where a run stands that this one plays or continues: NULL if there can be none.
static const char *earlier_run(struct launch *launch) {
  const struct arguments *arguments = &launch->arguments;
  if (!launch->evaluates && !launch->learner.resume) return NULL;
  if (launch->learner.logdir[0]) return launch->learner.logdir;
  bool found = !launch->evaluates && run_folder_newest(launch->run_folder, PATH_MAX, runs_folder,
                                                       launch->env->name, arguments->agent);
  return found ? launch->run_folder : NULL;
}

// The environments of a run that is played or continued are those that it was trained on.
static enum status take_earlier_run(struct launch *launch, struct error *error) {
  const char *folder = earlier_run(launch);
  if (!folder) return STATUS_OK;
  bool given = options_given(&learner_options_table, &launch->learner, "env_args");
  enum status status = earlier_run_take(&launch->learner, folder, error);
  bool taken = !given && options_given(&learner_options_table, &launch->learner, "env_args");
  if (taken) words_add(&launch->arguments.learner, word("--env_args=%s", launch->learner.env_args));
  return status;
}

// --game and its like become part of --env_args.
static enum status take_atari_words(struct launch *launch, struct error *error) {
  char *env_args;
  enum status status = atari_words_add(&env_args, &launch->own, launch->arguments.env,
                                       launch->learner.env_args, error);
  if (status != STATUS_OK || !env_args) return status;
  words_add(&launch->arguments.learner, word("--env_args=%s", env_args));
  status = options_set(&learner_options_table, &launch->learner, "env_args", env_args, "", error);
  free(env_args);
  return status;
}

static enum status check_environment(struct launch *launch, struct error *error) {
  struct acorn_config config;
  struct wire_space space;
  enum status status = take_atari_words(launch, error);
  if (status != STATUS_OK) return status;
  status = registry_find(&launch->env, launch->arguments.env, error);
  if (status == STATUS_OK) status = take_earlier_run(launch, error);
  if (status != STATUS_OK) return status;
  status = registry_config(&config, launch->env, launch->learner.env_args, error);
  if (status != STATUS_OK) return status;
  status = registry_space(&space, launch->env, &config, error);
  registry_config_deinit(&config);
  return status;
}

static void choose_envs_per_actor(struct launch *launch) {
  launch->envs_per_actor = launch->arguments.envs_per_actor;
  if (!launch->envs_per_actor)
    launch->envs_per_actor = learner_default_envs_per_actor(launch->env->name);
}

// What is assumed of an environment that Acorn does not know.
static void say_assumptions(struct launch *launch) {
  const char *env = launch->arguments.env;
  if (!plugin_is_path(env) && strncmp(env, "gym:", 4) != 0) return;
  learner_options_apply_preset(&launch->learner);
  log_info(
      "Acorn has no settings for %s: %d environments per actor (the fourth word), %lld steps "
      "(--total_steps), else the general settings (--help)",
      launch->env->name, launch->envs_per_actor, (long long)launch->learner.total_steps);
}

// The learner must have room for the evaluators.
static enum status check_evaluators(struct launch *launch, struct error *error) {
  struct launch_options *options = &launch->own;
  const struct learner_options *learner = &launch->learner;
  if (options->eval_envs == 0) options->eval_envs = launch->envs_per_actor;
  int64_t envs = options->evaluators * options->eval_envs;
  if (envs == 0) return STATUS_OK;
  if (launch->evaluates)
    return status_fail(error, STATUS_INVALID,
                       "--evaluators belong to a run that trains; with --mode=evaluate all "
                       "NUM_ACTORS actors evaluate");
  bool room_given = options_given(&learner_options_table, learner, "num_eval_envs");
  if (room_given && learner->num_eval_envs < envs)
    return status_fail(
        error, STATUS_INVALID,
        "--num_eval_envs=%lld is less than the %lld environments of %lld evaluators with "
        "%lld each: leave it out",
        (long long)learner->num_eval_envs, (long long)envs, (long long)options->evaluators,
        (long long)options->eval_envs);
  if (!room_given && learner->num_eval_envs < envs)
    words_add(&launch->arguments.learner, word("--num_eval_envs=%lld", (long long)envs));
  // Said from the start: a target must not be reached in training before the first evaluation.
  if (!learner->deterministic && !options_given(&learner_options_table, learner, "over"))
    words_add(&launch->arguments.learner, "--over=eval");
  return STATUS_OK;
}

static enum status check(struct launch *launch, int argc, char **argv, struct error *error) {
  static const struct argument_tables tables = {&launch_options_table, &learner_options_table,
                                                &actor_options_table};
  enum status status = arguments_parse(&launch->arguments, &tables, argc, argv, error);
  if (status != STATUS_OK || launch->arguments.help) return status;
  status = checks_order(&launch->arguments, error);
  if (status == STATUS_OK) status = check_options(launch, error);
  if (status == STATUS_OK) status = checks_listen(launch->learner.listen, error);
  if (status != STATUS_OK) return status;
  launch->evaluates = strcmp(launch->learner.mode, "evaluate") == 0;
  status = check_environment(launch, error);
  if (status != STATUS_OK) return status;
  choose_envs_per_actor(launch);
  if (!launch->evaluates) say_assumptions(launch);
  return check_evaluators(launch, error);
}

/* ---- places */

static enum status choose_address(struct launch *launch, struct error *error) {
  if (!options_given(&learner_options_table, &launch->learner, "listen")) {
    snprintf(launch->address, sizeof(launch->address), "unix:%s/socket", launch->private_folder);
    return STATUS_OK;
  }
  snprintf(launch->address, sizeof(launch->address), "%s", launch->learner.listen);
  if (!probe_accepts(launch->address)) return STATUS_OK;
  return status_fail(
      error, STATUS_EXISTS,
      "--listen=%s: something listens there already; stop it, choose another address, "
      "or leave --listen out",
      launch->address);
}

// A run that is resumed has its folder already. An evaluation keeps nothing: it reads a run folder,
// which may be in use.
static enum status choose_folders(struct launch *launch, struct error *error) {
  const struct arguments *arguments = &launch->arguments;
  char *path = launch->run_folder;
  enum status status = STATUS_OK;
  if (launch->learner.logdir[0])
    snprintf(path, sizeof(launch->run_folder), "%s", launch->learner.logdir);
  else if (!launch->evaluates && !path[0]) {
    launch->had_runs = access(runs_folder, F_OK) == 0;
    status = run_folder_create(path, PATH_MAX, runs_folder, launch->env->name, arguments->agent,
                               time(NULL), error);
    launch->is_new = status == STATUS_OK;
  }
  const char *logs_in = launch->evaluates ? launch->private_folder : path;
  int length = snprintf(launch->log_folder, PATH_MAX, "%s/logs", logs_in);
  if (status == STATUS_OK && length >= PATH_MAX)
    return status_fail(error, STATUS_INVALID, "--logdir: the path is too long");
  return status;
}

/* ---- commands */

static char *const *learner_command(struct launch *launch) {
  struct words *words = &launch->arguments.learner;
  words->word[0] = word("%s/learner", launch->programs);
  words_add(words, word("--listen=%s", launch->address));
  words_add(words, word("--num_envs=%d", launch->arguments.num_actors * launch->envs_per_actor));
  if (launch->run_folder[0]) words_add(words, word("--logdir=%s", launch->run_folder));
  words_add(words, "--exit_with_parent");
  return words->word;
}

// Environment options may come from a --config file, which only the learner reads.
static void add_common_actor_words(struct launch *launch) {
  struct words *words = &launch->arguments.actor;
  words->word[0] = word("%s/actor", launch->programs);
  words_add(words, word("--learner=%s", launch->address));
  words_add(words, word("--env=%s", launch->env_word));
  if (options_given(&learner_options_table, &launch->learner, "env_args"))
    words_add(words, word("--env_args=%s", launch->learner.env_args));
  if (launch->evaluates) words_add(words, "--role=eval");
  /* Enough actors keep the cores busy while others wait; a second stream would only double their
   * messages. */
  bool enough = launch->arguments.num_actors >= sysconf(_SC_NPROCESSORS_ONLN);
  if (enough && !options_given(&actor_options_table, &launch->actor, "streams"))
    words_add(words, "--streams=1");
  words_add(words, "--exit_with_parent");
}

// The common words and those of one process; NULL ends the list.
static char *const *actor_command(const struct launch *launch, int task, bool evaluates) {
  const struct words *common = &launch->arguments.actor;
  char **command = check_alloc((size_t)common->count + 6, sizeof(*command));
  int count = common->count;
  memcpy(command, common->word, (size_t)count * sizeof(*command));
  command[count++] = word("--task=%d", task);
  command[count++] = word("--envs=%lld", evaluates ? (long long)launch->own.eval_envs
                                                   : (long long)launch->envs_per_actor);
  if (!evaluates) return command;
  command[count++] = "--name=evaluator";
  command[count++] = "--role=eval";
  command[count++] = "--streams=1";
  return command;
}

// The evaluators come after the actors.
static void make_actor_commands(struct launch *launch) {
  add_common_actor_words(launch);
  int num_actors = launch->arguments.num_actors, evaluators = (int)launch->own.evaluators;
  launch->actors = check_alloc((size_t)(num_actors + evaluators), sizeof(*launch->actors));
  for (int i = 0; i < num_actors; i++) launch->actors[i] = actor_command(launch, i, false);
  for (int i = 0; i < evaluators; i++)
    launch->actors[num_actors + i] = actor_command(launch, i, true);
}

/* ---- */

static int supervise(struct launch *launch) {
  struct supervisor_config config = {
      .learner = learner_command(launch),
      .num_actors = launch->arguments.num_actors + (int)launch->own.evaluators,
      .num_evaluators = (int)launch->own.evaluators,
      .address = launch->address,
      .log_folder = launch->log_folder};
  make_actor_commands(launch);
  config.actors = launch->actors;
  supervisor_defaults(&config);
  config.max_deaths = (int)launch->own.max_deaths;
  return supervisor_run(&config);
}

// A run that ended in order gets its learning curve, where the tree is there that draws it.
static void plot(const struct launch *launch, int code) {
  char script[PATH_MAX + 32],
      *command[] = {script, "--if_possible", (char *)launch->run_folder, NULL};
  snprintf(script, sizeof(script), "%s/../scripts/plot.sh", launch->programs);
  bool ended_well = code == 0 || code == EXIT_TARGET_MISSED;
  if (!launch->own.plot || launch->evaluates || !ended_well || access(script, X_OK) != 0) return;
  after_run(command);
}

// Of the folders that were made here, those stay that somebody has written to.
static void remove_empty_folders(const struct launch *launch) {
  if (!launch->is_new) return;
  rmdir(launch->run_folder); // a learner that is refused may have done so
  if (!launch->had_runs) rmdir(runs_folder);
}

static int fail(const struct error *error) {
  fprintf(stderr, "run_local: %s\n", error->text);
  return EXIT_USAGE;
}

int main(int argc, char **argv) {
  static struct launch launch;
  struct error error = {""};
  process_init();
  log_init("run_local", LOG_INFO);
  if (argc == 1) {
    print_usage(stderr);
    return EXIT_USAGE;
  }
  if (argc == 2 && strcmp(argv[1], "--help=markdown") == 0) {
    options_markdown(&launch_options_table, stdout);
    return 0;
  }
  if (check(&launch, argc, argv, &error) != STATUS_OK) return fail(&error);
  if (launch.arguments.help) {
    print_help();
    return 0;
  }

  enum status status = programs_folder(launch.programs, &error);
  if (status == STATUS_OK) status = private_folder_create(launch.private_folder, &error);
  if (status != STATUS_OK) return fail(&error);
  status = choose_address(&launch, &error);
  if (status == STATUS_OK) status = choose_folders(&launch, &error);
  int code = status == STATUS_OK ? supervise(&launch) : fail(&error);

  private_folder_remove(launch.private_folder);
  plot(&launch, code);
  remove_empty_folders(&launch);
  return code;
}
