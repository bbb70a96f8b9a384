/* A whole run on this machine: what run_local.sh starts. Checks every word before anything starts,
 * chooses the run folder and the learner's address, and hands the commands to the supervisor. */
#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "actor/options.h"
#include "common/base/check.h"
#include "common/base/log.h"
#include "deploy/arguments.h"
#include "deploy/checks.h"
#include "deploy/earlier_run.h"
#include "deploy/private_folder.h"
#include "deploy/probe.h"
#include "deploy/run_folder.h"
#include "deploy/supervisor.h"
#include "envs/registry.h"
#include "learner/options.h"

enum { EXIT_USAGE = 2 };

static const char runs_folder[] = "runs";

struct launch {
  struct arguments arguments;
  struct learner_options learner; // as the learner will read them
  struct actor_options actor;
  bool evaluates;
  int envs_per_actor;

  char programs[PATH_MAX]; // folder of the learner and actor programs
  char private_folder[PRIVATE_FOLDER_BYTES];
  char run_folder[PATH_MAX]; // "": none, the run only evaluates
  bool is_new;               // the run folder has been made here
  bool had_runs;             // there was a folder for run folders
  char log_folder[PATH_MAX];
  char address[PATH_MAX];
  char *const **actors; // (num_actors) commands
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
  printf("\nOptions of the learner (those of the actors follow):\n\n");
  options_help(&learner_options_table, stdout);
  printf("\nOptions of the actors:\n\n");
  options_help(&actor_options_table, stdout);
}

/* ---- checks, before anything starts */

// A word made of a format; lives as long as the program.
static char *word(const char *format, ...) PRINTF_LIKE(1, 2);
static char *word(const char *format, ...) {
  char *text;
  va_list args;
  va_start(args, format);
  int length = vasprintf(&text, format, args);
  va_end(args);
  CHECK(length >= 0, "out of memory");
  return text;
}

// The programs' own tables say whether they will take the words.
static enum status check_options(struct launch *launch, struct error *error) {
  struct words *learner = &launch->arguments.learner, *actor = &launch->arguments.actor;
  options_init(&learner_options_table, &launch->learner);
  options_init(&actor_options_table, &launch->actor);
  words_add(learner, word("--env=%s", launch->arguments.env));
  words_add(learner, word("--agent=%s", launch->arguments.agent));
  learner->word[0] = actor->word[0] = "launch";
  enum status status = options_parse(&learner_options_table, &launch->learner, learner->count,
                                     learner->word, NULL, NULL, error);
  if (status != STATUS_OK) return status;
  return options_parse(&actor_options_table, &launch->actor, actor->count, actor->word, NULL, NULL,
                       error);
}

// Where a run stands that this one plays or continues: NULL if there can be none.
static const char *earlier_run(struct launch *launch) {
  const struct arguments *arguments = &launch->arguments;
  if (!launch->evaluates && !launch->learner.resume) return NULL;
  if (launch->learner.logdir[0]) return launch->learner.logdir;
  bool found = !launch->evaluates && run_folder_newest(launch->run_folder, PATH_MAX, runs_folder,
                                                       arguments->env, arguments->agent);
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

static enum status check_environment(struct launch *launch, struct error *error) {
  const struct acorn_env *env;
  struct acorn_config config;
  enum status status = registry_find(&env, launch->arguments.env, error);
  if (status == STATUS_OK) status = take_earlier_run(launch, error);
  if (status != STATUS_OK) return status;
  status = registry_config(&config, env, launch->learner.env_args, error);
  if (status == STATUS_OK) registry_config_deinit(&config);
  return status;
}

static enum status check(struct launch *launch, int argc, char **argv, struct error *error) {
  enum status status = arguments_parse(&launch->arguments, &learner_options_table,
                                       &actor_options_table, argc, argv, error);
  if (status != STATUS_OK || launch->arguments.help) return status;
  status = checks_order(&launch->arguments, error);
  if (status == STATUS_OK) status = check_options(launch, error);
  if (status == STATUS_OK) status = checks_listen(launch->learner.listen, error);
  if (status != STATUS_OK) return status;
  launch->evaluates = strcmp(launch->learner.mode, "evaluate") == 0;
  launch->envs_per_actor = launch->arguments.envs_per_actor;
  if (!launch->envs_per_actor)
    launch->envs_per_actor = learner_default_envs_per_actor(launch->arguments.env);
  return check_environment(launch, error);
}

/* ---- places */

static enum status find_programs(struct launch *launch, struct error *error) {
  ssize_t length = readlink("/proc/self/exe", launch->programs, sizeof(launch->programs) - 1);
  if (length < 0)
    return status_fail(error, STATUS_IO, "cannot read /proc/self/exe: %s", strerror(errno));
  launch->programs[length] = '\0';
  *strrchr(launch->programs, '/') = '\0';
  return STATUS_OK;
}

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
    status = run_folder_create(path, PATH_MAX, runs_folder, arguments->env, arguments->agent,
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
  words_add(words, word("--env=%s", launch->arguments.env));
  words_add(words, word("--envs=%d", launch->envs_per_actor));
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

static void make_actor_commands(struct launch *launch) {
  add_common_actor_words(launch);
  const struct words *common = &launch->arguments.actor;
  int num_actors = launch->arguments.num_actors;
  launch->actors = check_alloc((size_t)num_actors, sizeof(*launch->actors));
  for (int i = 0; i < num_actors; i++) {
    char **command = check_alloc((size_t)common->count + 2, sizeof(*command));
    memcpy(command, common->word, (size_t)common->count * sizeof(*command));
    command[common->count] = word("--task=%d", i);
    launch->actors[i] = command;
  }
}

/* ---- */

static int supervise(struct launch *launch) {
  struct supervisor_config config = {.learner = learner_command(launch),
                                     .num_actors = launch->arguments.num_actors,
                                     .address = launch->address,
                                     .log_folder = launch->log_folder};
  make_actor_commands(launch);
  config.actors = launch->actors;
  supervisor_defaults(&config);
  return supervisor_run(&config);
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
  log_init("run_local", LOG_INFO);
  if (argc == 1) {
    print_usage(stderr);
    return EXIT_USAGE;
  }
  if (check(&launch, argc, argv, &error) != STATUS_OK) return fail(&error);
  if (launch.arguments.help) {
    print_help();
    return 0;
  }

  enum status status = find_programs(&launch, &error);
  if (status == STATUS_OK) status = private_folder_create(launch.private_folder, &error);
  if (status != STATUS_OK) return fail(&error);
  status = choose_address(&launch, &error);
  if (status == STATUS_OK) status = choose_folders(&launch, &error);
  int code = status == STATUS_OK ? supervise(&launch) : fail(&error);

  private_folder_remove(launch.private_folder);
  remove_empty_folders(&launch);
  return code;
}
