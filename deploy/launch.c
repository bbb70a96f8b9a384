/* A whole run on this machine: what run_local.sh starts. Chooses the run folder and the learner's
 * address, and hands the commands to the supervisor; the words are launch_plan.h's. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common/base/check.h"
#include "common/base/files.h"
#include "common/base/log.h"
#include "common/base/process.h"
#include "deploy/after_run.h"
#include "deploy/evaluators.h"
#include "deploy/launch_plan.h"
#include "deploy/private_folder.h"
#include "deploy/probe.h"
#include "deploy/programs.h"
#include "deploy/run_folder.h"
#include "deploy/supervisor.h"
#include "envs/registry.h"

enum { EXIT_USAGE = 2, EXIT_TARGET_MISSED = 3 };
#define word(...) words_format(__VA_ARGS__)

struct launch {
  struct launch_plan plan;
  char programs[PATH_MAX]; // folder of the learner and actor programs
  char private_folder[PRIVATE_FOLDER_BYTES];
  bool is_new;   // the run folder has been made here
  bool had_runs; // there was a folder for run folders
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

/* ---- places */

static enum status choose_address(struct launch *launch, struct error *error) {
  if (!options_given(&learner_options_table, &launch->plan.learner, "listen")) {
    snprintf(launch->address, sizeof(launch->address), "unix:%s/socket", launch->private_folder);
    return STATUS_OK;
  }
  snprintf(launch->address, sizeof(launch->address), "%s", launch->plan.learner.listen);
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
  const struct arguments *arguments = &launch->plan.arguments;
  char *path = launch->plan.run_folder;
  enum status status = STATUS_OK;
  if (launch->plan.learner.logdir[0])
    snprintf(path, sizeof(launch->plan.run_folder), "%s", launch->plan.learner.logdir);
  else if (!launch->plan.evaluates && !path[0]) {
    launch->had_runs = access(RUNS_FOLDER, F_OK) == 0;
    status = run_folder_create(path, PATH_MAX, RUNS_FOLDER, launch->plan.env->name,
                               arguments->agent, time(NULL), error);
    launch->is_new = status == STATUS_OK;
  }
  const char *logs_in = launch->plan.evaluates ? launch->private_folder : path;
  int length = snprintf(launch->log_folder, PATH_MAX, "%s/logs", logs_in);
  if (status == STATUS_OK && length >= PATH_MAX)
    return status_fail(error, STATUS_INVALID, "--logdir: the path is too long");
  return status;
}

/* ---- files: with too few of them actors would wait for a learner that turns them away */

// Enough actors keep the cores busy while others wait; a second stream would only double their
// messages.
static bool has_one_stream(const struct launch *launch) {
  bool enough = launch->plan.arguments.num_actors >= sysconf(_SC_NPROCESSORS_ONLN);
  return enough && !options_given(&actor_options_table, &launch->plan.actor, "streams");
}

static enum status check_files(const struct launch *launch, struct error *error) {
  const struct launch_plan *plan = &launch->plan;
  int streams = has_one_stream(launch) ? 1 : actor_num_streams(&plan->actor, plan->envs_per_actor);
  int connections = plan->arguments.num_actors * streams + (int)plan->own.evaluators;
  enum status status = files_check("this run's learner", LEARNER_FILES, connections, error);
  if (status == STATUS_OK) status = files_check("an actor", ACTOR_FILES, streams, error);
  if (status == STATUS_OK) status = files_check("the launcher", SUPERVISOR_FILES, 0, error);
  return status;
}

/* ---- commands */

static char *const *learner_command(struct launch *launch) {
  struct words *words = &launch->plan.arguments.learner;
  words->word[0] = word("%s/learner", launch->programs);
  words_add(words, word("--listen=%s", launch->address));
  words_add(words,
            word("--num_envs=%d", launch->plan.arguments.num_actors * launch->plan.envs_per_actor));
  if (launch->plan.run_folder[0]) words_add(words, word("--logdir=%s", launch->plan.run_folder));
  words_add(words, "--exit_with_parent");
  return words->word;
}

// Environment options may come from a --config file, which only the learner reads.
static void add_common_actor_words(struct launch *launch) {
  struct words *words = &launch->plan.arguments.actor;
  words->word[0] = word("%s/actor", launch->programs);
  words_add(words, word("--learner=%s", launch->address));
  words_add(words, word("--env=%s", launch->plan.env_word));
  if (options_given(&learner_options_table, &launch->plan.learner, "env_args"))
    words_add(words, word("--env_args=%s", launch->plan.learner.env_args));
  if (launch->plan.evaluates) words_add(words, "--role=eval");
  if (has_one_stream(launch)) words_add(words, "--streams=1");
  words_add(words, "--exit_with_parent");
}

// The common words and those of one process; NULL ends the list.
static char *const *actor_command(const struct launch *launch, int task, bool evaluates) {
  const struct words *common = &launch->plan.arguments.actor;
  char **command = check_alloc((size_t)common->count + 6, sizeof(*command));
  int count = common->count;
  memcpy(command, common->word, (size_t)count * sizeof(*command));
  command[count++] = word("--task=%d", task);
  command[count++] = word("--envs=%lld", evaluates ? (long long)launch->plan.own.eval_envs
                                                   : (long long)launch->plan.envs_per_actor);
  if (!evaluates) return command;
  command[count++] = "--name=evaluator";
  command[count++] = "--role=eval";
  command[count++] = "--streams=1";
  return command;
}

// The evaluators come after the actors.
static void make_actor_commands(struct launch *launch) {
  add_common_actor_words(launch);
  int num_actors = launch->plan.arguments.num_actors, evaluators = (int)launch->plan.own.evaluators;
  launch->actors = check_alloc((size_t)(num_actors + evaluators), sizeof(*launch->actors));
  for (int i = 0; i < num_actors; i++) launch->actors[i] = actor_command(launch, i, false);
  for (int i = 0; i < evaluators; i++)
    launch->actors[num_actors + i] = actor_command(launch, i, true);
}

/* ---- */

static int supervise(struct launch *launch) {
  struct supervisor_config config = {
      .learner = learner_command(launch),
      .num_actors = launch->plan.arguments.num_actors + (int)launch->plan.own.evaluators,
      .num_evaluators = (int)launch->plan.own.evaluators,
      .address = launch->address,
      .log_folder = launch->log_folder};
  make_actor_commands(launch);
  config.actors = launch->actors;
  supervisor_defaults(&config);
  config.max_deaths = (int)launch->plan.own.max_deaths;
  return supervisor_run(&config);
}

// A run that ended in order gets its learning curve, where the tree is there that draws it: of the
// returns that the result line is over.
static void plot(const struct launch *launch, int code) {
  bool over_eval = evaluators_give_result((int)launch->plan.own.evaluators, &launch->plan.learner);
  char *y = over_eval ? "--y=eval/episode_return" : "--y=train/episode_return";
  char script[PATH_MAX + 32],
      *command[] = {script, "--if_possible", y, (char *)launch->plan.run_folder, NULL};
  snprintf(script, sizeof(script), "%s/../scripts/plot.sh", launch->programs);
  bool ended_well = code == 0 || code == EXIT_TARGET_MISSED;
  if (!launch->plan.own.plot || launch->plan.evaluates || !ended_well || access(script, X_OK) != 0)
    return;
  after_run(command);
}

// Of the folders that were made here, those stay that somebody has written to.
static void remove_empty_folders(const struct launch *launch) {
  if (!launch->is_new) return;
  rmdir(launch->plan.run_folder); // a learner that is refused may have done so
  if (!launch->had_runs) rmdir(RUNS_FOLDER);
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
  if (launch_plan_parse(&launch.plan, argc, argv, &error) != STATUS_OK) return fail(&error);
  if (launch.plan.arguments.help) {
    print_help();
    return 0;
  }

  enum status status = check_files(&launch, &error);
  if (status == STATUS_OK) status = programs_folder(launch.programs, &error);
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
