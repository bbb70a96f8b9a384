/* A policy by the learner's own network and policy, of a file that describes both. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/check.h"
#include "common/base/safetensors.h"
#include "common/wire/wire.h"
#include "common/base/space_json.h"
#include "deploy/python/acorn_policy.h"
#include "learner/device/create.h"
#include "learner/experience/step_shape.h"
#include "learner/learn/algorithms.h"
#include "learner/run/run_network.h"

enum { MAX_ROWS = 1 << 20 };

/* What is made for a number of rows. */
struct rows {
  int count;
  struct network_workspace *workspace;
  uint8_t *observation, *history; /* (count, row_stride), (count, footprint, row_stride) */
  int32_t *frame;                 /* (count, footprint) */
  uint8_t *flags, *action;        /* (count), (count, action_bytes) */
  uint8_t *previous;              /* (count, action_bytes) */
  float *reward, *statistics, *uniform, *epsilon;
  real *state_in, *state_out; /* (count, S) */
};

struct acorn_policy {
  struct safetensors file;
  struct learner_options options;
  struct space space;
  struct wire_layout layout;
  struct device_inputs inputs;
  const struct policy *policy;
  struct network *network;
  struct device *device; /* unified: the host reads and writes its memory */
  real *params;
  int footprint;     /* frames before the newest */
  size_t action, S;  /* bytes of an action; floats of the network's state */
  size_t state_size; /* bytes of a row's state: steps so far, frames, S floats, the action */
  struct rows rows;
  pthread_mutex_t lock; /* guards rows */
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
    status = options_set(&learner_options_table, &self->options, line, value + strlen(" = "),
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
  run_network_inputs(&self->inputs, &self->space, &self->options);
  self->inputs.stack = (int)self->options.frame_stack;
  enum status status = run_network_create(&self->network, &self->inputs, &self->space, self->policy,
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
  self->device->ops->weights_changed(self->device);
  free(host);
  return status;
}

static enum status open_policy(struct acorn_policy *self, const char *path, struct error *error) {
  enum status status = safetensors_open(&self->file, path, error);
  if (status == STATUS_OK) status = read_description(self, error);
  if (status == STATUS_OK) status = make_network(self, error);
  if (status == STATUS_OK) status = read_params(self, error);
  if (status != STATUS_OK) return status;
  wire_layout_of_space(&self->layout, &self->space, 1);
  self->footprint = self->inputs.stack > 1 ? self->inputs.stack - 1 : 0;
  self->action = (size_t)space_action_bytes(&self->space);
  self->S = (size_t)network_state_size(self->network);
  self->state_size = sizeof(uint32_t) + (size_t)self->footprint * self->inputs.row_stride +
                     self->S * sizeof(float) + self->action;
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

/* ---- rows */

static void *room(struct acorn_policy *self, size_t bytes) {
  return self->device->ops->alloc(self->device, bytes + 1);
}

static void release_rows(struct acorn_policy *self) {
  struct rows *rows = &self->rows;
  void *const memory[] = {rows->observation, rows->history,  rows->frame,    rows->flags,
                          rows->action,      rows->previous, rows->reward,   rows->statistics,
                          rows->uniform,     rows->epsilon,  rows->state_in, rows->state_out};
  if (rows->count == 0) return;
  network_workspace_destroy(rows->workspace);
  for (size_t i = 0; i < sizeof(memory) / sizeof(memory[0]); i++)
    self->device->ops->release(self->device, memory[i]);
  rows->count = 0;
}

static void make_rows(struct acorn_policy *self, int count) {
  size_t B = (size_t)count, stride = self->inputs.row_stride, S = self->S * sizeof(float);
  size_t frames = B * (size_t)self->footprint;
  size_t draws = B * (size_t)policy_draws(self->policy, &self->space);
  if (count <= self->rows.count) return;
  release_rows(self);
  self->rows = (struct rows){
      .count = count,
      .workspace = network_workspace_create(self->network, self->device, count, false),
      .observation = room(self, B * stride),
      .history = room(self, frames * stride),
      .frame = room(self, frames * sizeof(int32_t)),
      .flags = room(self, B),
      .action = room(self, B * self->action),
      .previous = room(self, B * self->action),
      .reward = room(self, B * sizeof(float)),
      .statistics = room(self, B * (size_t)self->policy->statistics * sizeof(float)),
      .uniform = room(self, draws * sizeof(float)),
      .epsilon = room(self, B * sizeof(float)),
      .state_in = room(self, B * S),
      .state_out = room(self, B * S)};
  for (size_t i = 0; i < draws; i++) self->rows.uniform[i] = -1;
}

void acorn_policy_close(struct acorn_policy *self) {
  if (!self) return;
  if (self->device) {
    release_rows(self);
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
  return self->action;
}

size_t acorn_policy_state_bytes(const struct acorn_policy *self) {
  return self->state_size;
}

/* ---- a step */

/* Row b as the network reads it: what its state says of the steps before. */
static void enter_row(struct acorn_policy *self, const uint8_t *state,
                      const void *const *observation, int b) {
  struct rows *rows = &self->rows;
  size_t row = (size_t)b, stride = self->inputs.row_stride, S = self->S * sizeof(float);
  size_t frames = (size_t)self->footprint;
  uint32_t steps;
  memcpy(&steps, state, sizeof(steps));
  for (int i = 0; i < self->space.num_tensors; i++) {
    const struct wire_tensor *tensor = &self->layout.tensor[i];
    memcpy(rows->observation + row * stride + tensor->row_offset,
           (const uint8_t *)observation[i] + row * tensor->bytes, tensor->bytes);
  }
  state += sizeof(steps);
  memcpy(rows->history + row * frames * stride, state, frames * stride);
  for (size_t k = 0; k < frames; k++)
    rows->frame[row * frames + k] = k < steps ? (int32_t)(row * frames + k) : -1;
  state += frames * stride;
  memcpy((uint8_t *)rows->state_in + row * S, state, S);
  const struct step_shape shape = {.box = self->space.box > 0};
  if (steps > 0)
    memcpy(rows->previous + row * self->action, state + S, self->action);
  else
    memset(rows->previous + row * self->action, step_shape_no_action(&shape), self->action);
  rows->flags[b] = steps > 0 ? 0 : STEP_FIRST;
}

/* What row b remembers from now on. */
static void leave_row(struct acorn_policy *self, uint8_t *state, int b) {
  const struct rows *rows = &self->rows;
  size_t row = (size_t)b, stride = self->inputs.row_stride, S = self->S * sizeof(float);
  size_t frames = (size_t)self->footprint;
  uint32_t steps;
  memcpy(&steps, state, sizeof(steps));
  if (steps < UINT32_MAX) steps++;
  memcpy(state, &steps, sizeof(steps));
  state += sizeof(steps);
  if (frames > 0) {
    memmove(state + stride, state, (frames - 1) * stride);
    memcpy(state, rows->observation + row * stride, stride);
  }
  state += frames * stride;
  memcpy(state, (const uint8_t *)rows->state_out + row * S, S);
  memcpy(state + S, rows->action + row * self->action, self->action);
}

static void forward(struct acorn_policy *self, int B) {
  struct rows *rows = &self->rows;
  struct device_inputs inputs = self->inputs;
  struct network_outputs out;
  const struct policy_rows greedy = {rows->uniform, rows->epsilon};
  inputs.observation = rows->observation;
  inputs.previous_action = rows->previous;
  inputs.reward = rows->reward;
  inputs.flags = rows->flags;
  inputs.history = rows->history;
  inputs.frame = rows->frame;
  network_forward(rows->workspace, &out, self->S ? rows->state_out : NULL, self->params, &inputs,
                  self->S ? rows->state_in : NULL, 1, B);
  self->policy->choose(self->device, rows->action, rows->statistics, &out, &greedy, B);
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
  for (int b = 0; b < rows; b++) {
    enter_row(self, state + (size_t)b * self->state_size, observation, b);
    self->rows.reward[b] = reward ? reward[b] : 0;
  }
  forward(self, rows);
  for (int b = 0; b < rows; b++) {
    uint8_t *chosen = self->rows.action + (size_t)b * self->action;
    uint8_t *sent = (uint8_t *)action + (size_t)b * self->action;
    leave_row(self, state + (size_t)b * self->state_size, b);
    if (self->policy->send)
      self->policy->send(sent, chosen, &self->space);
    else
      memcpy(sent, chosen, self->action);
  }
  pthread_mutex_unlock(&self->lock);
  return 0;
}
