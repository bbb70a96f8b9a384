#include "deploy/watch/policy.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/check.h"
#include "common/base/random.h"
#include "learner/experience/frames.h"

enum { SLOT = 0 }; /* what evaluation calls its first environment */

struct policy {
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

static void *device_memory(const struct policy *policy, size_t bytes) {
  return policy->device->ops->alloc(policy->device, bytes);
}

static void make_stack(struct policy *policy) {
  int stack = policy->inputs.stack;
  if (stack <= 1) return;
  policy->frames = frames_create(policy->device, 1, stack - 1, policy->inputs.row_stride);
  policy->frame = device_memory(policy, (size_t)stack * sizeof(*policy->frame));
}

struct policy *policy_create(struct run *run) {
  struct policy *policy = check_alloc(1, sizeof(*policy));
  size_t state = (size_t)network_state_size(run->network);
  size_t A = (size_t)network_num_actions(run->network);
  *policy = (struct policy){.run = run, .device = run->inference_device, .inputs = run->inputs};
  policy->workspace = network_workspace_create(run->network, policy->device, 1, false);
  int64_t version;
  policy->params = weights_acquire(run->weights, &version);
  policy->device->ops->weights_changed(policy->device);
  policy->greedy = strcmp(run->options->policy, "greedy") == 0;
  /* As leases number the first life of a slot. */
  policy->life = 1;
  if (run->trainer) policy->life += (uint32_t)trainer_counter(run->trainer, TRAINER_RESTARTS) << 16;
  policy->row = device_memory(policy, run->inputs.row_stride);
  policy->previous_action = device_memory(policy, sizeof(*policy->previous_action));
  policy->reward = device_memory(policy, sizeof(*policy->reward));
  policy->flags = device_memory(policy, sizeof(*policy->flags));
  if (state) {
    policy->state_in = device_memory(policy, state * policy->device->ops->real_bytes);
    policy->state_out = device_memory(policy, state * policy->device->ops->real_bytes);
  }
  policy->head = check_alloc(A + 1, sizeof(*policy->head));
  policy->probability = check_alloc(A, sizeof(*policy->probability));
  *policy->previous_action = -1;
  make_stack(policy);
  return policy;
}

void policy_destroy(struct policy *policy) {
  if (!policy) return;
  weights_release(policy->run->weights, policy->params);
  network_workspace_destroy(policy->workspace);
  frames_destroy(policy->device, policy->frames);
  void *arrays[] = {policy->row,      policy->previous_action, policy->reward, policy->flags,
                    policy->state_in, policy->state_out,       policy->frame};
  for (size_t i = 0; i < sizeof(arrays) / sizeof(arrays[0]); i++)
    if (arrays[i]) policy->device->ops->release(policy->device, arrays[i]);
  free(policy->head);
  free(policy->probability);
  free(policy);
}

uint8_t *policy_row(struct policy *policy) {
  return policy->row;
}

/* ---- one row */

static void stack_frames(struct policy *policy) {
  if (!policy->frames) return;
  policy->frame[0] = policy->row;
  for (int k = 1; k < policy->inputs.stack; k++)
    policy->frame[k] = k > policy->depth ? NULL : frames_before(policy->frames, SLOT, k);
}

/* Logits, then the value, to the host. */
static void forward(struct policy *policy) {
  struct device_inputs inputs = policy->inputs;
  inputs.observation = policy->row;
  inputs.previous_action = policy->previous_action;
  inputs.reward = policy->reward;
  inputs.flags = policy->flags;
  inputs.frame = policy->frame;
  struct network_outputs out;
  network_forward(policy->workspace, &out, policy->state_out, policy->params, &inputs,
                  policy->state_in, 1, 1);
  policy->device->ops->download(policy->device, policy->head, out.head, (size_t)out.stride);
  float uniform = -1;
  if (!policy->greedy)
    policy->device->ops->random_uniforms(policy->device, &uniform,
                                         (uint64_t)policy->run->options->seed, SLOT, policy->life,
                                         &policy->rows, RANDOM_ACTION, 1);
  float log_prob;
  policy->device->ops->categorical_sample(policy->device, policy->previous_action, &log_prob,
                                          out.head, out.stride, &uniform, 1,
                                          network_num_actions(policy->run->network));
}

static void softmax(float *probability, const float *logit, int A) {
  float largest = logit[0], sum = 0;
  for (int a = 1; a < A; a++) largest = fmaxf(largest, logit[a]);
  for (int a = 0; a < A; a++) sum += probability[a] = expf(logit[a] - largest);
  for (int a = 0; a < A; a++) probability[a] /= sum;
}

struct policy_choice policy_act(struct policy *policy, float reward, uint8_t flags) {
  int A = network_num_actions(policy->run->network);
  if (flags & STEP_FIRST) {
    *policy->previous_action = -1;
    policy->depth = 0;
  }
  *policy->reward = reward;
  *policy->flags = flags;
  stack_frames(policy);
  forward(policy);
  softmax(policy->probability, policy->head, A);

  /* The row is the next one's past. */
  if (policy->frames) frames_push(policy->frames, SLOT, policy->row);
  if (policy->depth < policy->inputs.stack - 1) policy->depth++;
  real *state = policy->state_in;
  policy->state_in = policy->state_out;
  policy->state_out = state;
  policy->rows++;
  return (struct policy_choice){.action = *policy->previous_action,
                                .value = policy->head[A],
                                .probability = policy->probability};
}
