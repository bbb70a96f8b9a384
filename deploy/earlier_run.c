#include "deploy/earlier_run.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "envs/plugin.h"

static const struct option_table *const table = &learner_options_table;

/* The words may differ where one is a plugin's path, which can move, or where an actor said what
 * the environment is: then the learner decides, by what the environments are. */
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

/* What the user has given stands. */
static enum status take(struct learner_options *options, const char *name, const char *value,
                        const char *path, struct error *error) {
  if (options_given(table, options, name)) return STATUS_OK;
  return options_set(table, options, name, value, path, error);
}

enum status earlier_run_take(struct learner_options *options, const char *folder,
                             struct error *error) {
  char path[PATH_MAX];
  int length = snprintf(path, sizeof(path), "%s/config.txt", folder);
  if (length >= PATH_MAX || access(path, F_OK) != 0) return STATUS_OK;

  struct learner_options earlier;
  options_init(table, &earlier);
  enum status status = options_read_file(table, &earlier, path, error);
  if (status == STATUS_OK) status = compare(options, &earlier, folder, error);
  if (status == STATUS_OK) status = take(options, "env_args", earlier.env_args, path, error);
  if (status == STATUS_OK && earlier.deterministic)
    status = take(options, "deterministic", "true", path, error);
  if (status == STATUS_OK && strcmp(earlier.over, "auto") != 0)
    status = take(options, "over", earlier.over, path, error);
  options_deinit(table, &earlier);
  return status;
}
