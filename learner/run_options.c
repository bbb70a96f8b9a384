#include "learner/run_options.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/check.h"
#include "common/base/log.h"
#include "common/cluster/tf_config.h"
#include "envs/registry.h"

/* These say how a program is started, not what is run. */
static const char *const options_of_start[] = {"listen",           "logdir", "resume",
                                               "exit_with_parent", "mode",   "over"};
enum { NUM_OPTIONS_OF_START = sizeof(options_of_start) / sizeof(options_of_start[0]) };

static bool is_option_of_start(const char *name) {
  for (int i = 0; i < NUM_OPTIONS_OF_START; i++)
    if (strcmp(options_of_start[i], name) == 0) return true;
  return false;
}

static void say_difference(void *context, const struct option *option, const char *earlier,
                           const char *now) {
  if (!is_option_of_start(option->name))
    fprintf(context, "resuming with --%s=%s; it was %s\n", option->name, now, earlier);
}

static char *describe_differences(const struct learner_options *earlier,
                                  const struct learner_options *now) {
  char *text;
  size_t bytes;
  FILE *out = open_memstream(&text, &bytes);
  CHECK(out, "out of memory for the differences of options");
  options_compare(&learner_options_table, earlier, now, say_difference, out);
  fclose(out);
  return text;
}

/* ---- read */

/* A run that is evaluated or continued brings its own options; the command line wins over them. */
static enum status take_options_of_run(struct learner_options *options, char **differences,
                                       const char *path, bool evaluates, int argc, char **argv,
                                       struct error *error) {
  const struct option_table *table = &learner_options_table;
  struct learner_options earlier;
  options_init(table, &earlier);
  enum status status = options_read_file(table, &earlier, path, error);
  options_deinit(table, options);
  options_init(table, options);
  if (status == STATUS_OK) status = options_read_file(table, options, path, error);
  if (status == STATUS_OK && evaluates) learner_options_evaluate(options);
  if (status == STATUS_OK) status = options_parse(table, options, argc, argv, NULL, NULL, error);
  if (status == STATUS_OK && options->resume)
    *differences = describe_differences(&earlier, options);
  options_deinit(table, &earlier);
  return status;
}

static enum status parse(struct learner_options *options, char **differences, int argc, char **argv,
                         struct error *error) {
  const struct option_table *table = &learner_options_table;
  enum status status = options_parse(table, options, argc, argv, NULL, NULL, error);
  if (status != STATUS_OK) return status;
  bool evaluates = strcmp(options->mode, "evaluate") == 0;
  bool learns = strcmp(options->agent, "vtrace") == 0;
  bool has_run = evaluates ? learns : options->resume;
  if (!has_run || !options->logdir[0]) return STATUS_OK;
  char path[1024];
  snprintf(path, sizeof(path), "%s/config.txt", options->logdir);
  if (access(path, R_OK) != 0 && !evaluates) return STATUS_OK;
  if (access(path, R_OK) != 0)
    return status_fail(error, STATUS_NOT_FOUND,
                       "--logdir=%s holds no run to evaluate: there is no config.txt in it",
                       options->logdir);
  return take_options_of_run(options, differences, path, evaluates, argc, argv, error);
}

/* Without --listen a cluster's TF_CONFIG says where to listen. */
static enum status apply_tf_config(struct learner_options *options, struct error *error) {
  const char *json = getenv("TF_CONFIG");
  if (!json || !json[0] || options_given(&learner_options_table, options, "listen"))
    return STATUS_OK;
  struct tf_config config = {0};
  enum status status = tf_config_parse(&config, json, error);
  if (status != STATUS_OK) return status;
  if (config.role != TF_ROLE_LEARNER)
    return status_fail(
        error, STATUS_INVALID,
        "TF_CONFIG makes this task %s %d, but this program is the learner: run build/actor here",
        tf_role_name(config.role), config.index);
  return options_set(&learner_options_table, options, "listen", config.listen, "TF_CONFIG", error);
}

/* config.txt must name the same plugin to a later learner in another folder. */
static enum status make_env_absolute(struct learner_options *options, struct error *error) {
  char *word = registry_word(options->env);
  enum status status = STATUS_OK;
  if (strcmp(word, options->env) != 0)
    status = options_set(&learner_options_table, options, "env", word, "", error);
  free(word);
  return status;
}

enum status run_options_read(struct learner_options *options, char **differences, int argc,
                             char **argv, struct error *error) {
  *differences = NULL;
  options_init(&learner_options_table, options);
  enum status status = parse(options, differences, argc, argv, error);
  if (status == STATUS_OK) status = make_env_absolute(options, error);
  if (status == STATUS_OK) status = apply_tf_config(options, error);
  if (status != STATUS_OK) return status;
  learner_options_apply_preset(options);
  return learner_options_check(options, error);
}

/* ---- said and written */

void run_options_say_differences(char *differences) {
  char *rest = differences;
  for (const char *line; rest && (line = strsep(&rest, "\n")) && *line;) log_info("%s", line);
  free(differences);
}

void run_options_write(const struct learner_options *options, const char *folder) {
  char path[1024], temporary[1024];
  snprintf(path, sizeof(path), "%s/config.txt", folder);
  snprintf(temporary, sizeof(temporary), "%s/config.tmp", folder);
  FILE *file = fopen(temporary, "w");
  if (file)
    options_write_without(&learner_options_table, options, options_of_start, NUM_OPTIONS_OF_START,
                          file);
  bool written = file && !ferror(file) && fflush(file) == 0;
  int reason = errno;
  if (file) written = fclose(file) == 0 && written;
  if (written && rename(temporary, path) == 0) return;
  log_warn("cannot write %s: %s", path, strerror(written ? errno : reason));
  unlink(temporary);
}
