#include "learner/train/state.h"

#include <stdio.h>
#include <stdlib.h>

#include "common/base/check.h"

/* Own parameters lie one behind the other, from the network's last on. */
static void find_own(struct train_state *state, const struct algorithm *algorithm,
                     const void *learner) {
  int count;
  (void)network_parameters(state->network, &count);
  if (algorithm && algorithm->parameters)
    state->own = algorithm->parameters(learner, &state->num_own);
  for (int i = 0; i < state->num_own; i++) {
    CHECK(state->own[i].offset == state->P, "%s lies elsewhere", state->own[i].name);
    state->P += state->own[i].count;
  }
  CHECK(count + state->num_own <= NETWORK_MAX_PARAMETERS, "%d parameters", count + state->num_own);
}

enum status train_state_init(struct train_state *state, struct device *device,
                             const struct network *network,
                             const struct optimizer_options *optimizer,
                             const struct entropy_cost *entropy, const struct algorithm *algorithm,
                             const void *learner, uint64_t seed, struct error *error) {
  bool has_target = algorithm && algorithm->target != TARGET_NONE;
  *state = (struct train_state){.device = device,
                                .network = network,
                                .P = network_num_parameters(network),
                                .num_arrays = has_target ? STATE_ARRAYS : STATE_TARGET,
                                .entropy = *entropy,
                                .rate = 1,
                                .saved_rate = 1};
  find_own(state, algorithm, learner);
  size_t P = state->P;
  enum status status = optimizer_create(&state->optimizer, device, P, optimizer, error);
  if (status != STATUS_OK) return status;
  state->array[0] = device->ops->alloc(device, P * device->ops->real_bytes);
  for (int i = 0; i < OPTIMIZER_SLOTS; i++)
    state->array[1 + i] = optimizer_slot(state->optimizer, i);
  if (has_target)
    state->array[STATE_TARGET] = device->ops->alloc(device, P * device->ops->real_bytes);
  for (int i = 0; i < state->num_arrays; i++) state->saved[i] = check_alloc(P, sizeof(float));
  network_init_parameters(network, state->saved[0], seed);
  if (state->num_own) algorithm->init_parameters(learner, state->saved[0], seed);
  device->ops->upload(device, state->array[0], state->saved[0], P);
  if (has_target) device->ops->upload(device, state->array[STATE_TARGET], state->saved[0], P);
  return STATUS_OK;
}

void train_state_deinit(struct train_state *state) {
  for (int i = 0; i < STATE_ARRAYS; i++) free(state->saved[i]);
  state->device->ops->release(state->device, state->array[0]);
  if (state->array[STATE_TARGET])
    state->device->ops->release(state->device, state->array[STATE_TARGET]);
  optimizer_destroy(state->optimizer);
}

enum { FLAT_ARRAYS = 4, OTHER_ITEMS = 16, ARRAY_NAME_BYTES = sizeof("rmsprop/mom/") };
_Static_assert(CHECKPOINT_MAX_ITEMS >= FLAT_ARRAYS * NETWORK_MAX_PARAMETERS + OTHER_ITEMS,
               "parameters, two arrays of the optimiser, a target network");
_Static_assert(CHECKPOINT_NAME_BYTES >= NETWORK_NAME_BYTES + ARRAY_NAME_BYTES,
               "a parameter's name behind the longest name of an array");

struct checkpoint_item train_state_item(const char *name, float *array,
                                        const struct network_parameter *parameter) {
  struct checkpoint_item item = {.dtype = CHECKPOINT_FLOAT32,
                                 .rank = parameter->rank,
                                 .shape = {(uint64_t)parameter->shape[0]},
                                 .data = array + parameter->offset};
  if (parameter->rank == 2) item.shape[1] = (uint64_t)parameter->shape[1];
  int length = snprintf(item.name, sizeof(item.name), "%s/%s", name, parameter->name);
  CHECK(length < CHECKPOINT_NAME_BYTES, "name too long: %s/%s", name, parameter->name);
  return item;
}

/* What an evaluation reads of the parameters has another name than what only training does. */
static int array_items(struct train_state *state, int array, struct checkpoint_item *items) {
  const char *name = array == 0              ? "params"
                     : array == STATE_TARGET ? "target"
                                             : optimizer_slot_name(state->optimizer, array - 1);
  float *saved = state->saved[array];
  int count;
  const struct network_parameter *parameter = network_parameters(state->network, &count);
  for (int i = 0; i < count; i++) items[i] = train_state_item(name, saved, &parameter[i]);
  if (array == 0) name = "own";
  for (int i = 0; i < state->num_own; i++)
    items[count + i] = train_state_item(name, saved, &state->own[i]);
  return count + state->num_own;
}

int train_state_items(struct train_state *state, struct checkpoint_item *items) {
  int count = 0;
  for (int array = 0; array < state->num_arrays; array++)
    count += array_items(state, array, items + count);
  items[count++] = (struct checkpoint_item){.name = "update/entropy",
                                            .dtype = CHECKPOINT_FLOAT64,
                                            .rank = 1,
                                            .shape = {sizeof(struct scalar_adam) / sizeof(double)},
                                            .data = &state->saved_entropy};
  items[count++] = (struct checkpoint_item){.name = CHECKPOINT_VERSION,
                                            .dtype = CHECKPOINT_INT64,
                                            .rank = 1,
                                            .shape = {1},
                                            .data = &state->saved_version};
  if (state->saves_steps)
    items[count++] = (struct checkpoint_item){.name = "update/steps",
                                              .dtype = CHECKPOINT_INT64,
                                              .rank = 1,
                                              .shape = {1},
                                              .data = &state->saved_steps};
  if (state->adapts_rate)
    items[count++] = (struct checkpoint_item){.name = "update/rate",
                                              .dtype = CHECKPOINT_FLOAT64,
                                              .rank = 1,
                                              .shape = {1},
                                              .data = &state->saved_rate,
                                              .optional = true}; /* earlier versions have none */
  return count;
}

void train_state_save(struct train_state *state) {
  for (int i = 0; i < state->num_arrays; i++)
    state->device->ops->download(state->device, state->saved[i], state->array[i], state->P);
  state->saved_entropy = state->entropy.p;
  state->saved_version = state->version;
  state->saved_steps = state->steps;
  state->saved_rate = state->rate;
}

void train_state_load(struct train_state *state) {
  for (int i = 0; i < state->num_arrays; i++)
    state->device->ops->upload(state->device, state->array[i], state->saved[i], state->P);
  /* A run that never adjusted its coefficient has none to hand on: what is configured now stands.
   */
  if (state->saved_entropy.steps > 0) state->entropy.p = state->saved_entropy;
  state->version = state->saved_version;
  state->steps = state->saves_steps ? state->saved_steps : state->version;
  if (state->adapts_rate) state->rate = state->saved_rate;
}

/* ---- from outside */

void train_state_read(struct train_state *state, float *values) {
  state->device->ops->download(state->device, values, state->array[0], state->P);
}

static void write_parameter(struct train_state *state, const float *values,
                            const struct network_parameter *parameter) {
  for (int array = 0; array < state->num_arrays; array += STATE_TARGET)
    state->device->ops->upload(state->device,
                               device_at(state->device, state->array[array], parameter->offset),
                               values + parameter->offset, parameter->count);
}

void train_state_write(struct train_state *state, const float *values, const bool *given) {
  int count;
  const struct network_parameter *parameter = network_parameters(state->network, &count);
  for (int i = 0; i < count; i++)
    if (given[i]) write_parameter(state, values, &parameter[i]);
  for (int i = 0; i < state->num_own; i++)
    if (given[count + i]) write_parameter(state, values, &state->own[i]);
}
