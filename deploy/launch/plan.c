#include "deploy/launch/plan.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/files.h"
#include "common/base/log.h"
#include "common/base/option_value.h"
#include "common/base/process.h"
#include "common/base/version.h"
#include "common/cluster/host_port.h"
#include "deploy/launch/run_folder.h"
#include "envs/env_module.h"
#include "envs/plugin.h"
#include "envs/registry.h"

enum { EXIT_USAGE = 2 };

bool plan_learner_given(const struct plan *plan, const char *name) {
  return options_given(&learner_options_table, &plan->learner, name);
}

/* ---- mistakes that the table of no program can name */

// Without a look into it: the words may be those of a run folder of somebody else's.
static bool may_be_environment(const char *word) {
  const struct acorn_env *env;
  if (strncmp(word, "gym:", 4) == 0) return true;
  if (plugin_is_path(word)) return access(word, R_OK) == 0;
  return registry_find(&env, word, NULL) == STATUS_OK;
}

static enum status check_order(const struct plan *plan, struct error *error) {
  const struct arguments *words = &plan->arguments;
  const struct option *agents = options_find(&learner_options_table, "agent");
  if (!words->agent && option_value_is_choice(agents->choices, words->env))
    return status_fail(error, STATUS_INVALID,
                       "ENV is missing, %s is an agent: ./run_local.sh cartpole %s", words->env,
                       words->env);
  if (!words->agent) return STATUS_OK;
  if (!option_value_is_choice(agents->choices, words->env) || !may_be_environment(words->agent))
    return STATUS_OK;
  char actors[16] = "";
  if (words->num_actors) snprintf(actors, sizeof(actors), " %d", words->num_actors);
  return status_fail(error, STATUS_INVALID,
                     "%s is an agent and %s an environment; the order is ENV AGENT NUM_ACTORS "
                     "[ENVS_PER_ACTOR]: ./run_local.sh %s %s%s",
                     words->env, words->agent, words->agent, words->env, actors);
}

// What the words leave open: the agent that learns most environments by its defaults, and an actor
// for each core of a small machine.
static void choose_words(struct arguments *words) {
  enum { MOST_ACTORS = 4 };
  int cores = process_cores();
  if (words->num_actors) return;
  words->num_actors = cores < MOST_ACTORS ? cores : MOST_ACTORS;
  if (!words->agent) words->agent = "ppo";
  log_info("agent %s, %d actor%s: the second and third word name others", words->agent,
           words->num_actors, words->num_actors == 1 ? "" : "s");
}

enum status plan_check_listen(const char *listen, int64_t learners, struct error *error) {
  const char *colon = strrchr(listen, ':');
  if (host_port_path(listen)) return STATUS_OK;
  if (!colon || !colon[1] || colon[1 + strspn(colon + 1, "0123456789")])
    return status_fail(error, STATUS_INVALID,
                       "--listen=%.200s is not HOST:PORT, [IPV6]:PORT or unix:PATH (for example "
                       "0.0.0.0:8686)",
                       listen);
  if (strtoll(colon + 1, NULL, 10) + learners - 1 > UINT16_MAX)
    return status_fail(error, STATUS_INVALID,
                       "--listen=%.200s: each of %d learners listens a port above the one before: "
                       "there is none above %d",
                       listen, (int)learners, UINT16_MAX);
  size_t zeros = strspn(colon + 1, "0");
  if (zeros == 0 || colon[1 + zeros]) return STATUS_OK;
  return status_fail(error, STATUS_INVALID,
                     "--listen=%.200s: name a port, since this run's actors have to know it, or "
                     "leave --listen out",
                     listen);
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

/* ---- options */

static enum status set_learner(struct plan *plan, const char *name, const char *value,
                               struct error *error) {
  return options_set(&learner_options_table, &plan->learner, name, value, "", error);
}

static enum status read_words(struct plan *plan, int argc, char **argv, struct error *error) {
  const struct option_target targets[] = {{&learner_options_table, &plan->learner},
                                          {&actor_options_table, &plan->actor},
                                          {plan->form->own, &plan->own}};
  int num_targets = sizeof(targets) / sizeof(*targets);
  for (int i = 0; i < num_targets; i++) options_init(targets[i].table, targets[i].config);
  return arguments_parse(&plan->arguments, targets, num_targets, plan->form, argc, argv, error);
}

// "atari:Breakout" is atari with --game=Breakout.
static enum status take_game(struct plan *plan, const struct env_word *word, const char *text,
                             struct error *error) {
  const struct option_table *own = plan->form->own;
  if (options_given(own, &plan->own, "game"))
    return status_fail(error, STATUS_INVALID, "--game: %.100s names the game already", text);
  plan->is_ale = word->is_ale;
  return options_set(own, &plan->own, "game", word->game, "", error);
}

// ENV and AGENT as options of the programs.
static enum status take_words(struct plan *plan, struct error *error) {
  struct env_word word;
  const char *text = plan->arguments.env;
  env_word_init(&word, text);
  plan->arguments.env = word.env; // it stays
  plan->evaluates = strcmp(plan->learner.mode, "evaluate") == 0;
  char *whole_path = registry_word(plan->arguments.env);
  enum status status = set_learner(plan, "env", whole_path, error);
  free(whole_path);
  if (status == STATUS_OK) status = set_learner(plan, "agent", plan->arguments.agent, error);
  if (status == STATUS_OK) learner_options_take_file(&plan->learner);
  if (status == STATUS_OK && word.game) status = take_game(plan, &word, text, error);
  free(word.game);
  return status;
}

/* ---- the earlier run that is played or continued */

// The words may differ where one is a plugin's path, which can move, or where an actor said what
// the environment is: then the learner decides, by what the environments are.
static bool same_environment(const char *env, const char *earlier) {
  return strcmp(env, earlier) == 0 || plugin_is_path(env) || plugin_is_path(earlier) ||
         strcmp(earlier, "join") == 0;
}

static enum status compare(const struct learner_options *options,
                           const struct learner_options *earlier, const char *folder,
                           struct error *error) {
  if (same_environment(options->env, earlier->env) && strcmp(options->agent, earlier->agent) == 0)
    return STATUS_OK;
  return status_fail(error, STATUS_MISMATCH,
                     "%.400s holds a run of %s %s, this one is of %s %s: give the words of that "
                     "run, or another --logdir",
                     folder, earlier->env, earlier->agent, options->env, options->agent);
}

// NULL: there are none.
static enum status add_env_flags(char **env_args, const struct plan *plan, struct error *error) {
  return env_words_add_flags(env_args, plan->form->own, &plan->own, plan->arguments.env,
                             plan->is_ale, plan->learner.env_args, error);
}

// What the words call the run; NULL: any game of an environment that has several.
static const char *label_of_words(char label[RUN_LABEL_BYTES], const struct plan *plan) {
  char *flagged;
  struct error ignored; // take_env_flags reports it
  const char *name = plan->env_name, *env_args = plan->learner.env_args;
  if (add_env_flags(&flagged, plan, &ignored) != STATUS_OK) flagged = NULL;
  bool named = !env_words_has_games(name) || env_words_names_game(flagged ? flagged : env_args);
  env_words_label(label, RUN_LABEL_BYTES, name, flagged ? flagged : env_args);
  free(flagged);
  return named ? label : NULL;
}

// Its folder; NULL if there can be none.
static const char *find_earlier_run(struct plan *plan) {
  if (!plan->evaluates && !plan->learner.resume) return NULL;
  if (plan->learner.logdir[0]) return plan->learner.logdir;
  char label[RUN_LABEL_BYTES];
  bool found =
      !plan->evaluates && run_folder_newest(plan->run_folder, PATH_MAX, RUNS_FOLDER, plan->env_name,
                                            label_of_words(label, plan), plan->arguments.agent);
  return found ? plan->run_folder : NULL;
}

// What the launcher goes by, unless the user has given it: the environments are those that the run
// was trained on. The learner reads the others of them itself.
static enum status take(struct plan *plan, const struct learner_options *earlier, const char *path,
                        struct error *error) {
  static const char *const names[] = {"deterministic", "over"};
  enum status status = STATUS_OK;
  for (size_t i = 0; i < sizeof(names) / sizeof(*names) && status == STATUS_OK; i++) {
    if (plan_learner_given(plan, names[i])) continue;
    const struct option *option = options_find(&learner_options_table, names[i]);
    char *text = options_value_text(option, earlier);
    status = option_value_read(option, &plan->learner, text, path, error);
    free(text);
  }
  if (status != STATUS_OK || plan_learner_given(plan, "env_args")) return status;
  return set_learner(plan, "env_args", earlier->env_args, error);
}

static enum status take_earlier_run(struct plan *plan, struct error *error) {
  char path[PATH_MAX];
  const char *folder = find_earlier_run(plan);
  if (!folder || snprintf(path, sizeof(path), "%s/config.txt", folder) >= PATH_MAX ||
      access(path, F_OK) != 0)
    return STATUS_OK;
  struct learner_options earlier;
  options_init(&learner_options_table, &earlier);
  enum status status = options_read_file(&learner_options_table, &earlier, path, error);
  if (status == STATUS_OK) status = compare(&plan->learner, &earlier, folder, error);
  if (status == STATUS_OK) status = take(plan, &earlier, path, error);
  options_deinit(&learner_options_table, &earlier);
  return status;
}

/* ---- the environment */

// What is played may be a run folder of somebody else's, which names its environment.
static enum status name_code(const struct plan *plan, const char *word, const char *module,
                             struct error *error) {
  bool asked = plan->form->counts_actors && (plan->evaluates || !plan->own.code);
  return asked ? registry_name_code(word, module, plan->own.code, error) : STATUS_OK;
}

// The file of --module, or the one that the earlier run keeps, which the actors are given.
static enum status take_module(struct plan *plan, struct error *error) {
  char kept[PATH_MAX];
  const char *folder = plan->form->counts_actors ? find_earlier_run(plan) : NULL;
  const char *path = plan->learner.module;
  enum status status = STATUS_OK;
  if (!path[0] && folder && env_module_kept(kept, sizeof(kept), folder)) {
    status = options_set(&actor_options_table, &plan->actor, "module", kept, "", error);
    path = kept;
  }
  if (status == STATUS_OK) status = name_code(plan, "", path, error);
  return status == STATUS_OK ? env_module_use(path, plan->arguments.env, error) : status;
}

static enum status name_wrapper(const struct plan *plan, struct error *error) {
  char *wrapper = env_words_wrapper(plan->learner.env_args);
  enum status status = name_code(plan, "", wrapper, error);
  free(wrapper);
  return status;
}

// --game and its like become part of --env_args, of the earlier run's where there is one.
static enum status take_env_flags(struct plan *plan, struct error *error) {
  char *env_args;
  enum status status = add_env_flags(&env_args, plan, error);
  if (status != STATUS_OK || !env_args) return status;
  status = set_learner(plan, "env_args", env_args, error);
  free(env_args);
  return status;
}

// It may be made for this, and may do there what an actor would die of: it is asked apart. The
// learner asks again, and warnings (of an old ID) are printed there.
static enum status ask_environment(struct registry_answer *answer, const struct plan *plan,
                                   const char *env_args, struct error *error) {
  const struct registry_question question = {.word = plan->arguments.env,
                                             .env_args = env_args,
                                             .asks_space = plan->form->counts_actors,
                                             .limit_s = (unsigned)plan->actor.hang_s};
  setenv("ACORN_QUIET", "1", 1);
  enum status status = registry_ask_apart(answer, &question, error);
  unsetenv("ACORN_QUIET");
  return status;
}

static enum status check_environment(struct plan *plan, struct error *error) {
  struct registry_answer answer;
  enum status status = name_code(plan, plan->arguments.env, "", error);
  if (status == STATUS_OK) status = ask_environment(&answer, plan, NULL, error);
  if (status != STATUS_OK) return status;
  memcpy(plan->env_name, answer.name, sizeof(plan->env_name));
  if (plan->form->counts_actors) status = take_earlier_run(plan, error);
  if (status == STATUS_OK) status = take_env_flags(plan, error);
  if (status == STATUS_OK) status = take_module(plan, error);
  if (status == STATUS_OK) status = name_wrapper(plan, error);
  return status == STATUS_OK ? ask_environment(&answer, plan, plan->learner.env_args, error)
                             : status;
}

// The programs are beside the one that runs.
static enum status find_programs(char path[PATH_MAX], struct error *error) {
  files_program(path);
  if (!path[0])
    return status_fail(error, STATUS_IO, "cannot read /proc/self/exe: %s", strerror(errno));
  *strrchr(path, '/') = '\0';
  return STATUS_OK;
}

enum status plan_parse(struct plan *plan, const struct arguments_form *form, int argc, char **argv,
                       struct error *error) {
  plan->form = form;
  enum status status = read_words(plan, argc, argv, error);
  if (status != STATUS_OK || plan->arguments.help) return status;
  if (form->counts_actors) status = check_order(plan, error);
  if (form->counts_actors && status == STATUS_OK) choose_words(&plan->arguments);
  if (status == STATUS_OK) status = take_words(plan, error);
  if (status == STATUS_OK) status = learner_options_take_mpi(&plan->learner, false, error);
  if (status == STATUS_OK)
    status = plan_check_listen(plan->learner.listen, plan->learner.learners, error);
  if (status == STATUS_OK) status = check_logdir(plan->learner.logdir, error);
  if (status == STATUS_OK) status = check_environment(plan, error);
  if (status == STATUS_OK) status = find_programs(plan->programs, error);
  return status;
}

/* ---- a launcher's main */

static void print_help(const struct arguments_form *form) {
  fputs(form->usage, stdout);
  if (form->counts_actors) {
    printf("Environments:\n");
    registry_print(stdout);
    printf("\nOptions of the run (those of the learner and of the actors follow):\n\n");
  }
  options_help(form->own, stdout);
  printf("\nOptions of the learner:\n\n");
  options_help(&learner_options_table, stdout);
  printf("\nOptions of the actors:\n\n");
  options_help(&actor_options_table, stdout);
}

int plan_begin(struct plan *plan, const struct arguments_form *form, int argc, char **argv) {
  struct error error;
  process_init();
  log_init(form->name, LOG_INFO);
  if (version_asked(form->own->program, argc, argv)) return EXIT_SUCCESS;
  if (argc == 2 && strcmp(argv[1], "--help=markdown") == 0) {
    options_markdown(form->own, stdout);
    return EXIT_SUCCESS;
  }
  if (argc == 1) {
    fputs(form->usage, stderr);
    return EXIT_USAGE;
  }
  if (plan_parse(plan, form, argc, argv, &error) != STATUS_OK) return plan_refuse(plan, &error);
  if (!plan->arguments.help) return -1;
  print_help(form);
  return EXIT_SUCCESS;
}

int plan_refuse(const struct plan *plan, const struct error *error) {
  fprintf(stderr, "%s: %s\n", plan->form->name, error->text);
  return EXIT_USAGE;
}
