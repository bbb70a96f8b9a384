#include "deploy/plan.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/log.h"
#include "deploy/run_folder.h"
#include "envs/plugin.h"
#include "envs/registry.h"

static bool learner_given(const struct plan *plan, const char *name) {
  return options_given(&learner_options_table, &plan->learner, name);
}

/* ---- mistakes that the table of no program can name */

// Whether it is one of the words of "a|b|c".
static bool is_choice(const char *word, const char *choices) {
  size_t length = strlen(word);
  for (const char *at = choices; *at; at += strcspn(at, "|"), at += *at == '|')
    if (strcspn(at, "|") == length && strncmp(at, word, length) == 0) return true;
  return false;
}

static enum status check_order(const struct arguments *words, struct error *error) {
  const struct option *agents = options_find(&learner_options_table, "agent");
  const struct acorn_env *env;
  if (!is_choice(words->env, agents->choices) ||
      registry_find(&env, words->agent, NULL) != STATUS_OK)
    return STATUS_OK;
  return status_fail(error, STATUS_INVALID,
                     "%s is an agent and %s an environment; the order is ENV AGENT NUM_ACTORS "
                     "[ENVS_PER_ACTOR]: ./run_local.sh %s %s %d",
                     words->env, words->agent, words->agent, words->env, words->num_actors);
}

static enum status check_listen(const char *listen, struct error *error) {
  const char *colon = strrchr(listen, ':');
  if (strncmp(listen, "unix:", 5) == 0 || !colon) return STATUS_OK;
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

static enum status read_table(const struct option_table *table, void *options, struct words *words,
                              struct error *error) {
  words->word[0] = (char *)table->program;
  return options_parse(table, options, words->count, words->word, NULL, NULL, error);
}

// "atari:Breakout" is atari with --game=Breakout.
static enum status read_own(struct plan *plan, struct error *error) {
  const struct option_table *table = plan->form->own;
  const char *game, *word = plan->arguments.env;
  options_init(table, &plan->own);
  plan->arguments.env = env_words_split(&game, word);
  enum status status = read_table(table, &plan->own, &plan->arguments.own, error);
  if (status != STATUS_OK || !game) return status;
  if (options_given(table, &plan->own, "game"))
    return status_fail(error, STATUS_INVALID, "--game: %.100s names the game already", word);
  return options_set(table, &plan->own, "game", game, "", error);
}

// The words for the programs, as their own tables will read them.
static enum status read_options(struct plan *plan, struct error *error) {
  struct arguments *arguments = &plan->arguments;
  options_init(&learner_options_table, &plan->learner);
  options_init(&actor_options_table, &plan->actor);
  enum status status = read_own(plan, error);
  plan->env_word = registry_word(arguments->env);
  words_add(&arguments->learner, words_format("--env=%s", plan->env_word));
  words_add(&arguments->learner, words_format("--agent=%s", arguments->agent));
  if (status == STATUS_OK)
    status = read_table(&learner_options_table, &plan->learner, &arguments->learner, error);
  if (status == STATUS_OK)
    status = read_table(&actor_options_table, &plan->actor, &arguments->actor, error);
  plan->evaluates = strcmp(plan->learner.mode, "evaluate") == 0;
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

// What the user has given stands.
static enum status take(struct plan *plan, const char *name, const char *value, const char *path,
                        struct error *error) {
  if (learner_given(plan, name)) return STATUS_OK;
  return options_set(&learner_options_table, &plan->learner, name, value, path, error);
}

// Its folder; NULL if there can be none.
static const char *find_earlier_run(struct plan *plan) {
  if (!plan->evaluates && !plan->learner.resume) return NULL;
  if (plan->learner.logdir[0]) return plan->learner.logdir;
  bool found = !plan->evaluates && run_folder_newest(plan->run_folder, PATH_MAX, RUNS_FOLDER,
                                                     plan->env->name, plan->arguments.agent);
  return found ? plan->run_folder : NULL;
}

// What the launcher goes by: its environments are those that the run was trained on.
static enum status take_earlier_run(struct plan *plan, struct error *error) {
  char path[PATH_MAX];
  const char *folder = find_earlier_run(plan);
  if (!folder || snprintf(path, sizeof(path), "%s/config.txt", folder) >= PATH_MAX ||
      access(path, F_OK) != 0)
    return STATUS_OK;
  struct learner_options earlier;
  options_init(&learner_options_table, &earlier);
  bool given = learner_given(plan, "env_args");
  enum status status = options_read_file(&learner_options_table, &earlier, path, error);
  if (status == STATUS_OK) status = compare(&plan->learner, &earlier, folder, error);
  if (status == STATUS_OK) status = take(plan, "env_args", earlier.env_args, path, error);
  if (status == STATUS_OK && earlier.deterministic)
    status = take(plan, "deterministic", "true", path, error);
  if (status == STATUS_OK && strcmp(earlier.over, "auto") != 0)
    status = take(plan, "over", earlier.over, path, error);
  options_deinit(&learner_options_table, &earlier);
  if (!given && learner_given(plan, "env_args"))
    words_add(&plan->arguments.learner, words_format("--env_args=%s", plan->learner.env_args));
  return status;
}

/* ---- the environment */

// --game and its like become part of --env_args, of the earlier run's where there is one.
static enum status take_env_flags(struct plan *plan, struct error *error) {
  char *env_args;
  enum status status = env_words_add_flags(&env_args, plan->form->own, &plan->own,
                                           plan->arguments.env, plan->learner.env_args, error);
  if (status != STATUS_OK || !env_args) return status;
  words_add(&plan->arguments.learner, words_format("--env_args=%s", env_args));
  status = options_set(&learner_options_table, &plan->learner, "env_args", env_args, "", error);
  free(env_args);
  return status;
}

static enum status check_environment(struct plan *plan, struct error *error) {
  struct acorn_config config;
  struct space space;
  enum status status = registry_find(&plan->env, plan->arguments.env, error);
  if (status == STATUS_OK && plan->form->counts_actors) status = take_earlier_run(plan, error);
  if (status == STATUS_OK) status = take_env_flags(plan, error);
  if (status == STATUS_OK)
    status = registry_config(&config, plan->env, plan->learner.env_args, error);
  if (status != STATUS_OK) return status;
  // It may be made for this, and may do there what an actor would die of.
  if (plan->form->counts_actors)
    status = registry_space_apart(&space, plan->env, &config, (unsigned)plan->actor.hang_s, error);
  registry_config_deinit(&config);
  return status;
}

// The programs are beside the one that runs.
static enum status find_programs(char path[PATH_MAX], struct error *error) {
  ssize_t length = readlink("/proc/self/exe", path, PATH_MAX - 1);
  if (length < 0)
    return status_fail(error, STATUS_IO, "cannot read /proc/self/exe: %s", strerror(errno));
  path[length] = '\0';
  *strrchr(path, '/') = '\0';
  return STATUS_OK;
}

enum status plan_parse(struct plan *plan, const struct arguments_form *form, int argc, char **argv,
                       struct error *error) {
  plan->form = form;
  enum status status = arguments_parse(&plan->arguments, form, argc, argv, error);
  if (status != STATUS_OK || plan->arguments.help) return status;
  if (form->counts_actors) status = check_order(&plan->arguments, error);
  if (status == STATUS_OK) status = read_options(plan, error);
  if (status == STATUS_OK) status = check_listen(plan->learner.listen, error);
  if (status == STATUS_OK) status = check_logdir(plan->learner.logdir, error);
  if (status == STATUS_OK) status = check_environment(plan, error);
  if (status == STATUS_OK) status = find_programs(plan->programs, error);
  return status;
}

void plan_print_options(const struct arguments_form *form) {
  options_help(form->own, stdout);
  printf("\nOptions of the learner:\n\n");
  options_help(form->learner, stdout);
  printf("\nOptions of the actors:\n\n");
  options_help(form->actor, stdout);
}
