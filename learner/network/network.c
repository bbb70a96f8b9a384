#include "learner/network/network.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/check.h"
#include "common/base/options.h"
#include "learner/network/head.h"
#include "learner/network/names.h"
#include "learner/network/observation.h"
#include "learner/network/value_scale.h"

enum {
  MAX_SIZE = 1 << 20
}; /* of one layer or tensor: keeps every product of two sizes inside an int64 */

#define KIND(name, of_images, lstm_size) &kind_##name,
static const struct network_kind *const kinds[] = {NETWORKS(KIND) KIND(random, false, 0)
                                                       KIND(scripted, false, 0)};
enum { NUM_KINDS = sizeof(kinds) / sizeof(kinds[0]) };

/* ---- create */

static enum status find_kind(const struct network_kind **out, const char *name,
                             struct error *error) {
  const char *names[NUM_KINDS];
  for (int i = 0; i < NUM_KINDS; i++) {
    *out = kinds[i];
    names[i] = kinds[i]->name;
    if (strcmp(names[i], name) == 0) return STATUS_OK;
  }
  const char *nearest = options_nearest_word(names, NUM_KINDS, name);
  return status_fail(error, STATUS_INVALID,
                     "unknown network '%s'%s%s%s; there are mlp, lstm, impala_shallow, "
                     "impala_deep, nature, random and scripted",
                     name, nearest ? " (did you mean '" : "", nearest ? nearest : "",
                     nearest ? "'?)" : "");
}

static enum status check_inputs(const struct device_inputs *in, struct error *error) {
  int actions = in->discrete ? in->discrete : in->box;
  if (actions < 1 || actions > MAX_SIZE)
    return status_fail(error, STATUS_INVALID, "the network: %d actions; there must be 1..%d",
                       actions, MAX_SIZE);
  if (in->num_tensors < 1 || in->num_tensors > SPACE_MAX_TENSORS)
    return status_fail(error, STATUS_INVALID,
                       "the network: observations of %d tensors; there must be 1..%d",
                       in->num_tensors, SPACE_MAX_TENSORS);
  for (int k = 0; k < in->num_tensors; k++)
    if (in->tensor[k].count < 1 || in->tensor[k].count > MAX_SIZE)
      return status_fail(error, STATUS_INVALID,
                         "the network: observation tensor %d has %d elements; there must be 1..%d",
                         k, in->tensor[k].count, MAX_SIZE);
  return STATUS_OK;
}

static enum status check_layers(const struct network_config *config, struct error *error) {
  if (config->num_layers < 0 || config->num_layers > NETWORK_MAX_LAYERS)
    return status_fail(error, STATUS_INVALID, "the network: %d hidden layers; there must be 0..%d",
                       config->num_layers, NETWORK_MAX_LAYERS);
  for (int l = 0; l < config->num_layers; l++)
    if (config->hidden[l] < 1 || config->hidden[l] > MAX_SIZE)
      return status_fail(error, STATUS_INVALID,
                         "the network: hidden layer %d has size %d; it must be 1..%d", l,
                         config->hidden[l], MAX_SIZE);
  return STATUS_OK;
}

static enum status check_head(const struct network_config *config, struct error *error) {
  CHECK(config->head_size >= 0 && config->value_size >= 0 &&
            config->head_size + config->value_size > 0,
        "a head of %d and %d outputs", config->head_size, config->value_size);
  if (config->head_hidden >= 0 && config->head_hidden <= MAX_SIZE) return STATUS_OK;
  return status_fail(error, STATUS_INVALID,
                     "the network: the hidden layers of the head have size %d; it must be 1..%d, "
                     "or 0 for none",
                     config->head_hidden, MAX_SIZE);
}

/* Memory behind the layout is the caller's and may go: only the layout is kept. */
static void forget_pointers(struct device_inputs *inputs) {
  inputs->observation = NULL;
  inputs->previous_action = NULL;
  inputs->reward = NULL;
  inputs->flags = NULL;
  inputs->history = NULL;
  inputs->frame = NULL;
  inputs->mean = inputs->deviation = NULL;
}

enum status network_create(struct network **out, const struct network_config *config,
                           struct error *error) {
  *out = NULL;
  const struct network_kind *kind;
  enum status status = find_kind(&kind, config->network, error);
  if (status == STATUS_OK) status = check_inputs(&config->inputs, error);
  if (status == STATUS_OK) status = check_layers(config, error);
  if (status == STATUS_OK) status = check_head(config, error);
  if (status == STATUS_OK && kind->check) status = kind->check(config, error);
  if (status != STATUS_OK) return status;

  struct network *network = check_alloc(1, sizeof(*network));
  network->config = *config;
  network->config.network = kind->name;
  forget_pointers(&network->config.inputs);
  network->kind = kind;
  network->inputs_size = device_inputs_size(&config->inputs);
  network->outputs = config->head_size + config->value_size + config->log_stds;
  if (kind->declare) kind->declare(network);
  if (kind->declare) observation_declare(network);
  if (kind->declare && config->scale_value) value_scale_declare(network);
  *out = network;
  return STATUS_OK;
}

void network_destroy(struct network *network) {
  if (!network) return;
  free(network->head);
  free(network->own);
  free(network);
}

int network_declare(struct network *network, const char *name, int rank, int rows, int columns) {
  CHECK(network->num_parameters < NETWORK_MAX_PARAMETERS, "too many parameter arrays: %s", name);
  int index = network->num_parameters++;
  struct network_parameter *parameter = &network->parameter[index];
  *parameter = (struct network_parameter){.rank = rank,
                                          .shape = {rows, columns},
                                          .offset = network->total,
                                          .count = (size_t)rows * (size_t)columns};
  int length = snprintf(parameter->name, sizeof(parameter->name), "%s", name);
  CHECK(length < NETWORK_NAME_BYTES, "name too long: %s", name);
  network->total += parameter->count;
  return index;
}

/* ---- what it is */

const struct network_config *network_config(const struct network *network) {
  return &network->config;
}

size_t network_num_parameters(const struct network *network) {
  return network->total;
}

int network_state_size(const struct network *network) {
  return network->state_size;
}

int network_head_size(const struct network *network) {
  return network->config.head_size;
}

int network_head_stride(const struct network *network) {
  return network->config.values.dueling ? network->config.head_size : network->outputs;
}

const struct action_values *network_action_values(const struct network *network) {
  return &network->config.values;
}

const struct device_inputs *network_inputs(const struct network *network) {
  return &network->config.inputs;
}

const struct network_parameter *network_parameters(const struct network *network, int *count) {
  *count = network->num_parameters;
  return network->parameter;
}

struct network_layer *layer_list_add(struct network_layer_list *list,
                                     enum network_layer_kind kind) {
  CHECK(list->count < NETWORK_MAX_LISTED, "more than %d layers", NETWORK_MAX_LISTED);
  struct network_layer *layer = &list->layer[list->count++];
  *layer = (struct network_layer){.kind = kind};
  return layer;
}

void network_list_layers(const struct network *network, struct network_layer_list *list) {
  list->count = 0;
  if (!network->kind->list) return;
  network->kind->list(network, list);
  head_list(network, list);
}

void network_init_parameters(const struct network *network, float *host, uint64_t seed) {
  if (network->kind->init) network->kind->init(network, host, seed);
  if (network->head) head_init(network, host, seed);
  observation_init(network, host);
  if (network->scales_value) value_scale_init(network, host);
}

/* ---- workspace */

void *workspace_memory(struct network_workspace *workspace, size_t bytes) {
  workspace->bytes += bytes;
  if (workspace->is_counted) return NULL;
  CHECK(workspace->num_buffers < WORKSPACE_MAX_BUFFERS, "a network with more than %d buffers",
        WORKSPACE_MAX_BUFFERS);
  void *memory = workspace->device->ops->alloc(workspace->device, bytes);
  workspace->buffer[workspace->num_buffers++] = memory;
  return memory;
}

real *workspace_reals(struct network_workspace *workspace, int per_row) {
  size_t reals = (size_t)workspace->rows * (size_t)per_row;
  return workspace_memory(workspace, reals * workspace->device->ops->real_bytes);
}

static bool embedded(const struct network_kind *kind) {
  return !kind->blind && !kind->embeds;
}

static void allocate_values(struct network_workspace *workspace) {
  const struct action_values *values = &workspace->network->config.values;
  const struct device_inputs *inputs = &workspace->network->config.inputs;
  if (inputs->masked) workspace->mask = workspace_reals(workspace, inputs->discrete);
  if (values->Z > 1 || (values->A && inputs->masked))
    workspace->values = workspace_reals(workspace, values->A);
  if (!values->dueling) return;
  workspace->joined = workspace_reals(workspace, values->A * values->Z);
  if (workspace->backward)
    workspace->d_head = workspace_reals(workspace, workspace->network->outputs);
}

static struct network_workspace *make(const struct network *network, struct device *device,
                                      int rows, bool backward, bool is_counted) {
  CHECK(rows > 0, "a workspace for %d rows", rows);
  struct network_workspace *workspace = check_alloc(1, sizeof(*workspace));
  workspace->network = network;
  workspace->device = device;
  workspace->rows = rows;
  workspace->backward = backward;
  workspace->is_counted = is_counted;
  if (embedded(network->kind)) workspace->inputs = workspace_reals(workspace, network->inputs_size);
  observation_allocate(workspace);
  workspace->head = workspace_reals(workspace, network->outputs);
  allocate_values(workspace);
  if (network->kind->allocate) network->kind->allocate(workspace);
  if (network->head) head_allocate(workspace);
  return workspace;
}

struct network_workspace *network_workspace_create(const struct network *network,
                                                   struct device *device, int rows, bool backward) {
  return make(network, device, rows, backward, false);
}

size_t network_workspace_bytes(const struct network *network, struct device *device, int rows,
                               bool backward) {
  struct network_workspace *workspace = make(network, device, rows, backward, true);
  size_t bytes = workspace->bytes;
  network_workspace_destroy(workspace);
  return bytes;
}

real *network_differentiate_inputs(struct network_workspace *workspace) {
  CHECK(workspace->backward && workspace->network->kind->differentiates &&
            !workspace->network->config.noisy,
        "a workspace of %s for the gradient of its inputs", workspace->network->kind->name);
  workspace->d_inputs = workspace_reals(workspace, workspace->network->inputs_size);
  return workspace->d_inputs;
}

void network_workspace_destroy(struct network_workspace *workspace) {
  if (!workspace) return;
  struct device *device = workspace->device;
  for (int i = 0; i < workspace->num_buffers; i++)
    device->ops->release(device, workspace->buffer[i]);
  free(workspace->head_buffers);
  free(workspace->own);
  free(workspace);
}

/* ---- forward, backward */

void network_set_noise(struct network_workspace *workspace, const struct network_noise *noise) {
  if (workspace->network->head) head_set_noise(workspace, noise);
}

static void embed(struct network_workspace *workspace, const real *params,
                  const struct device_inputs *inputs, int rows) {
  workspace->device->ops->embed(workspace->device, workspace->inputs, inputs, rows);
  observation_normalize(workspace, workspace->inputs, params, inputs, rows);
}

/* Of the bytes of an observation, as any other tensor. */
static void read_mask(struct network_workspace *workspace, const struct device_inputs *inputs,
                      int rows) {
  struct device_inputs mask = *inputs;
  mask.num_tensors = 1;
  mask.tensor[0].dtype = DTYPE_UINT8;
  mask.tensor[0].count = inputs->discrete;
  mask.tensor[0].row_offset = inputs->mask_offset;
  mask.use_previous_action = mask.use_reward = false;
  workspace->device->ops->embed(workspace->device, workspace->mask, &mask, rows);
}

/* Values stay as they are: what is learned of those that were taken has no mask. */
static void mask_logits(struct network_workspace *workspace, size_t rows) {
  const struct network *network = workspace->network;
  if (network->config.values.A) return;
  action_mask_apply(workspace->device, workspace->head, workspace->head, network->outputs,
                    workspace->mask, &network->config.inputs.choices, network->config.head_size,
                    rows);
}

void network_forward(struct network_workspace *workspace, struct network_outputs *out,
                     real *state_out, const real *params, const struct device_inputs *inputs,
                     const real *state_in, int T, int N) {
  const struct network *network = workspace->network;
  struct device *device = workspace->device;
  CHECK(T > 0 && N > 0 && (int64_t)T * N <= workspace->rows, "%d x %d rows in a workspace for %d",
        T, N, workspace->rows);
  CHECK(state_in || !network->state_size, "network %s needs a state", network->kind->name);
  if (embedded(network->kind)) embed(workspace, params, inputs, T * N);
  network->kind->forward(workspace, state_out, params, inputs, state_in, T, N);
  if (network->scales_value) value_scale_forward(workspace, params, T * N);
  workspace->forward_T = T;
  workspace->forward_N = N;
  const struct action_values *values = &network->config.values;
  if (values->dueling)
    action_values_join(device, workspace->joined, workspace->head, network->outputs, values,
                       (size_t)T * (size_t)N);
  if (workspace->mask) {
    read_mask(workspace, inputs, T * N);
    mask_logits(workspace, (size_t)T * (size_t)N);
  }
  *out = (struct network_outputs){.head = values->dueling ? workspace->joined : workspace->head,
                                  .size = network->config.head_size,
                                  .stride = network_head_stride(network),
                                  .values = workspace->values,
                                  .of_actions = values,
                                  .choices = &network->config.inputs.choices,
                                  .mask = workspace->mask};
}

void network_backward(struct network_workspace *workspace, real *grads, const real *params,
                      real *dhead, const struct device_inputs *inputs, int T, int N) {
  const struct network *network = workspace->network;
  const struct network_kind *kind = network->kind;
  CHECK(workspace->backward, "the workspace was created without backward");
  CHECK(T > 0 && T <= workspace->forward_T && N == workspace->forward_N,
        "backward over %d x %d rows after forward over %d x %d", T, N, workspace->forward_T,
        workspace->forward_N);
  if (network->config.values.dueling) {
    action_values_join_backward(workspace->device, workspace->d_head, network->outputs, dhead,
                                &network->config.values, (size_t)T * (size_t)N);
    dhead = workspace->d_head;
  }
  if (network->scales_value) value_scale_backward(workspace, grads, params, dhead, T * N);
  if (kind->backward) kind->backward(workspace, grads, params, dhead, inputs, T, N);
  observation_backward(workspace, grads);
}
