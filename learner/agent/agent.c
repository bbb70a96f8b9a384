#include "learner/agent/agent.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/check.h"
#include "common/base/options.h"
#include "learner/agent/network.h"

enum {
  MAX_SIZE = 1 << 20
}; /* of one layer or tensor: keeps every product of two sizes inside an int64 */

static const struct network *const networks[] = {
    &network_mlp,    &network_lstm,   &network_impala_shallow, &network_impala_deep,
    &network_nature, &network_random, &network_scripted};
enum { NUM_NETWORKS = sizeof(networks) / sizeof(networks[0]) };

/* ---- create */

static enum status find_network(const struct network **out, const char *name, struct error *error) {
  const char *names[NUM_NETWORKS];
  for (int i = 0; i < NUM_NETWORKS; i++) {
    *out = networks[i];
    names[i] = networks[i]->name;
    if (strcmp(names[i], name) == 0) return STATUS_OK;
  }
  const char *nearest = options_nearest_word(names, NUM_NETWORKS, name);
  return status_fail(error, STATUS_INVALID,
                     "unknown network '%s'%s%s%s; there are mlp, lstm, impala_shallow, "
                     "impala_deep, nature, random and scripted",
                     name, nearest ? " (did you mean '" : "", nearest ? nearest : "",
                     nearest ? "'?)" : "");
}

static enum status check_inputs(const struct device_inputs *in, struct error *error) {
  if (in->num_actions < 1 || in->num_actions > MAX_SIZE)
    return status_fail(error, STATUS_INVALID, "the network: %d actions; there must be 1..%d",
                       in->num_actions, MAX_SIZE);
  if (in->num_tensors < 1 || in->num_tensors > DEVICE_MAX_TENSORS)
    return status_fail(error, STATUS_INVALID,
                       "the network: observations of %d tensors; there must be 1..%d",
                       in->num_tensors, DEVICE_MAX_TENSORS);
  for (int k = 0; k < in->num_tensors; k++)
    if (in->tensor[k].count < 1 || in->tensor[k].count > MAX_SIZE)
      return status_fail(error, STATUS_INVALID,
                         "the network: observation tensor %d has %d elements; there must be 1..%d",
                         k, in->tensor[k].count, MAX_SIZE);
  return STATUS_OK;
}

static enum status check_layers(const struct agent_config *config, struct error *error) {
  if (config->num_layers < 0 || config->num_layers > AGENT_MAX_LAYERS)
    return status_fail(error, STATUS_INVALID, "the network: %d hidden layers; there must be 0..%d",
                       config->num_layers, AGENT_MAX_LAYERS);
  for (int l = 0; l < config->num_layers; l++)
    if (config->hidden[l] < 1 || config->hidden[l] > MAX_SIZE)
      return status_fail(error, STATUS_INVALID,
                         "the network: hidden layer %d has size %d; it must be 1..%d", l,
                         config->hidden[l], MAX_SIZE);
  return STATUS_OK;
}

/* Memory behind the layout is the caller's and may go: only the layout is kept. */
static void forget_pointers(struct device_inputs *inputs) {
  inputs->observation = NULL;
  inputs->previous_action = NULL;
  inputs->reward = NULL;
  inputs->flags = NULL;
  inputs->frame = NULL;
}

enum status agent_create(struct agent **out, const struct agent_config *config,
                         struct error *error) {
  *out = NULL;
  const struct network *network;
  enum status status = find_network(&network, config->network, error);
  if (status == STATUS_OK) status = check_inputs(&config->inputs, error);
  if (status == STATUS_OK) status = check_layers(config, error);
  if (status == STATUS_OK && network->check) status = network->check(config, error);
  if (status != STATUS_OK) return status;

  struct agent *agent = check_alloc(1, sizeof(*agent));
  agent->config = *config;
  agent->config.network = network->name;
  forget_pointers(&agent->config.inputs);
  agent->network = network;
  agent->inputs_size = device_inputs_size(&config->inputs);
  agent->outputs = config->inputs.num_actions + 1;
  if (network->declare) network->declare(agent);
  *out = agent;
  return STATUS_OK;
}

void agent_destroy(struct agent *agent) {
  if (!agent) return;
  free(agent->own);
  free(agent);
}

int agent_declare(struct agent *agent, const char *name, int rank, int rows, int columns) {
  CHECK(agent->num_parameters < AGENT_MAX_PARAMETERS, "too many parameter arrays: %s", name);
  int index = agent->num_parameters++;
  struct agent_parameter *parameter = &agent->parameter[index];
  *parameter = (struct agent_parameter){.rank = rank,
                                        .shape = {rows, columns},
                                        .offset = agent->total,
                                        .count = (size_t)rows * (size_t)columns};
  snprintf(parameter->name, sizeof(parameter->name), "%s", name);
  agent->total += parameter->count;
  return index;
}

/* ---- what it is */

size_t agent_num_parameters(const struct agent *agent) {
  return agent->total;
}

int agent_state_size(const struct agent *agent) {
  return agent->state_size;
}

size_t agent_numbers_per_row(const struct agent *agent) {
  return agent->network->numbers_per_row ? agent->network->numbers_per_row(agent) : 0;
}

int agent_num_actions(const struct agent *agent) {
  return agent->config.inputs.num_actions;
}

const struct device_inputs *agent_inputs(const struct agent *agent) {
  return &agent->config.inputs;
}

const struct agent_parameter *agent_parameters(const struct agent *agent, int *count) {
  *count = agent->num_parameters;
  return agent->parameter;
}

void agent_init_parameters(const struct agent *agent, float *host, uint64_t seed) {
  if (agent->network->init) agent->network->init(agent, host, seed);
}

/* ---- workspace */

void *workspace_memory(struct agent_workspace *workspace, size_t bytes) {
  CHECK(workspace->num_buffers < WORKSPACE_MAX_BUFFERS, "a network with more than %d buffers",
        WORKSPACE_MAX_BUFFERS);
  void *memory = workspace->device->ops->alloc(workspace->device, bytes);
  workspace->buffer[workspace->num_buffers++] = memory;
  return memory;
}

real *workspace_reals(struct agent_workspace *workspace, int per_row) {
  size_t reals = (size_t)workspace->rows * (size_t)per_row;
  return workspace_memory(workspace, reals * workspace->device->ops->real_bytes);
}

static bool embedded(const struct network *network) {
  return !network->blind && !network->embeds;
}

struct agent_workspace *agent_workspace_create(const struct agent *agent, struct device *device,
                                               int rows, bool backward) {
  CHECK(rows > 0, "a workspace for %d rows", rows);
  struct agent_workspace *workspace = check_alloc(1, sizeof(*workspace));
  workspace->agent = agent;
  workspace->device = device;
  workspace->rows = rows;
  workspace->backward = backward;
  if (embedded(agent->network)) workspace->inputs = workspace_reals(workspace, agent->inputs_size);
  workspace->head = workspace_reals(workspace, agent->outputs);
  if (agent->network->allocate) agent->network->allocate(workspace);
  return workspace;
}

void agent_workspace_destroy(struct agent_workspace *workspace) {
  if (!workspace) return;
  struct device *device = workspace->device;
  for (int i = 0; i < workspace->num_buffers; i++)
    device->ops->release(device, workspace->buffer[i]);
  free(workspace->own);
  free(workspace);
}

/* ---- forward, backward */

void agent_forward(struct agent_workspace *workspace, struct agent_outputs *out, real *state_out,
                   const real *params, const struct device_inputs *inputs, const real *state_in,
                   int T, int N) {
  const struct agent *agent = workspace->agent;
  struct device *device = workspace->device;
  CHECK(T > 0 && N > 0 && (int64_t)T * N <= workspace->rows, "%d x %d rows in a workspace for %d",
        T, N, workspace->rows);
  CHECK(state_in || !agent->state_size, "network %s needs a state", agent->network->name);
  if (embedded(agent->network)) device->ops->embed(device, workspace->inputs, inputs, T * N);
  agent->network->forward(workspace, state_out, params, inputs, state_in, T, N);
  workspace->forward_T = T;
  workspace->forward_N = N;
  *out = (struct agent_outputs){workspace->head, agent->outputs};
}

void agent_backward(struct agent_workspace *workspace, real *grads, const real *params, real *dhead,
                    const real *state_in, const struct device_inputs *inputs, int T, int N) {
  (void)state_in; /* forward kept its own copy */
  const struct network *network = workspace->agent->network;
  CHECK(workspace->backward, "the workspace was created without backward");
  CHECK(T > 0 && T <= workspace->forward_T && N == workspace->forward_N,
        "backward over %d x %d rows after forward over %d x %d", T, N, workspace->forward_T,
        workspace->forward_N);
  if (network->backward) network->backward(workspace, grads, params, dhead, inputs, T, N);
}
