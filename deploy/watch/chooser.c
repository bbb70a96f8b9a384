#include "deploy/watch/chooser.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/check.h"
#include "common/base/random.h"
#include "learner/algorithm/policy.h"
#include "learner/experience/frames.h"

enum { SLOT = 0 }; /* what evaluation calls its first environment */

struct chooser {
  struct run *run;
  struct device *device;
  struct device_inputs inputs;
  struct network_workspace *workspace;
  const real *params; /* a snapshot, held */
  bool greedy;
  uint32_t life, rows; /* of random numbers: this life's, rows so far */

  uint8_t *row;
  int32_t *previous_action;
  float *reward;
  uint8_t *flags;
  real *state_in, *state_out; /* (S); NULL without recurrence */
  float *head;                /* (A + 1), on the host */
  float *probability;         /* (A) */

  struct frames *frames; /* NULL unless frames are stacked */
  const uint8_t **frame; /* (stack) */
  int depth;             /* steps before this one in its episode, at most stack - 1 */
};

static void *device_memory(const struct chooser *chooser, size_t bytes) {
  return chooser->device->ops->alloc(chooser->device, bytes);
}

static void make_stack(struct chooser *chooser) {
  int stack = chooser->inputs.stack;
  if (stack <= 1) return;
  chooser->frames = frames_create(chooser->device, 1, stack - 1, chooser->inputs.row_stride);
  chooser->frame = device_memory(chooser, (size_t)stack * sizeof(*chooser->frame));
}

struct chooser *chooser_create(struct run *run) {
  struct chooser *chooser = check_alloc(1, sizeof(*chooser));
  size_t state = (size_t)network_state_size(run->network);
  size_t A = (size_t)network_head_size(run->network);
  *chooser = (struct chooser){.run = run, .device = run->inference_device, .inputs = run->inputs};
  chooser->workspace = network_workspace_create(run->network, chooser->device, 1, false);
  int64_t version;
  chooser->params = weights_acquire(run->weights, &version);
  chooser->device->ops->weights_changed(chooser->device);
  chooser->greedy = strcmp(run->options->policy, "greedy") == 0;
  /* As leases number the first life of a slot. */
  chooser->life = 1;
  if (run->trainer)
    chooser->life += (uint32_t)trainer_counter(run->trainer, TRAINER_RESTARTS) << 16;
  chooser->row = device_memory(chooser, run->inputs.row_stride);
  chooser->previous_action = device_memory(chooser, sizeof(*chooser->previous_action));
  chooser->reward = device_memory(chooser, sizeof(*chooser->reward));
  chooser->flags = device_memory(chooser, sizeof(*chooser->flags));
  if (state) {
    chooser->state_in = device_memory(chooser, state * chooser->device->ops->real_bytes);
    chooser->state_out = device_memory(chooser, state * chooser->device->ops->real_bytes);
  }
  chooser->head = check_alloc(A + 1, sizeof(*chooser->head));
  chooser->probability = check_alloc(A, sizeof(*chooser->probability));
  *chooser->previous_action = -1;
  make_stack(chooser);
  return chooser;
}

void chooser_destroy(struct chooser *chooser) {
  if (!chooser) return;
  weights_release(chooser->run->weights, chooser->params);
  network_workspace_destroy(chooser->workspace);
  frames_destroy(chooser->device, chooser->frames);
  void *arrays[] = {chooser->row,      chooser->previous_action, chooser->reward, chooser->flags,
                    chooser->state_in, chooser->state_out,       chooser->frame};
  for (size_t i = 0; i < sizeof(arrays) / sizeof(arrays[0]); i++)
    if (arrays[i]) chooser->device->ops->release(chooser->device, arrays[i]);
  free(chooser->head);
  free(chooser->probability);
  free(chooser);
}

uint8_t *chooser_row(struct chooser *chooser) {
  return chooser->row;
}

/* ---- one row */

static void stack_frames(struct chooser *chooser) {
  if (!chooser->frames) return;
  chooser->frame[0] = chooser->row;
  for (int k = 1; k < chooser->inputs.stack; k++)
    chooser->frame[k] = k > chooser->depth ? NULL : frames_before(chooser->frames, SLOT, k);
}

/* Logits, then the value, to the host. */
static void forward(struct chooser *chooser) {
  struct device_inputs inputs = chooser->inputs;
  inputs.observation = chooser->row;
  inputs.previous_action = chooser->previous_action;
  inputs.reward = chooser->reward;
  inputs.flags = chooser->flags;
  inputs.frame = chooser->frame;
  struct network_outputs out;
  network_forward(chooser->workspace, &out, chooser->state_out, chooser->params, &inputs,
                  chooser->state_in, 1, 1);
  chooser->device->ops->download(chooser->device, chooser->head, out.head, (size_t)out.stride);
  float uniform = -1;
  if (!chooser->greedy)
    chooser->device->ops->random_uniforms(chooser->device, &uniform,
                                          (uint64_t)chooser->run->options->seed, SLOT,
                                          chooser->life, &chooser->rows, RANDOM_ACTION, 1);
  float log_prob;
  struct policy_rows rows = {.uniform = &uniform};
  chooser->run->policy->choose(chooser->device, chooser->previous_action, &log_prob, &out, &rows,
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
  if (flags & STEP_FIRST) {
    *chooser->previous_action = -1;
    chooser->depth = 0;
  }
  *chooser->reward = reward;
  *chooser->flags = flags;
  stack_frames(chooser);
  forward(chooser);
  softmax(chooser->probability, chooser->head, A);

  /* The row is the next one's past. */
  if (chooser->frames) frames_push(chooser->frames, SLOT, chooser->row);
  if (chooser->depth < chooser->inputs.stack - 1) chooser->depth++;
  real *state = chooser->state_in;
  chooser->state_in = chooser->state_out;
  chooser->state_out = state;
  chooser->rows++;
  return (struct chooser_choice){.action = *chooser->previous_action,
                                 .value = chooser->head[A],
                                 .probability = chooser->probability};
}
