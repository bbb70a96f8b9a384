/* Q-learning from a replay: r2d2, dqn, double_dqn and rainbow, which differ in their settings alone
 * (presets.c). Two networks go over a window: the one that is trained and the target network, each
 * with its own parameters. Over the burn-in they only bring the stored recurrent state up to date;
 * over the unroll the one learns from n-step returns that end in the other's values. Source: Mnih
 * et al. 2015; van Hasselt et al. 2016; Kapturowski et al. 2019; Hessel et al. 2018. */
#include <math.h>
#include <stdlib.h>

#include "common/base/check.h"
#include "learner/learn/algorithm.h"
#include "learner/learn/algorithms.h"
#include "learner/learn/q_loss.h"

/* Beside what the loss sums: the distance of values with the stored state, and of how many batches
 * it is the sum: none if it cannot be measured. */
enum { SUM_DELTA = num_sums_of_q_learning, SUM_MEASURED, NUM_SUMS };

enum q_term { TERM_REWARD, TERM_VALUE, TERM_TARGET, TERM_TD, TERM_LOSS, TERM_DELTA };

static const struct loss_term terms[] = {
    {"train/reward", "mean reward per step", "mean reward", Q_SUM_REWARD},
    {"q/value", "mean value of the actions that were taken", "mean value", Q_SUM_VALUE},
    {"q/target", "mean of what these values are trained towards", "mean target", Q_SUM_TARGET},
    {"q/td_error", "mean absolute TD error", "mean TD error", Q_SUM_TD},
    {"loss/q", "loss of the values, weighted by importance", "value loss", Q_SUM_LOSS},
    {"q/delta",
     "distance of values with the stored recurrent state from those with a recomputed one", NULL,
     -1},
};

struct q_learning {
  struct device *device; /* read-only after create, as is all up to `online` */
  const struct network *network;
  uint64_t seed;
  size_t P;
  int burn_in, T, N;
  struct q_loss *loss;

  /* device memory of one gradient */
  struct network_workspace *warm;            /* burn_in*N rows; NULL without burn-in */
  struct network_workspace *online, *target; /* (T+1)*N rows */
  struct network_workspace *stored;          /* N rows; NULL without recurrence */
  real *online_state, *target_state;         /* (N, S) after the burn-in; NULL without one */
  real *d_head;                              /* (T*N, A*Z) */
  real *td;                                  /* (T, N) */
  real *distances;                           /* (N) */
};

/* ---- create */

static struct q_loss_config loss_of(const struct learning *learning) {
  const struct algorithm_options *options = learning->options;
  const struct q_learning_options *own = &options->q_learning;
  return (struct q_loss_config){
      .T = (int)options->unroll_length,
      .N = learning->num_windows,
      .values = *network_action_values(learning->network),
      .counted = q_learning_counted_steps(options),
      .n_steps = (int)own->n_steps,
      .reduction = algorithm_sums_over_time(options) ? LOSS_SUM_OVER_TIME : LOSS_MEAN,
      .double_q = own->double_q,
      .discount = (float)options->discount,
      .reward_scale = (float)options->reward_scale,
      .reward_clip = (float)options->reward_clip,
      .rescaling = (float)own->value_rescaling,
      .huber = (float)own->huber,
      .eta = (float)own->priority_eta,
      .masked = network_inputs(learning->network)->masked,
  };
}

static void *create(const struct learning *learning) {
  const struct algorithm_options *options = learning->options;
  struct q_learning *self = check_alloc(1, sizeof(*self));
  *self = (struct q_learning){.device = learning->device,
                              .network = learning->network,
                              .seed = learning->seed,
                              .P = network_num_parameters(learning->network),
                              .burn_in = (int)options->q_learning.burn_in,
                              .T = (int)options->unroll_length,
                              .N = learning->num_windows};
  struct q_loss_config loss = loss_of(learning);
  self->loss = q_loss_create(self->device, &loss);
  int rows = (self->T + 1) * self->N, S = network_state_size(self->network);
  self->online = network_workspace_create(self->network, self->device, rows, true);
  self->target = network_workspace_create(self->network, self->device, rows, false);
  self->d_head = device_reals(
      self->device, (size_t)(self->T * self->N) * (size_t)network_head_stride(self->network));
  self->td = device_reals(self->device, (size_t)(self->T * self->N));
  self->distances = device_reals(self->device, (size_t)self->N);
  if (S) self->stored = network_workspace_create(self->network, self->device, self->N, false);
  if (!self->burn_in || !S) return self;
  self->warm =
      network_workspace_create(self->network, self->device, self->burn_in * self->N, false);
  self->online_state = device_reals(self->device, (size_t)self->N * (size_t)S);
  self->target_state = device_reals(self->device, (size_t)self->N * (size_t)S);
  return self;
}

static void destroy(void *self_) {
  struct q_learning *self = self_;
  void *arrays[] = {self->online_state, self->target_state, self->d_head, self->td,
                    self->distances};
  device_release_all(self->device, arrays, sizeof(arrays) / sizeof(arrays[0]));
  network_workspace_destroy(self->warm);
  network_workspace_destroy(self->online);
  network_workspace_destroy(self->target);
  network_workspace_destroy(self->stored);
  q_loss_destroy(self->loss);
  free(self);
}

/* ---- gradient */

/* The recurrent state after the burn-in; no gradient goes through it. Returns the stored one where
 * there is nothing to do. */
static const real *warm_up(struct q_learning *self, real *state, const real *params,
                           const struct train_batch *batch, const struct device_inputs *inputs) {
  if (!self->warm) return batch->state;
  struct network_outputs ignored;
  network_forward(self->warm, &ignored, state, params, inputs, batch->state, self->burn_in,
                  self->N);
  return state;
}

/* Noise of the update's own, other for the two networks. */
static void begin(void *self_, const struct schedule *schedule) {
  struct q_learning *self = self_;
  uint32_t number = 2 * (uint32_t)schedule->update;
  struct network_noise noise = {true, self->seed, number};
  network_set_noise(self->online, &noise);
  if (self->stored) network_set_noise(self->stored, &noise);
  noise.number++;
  network_set_noise(self->target, &noise);
}

/* How far the values that the network gives with the state that acting left in the middle of the
 * window are from those with the state that it has computed by then: how stale stored states are.
 * Source: Kapturowski et al. 2019, section 3 (Delta Q). */
static void measure_delta(struct q_learning *self, real *sums, const struct network_outputs *online,
                          const real *params, const struct train_batch *batch,
                          const struct device_inputs *inputs) {
  struct device *device = self->device;
  real *delta = device_at(device, sums, SUM_DELTA),
       *measured = device_at(device, sums, SUM_MEASURED);
  device_fill(device, delta, 0, 2);
  if (!batch->next_state) return;
  struct device_inputs step = train_batch_inputs_from(batch, inputs, batch->next_step);
  struct network_outputs stored;
  network_forward(self->stored, &stored, NULL, params, &step, batch->next_state, 1, self->N);
  size_t row = (size_t)(batch->next_step - self->burn_in) * (size_t)self->N;
  struct network_outputs recomputed = *online;
  recomputed.head = device_at(device, online->head, row * (size_t)online->stride);
  recomputed.mask = stored.mask = NULL; /* of all actions */
  action_values_distance(device, delta, self->distances, network_values(device, &stored, self->N),
                         network_values(device, &recomputed, self->N), self->N,
                         online->of_actions->A);
  device_fill(device, measured, 1, 1);
}

static void gradient(void *self_, real *gradient, const struct parameters *params,
                     const struct train_batch *batch, const struct device_inputs *inputs,
                     const struct device_schedule *schedule, int pass) {
  (void)pass;
  struct q_learning *self = self_;
  struct device_inputs unroll = train_batch_inputs_from(batch, inputs, self->burn_in);
  struct network_outputs online, target;
  const real *state = warm_up(self, self->target_state, params->target, batch, inputs);
  network_forward(self->target, &target, NULL, params->target, &unroll, state, self->T + 1,
                  self->N);
  state = warm_up(self, self->online_state, params->online, batch, inputs);
  network_forward(self->online, &online, NULL, params->online, &unroll, state, self->T + 1,
                  self->N);

  size_t first = (size_t)self->burn_in * (size_t)self->N;
  const struct q_loss_batch losses = {.online = online.head,
                                      .target = target.head,
                                      .action = (const int32_t *)batch->action + first,
                                      .reward = batch->reward + first,
                                      .flags = batch->flags + first,
                                      .weight = batch->weight.memory,
                                      .schedule = schedule,
                                      .mask = online.mask};
  real *sums = device_at(self->device, gradient, self->P);
  q_loss_run(self->loss, self->d_head, self->td, batch->priority.memory, sums, &losses);
  measure_delta(self, sums, &online, params->online, batch, inputs);
  network_backward(self->online, gradient, params->online, self->d_head, &unroll, self->T, self->N);
}

static void complete(const void *self, struct losses *losses, const struct schedule *schedule) {
  (void)self, (void)schedule;
  losses->entropy = NAN;
  losses->total = losses->term[TERM_LOSS];
  losses->term[TERM_DELTA] = losses->sum[SUM_DELTA] / losses->sum[SUM_MEASURED];
}

const struct algorithm algorithm_q_learning = {
    .terms = terms,
    .num_terms = sizeof(terms) / sizeof(terms[0]),
    .num_sums = NUM_SUMS,
    .num_figures = NUM_SUMS - num_sums_of_q_learning,
    .gives_priorities = true,
    .target = TARGET_COPIED,
    .evaluated = 1, /* the target; warming up is of steps that are not trained */
    .create = create,
    .destroy = destroy,
    .begin = begin,
    .gradient = gradient,
    .complete = complete,
};
