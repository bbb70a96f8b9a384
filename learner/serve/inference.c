#include "learner/serve/inference.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/check.h"
#include "common/base/clock.h"
#include "learner/network/network.h"
#include "learner/serve/memory.h"
#include "learner/serve/reply.h"

/* A batch between its launch and its finish, and what operations know of its rows. Arrays are
 * allocated for max_rows. */
struct flight {
  struct row_batch *batch; /* NULL: none */
  const real *params;      /* held until the finish */
  int64_t version;         /* of these */
  int64_t start_us;
  bool ended; /* the run was over before: nothing more is filed */

  struct memory_rows rows;
  struct device_steps steps;       /* the rows, and what is chosen for them, for operations */
  struct device_steps staging;     /* the batch's arrays on the device; NULL where it is unified */
  struct device_shared action;     /* (rows, action_bytes) */
  struct device_shared statistics; /* (rows, statistics); only brought to the host for a replay */
  uint64_t chosen;                 /* mark behind the action's download */
  struct device_shared filing;     /* (rows) the two that follow */
  int32_t *place;                  /* row of the pool that the step goes to, or -1 */
  int32_t *start;                  /* of the window that it begins, or -1 */
  struct window *closed;           /* (rows) windows that the batch completes, in order of rows */
  int num_closed, num_started;
};

struct inference {
  struct inference_config config; /* read-only after create */
  struct device *device;
  const struct network *network;
  struct device_inputs inputs;
  struct weights *weights;
  struct batcher *batcher;
  struct pages *pages;
  const struct pages_rows *rows; /* of pages */
  struct source *source;
  struct progress *progress;
  struct inference_metrics metrics;

  struct memory *memory;
  float *epsilon; /* (training slots, at least one) of exploration that never changes */
  struct network_workspace *workspace;
  uint32_t batches; /* number of the newest, for its noise */
  int64_t version;  /* of the parameters that were used last */

  /* As many as batches may run at a time, used in turn. What the host writes of one is on the
   * device when the actions come back, so it may be written again; what is on the device alone is
   * written after the operations that read it, which were given before. */
  struct flight flight[BATCHER_MAX_RUNNING];
  int num_flights, next, running;
};

/* ---- create */

static void create_flight(struct inference *self, struct flight *flight) {
  const struct step_shape *shape = &self->config.shape;
  struct device *device = self->device;
  const struct device_ops *ops = device->ops;
  size_t rows = (size_t)self->config.max_rows;
  flight->rows = memory_rows_create(self->memory, self->config.max_rows);
  if (!ops->unified)
    flight->staging =
        (struct device_steps){.observation = ops->alloc(device, rows * shape->row_stride),
                              .reward = ops->alloc(device, rows * sizeof(float)),
                              .flags = ops->alloc(device, rows)};
  flight->statistics = device_share(device, rows * (size_t)shape->statistics * sizeof(float));
  flight->steps.statistics = flight->statistics.memory;
  flight->action = device_share(device, rows * (size_t)shape->action_bytes);
  flight->steps.action = flight->action.memory;
  flight->filing = device_share(device, 2 * rows * sizeof(int32_t));
  flight->place = flight->filing.host;
  flight->start = flight->place + rows;
  flight->closed = check_alloc(rows, sizeof(*flight->closed));
}

static void destroy_flight(struct inference *self, struct flight *flight) {
  const struct device_ops *ops = self->device->ops;
  void *arrays[] = {flight->staging.observation, flight->staging.reward, flight->staging.flags};
  for (size_t i = 0; i < sizeof(arrays) / sizeof(arrays[0]); i++)
    if (arrays[i]) ops->release(self->device, arrays[i]);
  device_unshare(self->device, &flight->action);
  device_unshare(self->device, &flight->statistics);
  device_unshare(self->device, &flight->filing);
  memory_rows_destroy(self->memory, &flight->rows);
  free(flight->closed);
}

struct inference *inference_create(const struct inference_config *config, struct device *device,
                                   const struct network *network,
                                   const struct device_inputs *inputs, struct weights *weights,
                                   struct batcher *batcher, struct pages *pages,
                                   struct source *source, struct progress *progress,
                                   const struct inference_metrics *metrics) {
  struct inference *self = check_alloc(1, sizeof(*self));
  *self = (struct inference){.config = *config,
                             .device = device,
                             .network = network,
                             .inputs = *inputs,
                             .weights = weights,
                             .batcher = batcher,
                             .pages = pages,
                             .rows = pages ? pages_rows(pages) : NULL,
                             .source = source,
                             .progress = progress,
                             .metrics = *metrics,
                             .batches = config->first_batch,
                             .version = -1};
  const struct step_shape *shape = &config->shape;
  CHECK(shape->statistics == config->policy->statistics &&
            shape->state_size == network_state_size(network),
        "steps with %d statistics and a state of %d, not %d and %d", shape->statistics,
        shape->state_size, config->policy->statistics, network_state_size(network));
  struct memory_config memory = {.num_slots = config->num_slots,
                                 .rank = config->rank,
                                 .shape = *shape,
                                 .pages = pages,
                                 .num_paged = pages ? config->num_train_slots : 0};
  self->memory = memory_create(device, &memory);
  self->epsilon = check_alloc((size_t)config->num_train_slots + 1, sizeof(*self->epsilon));
  for (int slot = 0; slot <= config->num_train_slots; slot++)
    self->epsilon[slot] = exploration_epsilon(&config->exploration, slot, 0);
  self->workspace = network_workspace_create(network, device, config->max_rows, false);
  CHECK(config->running >= 0 && config->running <= BATCHER_MAX_RUNNING, "%d batches at a time",
        config->running);
  self->num_flights = config->running ? config->running : 1;
  for (int i = 0; i < self->num_flights; i++) create_flight(self, &self->flight[i]);
  return self;
}

void inference_destroy(struct inference *self) {
  if (!self) return;
  CHECK(self->running == 0, "%d batches were not finished", self->running);
  self->device->ops->finish(self->device);
  for (int i = 0; i < self->num_flights; i++) destroy_flight(self, &self->flight[i]);
  network_workspace_destroy(self->workspace);
  memory_destroy(self->memory);
  free(self->epsilon);
  free(self);
}

/* ---- launch */

/* The newest parameters, which stay as they are until the batch is finished. */
static void take_newest_parameters(struct inference *self, struct flight *flight) {
  flight->params = weights_acquire(self->weights, &flight->version);
  if (flight->version == self->version) return;
  self->device->ops->weights_changed(self->device);
  self->version = flight->version;
}

/* A newer life of the slot enters with the same batch: rows of the older one lose their slot. */
static void forget_rows(const struct inference *self, const struct flight *flight, int slot) {
  for (int row = 0; row < flight->batch->num_rows; row++)
    if (flight->rows.slot[row] == slot) memory_clear_row(self->memory, &flight->rows, row);
}

/* The share of random actions; without exploration none is asked for. */
static float epsilon_of(const struct inference *self, const struct batch_segment *segment,
                        int slot) {
  const struct exploration *exploration = &self->config.exploration;
  if (!self->config.policy->action_values) return 0;
  if (segment->eval && self->config.greedy_eval) return exploration_evaluation_epsilon(exploration);
  if (exploration->kind == EXPLORATION_PER_ENVIRONMENT)
    return self->epsilon[segment->eval ? 0 : slot];
  return exploration_epsilon(exploration, slot, progress_steps(self->progress));
}

/* Life check of one segment's rows, and what their slots remember. */
static void enter_segment(struct inference *self, const struct flight *flight,
                          const struct batch_segment *segment) {
  const bool trained = self->pages && !segment->eval;
  const bool greedy =
      segment->eval && self->config.greedy_eval && !self->config.policy->action_values;
  for (int i = 0; i < segment->num_rows; i++) {
    int row = segment->first_row + i, slot = segment->first_slot + i;
    uint8_t flags = flight->batch->flags[row];
    enum memory_life life = memory_enter_life(self->memory, slot, segment->life);
    if (life == MEMORY_NEW_LIFE) {
      forget_rows(self, flight, slot);
      if (trained) pages_begin_life(self->pages, slot, segment->life);
    }
    if (life == MEMORY_OLD_LIFE || flags & STEP_ABSENT) continue;
    memory_enter_row(self->memory, &flight->rows, row, slot, flags, greedy);
    flight->rows.epsilon[row] = epsilon_of(self, segment, slot);
  }
}

static void enter_rows(struct inference *self, const struct flight *flight) {
  const struct row_batch *batch = flight->batch;
  for (int row = 0; row < batch->num_rows; row++)
    memory_clear_row(self->memory, &flight->rows, row);
  for (int i = 0; i < batch->num_segments; i++)
    if (!batch->segment[i].dead) enter_segment(self, flight, &batch->segment[i]);
}

/* The batch's arrays, where operations can read them. */
static void stage_rows(const struct inference *self, struct flight *flight) {
  const struct row_batch *batch = flight->batch;
  size_t rows = (size_t)batch->num_rows;
  struct device_steps *steps = &flight->steps, *staging = &flight->staging;
  steps->observation = device_stage(self->device, staging->observation, batch->observation,
                                    rows * self->config.shape.row_stride);
  steps->reward =
      device_stage(self->device, staging->reward, batch->reward, rows * sizeof(*batch->reward));
  steps->flags = device_stage(self->device, staging->flags, batch->flags, rows);
}

/* Noise of the batch's own, other than that of any update; none where nothing is trained. */
static void draw_noise(struct inference *self) {
  const uint32_t OF_INFERENCE = 0x80000000u;
  struct network_noise noise = {self->pages != NULL, self->config.seed,
                                OF_INFERENCE | ++self->batches};
  if (self->config.policy->action_values) network_set_noise(self->workspace, &noise);
}

/* Forward, then an action and its statistics for every row. */
static void choose_actions(struct inference *self, struct flight *flight) {
  int B = flight->batch->num_rows;
  struct device_inputs inputs = self->inputs;
  inputs.observation = flight->steps.observation;
  inputs.reward = flight->steps.reward;
  inputs.flags = flight->steps.flags;
  memory_rows_begin(self->memory, &flight->rows, &inputs, self->config.seed, B);
  draw_noise(self);
  struct network_outputs out;
  network_forward(self->workspace, &out, flight->rows.state_out, flight->params, &inputs,
                  flight->rows.state_in, 1, B);
  struct policy_rows rows = {
      .uniform = flight->rows.uniform,
      .epsilon = device_shared_at(&flight->rows.block, flight->rows.epsilon)};
  self->config.policy->choose(self->device, flight->steps.action, flight->steps.statistics, &out,
                              &rows, B);
  device_shared_download(self->device, &flight->action,
                         (size_t)B * (size_t)self->config.shape.action_bytes);
  if (self->rows && self->rows->trail)
    device_shared_download(self->device, &flight->statistics,
                           (size_t)B * (size_t)self->config.shape.statistics * sizeof(float));
  flight->chosen = self->device->ops->mark(self->device);
  memory_rows_end(self->memory, &flight->rows, flight->steps.observation, B);
}

void inference_launch(struct inference *self, struct row_batch *batch) {
  struct flight *flight = &self->flight[self->next];
  CHECK(inference_has_room(self) && !flight->batch, "%d batches run already", self->running);
  self->next = (self->next + 1) % self->num_flights;
  self->running++;
  flight->batch = batch;
  flight->start_us = clock_now_us();
  if (self->config.lockstep) progress_count_kept(self->progress);
  /* A target that is reached here ends the run, and training with it: nothing more is filed. */
  flight->ended = self->config.lockstep && inference_ended(self);
  take_newest_parameters(self, flight);
  enter_rows(self, flight);
  stage_rows(self, flight);
  choose_actions(self, flight);
}

/* ---- finish */

static const uint8_t *action_of(const struct inference *self, const struct flight *flight,
                                int row) {
  return (const uint8_t *)flight->action.host +
         (size_t)row * (size_t)self->config.shape.action_bytes;
}

/* What a replay reads of the step on the host. */
static void leave_trail(const struct inference *self, const struct flight *flight, int row,
                        int64_t to) {
  int statistics = self->config.shape.statistics;
  float *trail = self->rows->trail + to * (1 + statistics);
  trail[0] = flight->batch->reward[row];
  memcpy(trail + 1, (const float *)flight->statistics.host + (size_t)row * (size_t)statistics,
         (size_t)statistics * sizeof(*trail));
}

/* The step may begin a window, or close one, or both. Returns its row. */
static int64_t place_at_boundary(struct inference *self, struct flight *flight, int row, int slot) {
  struct pages_place place = pages_append(self->pages, slot);
  if (place.start >= 0) {
    flight->start[row] = place.start;
    flight->num_started++;
    self->rows->start_depth[place.start] = self->memory->depth[slot];
  }
  if (place.closes_window) flight->closed[flight->num_closed++] = place.window;
  return place.row;
}

/* Finds places for the segment's rows, and lets their slots move on. Returns the number of steps
 * that needed an action. */
static int64_t place_segment(struct inference *self, struct flight *flight,
                             const struct batch_segment *segment) {
  const bool trained = self->pages && !segment->eval;
  const uint8_t *flags = flight->batch->flags;
  int64_t steps = 0;
  for (int row = segment->first_row; row < segment->first_row + segment->num_rows; row++) {
    int slot = flight->rows.slot[row];
    /* A newer life of the slot may have entered with a batch that was launched since. */
    if (slot < 0 || self->memory->life[slot] != segment->life) continue;
    steps += !(flags[row] & STEP_TRUNCATED);
    if (trained) {
      int64_t to = pages_try_append(self->rows, slot);
      if (to < 0) to = place_at_boundary(self, flight, row, slot);
      flight->place[row] = (int32_t)to;
      self->rows->stamp[to] = step_stamp(flight->version, flags[row]);
      if (self->rows->trail) leave_trail(self, flight, row, to);
    }
    memory_leave(self->memory, slot, action_of(self, flight, row));
  }
  return !segment->eval || self->config.count_eval_steps ? steps : 0;
}

static int64_t place_rows(struct inference *self, struct flight *flight) {
  const struct row_batch *batch = flight->batch;
  int64_t steps = 0;
  flight->num_closed = flight->num_started = 0;
  for (int row = 0; row < batch->num_rows; row++) flight->place[row] = flight->start[row] = -1;
  for (int i = 0; i < batch->num_segments; i++)
    if (!batch->segment[i].dead) steps += place_segment(self, flight, &batch->segment[i]);
  return steps;
}

/* Steps into their places; then windows that are complete go to training. */
static void file_rows(struct inference *self, const struct flight *flight) {
  int B = flight->batch->num_rows;
  const struct device_shared *filing = &flight->filing;
  device_shared_upload(self->device, filing);
  pages_write(self->pages, device_shared_at(filing, flight->place), &flight->steps, B);
  if (flight->num_started)
    pages_write_starts(self->pages, device_shared_at(filing, flight->start),
                       device_shared_at(&flight->rows.block, flight->rows.previous_action),
                       flight->rows.state_in, B);
  for (int i = 0; i < flight->num_closed; i++) {
    bool full =
        source_give(self->source, self->pages, &flight->closed[i], weights_version(self->weights));
    if (full && self->config.waits_for_updates) source_drain(self->source);
  }
  source_flush(self->source, self->pages);
}

static void measure(struct inference *self, const struct flight *flight, int64_t answered_us) {
  const struct row_batch *batch = flight->batch;
  metric_add(self->metrics.batches, 1);
  metric_observe(self->metrics.batch_rows, batch->num_rows);
  metric_observe(self->metrics.batch_run_us, (double)(answered_us - flight->start_us));
  for (int i = 0; i < batch->num_segments; i++) {
    const struct batch_segment *segment = &batch->segment[i];
    metric_observe(self->metrics.batch_wait_us, (double)(flight->start_us - segment->queued_us));
    if (segment->dead) continue;
    metric_observe(self->metrics.actor_wait_us, (double)(answered_us - segment->queued_us));
    if (segment->step_us >= 0)
      metric_observe(self->metrics.actor_step_us, (double)segment->step_us);
  }
}

/* The batch that was launched before all others that run. */
static struct flight *oldest(struct inference *self) {
  return &self->flight[(self->next - self->running + self->num_flights) % self->num_flights];
}

void inference_finish(struct inference *self) {
  CHECK(self->running > 0, "no batch runs");
  struct flight *flight = oldest(self);
  struct row_batch *batch = flight->batch;
  self->device->ops->wait(self->device, flight->chosen);
  weights_release(self->weights, flight->params);

  int64_t answered_us = clock_now_us();
  batcher_stepping(self->batcher, batch, answered_us);
  reply_actions(batch, flight->action.host, (size_t)self->config.shape.action_bytes);
  measure(self, flight, answered_us);

  int64_t steps = flight->ended ? 0 : place_rows(self, flight);
  if (self->pages && !flight->ended) file_rows(self, flight);
  flight->batch = NULL;
  self->running--;
  batcher_recycle(self->batcher, batch);
  progress_add_steps(self->progress, steps);
}

/* ---- both */

bool inference_ended(const struct inference *self) {
  return progress_stopped(self->progress) != STOP_NONE;
}

int inference_running(const struct inference *self) {
  return self->running;
}

bool inference_has_room(const struct inference *self) {
  return self->running < self->num_flights;
}
