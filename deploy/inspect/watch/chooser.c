#include "deploy/inspect/watch/chooser.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/check.h"
#include "deploy/inspect/watch/action_values.h"
#include "learner/learn/policy.h"
#include "learner/serve/memory.h"

enum { SLOT = 0 }; /* what evaluation calls its first environment */

struct chooser {
  struct run *run;
  struct device *device;
  struct device_inputs inputs;
  struct network_workspace *workspace;
  const real *params; /* a snapshot, held */
  bool greedy;        /* no action is drawn */
  float epsilon;      /* of a policy over values of actions, which draws always */

  struct memory *memory; /* of one slot */
  struct memory_rows remembered;
  struct device_shared row, reward, flags; /* the environment's */
  struct device_shared action;
  struct device_shared statistics;
  float *head;         /* (stride), on the host */
  float *probability;  /* (A) */
  float *action_value; /* (A); NULL unless the head gives values of actions */
  void *sent;          /* (action_bytes) what the environment gets */
};

/* Its life is numbered as leases number the first one of a slot. */
static void make_memory(struct chooser *chooser) {
  const struct run *run = chooser->run;
  struct memory_config config = {
      .num_slots = 1, .shape = run->shape, .draws = policy_draws(run->policy, &run->space)};
  chooser->memory = memory_create(chooser->device, &config);
  chooser->remembered = memory_rows_create(chooser->memory, 1);
  uint32_t life = 1;
  if (run->trainer) life += (uint32_t)trainer_counter(run->trainer, TRAINER_RESTARTS) << 16;
  memory_enter_life(chooser->memory, SLOT, life);
}

/* As inference explores in evaluate mode. */
static void set_exploration(struct chooser *chooser) {
  const struct run *run = chooser->run;
  bool greedy = strcmp(run->options->policy, "greedy") == 0;
  bool explores = run->policy->action_values;
  chooser->greedy = greedy && !explores;
  if (!explores) return;
  chooser->epsilon = greedy ? exploration_evaluation_epsilon(&run->exploration)
                            : exploration_epsilon(&run->exploration, 0, 0);
}

struct chooser *chooser_create(struct run *run) {
  struct chooser *chooser = check_alloc(1, sizeof(*chooser));
  size_t A = (size_t)space_num_actions(&run->space);
  size_t stride = (size_t)network_head_stride(run->network);
  *chooser = (struct chooser){.run = run, .device = run->inference_device, .inputs = run->inputs};
  chooser->workspace = network_workspace_create(run->network, chooser->device, 1, false);
  int64_t version;
  chooser->params = weights_acquire(run->weights, &version);
  chooser->device->ops->weights_changed(chooser->device);
  set_exploration(chooser);
  chooser->row = device_share(chooser->device, run->inputs.row_stride);
  chooser->reward = device_share(chooser->device, sizeof(float));
  chooser->flags = device_share(chooser->device, 1);
  chooser->action = device_share(chooser->device, (size_t)run->shape.action_bytes);
  chooser->statistics =
      device_share(chooser->device, (size_t)run->shape.statistics * sizeof(float));
  chooser->head = check_alloc(stride, sizeof(*chooser->head));
  chooser->probability = check_alloc(A, sizeof(*chooser->probability));
  if (run->policy->action_values)
    chooser->action_value = check_alloc(A, sizeof(*chooser->action_value));
  chooser->sent = check_alloc(1, (size_t)run->shape.action_bytes);
  make_memory(chooser);
  return chooser;
}

void chooser_destroy(struct chooser *chooser) {
  if (!chooser) return;
  weights_release(chooser->run->weights, chooser->params);
  network_workspace_destroy(chooser->workspace);
  memory_rows_destroy(chooser->memory, &chooser->remembered);
  memory_destroy(chooser->memory);
  struct device_shared *shared[] = {&chooser->row, &chooser->reward, &chooser->flags,
                                    &chooser->action, &chooser->statistics};
  for (size_t i = 0; i < sizeof(shared) / sizeof(shared[0]); i++)
    device_unshare(chooser->device, shared[i]);
  free(chooser->head);
  free(chooser->probability);
  free(chooser->action_value);
  free(chooser->sent);
  free(chooser);
}

uint8_t *chooser_row(struct chooser *chooser) {
  return chooser->row.host;
}

/* ---- one row */

/* An action; its statistics, and the head's outputs, to the host. */
static void forward(struct chooser *chooser) {
  struct device *device = chooser->device;
  const struct memory_rows *remembered = &chooser->remembered;
  device_shared_upload(device, &chooser->row);
  device_shared_upload(device, &chooser->reward);
  device_shared_upload(device, &chooser->flags);
  struct device_inputs inputs = chooser->inputs;
  inputs.observation = chooser->row.memory;
  inputs.reward = chooser->reward.memory;
  inputs.flags = chooser->flags.memory;
  memory_rows_begin(chooser->memory, remembered, &inputs, (uint64_t)chooser->run->options->seed, 1);
  struct network_outputs out;
  network_forward(chooser->workspace, &out, remembered->state_out, chooser->params, &inputs,
                  remembered->state_in, 1, 1);
  struct policy_rows rows = {.uniform = remembered->uniform,
                             .epsilon = device_shared_at(&remembered->block, remembered->epsilon)};
  chooser->run->policy->choose(device, chooser->action.memory, chooser->statistics.memory, &out,
                               &rows, 1);
  memory_rows_end(chooser->memory, remembered, inputs.observation, 1);
  device_shared_download(device, &chooser->action, chooser->action.bytes);
  device_shared_download(device, &chooser->statistics, chooser->statistics.bytes);
  device->ops->download(device, chooser->head, out.head, (size_t)out.stride);
  if (chooser->action_value)
    device->ops->download(device, chooser->action_value, network_values(device, &out, 1),
                          (size_t)out.of_actions->A);
  device_finish(device);
}

static void send(struct chooser *chooser) {
  const struct run *run = chooser->run;
  if (run->policy->send)
    run->policy->send(chooser->sent, chooser->action.host, &run->space);
  else
    memcpy(chooser->sent, chooser->action.host, (size_t)run->shape.action_bytes);
}

/* Of one choice. */
static void softmax(float *probability, const float *logit, int A) {
  float largest = logit[0], sum = 0;
  for (int a = 1; a < A; a++) largest = fmaxf(largest, logit[a]);
  for (int a = 0; a < A; a++) sum += probability[a] = expf(logit[a] - largest);
  for (int a = 0; a < A; a++) probability[a] /= sum;
}

static void describe_choices(struct chooser *chooser, const struct space *space) {
  for (int c = 0, first = 0; c < space_num_choices(&space->choices); c++) {
    int among = space_among(&space->choices, c, space->discrete);
    softmax(chooser->probability + first, chooser->head + first, among);
    first += among;
  }
}

/* In place of probabilities: where in its bounds each number lies. */
static void describe_box(struct chooser *chooser, const struct space *space) {
  for (int i = 0; i < space->box; i++) {
    float x = ((const float *)chooser->sent)[i], half = space_half_width(space, i);
    chooser->probability[i] = half > 0 ? (x - space->low[i]) / half / 2 : 0;
  }
}

/* What the policy chose from, and the estimate of the value. */
static struct chooser_choice describe(struct chooser *chooser) {
  const struct run *run = chooser->run;
  int A = space_num_actions(&run->space), head_size = network_head_size(run->network);
  struct chooser_choice choice = {.action = chooser->sent,
                                  .probability = chooser->probability,
                                  .action_value = chooser->action_value,
                                  .number = run->space.box ? chooser->sent : NULL};
  if (run->policy->action_values) {
    action_values_probability(chooser->probability, chooser->action_value, A, chooser->epsilon);
    choice.value = ((const float *)chooser->statistics.host)[1];
  } else {
    if (run->space.box)
      describe_box(chooser, &run->space);
    else
      describe_choices(chooser, &run->space);
    if (network_head_stride(run->network) > head_size) choice.value = chooser->head[head_size];
  }
  return choice;
}

struct chooser_choice chooser_act(struct chooser *chooser, float reward, uint8_t flags) {
  *(float *)chooser->reward.host = reward;
  *(uint8_t *)chooser->flags.host = flags;
  memory_enter_row(chooser->memory, &chooser->remembered, 0, SLOT, flags, chooser->greedy);
  chooser->remembered.epsilon[0] = chooser->epsilon;
  forward(chooser);
  memory_leave(chooser->memory, SLOT, chooser->action.host);
  send(chooser);
  return describe(chooser);
}
