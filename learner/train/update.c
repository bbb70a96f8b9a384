#include "learner/train/update.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/check.h"
#include "common/base/clock.h"
#include "learner/device/recorded.h"
#include "learner/device/shared.h"
#include "learner/network/images.h"
#include "learner/train/entropy.h"
#include "learner/train/optimizer.h"
#include "learner/train/reduction.h"
#include "learner/train/state.h"
#include "learner/train/together.h"
#include "learner/train/update_stats.h"

enum { MAX_FLIGHTS = 4 };

/* What each batch of the source has of its own: the update after it may be started before it has
 * been finished, and what is recorded reads and writes these addresses. */
struct flight {
  const struct train_batch *batch;
  struct device_shared schedule; /* struct device_schedule of each pass */
  struct device_shared frame;    /* (T+1, N, stack - 1), NULL where frames are not stacked */
  void *scalars; /* memory of alloc_host, in reals: of each pass the loss's sums, then the
                    gradient's norm */
  struct recorded recorded;

  /* of its newest update */
  struct schedule in_force;
  double lag_updates;
  uint64_t mark; /* when the scalars are there, and the priorities */
};

struct update {
  /* read-only after create */
  struct update_config config; /* its strings are borrowed */
  const struct algorithm *algorithm;
  struct device *device;
  const struct network *network;
  int T, N;
  struct reduction reduction;
  struct passes passes;

  struct train_state state;
  void *learner;                     /* the algorithm's own */
  struct network_observer *observer; /* NULL: the network normalises nothing */

  struct flight flight[MAX_FLIGHTS];
  int num_flights;
  struct together together;
  struct flight *running[UPDATE_MAX_RUNNING]; /* started and not finished, the oldest first */
  int num_running;

  /* device memory of one step */
  real *gradient; /* (P + sums + 1): the gradient, the loss's sums, the gradient's norm */
  real *failed;   /* (1) not finite once an update was skipped: then all that follow are */
};

/* ---- create */

static enum status check_config(const struct update_config *config, const struct network *network,
                                struct error *error) {
  const char *decay = config->optimizer.learning_rate_decay;
  bool linear = strcmp(decay, "linear") == 0;
  if (!linear && strcmp(decay, "none") != 0)
    return status_fail(error, STATUS_INVALID, "--learning_rate_decay=%s: there are none and linear",
                       decay);
  if (linear && config->total_steps <= 0)
    return status_fail(error, STATUS_INVALID,
                       "--learning_rate_decay=linear needs --total_steps above 0");
  const struct actor_critic_options *own = &config->algorithm.actor_critic;
  if (own->entropy_cost_decay > 0 && config->total_steps <= 0)
    return status_fail(error, STATUS_INVALID, "--entropy_cost_decay=%g needs --total_steps above 0",
                       own->entropy_cost_decay);
  int64_t T = config->algorithm.unroll_length, N = config->num_windows;
  if (T < 1 || N < 1 || T >= INT32_MAX || N > INT32_MAX / (T + 1))
    return status_fail(error, STATUS_INVALID,
                       "a training batch of %lld windows of %lld steps: both must be at least 1",
                       (long long)N, (long long)T);
  if (network_num_parameters(network) == 0)
    return status_fail(error, STATUS_INVALID,
                       "this network has no parameters, so it cannot be trained");
  return STATUS_OK;
}

static enum status init_state(struct update *update, struct error *error) {
  const struct update_config *config = &update->config;
  const struct actor_critic_options *own = &config->algorithm.actor_critic;
  struct entropy_cost entropy;
  enum status status = entropy_cost_init(&entropy, own, error);
  if (status != STATUS_OK) return status;
  status = train_state_init(&update->state, update->device, update->network, &config->optimizer,
                            &entropy, update->algorithm, update->learner, config->seed, error);
  update->state.saves_steps = update->algorithm && update->algorithm->passes;
  update->state.adapts_rate = update->algorithm && update->algorithm->divergence_sum;
  return status;
}

/* The optimiser looks at the sums: it cannot skip an update for what follows from them later. */
static void check_terms(const struct algorithm *algorithm) {
  for (int i = 0; i < algorithm->num_terms; i++)
    CHECK(!algorithm->terms[i].checked || algorithm->terms[i].sum >= 0,
          "%s is checked, but no mean of a sum", algorithm->terms[i].name);
}

static int num_passes(const struct update *update) {
  return update->passes.epochs * update->passes.minibatches;
}

static void make_learner(struct update *update) {
  check_terms(update->algorithm);
  struct learning learning = {.device = update->device,
                              .network = update->network,
                              .policy = update->config.policy,
                              .options = &update->config.algorithm,
                              .num_windows = update->N,
                              .seed = update->config.seed};
  update->learner = update->algorithm->create(&learning);
}

static void make_arrays(struct update *update) {
  const struct device_ops *ops = update->device->ops;
  update->observer = network_observer_create(update->network, update->device, update->T, update->N);
  size_t numbers = update->state.P + (size_t)update->algorithm->num_sums + 1;
  update->gradient = ops->alloc(update->device, numbers * ops->real_bytes);
  update->failed = ops->alloc(update->device, ops->real_bytes);
}

/* The sums and the norm. */
static size_t scalars_of_pass(const struct update *update) {
  return (size_t)update->algorithm->num_sums + 1;
}

static void init_flight(struct update *update, struct flight *flight,
                        const struct train_batch *batch) {
  struct device *device = update->device;
  int stack = network_inputs(update->network)->stack;
  size_t rows = (size_t)(update->T + 1) * (size_t)update->N;
  size_t passes = (size_t)num_passes(update);
  *flight =
      (struct flight){.batch = batch,
                      .schedule = device_share(device, passes * sizeof(struct device_schedule)),
                      .scalars = device->ops->alloc_host(
                          device, passes * scalars_of_pass(update) * device->ops->real_bytes)};
  if (stack > 1) flight->frame = device_share(device, rows * (size_t)(stack - 1) * sizeof(int32_t));
}

static void deinit_flight(struct update *update, struct flight *flight) {
  recorded_forget(&flight->recorded, update->device);
  device_unshare(update->device, &flight->schedule);
  device_unshare(update->device, &flight->frame);
  update->device->ops->release_host(update->device, flight->scalars);
}

enum status update_create(struct update **out, struct device *device, const struct network *network,
                          const struct algorithm *algorithm, const struct update_config *config,
                          struct error *error) {
  *out = NULL;
  enum status status = check_config(config, network, error);
  if (status != STATUS_OK) return status;

  struct update *update = check_alloc(1, sizeof(*update));
  *update =
      (struct update){.config = *config,
                      .algorithm = algorithm,
                      .device = device,
                      .network = network,
                      .T = config->window_steps,
                      .N = config->num_windows,
                      .together = {.device = device, .peers = config->peers},
                      .reduction = {.peers = config->peers,
                                    .over_windows = algorithm_sums_over_time(&config->algorithm)},
                      .passes = {1, 1}};
  if (algorithm && algorithm->check)
    status = algorithm->check(network_config(network), &config->algorithm, error);
  if (status == STATUS_OK && algorithm && algorithm->passes)
    status = algorithm->passes(&update->passes, &config->algorithm, update->N, error);
  if (status == STATUS_OK && algorithm) make_learner(update);
  if (status == STATUS_OK) status = init_state(update, error);
  if (status != STATUS_OK) {
    if (update->learner) algorithm->destroy(update->learner);
    free(update);
    return status;
  }
  if (algorithm) make_arrays(update);
  *out = update;
  return STATUS_OK;
}

void update_destroy(struct update *update) {
  if (!update) return;
  const struct device_ops *ops = update->device->ops;
  if (update->algorithm) update->algorithm->destroy(update->learner);
  network_observer_destroy(update->observer);
  together_deinit(&update->together);
  for (int i = 0; i < update->num_flights; i++) deinit_flight(update, &update->flight[i]);
  if (update->gradient) ops->release(update->device, update->gradient);
  if (update->failed) ops->release(update->device, update->failed);
  train_state_deinit(&update->state);
  free(update);
}

/* ---- one step */

void update_stack_frames(int32_t *frame, const struct train_batch *batch, int stack) {
  int footprint = batch->shape.footprint, N = batch->N;
  CHECK(footprint == stack - 1, "%d frames before a window, the network stacks %d", footprint,
        stack);
  for (int n = 0; n < N; n++) {
    int depth = batch->depth[n];
    for (int t = 0; t <= batch->T; t++) {
      int32_t *row = frame + ((size_t)t * (size_t)N + (size_t)n) * (size_t)footprint;
      if (step_stamp_flags(*train_batch_stamp(batch, t, n)) & STEP_FIRST) depth = 0;
      for (int k = 1; k <= footprint; k++)
        row[k - 1] = k > depth ? -1 : (footprint + t - k) * N + n;
      if (depth < footprint) depth++;
    }
  }
}

/* The batch's own, made when it is first seen. */
static struct flight *flight_of(struct update *update, const struct train_batch *batch) {
  for (int i = 0; i < update->num_flights; i++)
    if (update->flight[i].batch == batch) return &update->flight[i];
  CHECK(update->num_flights < MAX_FLIGHTS, "updates of more than %d batches", MAX_FLIGHTS);
  struct flight *flight = &update->flight[update->num_flights++];
  init_flight(update, flight, batch);
  return flight;
}

static struct device_inputs inputs_of(const struct update *update, const struct flight *flight) {
  const struct train_batch *batch = flight->batch;
  struct device_inputs inputs = *network_inputs(update->network);
  CHECK(batch->T == update->T && batch->N == update->N, "a batch of %d x %d steps, not %d x %d",
        batch->T, batch->N, update->T, update->N);
  CHECK(batch->shape.row_stride == inputs.row_stride,
        "batch rows of %zu bytes, the network reads %zu", batch->shape.row_stride,
        inputs.row_stride);
  inputs.observation = batch->observation;
  inputs.previous_action = batch->previous_action;
  inputs.reward = batch->reward;
  inputs.flags = batch->flags;
  if (flight->frame.host) {
    inputs.history = batch->history;
    inputs.frame = flight->frame.memory;
  }
  return inputs;
}

size_t update_image_numbers(const struct update *update) {
  return images_numbers(network_inputs(update->network));
}

int update_images(struct update *update, pixel *images, const struct train_batch *batch, int rows) {
  struct flight *flight = flight_of(update, batch);
  struct device_inputs inputs = inputs_of(update, flight);
  int B = rows < batch->N ? rows : batch->N;
  if (flight->frame.host) {
    update_stack_frames(flight->frame.host, batch, inputs.stack);
    device_shared_upload(update->device, &flight->frame);
  }
  images_split(&inputs, NULL, &inputs);
  update->device->ops->image(update->device, images, &inputs, B);
  return B;
}

/* Of the run, from 1 to 0. */
static double share_left(const struct update *update, int64_t environment_steps) {
  return fmin(1, fmax(0, 1 - (double)environment_steps / (double)update->config.total_steps));
}

static double learning_rate_at(const struct update *update, int64_t environment_steps) {
  const struct optimizer_options *optimizer = &update->config.optimizer;
  double rate = optimizer->learning_rate * update->state.rate;
  if (strcmp(optimizer->learning_rate_decay, "none") == 0) return rate;
  return rate * share_left(update, environment_steps);
}

/* What is in force, here and as the device will read it. */
static void set_schedule(struct update *update, struct flight *flight, int64_t environment_steps) {
  struct schedule schedule = {.update = update->state.version + 1,
                              .learning_rate = learning_rate_at(update, environment_steps),
                              .entropy_cost = entropy_cost_now(
                                  &update->state.entropy, share_left(update, environment_steps))};
  for (int pass = 0; pass < num_passes(update); pass++)
    ((struct device_schedule *)flight->schedule.host)[pass] =
        (struct device_schedule){.step = update->state.steps + 1 + pass,
                                 .learning_rate = (float)schedule.learning_rate,
                                 .entropy_cost = (float)schedule.entropy_cost};
  flight->in_force = schedule;
}

struct step {
  struct update *update;
  struct flight *flight;
};

/* After a skipped pass nothing changes any more until the host knows of it: the norms of those that
 * have been started by then are not finite, either, and neither the network nor the
 * algorithm changes anything besides. */
static bool remembers_failure(const struct update *update) {
  return update->device->ops->asynchronous || num_passes(update) > 1 || update->observer ||
         update->algorithm->settle;
}

/* One step of the optimiser: gradient, sums and norm, which the host gets; then the step. */
static void give_pass(struct update *update, struct flight *flight, const struct parameters *params,
                      const struct device_inputs *inputs, int pass) {
  const struct train_batch *batch = flight->batch;
  const struct algorithm *algorithm = update->algorithm;
  struct device *device = update->device;
  struct train_state *state = &update->state;
  const struct device_schedule *schedule =
      (const struct device_schedule *)flight->schedule.memory + pass;
  size_t num_sums = (size_t)algorithm->num_sums,
         num_checked = num_sums - (size_t)algorithm->num_figures;
  real *sums = device_at(device, update->gradient, state->P);
  real *norm = device_at(device, sums, num_sums);
  algorithm->gradient(update->learner, update->gradient, params, batch, inputs, schedule, pass);
  reduction_apply(&update->reduction, device, update->gradient, state->P, num_sums,
                  batch->blank ? 0 : batch->N);
  device->ops->global_norm(device, norm, update->gradient, state->P);
  device->ops->require_finite(device, norm, sums, num_checked,
                              remembers_failure(update) ? update->failed : NULL);
  /* The norm as the optimiser reads it: both see whether this pass is skipped. */
  size_t bytes = scalars_of_pass(update) * device->ops->real_bytes;
  device->ops->download_bytes(device, (char *)flight->scalars + (size_t)pass * bytes, sums, bytes);
  if (algorithm->gives_priorities)
    device_shared_download(device, &batch->priority, batch->priority.bytes);
  if (algorithm->stop_sum)
    device->ops->require_finite(device, norm, device_at(device, sums, (size_t)algorithm->stop_sum),
                                1, NULL);
  optimizer_apply(state->optimizer, state->array[0], update->gradient, norm, schedule);
}

/* All that the device does for an update. The same for each update of a batch, so that it can be
 * recorded: what varies is in the batch and in its flight. */
static void give_step(void *context) {
  const struct step *step = context;
  struct update *update = step->update;
  struct flight *flight = step->flight;
  struct device *device = update->device;
  const struct algorithm *algorithm = update->algorithm;
  const struct device_inputs inputs = inputs_of(update, flight);
  if (flight->frame.host) device_shared_upload(device, &flight->frame);
  device_shared_upload(device, &flight->schedule);

  const struct parameters params = {update->state.array[0], update->state.array[STATE_TARGET]};
  device->ops->weights_changed(device);
  if (algorithm->prepare) algorithm->prepare(update->learner, &params, flight->batch, &inputs);
  for (int pass = 0; pass < num_passes(update); pass++) {
    if (pass > 0) device->ops->weights_changed(device);
    give_pass(update, flight, &params, &inputs, pass);
  }
  const struct settled settled = {update->state.array[0], update->state.array[STATE_TARGET],
                                  update->failed, flight->batch->blank ? NULL : &inputs};
  if (algorithm->settle) algorithm->settle(update->learner, &settled);
  if (update->observer)
    network_observe(update->observer, update->state.array[0], update->failed, settled.inputs);
}

int update_place(struct update *update, const struct train_batch *batch) {
  bool counts = together_in_group(&update->together);
  return counts ? (int)(flight_of(update, batch) - update->flight) + 1 : 0;
}

void update_agree(struct update *update, const double *places) {
  together_agree(&update->together, places);
}

void update_start(struct update *update, const struct train_batch *batch,
                  int64_t environment_steps) {
  CHECK(update->num_running == 0 || update_may_overlap(update),
        "an update is started whose predecessor has not been finished");
  struct flight *flight = flight_of(update, batch);
  set_schedule(update, flight, environment_steps);
  if (flight->frame.host)
    update_stack_frames(flight->frame.host, batch, network_inputs(update->network)->stack);
  if (update->algorithm->begin) update->algorithm->begin(update->learner, &flight->in_force);
  struct step step = {update, flight};
  together_run(&update->together, &flight->recorded, give_step, &step);

  flight->lag_updates = update_stats_lag(batch, update->state.version);
  flight->mark = update->device->ops->mark(update->device);
  update->running[update->num_running++] = flight;
  update->state.version++;
  update->state.steps += num_passes(update);
}

bool update_may_overlap(const struct update *update) {
  bool copies = update->algorithm->target == TARGET_COPIED &&
                update->state.version % update->config.target_updates == 0;
  bool stops = update->algorithm->stop_sum > 0; /* its steps are known once it is finished */
  return update->device->ops->asynchronous && !copies && !stops &&
         update->num_running < UPDATE_MAX_RUNNING;
}

/* From the device's reals. */
static double scalar_at(const struct update *update, const struct flight *flight, int pass,
                        int number) {
  size_t i = (size_t)pass * scalars_of_pass(update) + (size_t)number;
  return update->device->ops->real_bytes == sizeof(double)
             ? ((const double *)flight->scalars)[i]
             : (double)((const float *)flight->scalars)[i];
}

/* The first pass whose number of that place is not finite; num_passes: none. */
static int first_not_finite(const struct update *update, const struct flight *flight, int number) {
  int pass = 0;
  while (pass < num_passes(update) && isfinite(scalar_at(update, flight, pass, number))) pass++;
  return pass;
}

/* Passes that changed the parameters, but for their failure. */
static int passes_applied(const struct update *update, const struct flight *flight) {
  int stop = update->algorithm->stop_sum;
  return stop ? first_not_finite(update, flight, stop) : num_passes(update);
}

/* Over the passes, up to one that ended the update. */
static struct update_stats stats_of(const struct update *update, const struct flight *flight,
                                    int applied) {
  const struct algorithm *algorithm = update->algorithm;
  const struct schedule *schedule = &flight->in_force;
  int passes = applied < num_passes(update) ? applied + 1 : applied;
  double scalar[LOSS_MAX_SUMS + 1] = {0}, steps = 0;
  for (int pass = 0; pass < passes; pass++)
    for (int i = 0; i <= algorithm->num_sums; i++) scalar[i] += scalar_at(update, flight, pass, i);
  for (int pass = 0; pass < update->passes.minibatches; pass++)
    steps += scalar_at(update, flight, pass, LOSS_STEPS);
  double norm = scalar[algorithm->num_sums] / passes;
  struct update_stats stats = update_stats_read(scalar, norm, algorithm);
  stats.steps = (int64_t)steps;
  stats.stopped = applied <= 1 && applied < num_passes(update);
  algorithm->complete(update->learner, &stats.losses, schedule);
  stats.losses.total += entropy_cost_loss(&update->state.entropy, stats.losses.entropy);
  stats.learning_rate = schedule->learning_rate;
  stats.entropy_cost = schedule->entropy_cost;
  stats.lag_updates = flight->lag_updates;
  return stats;
}

/* After an update that was not skipped, as what follows. The factors are rl_games'; the upper bound
 * is the rate that would be in force without this. */
static void adapt_rate(struct train_state *state, double divergence, double threshold) {
  static const double FACTOR = 1.5, LEAST = 0.01;
  if (threshold == 0) {
    state->rate = 1; /* of a run that is no longer adapted, too */
    return;
  }
  if (divergence > 2 * threshold) state->rate = fmax(LEAST, state->rate / FACTOR);
  if (divergence < threshold / 2) state->rate = fmin(1, state->rate * FACTOR);
}

/* No other update has been started since: update_may_overlap. */
static void copy_to_target(struct update *update, int64_t number) {
  struct train_state *state = &update->state;
  if (update->algorithm->target != TARGET_COPIED || number % update->config.target_updates) return;
  device_copy(update->device, state->array[STATE_TARGET], state->array[0], state->P);
}

static void forget_failure(struct update *update) {
  if (update->num_running == 0) device_fill(update->device, update->failed, 0, 1);
}

static struct flight *take_oldest(struct update *update) {
  CHECK(update->num_running > 0, "no update has been started");
  struct flight *oldest = update->running[0];
  update->num_running--;
  memmove(update->running, update->running + 1,
          (size_t)update->num_running * sizeof(*update->running));
  return oldest;
}

enum status update_finish(struct update *update, struct update_stats *stats, struct error *error) {
  struct flight *flight = take_oldest(update);
  int64_t number = flight->in_force.update;
  together_wait(&update->together, flight->mark);
  int applied = passes_applied(update, flight);
  *stats = stats_of(update, flight, applied);
  /* The norm is not finite either where a sum is not; passes before that one were applied. */
  int failed = first_not_finite(update, flight, update->algorithm->num_sums);
  enum status status = update_stats_check(stats, update->algorithm, number, failed, error);
  /* A missing learner makes numbers that are not finite. Where they are finite the update was done,
   * and the next meeting returns the error. */
  bool skipped = failed < num_passes(update);
  if (skipped && update->reduction.peers &&
      peers_status(update->reduction.peers, error) != STATUS_OK)
    status = STATUS_UNAVAILABLE;
  if (status != STATUS_OK) {
    update->state.version--; /* the optimiser has skipped it */
    update->state.steps -= num_passes(update) - failed;
    forget_failure(update);
    return status;
  }
  update->state.steps -= num_passes(update) - applied;
  if (applied < num_passes(update)) forget_failure(update); /* of a pass that had no effect */
  if (stats->steps > 0) /* else the policy has no entropy here */
    entropy_cost_adjust(&update->state.entropy, stats->losses.entropy, stats->learning_rate);
  if (update->state.adapts_rate) {
    const double *sum = stats->losses.sum;
    adapt_rate(&update->state, sum[update->algorithm->divergence_sum] / sum[LOSS_STEPS],
               update->config.algorithm.ppo.kl_threshold);
  }
  copy_to_target(update, number);
  return STATUS_OK;
}

int update_running(const struct update *update) {
  return update->num_running;
}

/* ---- what it holds */

const real *update_parameters(const struct update *update) {
  return update->state.array[0];
}

size_t update_num_parameters(const struct update *update) {
  return update->state.P;
}

int64_t update_version(const struct update *update) {
  return update->state.version;
}

int update_items(struct update *update, struct checkpoint_item *items) {
  return train_state_items(&update->state, items);
}

void update_save(struct update *update) {
  train_state_save(&update->state);
}

void update_load(struct update *update) {
  train_state_load(&update->state);
}

void update_read_parameters(struct update *update, float *values) {
  train_state_read(&update->state, values);
}

void update_write_parameters(struct update *update, const float *values, const bool *given) {
  train_state_write(&update->state, values, given);
}
