/* Writes the policy of a run's checkpoint as an ONNX file: observation in, action out.
 * scripts/export.sh runs it. */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/check.h"
#include "common/base/log.h"
#include "common/base/option_rows.h"
#include "common/base/option_value.h"
#include "common/base/process.h"
#include "common/base/version.h"
#include "deploy/inspect/export/policy_graph.h"
#include "deploy/inspect/played_run.h"
#include "envs/env_module.h"

enum { EXIT_USAGE = 2 };

struct export_options {
  struct options_given given;
  char *checkpoint, *output, *env, *env_args;
  bool code;
};

#define AT(member) offsetof(struct export_options, member)
static const struct option rows[] = {
    STRING("output", output, "", NULL, "the file; default: policy.onnx in the run folder"),
    STRING("checkpoint", checkpoint, "latest", NULL,
           "latest: the newest whole one of the run; best; or a file"),
    STRING("env", env, "", NULL,
           "where the run's environment is here: ./my_env.so; default: where the run says"),
    STRING("env_args", env_args, "", NULL,
           "other options of the environment than the run's, as JSON"),
    BOOL("code", code, "true", NULL, NO_CODE_HELP),
};
static const struct option_exit exits[] = {
    {"0", "the file is written"},
    {"1", "there is no checkpoint, it is damaged, or the file cannot be written"},
    {"2", "wrong options, or a run that cannot be exported"},
    {NULL, NULL},
};

static const struct option_table table = {
    .program = "export",
    .words = "RUN",
    .about = "Writes the policy of a run folder's checkpoint as an ONNX file.",
    .exits = exits,
    .options = rows,
    .count = sizeof(rows) / sizeof(rows[0]),
};

struct export {
  struct export_options options;
  struct learner_options learner;
  struct run run;
  struct onnx_graph *onnx;
  float *params; /* (P) */
};

/* ---- the run */

static void ignore(void *context) {
  (void)context;
}

/* On the CPU in float32, whatever it was trained on. */
static enum status open_run(struct export *self, const char *folder, struct error *error) {
  const struct export_options *options = &self->options;
  const struct run_callbacks callbacks = {ignore, ignore, NULL, NULL};
  bool newest = strcmp(options->checkpoint, "latest") == 0;
  const struct played_run played = {.folder = folder,
                                    .checkpoint = newest ? "" : options->checkpoint,
                                    .env = options->env,
                                    .env_args = options->env_args,
                                    .device = "cpu",
                                    .precision = "float32",
                                    .code = options->code};
  enum status status = played_run_read(&self->learner, &played, error);
  if (status == STATUS_OK && !algorithms_find(self->learner.agent)->algorithm)
    status = status_fail(error, STATUS_INVALID,
                         "agent %s learns nothing, so there is no policy to export: name a run of "
                         "another agent",
                         self->learner.agent);
  return status == STATUS_OK ? run_create(&self->run, &self->learner, &callbacks, error) : status;
}

static void read_params(struct export *self) {
  const struct run *run = &self->run;
  int64_t version;
  size_t P = network_num_parameters(run->network);
  self->params = check_alloc(P, sizeof(*self->params));
  const real *params = weights_acquire(run->weights, &version);
  run->inference_device->ops->download(run->inference_device, self->params, params, P);
  weights_release(run->weights, params);
}

/* ---- what the file says of itself */

/* The options that say what was learned and how, a line each, as the run has them. `env`, which may
 * be a path of this machine, is left out. Owner: the caller. */
static char *options_text(const struct learner_options *options) {
  char *text = NULL;
  size_t bytes;
  FILE *file = open_memstream(&text, &bytes);
  CHECK(file, "no memory for the options");
  for (int i = 0; i < learner_options_table.count; i++) {
    const struct option *option = &learner_options_table.options[i];
    if (!learner_option_is_of_experiment(option) || strcmp(option->name, "env") == 0 ||
        !options_given(&learner_options_table, options, option->name))
      continue;
    fprintf(file, "%s = ", option->name);
    option_value_write(option, options, file);
    fputc('\n', file);
  }
  fclose(file);
  return text;
}

static enum status describe_options(struct export *self, const char *folder, struct error *error) {
  char path[PATH_MAX];
  struct learner_options options;
  options_init(&learner_options_table, &options);
  snprintf(path, sizeof(path), "%s/config.txt", folder);
  enum status status = options_read_file(&learner_options_table, &options, path, error);
  if (status == STATUS_OK) {
    learner_options_drop_foreign(&options, false);
    char *text = options_text(&options);
    onnx_graph_metadata(self->onnx, "options", text);
    free(text);
  }
  options_deinit(&learner_options_table, &options);
  return status;
}

/* "position float32[2]", a line each, in the space's order. */
static void describe_observation(struct export *self) {
  const struct space *space = &self->run.space;
  char text[SPACE_MAX_TENSORS * (SPACE_NAME_BYTES + SPACE_TENSOR_BYTES)] = "";
  for (int i = 0, n = 0; i < space->num_tensors; i++) {
    char tensor[SPACE_TENSOR_BYTES];
    n += snprintf(text + n, sizeof(text) - (size_t)n, "%s %s\n", space->tensor[i].name,
                  space_describe_tensor(tensor, &space->tensor[i]));
  }
  onnx_graph_metadata(self->onnx, "observation_space", text);
}

static void add_number(struct export *self, const char *key, int64_t number) {
  char text[32];
  snprintf(text, sizeof(text), "%lld", (long long)number);
  onnx_graph_metadata(self->onnx, key, text);
}

static void describe(struct export *self) {
  struct run *run = &self->run;
  char action[SPACE_ACTION_BYTES];
  const char *file = strrchr(run->played, '/');
  onnx_graph_metadata(self->onnx, "environment", run->identity);
  onnx_graph_metadata(self->onnx, "agent", self->learner.agent);
  onnx_graph_metadata(self->onnx, "network", self->learner.network);
  describe_observation(self);
  onnx_graph_metadata(self->onnx, "action_space", space_describe_action(action, &run->space));
  onnx_graph_metadata(self->onnx, "checkpoint", file ? file + 1 : run->played);
  add_number(self, "steps", trainer_counter(run->trainer, TRAINER_STEPS));
  add_number(self, "updates", trainer_report(run->trainer).updates);
  onnx_graph_metadata(self->onnx, "acorn_version", version_number);
  onnx_graph_metadata(self->onnx, "acorn_commit", version_commit);
}

/* ---- */

static enum status write_policy(struct export *self, const char *folder, struct error *error) {
  char usual[PATH_MAX];
  const char *path = self->options.output[0] ? self->options.output : usual;
  snprintf(usual, sizeof(usual), "%s/policy.onnx", folder);
  read_params(self);
  self->onnx = onnx_graph_create("policy", "A policy that Acorn has trained.", version_number);
  struct policy_graph graph = {.onnx = self->onnx, .run = &self->run, .params = self->params};
  enum status status = policy_graph_build(&graph, error);
  if (status != STATUS_OK) return status;
  describe(self);
  status = describe_options(self, folder, error);
  if (status == STATUS_OK) status = onnx_graph_write(self->onnx, path, error);
  if (status == STATUS_OK)
    printf("exported: %s, step %lld of %s\n", path,
           (long long)trainer_counter(self->run.trainer, TRAINER_STEPS), self->run.identity);
  return status == STATUS_OK ? process_flush(error) : status;
}

static enum status run(struct export *self, int argc, char **argv, struct error *error) {
  int num_words = 0;
  enum status status = options_parse(&table, &self->options, argc, argv, argv, &num_words, error);
  if (status == STATUS_OK && num_words != 1)
    status = status_fail(error, STATUS_INVALID, "name one run folder");
  if (status == STATUS_OK) status = open_run(self, argv[0], error);
  return status == STATUS_OK ? write_policy(self, argv[0], error) : status;
}

/* Whether the user can mend it by other words. */
static bool is_usage(enum status status) {
  return status == STATUS_INVALID || status == STATUS_MISMATCH;
}

int main(int argc, char **argv) {
  static struct export self = {.run.folder.lock = -1};
  struct error error;
  process_init();
  process_ignore_file_limit();
  log_init("export", LOG_INFO);
  options_init(&table, &self.options);
  options_init(&learner_options_table, &self.learner);
  enum status status = run(&self, argc, argv, &error);
  onnx_graph_destroy(self.onnx);
  free(self.params);
  run_destroy(&self.run);
  options_deinit(&table, &self.options);
  options_deinit(&learner_options_table, &self.learner);
  if (status == STATUS_OK || status == STATUS_DONE) return 0;
  log_error("%s", error.text);
  return is_usage(status) ? EXIT_USAGE : EXIT_FAILURE;
}
