#include "deploy/inspect/played_run.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "envs/env_module.h"
#include "envs/env_words.h"
#include "envs/registry.h"
#include "learner/learn/algorithms.h"
#include "learner/run/folder.h"

/* An option that the user left alone stays. */
static enum status set(struct learner_options *options, const char *name, const char *value,
                       struct error *error) {
  if (!value || !value[0]) return STATUS_OK;
  return options_set(&learner_options_table, options, name, value, "", error);
}

static enum status read_options(struct learner_options *options, const struct played_run *played,
                                struct error *error) {
  char path[PATH_MAX], seed[32];
  snprintf(path, sizeof(path), "%s/config.txt", played->folder);
  snprintf(seed, sizeof(seed), "%lld", (long long)played->seed);
  if (access(path, F_OK) != 0)
    return status_fail(error, STATUS_INVALID, "%.300s holds no run: there is no config.txt in it",
                       played->folder);
  enum status status = options_read_file(&learner_options_table, options, path, error);
  if (status != STATUS_OK) return status;
  learner_options_evaluate(options);
  learner_options_keep_raw(options);
  options_reset(&learner_options_table, options, options_find(&learner_options_table, "module"));
  options_reset(&learner_options_table, options,
                options_find(&learner_options_table, "checkpoint"));
  const char *const values[][2] = {{"mode", "evaluate"},       {"num_envs", "1"},
                                   {"logdir", played->folder}, {"seed", seed},
                                   {"policy", played->policy}, {"checkpoint", played->checkpoint},
                                   {"device", played->device}, {"precision", played->precision},
                                   {"env", played->env},       {"env_args", played->env_args}};
  for (size_t i = 0; status == STATUS_OK && i < sizeof(values) / sizeof(values[0]); i++)
    status = set(options, values[i][0], values[i][1], error);
  return status;
}

/* The module is the one that the run keeps; env_args may name wrappers. */
static enum status name_code(const struct learner_options *options, const struct played_run *played,
                             struct error *error) {
  char kept[PATH_MAX];
  if (!env_module_kept(kept, sizeof(kept), played->folder)) kept[0] = '\0';
  enum status status = registry_name_code(options->env, kept, played->code, error);
  char *wrapper = env_words_wrapper(options->env_args);
  if (status == STATUS_OK) status = registry_name_code("", wrapper, played->code, error);
  free(wrapper);
  return status;
}

enum status played_run_read(struct learner_options *options, const struct played_run *played,
                            struct error *error) {
  enum status status = read_options(options, played, error);
  bool was_brought = strcmp(options->env, "join") == 0;
  struct space ignored;
  struct error why = {.text = "scripts/export.sh and scripts/serve.sh can do without it"};
  if (status == STATUS_OK && was_brought &&
      !(played->spaces_alone && folder_read_space(&ignored, played->folder, &why) == STATUS_OK))
    status = status_fail(error, STATUS_INVALID,
                         "%s was trained on an environment that its actors brought (--env=join): "
                         "say where it is here, --env=./my_env.so or --env=gym:ID%s%s",
                         played->folder,
                         played->spaces_alone ? ", or bring back what tells its spaces: " : "; ",
                         why.text);
  if (status != STATUS_OK) return status;
  learner_options_apply_preset(options);
  status = learner_options_check(options, error);
  if (status == STATUS_OK) status = name_code(options, played, error);
  if (status == STATUS_OK && played->learned_to && !algorithms_find(options->agent)->algorithm)
    status = status_fail(error, STATUS_INVALID,
                         "agent %s learns nothing, so there is no policy to %s: name a run of "
                         "another agent",
                         options->agent, played->learned_to);
  return status;
}
