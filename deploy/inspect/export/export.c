/* Writes the policy of a run's checkpoint as an ONNX file, observation in, action out; or its
 * parameters as a safetensors file. scripts/export.sh runs it. */
#include <limits.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/check.h"
#include "common/base/log.h"
#include "common/base/option_rows.h"
#include "common/base/option_value.h"
#include "common/base/process.h"
#include "common/base/version.h"
#include "deploy/inspect/export/policy_graph.h"
#include "common/base/safetensors.h"
#include "common/base/space_json.h"
#include "deploy/inspect/played_run.h"
#include "envs/env_module.h"

enum { EXIT_USAGE = 2 };

struct export_options {
  struct options_given given;
  char *checkpoint, *format, *output, *env, *env_args;
  bool code;
};

#define AT(member) offsetof(struct export_options, member)
static const struct option rows[] = {
    CHOICE("format", format, "onnx", "onnx|safetensors", NULL,
           "onnx: the whole policy; safetensors: its parameters by name"),
    STRING("output", output, "", NULL, "the file; default: policy.FORMAT in the run folder"),
    STRING("checkpoint", checkpoint, "", NULL,
           "best, latest (the newest whole one of the run), or a file; default: the best, and the "
           "newest while there is no best one"),
    PLAYED_RUN_ROWS,
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
    .about = "Writes the policy of a run folder's checkpoint as a file for other programs.",
    .exits = exits,
    .options = rows,
    .count = sizeof(rows) / sizeof(rows[0]),
};

struct export {
  struct export_options options;
  struct learner_options learner;
  struct run run;
  float *params;    /* (P) */
  json_t *metadata; /* what the file says of itself: texts by name */
};

/* ---- the run */

static void ignore(void *context) {
  (void)context;
}

/* On the CPU in float32, whatever it was trained on. */
static enum status open_run(struct export *self, const char *folder, struct error *error) {
  const struct export_options *options = &self->options;
  const struct run_callbacks callbacks = {ignore, ignore, NULL, NULL};
  const struct played_run played = {.folder = folder,
                                    .checkpoint = options->checkpoint,
                                    .env = options->env,
                                    .env_args = options->env_args,
                                    .device = "cpu",
                                    .precision = "float32",
                                    .spaces_alone = true,
                                    .learned_to = "export",
                                    .code = options->code};
  enum status status = played_run_read(&self->learner, &played, error);
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

static void add_text(struct export *self, const char *key, const char *text) {
  CHECK(json_object_set_new(self->metadata, key, json_string(text)) == 0, "%s is no text", key);
}

static void add_number(struct export *self, const char *key, int64_t number) {
  char text[32];
  snprintf(text, sizeof(text), "%lld", (long long)number);
  add_text(self, key, text);
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
    add_text(self, "options", text);
    free(text);
  }
  options_deinit(&learner_options_table, &options);
  return status;
}

static enum status describe(struct export *self, const char *folder, struct error *error) {
  struct run *run = &self->run;
  char *space = space_json_text(&run->space);
  const char *file = strrchr(run->played, '/');
  self->metadata = json_object();
  add_text(self, "environment", run->identity);
  add_text(self, "agent", self->learner.agent);
  add_text(self, "network", self->learner.network);
  add_text(self, "space", space);
  free(space);
  add_text(self, "checkpoint", file ? file + 1 : run->played);
  add_number(self, "steps", trainer_counter(run->trainer, TRAINER_STEPS));
  add_number(self, "updates", trainer_report(run->trainer).updates);
  add_text(self, "acorn_version", version_number);
  add_text(self, "acorn_commit", version_commit);
  return describe_options(self, folder, error);
}

/* ---- the file */

static enum status write_onnx(struct export *self, const char *path, struct error *error) {
  struct onnx_graph *onnx =
      onnx_graph_create("policy", "A policy that Acorn has trained.", version_number);
  struct policy_graph graph = {.onnx = onnx, .run = &self->run, .params = self->params};
  enum status status = policy_graph_build(&graph, error);
  const char *key;
  json_t *text;
  json_object_foreach(self->metadata, key, text)
      onnx_graph_metadata(onnx, key, json_string_value(text));
  if (status == STATUS_OK) status = onnx_graph_write(onnx, path, error);
  onnx_graph_destroy(onnx);
  return status;
}

static enum status write_safetensors(struct export *self, const char *path, struct error *error) {
  struct safetensor tensor[NETWORK_MAX_PARAMETERS];
  int count;
  const struct network_parameter *parameter = network_parameters(self->run.network, &count);
  for (int i = 0; i < count; i++)
    tensor[i] = (struct safetensor){parameter[i].name, parameter[i].rank, parameter[i].shape,
                                    self->params + parameter[i].offset};
  return safetensors_write(path, tensor, count, self->metadata, error);
}

static enum status write_policy(struct export *self, const char *folder, struct error *error) {
  char usual[PATH_MAX];
  const char *format = self->options.format;
  const char *path = self->options.output[0] ? self->options.output : usual;
  snprintf(usual, sizeof(usual), "%s/policy.%s", folder, format);
  read_params(self);
  enum status status = describe(self, folder, error);
  if (status != STATUS_OK) return status;
  status = strcmp(format, "onnx") == 0 ? write_onnx(self, path, error)
                                       : write_safetensors(self, path, error);
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
  json_decref(self.metadata);
  free(self.params);
  run_destroy(&self.run);
  options_deinit(&table, &self.options);
  options_deinit(&learner_options_table, &self.learner);
  if (status == STATUS_OK || status == STATUS_DONE) return 0;
  log_error("%s", error.text);
  return is_usage(status) ? EXIT_USAGE : EXIT_FAILURE;
}
