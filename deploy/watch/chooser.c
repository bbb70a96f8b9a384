#include "deploy/watch/chooser.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/check.h"
#include "common/base/random.h"
#include "learner/serve/memory.h"

enum { SLOT = 0 }; /* what evaluation calls its first environment */

struct chooser {
  struct run *run;
  struct device *device;
  struct device_inputs inputs;
  struct network_workspace *workspace;
  const real *params; /* a snapshot, held */
  bool greedy;

  struct memory *memory; /* of one slot */
  struct memory_rows remembered;
  uint8_t *row;
  uint8_t *action; /* (action_bytes) */
  float *statistics;
  float *reward;
  uint8_t *flags;
  float *head;        /* (A + 1), on the host */
  float *probability; /* (A) */
};

static void *device_memory(const struct chooser *chooser, size_t bytes) {
  return chooser->device->ops->alloc(chooser->device, bytes);
}

/* Its life is numbered as leases number the first one of a slot. */
static void make_memory(struct chooser *chooser) {
  const struct run *run = chooser->run;
  struct memory_config config = {.num_slots = 1, .shape = run->shape};
  chooser->memory = memory_create(chooser->device, &config);
  chooser->remembered = memory_rows_create(chooser->memory, 1);
  uint32_t life = 1;
  if (run->trainer) life += (uint32_t)trainer_counter(run->trainer, TRAINER_RESTARTS) << 16;
  memory_enter_life(chooser->memory, SLOT, life);
}

struct chooser *chooser_create(struct run *run) {
  struct chooser *chooser = check_alloc(1, sizeof(*chooser));
  size_t A = (size_t)network_head_size(run->network);
  *chooser = (struct chooser){.run = run, .device = run->inference_device, .inputs = run->inputs};
  chooser->workspace = network_workspace_create(run->network, chooser->device, 1, false);
  int64_t version;
  chooser->params = weights_acquire(run->weights, &version);
  chooser->device->ops->weights_changed(chooser->device);
  chooser->greedy = strcmp(run->options->policy, "greedy") == 0;
  chooser->row = device_memory(chooser, run->inputs.row_stride);
  chooser->action = device_memory(chooser, (size_t)run->shape.action_bytes);
  chooser->statistics =
      device_memory(chooser, (size_t)run->shape.statistics * sizeof(*chooser->statistics));
  chooser->reward = device_memory(chooser, sizeof(*chooser->reward));
  chooser->flags = device_memory(chooser, sizeof(*chooser->flags));
  chooser->head = check_alloc(A + 1, sizeof(*chooser->head));
  chooser->probability = check_alloc(A, sizeof(*chooser->probability));
  make_memory(chooser);
  return chooser;
}

void chooser_destroy(struct chooser *chooser) {
  if (!chooser) return;
  weights_release(chooser->run->weights, chooser->params);
  network_workspace_destroy(chooser->workspace);
  memory_rows_destroy(chooser->memory, &chooser->remembered);
  memory_destroy(chooser->memory);
  void *arrays[] = {chooser->row, chooser->action, chooser->statistics, chooser->reward,
                    chooser->flags};
  for (size_t i = 0; i < sizeof(arrays) / sizeof(arrays[0]); i++)
    chooser->device->ops->release(chooser->device, arrays[i]);
  free(chooser->head);
  free(chooser->probability);
  free(chooser);
}

uint8_t *chooser_row(struct chooser *chooser) {
  return chooser->row;
}

/* ---- one row */

/* Logits, then the value, to the host. */
static void forward(struct chooser *chooser) {
  struct device_inputs inputs = chooser->inputs;
  inputs.observation = chooser->row;
  inputs.previous_action = chooser->remembered.previous_action;
  inputs.reward = chooser->reward;
  inputs.flags = chooser->flags;
  inputs.frame = chooser->remembered.frame;
  struct network_outputs out;
  network_forward(chooser->workspace, &out, chooser->remembered.state_out, chooser->params, &inputs,
                  chooser->remembered.state_in, 1, 1);
  chooser->device->ops->download(chooser->device, chooser->head, out.head, (size_t)out.stride);
  const struct memory *memory = chooser->memory;
  float uniform = -1;
  if (!chooser->greedy)
    chooser->device->ops->random_uniforms(
        chooser->device, &uniform, (uint64_t)chooser->run->options->seed, SLOT, memory->life[SLOT],
        &memory->steps[SLOT], RANDOM_ACTION, 1);
  struct policy_rows rows = {.uniform = &uniform};
  chooser->run->policy->choose(chooser->device, chooser->action, chooser->statistics, &out, &rows,
                               1);
}

static void softmax(float *probability, const float *logit, int A) {
  float largest = logit[0], sum = 0;
  for (int a = 1; a < A; a++) largest = fmaxf(largest, logit[a]);
  for (int a = 0; a < A; a++) sum += probability[a] = expf(logit[a] - largest);
  for (int a = 0; a < A; a++) probability[a] /= sum;
}

struct chooser_choice chooser_act(struct chooser *chooser, float reward, uint8_t flags) {
  int A = network_head_size(chooser->run->network);
  *chooser->reward = reward;
  *chooser->flags = flags;
  memory_enter_row(chooser->memory, &chooser->remembered, 0, SLOT, flags, chooser->row);
  forward(chooser);
  softmax(chooser->probability, chooser->head, A);

  memory_leave_row(chooser->memory, &chooser->remembered, 0, SLOT, chooser->action, chooser->row);
  return (struct chooser_choice){
      .action = chooser->action, .value = chooser->head[A], .probability = chooser->probability};
}
