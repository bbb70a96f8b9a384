/* A policy by the learner's own network and policy, of a file that describes both. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/check.h"
#include "common/base/safetensors.h"
#include "common/base/space_json.h"
#include "deploy/python/acorn_policy.h"
#include "learner/device/create.h"
#include "learner/learn/algorithms.h"
#include "learner/run/run_network.h"
#include "learner/serve/predictor.h"

enum { MAX_ROWS = 1 << 20 };

struct acorn_policy {
  struct safetensors file;
  struct learner_options options;
  struct space space;
  const struct policy *policy;
  struct network *network;
  struct device *device; /* unified: the host reads and writes its memory */
  real *params;
  struct step_shape shape;
  size_t state_bytes;         /* of a row */
  struct predictor predictor; /* of max_rows rows, each with a slot for the time of a call */
  pthread_mutex_t lock;       /* guards predictor */
};

/* ---- opened */

/* Each line is "name = value". */
static enum status read_options(struct acorn_policy *self, struct error *error) {
  char *text = strdup(safetensors_text(&self->file, "options")), *rest = text;
  CHECK(text, "no memory for options");
  enum status status = STATUS_OK;
  for (char *line; status == STATUS_OK && (line = strsep(&rest, "\n"));) {
    char *value = strstr(line, " = ");
    if (!value) continue;
    *value = '\0';
    status =
        options_set_of_file(&learner_options_table, &self->options, line, value + strlen(" = "),
                            "the file is of another version of Acorn", error);
  }
  free(text);
  learner_options_keep_raw(&self->options);
  if (status == STATUS_OK)
    status = options_set(&learner_options_table, &self->options, "network",
                         safetensors_text(&self->file, "network"), "", error);
  return status == STATUS_OK ? learner_options_check(&self->options, error) : status;
}

static enum status read_description(struct acorn_policy *self, struct error *error) {
  static const char *const texts[] = {"options", "network", "space"};
  for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
    if (!safetensors_text(&self->file, texts[i]))
      return status_fail(error, STATUS_INVALID,
                         "its metadata have no %s: export the policy with scripts/export.sh RUN "
                         "--format=safetensors",
                         texts[i]);
  enum status status = read_options(self, error);
  if (status == STATUS_OK)
    status = space_json_parse(&self->space, safetensors_text(&self->file, "space"), error);
  if (status != STATUS_OK) return status;
  const struct algorithm_row *agent = algorithms_find(self->options.agent);
  self->policy = algorithms_policy(agent, &self->space);
  if (agent->algorithm && self->policy) return STATUS_OK;
  return status_fail(error, STATUS_INVALID, "agent %s has no policy for these actions",
                     self->options.agent);
}

static enum status make_network(struct acorn_policy *self, struct error *error) {
  struct device_inputs inputs = {.stack = (int)self->options.frame_stack};
  run_network_inputs(&inputs, &self->space, &self->options);
  enum status status = run_network_create(&self->network, &inputs, &self->space, self->policy,
                                          &self->options, error);
  if (status != STATUS_OK) return status;
  size_t P = network_num_parameters(self->network);
  if (P * sizeof(float) == self->file.bytes) return device_create(&self->device, "cpu", error);
  return status_fail(error, STATUS_INVALID, "it has %zu bytes of parameters, its network %zu",
                     self->file.bytes, P * sizeof(float));
}

static enum status read_params(struct acorn_policy *self, struct error *error) {
  int count;
  const struct network_parameter *parameter = network_parameters(self->network, &count);
  size_t P = network_num_parameters(self->network);
  float *host = check_alloc(P + 1, sizeof(*host));
  enum status status = STATUS_OK;
  for (int i = 0; status == STATUS_OK && i < count; i++) {
    const struct safetensor tensor = {parameter[i].name, parameter[i].rank, parameter[i].shape,
                                      NULL};
    status = safetensors_take(&self->file, host + parameter[i].offset, &tensor, error);
  }
  self->params = self->device->ops->alloc(self->device, P * sizeof(float) + 1);
  self->device->ops->upload(self->device, self->params, host, P);
  free(host);
  return status;
}

static void make_rows(struct acorn_policy *self, int count) {
  const struct acting acting = {.device = self->device,
                                .network = self->network,
                                .policy = self->policy,
                                .shape = self->shape,
                                .max_rows = count};
  if (count <= self->predictor.acting.max_rows) return;
  predictor_deinit(&self->predictor);
  predictor_init(&self->predictor, &acting, &self->space, count);
  acting_set_params(&self->predictor.acting, self->params);
}

static enum status open_policy(struct acorn_policy *self, const char *path, struct error *error) {
  enum status status = safetensors_open(&self->file, path, error);
  if (status == STATUS_OK) status = read_description(self, error);
  if (status == STATUS_OK) status = make_network(self, error);
  if (status == STATUS_OK) status = read_params(self, error);
  if (status != STATUS_OK) return status;
  self->shape = run_network_shape(self->network, &self->space, self->policy);
  make_rows(self, 1);
  self->state_bytes = memory_slot_bytes(self->predictor.memory);
  return STATUS_OK;
}

struct acorn_policy *acorn_policy_open(const char *path, char *error, size_t error_bytes) {
  struct acorn_policy *self = check_alloc(1, sizeof(*self));
  struct error reason = {""};
  options_init(&learner_options_table, &self->options);
  pthread_mutex_init(&self->lock, NULL);
  if (open_policy(self, path, &reason) == STATUS_OK) return self;
  bool is_named = strstr(reason.text, path) != NULL;
  snprintf(error, error_bytes, "%s%s%s", is_named ? "" : path, is_named ? "" : ": ", reason.text);
  acorn_policy_close(self);
  return NULL;
}

void acorn_policy_close(struct acorn_policy *self) {
  if (!self) return;
  if (self->device) {
    predictor_deinit(&self->predictor);
    if (self->params) self->device->ops->release(self->device, self->params);
    device_destroy(self->device);
  }
  if (self->network) network_destroy(self->network);
  safetensors_close(&self->file);
  options_deinit(&learner_options_table, &self->options);
  pthread_mutex_destroy(&self->lock);
  free(self);
}

const char *acorn_policy_text(const struct acorn_policy *self, const char *key) {
  return safetensors_text(&self->file, key);
}

size_t acorn_policy_action_bytes(const struct acorn_policy *self) {
  return (size_t)self->shape.action_bytes;
}

size_t acorn_policy_state_bytes(const struct acorn_policy *self) {
  return self->state_bytes;
}

/* ---- a step */

/* Row b as the network reads it: what its state says of the steps before. */
static void enter_row(struct acorn_policy *self, uint8_t *state, const void *const *observation,
                      float reward, int b) {
  struct predictor *predictor = &self->predictor;
  for (int i = 0; i < self->space.num_tensors; i++) {
    size_t bytes = predictor->layout.tensor[i].bytes;
    memcpy(predictor_tensor(predictor, b, i), (const uint8_t *)observation[i] + (size_t)b * bytes,
           bytes);
  }
  memory_load_slot(predictor->memory, state, b);
  uint8_t flags = predictor->memory->steps[b] > 0 ? 0 : STEP_FIRST;
  predictor_enter(predictor, b, b, flags, reward, true);
}

int acorn_policy_act(struct acorn_policy *self, void *action, uint8_t *state,
                     const void *const *observation, const float *reward, int rows, char *error,
                     size_t error_bytes) {
  if (rows < 1 || rows > MAX_ROWS) {
    snprintf(error, error_bytes, "%d rows; there may be 1 to %d in a call", rows, MAX_ROWS);
    return -1;
  }
  pthread_mutex_lock(&self->lock);
  make_rows(self, rows);
  struct predictor *predictor = &self->predictor;
  size_t bytes = acorn_policy_action_bytes(self);
  predictor_begin(predictor, rows);
  for (int b = 0; b < rows; b++)
    enter_row(self, state + (size_t)b * self->state_bytes, observation, reward ? reward[b] : 0, b);
  predictor_choose(predictor);
  for (int b = 0; b < rows; b++) {
    memory_save_slot(predictor->memory, state + (size_t)b * self->state_bytes, b);
    predictor_send(predictor, (uint8_t *)action + (size_t)b * bytes, b);
  }
  pthread_mutex_unlock(&self->lock);
  return 0;
}
