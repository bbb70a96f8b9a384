#include "deploy/inspect/watch/chooser.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/check.h"
#include "deploy/inspect/watch/action_values.h"
#include "learner/serve/predictor.h"

enum { SLOT = 0 }; /* what evaluation calls its first environment */

struct chooser {
  struct run *run;
  struct predictor predictor; /* of one row and slot */
  const real *params;         /* a snapshot, held */
  bool greedy;                /* no action is drawn */
  float epsilon;              /* of a policy over values of actions, which draws always */
  float *probability;         /* (A) */
  void *sent;                 /* (action_bytes) what the environment gets */
};

/* Its life is numbered as leases number the first one of a slot. */
static void begin_life(struct chooser *chooser) {
  const struct run *run = chooser->run;
  uint32_t life = 1;
  if (run->trainer) life += (uint32_t)trainer_counter(run->trainer, TRAINER_RESTARTS) << 16;
  memory_enter_life(chooser->predictor.memory, SLOT, life);
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
  const struct acting acting = {.device = run->inference_device,
                                .network = run->network,
                                .policy = run->policy,
                                .shape = run->shape,
                                .keeps_trail = true,
                                .seed = (uint64_t)run->options->seed,
                                .max_rows = 1};
  *chooser = (struct chooser){.run = run};
  predictor_init(&chooser->predictor, &acting, &run->space, 1);
  int64_t version;
  chooser->params = weights_acquire(run->weights, &version);
  acting_set_params(&chooser->predictor.acting, chooser->params);
  set_exploration(chooser);
  chooser->probability =
      check_alloc((size_t)space_num_actions(&run->space), sizeof(*chooser->probability));
  chooser->sent = check_alloc(1, (size_t)run->shape.action_bytes);
  begin_life(chooser);
  return chooser;
}

void chooser_destroy(struct chooser *chooser) {
  if (!chooser) return;
  predictor_deinit(&chooser->predictor);
  weights_release(chooser->run->weights, chooser->params);
  free(chooser->probability);
  free(chooser->sent);
  free(chooser);
}

uint8_t *chooser_row(struct chooser *chooser) {
  return chooser->predictor.rows.observation;
}

/* ---- one row */

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
    softmax(chooser->probability + first, chooser->predictor.head + first, among);
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
  const struct predictor *predictor = &chooser->predictor;
  int A = space_num_actions(&run->space), head_size = network_head_size(run->network);
  struct chooser_choice choice = {.action = chooser->sent,
                                  .probability = chooser->probability,
                                  .action_value = predictor->values,
                                  .number = run->space.box ? chooser->sent : NULL};
  if (run->policy->action_values) {
    action_values_probability(chooser->probability, predictor->values, A, chooser->epsilon);
    choice.value = ((const float *)predictor->batch.statistics.host)[1];
  } else {
    if (run->space.box)
      describe_box(chooser, &run->space);
    else
      describe_choices(chooser, &run->space);
    if (network_head_stride(run->network) > head_size) choice.value = predictor->head[head_size];
  }
  return choice;
}

struct chooser_choice chooser_act(struct chooser *chooser, float reward, uint8_t flags) {
  struct predictor *predictor = &chooser->predictor;
  predictor_begin(predictor, 1);
  predictor_enter(predictor, 0, SLOT, flags, reward, chooser->greedy);
  predictor->batch.rows.epsilon[0] = chooser->epsilon;
  predictor_choose(predictor);
  predictor_send(predictor, chooser->sent, 0);
  return describe(chooser);
}
