/* Environments that step together, by the environment ABI. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/check.h"
#include "common/base/space_json.h"
#include "deploy/python/acorn_policy.h"
#include "envs/registry.h"

enum { MAX_ENVIRONMENTS = 65536 };

struct acorn_vector {
  const struct acorn_env *env;
  struct acorn_config config;
  struct space space;
  char *space_text;
  int count;
  size_t tensor_bytes[SPACE_MAX_TENSORS], action_bytes;
  void **instance; /* (count); NULL: it has failed and is made again at its next reset */
  uint8_t *over;   /* (count): its episode has ended, or none has begun */
};

static int fail(char *error, size_t error_bytes, int index, const char *reason) {
  snprintf(error, error_bytes, "environment %d: %s", index, reason);
  return -1;
}

/* ---- made */

static enum status open_vector(struct acorn_vector *self, const char *env, const char *env_args,
                               int count, struct error *error) {
  if (count < 1 || count > MAX_ENVIRONMENTS)
    return status_fail(error, STATUS_INVALID, "%d environments; there may be 1 to %d", count,
                       MAX_ENVIRONMENTS);
  enum status status = registry_find(&self->env, env, error);
  if (status == STATUS_OK) status = registry_config(&self->config, self->env, env_args, error);
  if (status != STATUS_OK) return status;
  self->config.renders = 1;
  status = registry_space(&self->space, self->env, &self->config, error);
  if (status != STATUS_OK) return status;
  self->space_text = space_json_text(&self->space);
  self->count = count;
  for (int i = 0; i < self->space.num_tensors; i++)
    self->tensor_bytes[i] = space_tensor_bytes(&self->space.tensor[i]);
  self->action_bytes = (size_t)space_action_bytes(&self->space);
  self->instance = check_alloc((size_t)count, sizeof(*self->instance));
  self->over = check_alloc((size_t)count, 1);
  memset(self->over, 1, (size_t)count);
  return STATUS_OK;
}

struct acorn_vector *acorn_vector_open(const char *env, const char *env_args, int count,
                                       char *error, size_t error_bytes) {
  struct acorn_vector *self = check_alloc(1, sizeof(*self));
  struct error reason = {""};
  if (open_vector(self, env, env_args, count, &reason) == STATUS_OK) return self;
  snprintf(error, error_bytes, "%s", reason.text);
  acorn_vector_close(self);
  return NULL;
}

void acorn_vector_close(struct acorn_vector *self) {
  if (!self) return;
  for (int k = 0; k < self->count; k++)
    if (self->instance[k]) self->env->destroy(self->instance[k]);
  registry_config_deinit(&self->config);
  free(self->space_text);
  free(self->instance);
  free(self->over);
  free(self);
}

const char *acorn_vector_space(const struct acorn_vector *self) {
  return self->space_text;
}

/* ---- stepped */

/* Where environment k writes. */
static void place_row(const struct acorn_vector *self, struct acorn_row *row,
                      void *tensor[SPACE_MAX_TENSORS], void *const *observation, int k) {
  for (int i = 0; i < self->space.num_tensors; i++)
    tensor[i] = (char *)observation[i] + (size_t)k * self->tensor_bytes[i];
  *row = (struct acorn_row){.struct_bytes = sizeof(*row), .observation = tensor};
}

/* One that fails is destroyed, as the ABI demands. */
static int drop(struct acorn_vector *self, int k, char *error, size_t error_bytes,
                const char *reason) {
  self->env->destroy(self->instance[k]);
  self->instance[k] = NULL;
  self->over[k] = 1;
  return fail(error, error_bytes, k, reason);
}

static int reset_one(struct acorn_vector *self, void *const *observation, const uint64_t *seed,
                     int k, char *error, size_t error_bytes) {
  char reason[512] = "it has failed";
  void *tensor[SPACE_MAX_TENSORS];
  struct acorn_row row;
  if (!self->instance[k])
    self->instance[k] = self->env->create(&self->config, reason, sizeof(reason));
  if (!self->instance[k]) return fail(error, error_bytes, k, reason);
  place_row(self, &row, tensor, observation, k);
  if (self->env->reset(self->instance[k], seed, &row, reason, sizeof(reason)) != 0)
    return drop(self, k, error, error_bytes, reason);
  self->over[k] = 0;
  return 0;
}

int acorn_vector_reset(struct acorn_vector *self, void *const *observation, const uint64_t *seed,
                       const uint8_t *which, char *error, size_t error_bytes) {
  for (int k = 0; k < self->count; k++)
    if ((!which || which[k]) &&
        reset_one(self, observation, seed ? &seed[k] : NULL, k, error, error_bytes) != 0)
      return -1;
  return 0;
}

static bool has_action(const struct space *space, const void *action) {
  const int32_t *choice = action;
  const float *number = action;
  for (int c = 0; space->discrete && c < space_num_choices(&space->choices); c++)
    if (choice[c] < 0 || choice[c] >= space_among(&space->choices, c, space->discrete))
      return false;
  for (int i = 0; i < space->box; i++)
    if (!(number[i] >= space->low[i] && number[i] <= space->high[i])) return false;
  return true;
}

int acorn_vector_step(struct acorn_vector *self, void *const *observation, float *reward,
                      uint8_t *terminated, uint8_t *truncated, const void *action, char *error,
                      size_t error_bytes) {
  char reason[512] = "it has failed";
  const size_t bytes = self->action_bytes;
  void *tensor[SPACE_MAX_TENSORS];
  struct acorn_row row;
  for (int k = 0; k < self->count; k++) /* all or none steps */
    if (!self->over[k] && !has_action(&self->space, (const char *)action + (size_t)k * bytes))
      return fail(error, error_bytes, k, "an action that its action space does not have");
  for (int k = 0; k < self->count; k++) {
    const char *chosen = (const char *)action + (size_t)k * bytes;
    reward[k] = 0;
    terminated[k] = truncated[k] = 0;
    if (self->over[k]) {
      if (reset_one(self, observation, NULL, k, error, error_bytes) != 0) return -1;
      continue;
    }
    place_row(self, &row, tensor, observation, k);
    if (self->env->step(self->instance[k], chosen, &row, reason, sizeof(reason)) != 0)
      return drop(self, k, error, error_bytes, reason);
    reward[k] = row.reward;
    terminated[k] = row.terminated != 0;
    truncated[k] = row.truncated != 0 && !row.terminated;
    self->over[k] = terminated[k] | truncated[k];
  }
  return 0;
}

int acorn_vector_render(struct acorn_vector *self, int index, int *width, int *height,
                        uint8_t *pixels, char *error, size_t error_bytes) {
  char reason[512] = "it draws nothing";
  struct acorn_picture picture = {.struct_bytes = sizeof(picture), .pixels = pixels};
  *width = *height = 0;
  if (index < 0 || index >= self->count || !self->instance[index])
    return fail(error, error_bytes, index, "it is not there, or was not reset");
  if (!registry_has(self->env, render) || !self->env->render) return 0;
  if (self->env->render(self->instance[index], &picture, reason, sizeof(reason)) != 0)
    return fail(error, error_bytes, index, reason);
  *width = picture.width;
  *height = picture.height;
  return 0;
}
