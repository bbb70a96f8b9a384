#include "learner/serve/inference.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/check.h"
#include "common/base/clock.h"
#include "learner/serve/acting.h"
#include "learner/serve/reply.h"

/* A batch between its launch and its finish. */
struct flight {
  struct row_batch *batch;    /* NULL: none */
  struct acting_batch acting; /* of the device */
  const real *params;         /* held until the finish */
  int64_t version;            /* of these */
  int64_t start_us;
  bool ended;            /* the run was over before: nothing more is filed */
  struct window *closed; /* (max_rows) windows that the batch completes, in order of rows */
  int num_closed;
};

struct inference {
  struct inference_config config; /* read-only after create */
  struct device *device;
  struct weights *weights;
  struct batcher *batcher;
  struct pages *pages;
  const struct pages_rows *rows; /* of pages */
  struct source *source;
  struct progress *progress;
  struct inference_metrics metrics;

  struct memory *memory;
  struct acting acting;
  uint8_t *sent;    /* (max_rows, action_bytes) what environments get; NULL: what was chosen */
  float *epsilon;   /* (training slots, at least one) of exploration that never changes */
  uint32_t batches; /* number of the newest, for its noise */
  int64_t serial;   /* weights_serial of the parameters that were used last */

  /* As many as batches may run at a time, used in turn. What the host writes of one is on the
   * device when the actions come back, so it may be written again; what is on the device alone is
   * written after the operations that read it, which were given before. */
  struct flight flight[BATCHER_MAX_RUNNING];
  int num_flights, next, running;
};

/* ---- create */

static void create_flight(const struct inference *self, struct flight *flight) {
  acting_batch_init(&self->acting, &flight->acting);
  flight->closed = check_alloc((size_t)self->config.max_rows, sizeof(*flight->closed));
}

static void destroy_flight(const struct inference *self, struct flight *flight) {
  acting_batch_deinit(&self->acting, &flight->acting);
  free(flight->closed);
}

static void init_acting(struct inference *self, const struct network *network,
                        const struct device_inputs *inputs) {
  const struct inference_config *config = &self->config;
  self->acting = (struct acting){.device = self->device,
                                 .network = network,
                                 .policy = config->policy,
                                 .inputs = *inputs,
                                 .shape = config->shape,
                                 .memory = self->memory,
                                 .pages = self->pages,
                                 .keeps_trail = self->rows && self->rows->trail,
                                 .seed = config->seed,
                                 .max_rows = config->max_rows};
  acting_init(&self->acting);
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
                             .weights = weights,
                             .batcher = batcher,
                             .pages = pages,
                             .rows = pages ? pages_rows(pages) : NULL,
                             .source = source,
                             .progress = progress,
                             .metrics = *metrics,
                             .batches = config->first_batch,
                             .serial = -1};
  const struct step_shape *shape = &config->shape;
  CHECK(shape->statistics == config->policy->statistics &&
            shape->state_size == network_state_size(network),
        "steps with %d statistics and a state of %d, not %d and %d", shape->statistics,
        shape->state_size, config->policy->statistics, network_state_size(network));
  struct memory_config memory = {.num_slots = config->num_slots,
                                 .rank = config->rank,
                                 .shape = *shape,
                                 .draws = policy_draws(config->policy, config->space),
                                 .pages = pages,
                                 .num_paged = pages ? config->num_train_slots : 0};
  self->memory = memory_create(device, &memory);
  self->epsilon = check_alloc((size_t)config->num_train_slots + 1, sizeof(*self->epsilon));
  for (int slot = 0; slot <= config->num_train_slots; slot++)
    self->epsilon[slot] = exploration_epsilon(&config->exploration, slot, 0);
  if (config->policy->send)
    self->sent = check_alloc((size_t)config->max_rows, (size_t)shape->action_bytes);
  init_acting(self, network, inputs);
  CHECK(config->running >= 0 && config->running <= BATCHER_MAX_RUNNING, "%d batches at a time",
        config->running);
  self->num_flights = config->running ? config->running : 1;
  for (int i = 0; i < self->num_flights; i++) create_flight(self, &self->flight[i]);
  return self;
}

void inference_destroy(struct inference *self) {
  if (!self) return;
  CHECK(self->running == 0, "%d batches were not finished", self->running);
  device_finish(self->device);
  for (int i = 0; i < self->num_flights; i++) destroy_flight(self, &self->flight[i]);
  acting_deinit(&self->acting);
  memory_destroy(self->memory);
  free(self->epsilon);
  free(self->sent);
  free(self);
}

/* ---- launch */

/* The newest parameters, which stay as they are until the batch is finished. */
static void take_newest_parameters(struct inference *self, struct flight *flight) {
  flight->params = weights_acquire(self->weights, &flight->version);
  int64_t serial = weights_serial(self->weights, flight->params);
  if (serial == self->serial) return;
  acting_set_params(&self->acting, flight->params);
  self->serial = serial;
}

/* A newer life of the slot enters with the same batch: rows of the older one lose their slot. */
static void forget_rows(const struct inference *self, const struct flight *flight, int slot) {
  for (int row = 0; row < flight->batch->num_rows; row++)
    if (flight->acting.rows.slot[row] == slot)
      memory_clear_row(self->memory, &flight->acting.rows, row);
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
    memory_enter_row(self->memory, &flight->acting.rows, row, slot, flags, greedy);
    flight->acting.rows.epsilon[row] = epsilon_of(self, segment, slot);
  }
}

static void enter_rows(struct inference *self, const struct flight *flight) {
  const struct row_batch *batch = flight->batch;
  for (int row = 0; row < flight->acting.B; row++)
    memory_clear_row(self->memory, &flight->acting.rows, row);
  for (int i = 0; i < batch->num_segments; i++)
    if (!batch->segment[i].dead) enter_segment(self, flight, &batch->segment[i]);
}

/* The step may begin a window, or close one, or both. Returns its row. */
static int64_t place_at_boundary(struct inference *self, struct flight *flight, int row, int slot) {
  struct pages_place place = pages_append(self->pages, slot);
  if (place.start >= 0) {
    flight->acting.rows.start[row] = place.start;
    flight->acting.begins_windows = true;
    self->rows->start_depth[place.start] = self->memory->depth[slot];
  }
  if (place.closes_window) flight->closed[flight->num_closed++] = place.window;
  return place.row;
}

static void place_segment(struct inference *self, struct flight *flight,
                          const struct batch_segment *segment) {
  const uint8_t *flags = flight->batch->flags;
  for (int row = segment->first_row; row < segment->first_row + segment->num_rows; row++) {
    int slot = flight->acting.rows.slot[row];
    if (slot < 0) continue;
    int64_t to = pages_try_append(self->rows, slot);
    if (to < 0) to = place_at_boundary(self, flight, row, slot);
    flight->acting.rows.place[row] = (int32_t)to;
    self->rows->stamp[to] = step_stamp(flight->version, flags[row]);
  }
}

/* Finds places in the pages for the rows that training gets. */
static void place_rows(struct inference *self, struct flight *flight) {
  const struct row_batch *batch = flight->batch;
  const struct memory_rows *rows = &flight->acting.rows;
  flight->num_closed = 0;
  for (int row = 0; row < flight->acting.B; row++) rows->place[row] = rows->start[row] = -1;
  if (!self->pages || flight->ended) return;
  for (int i = 0; i < batch->num_segments; i++)
    if (!batch->segment[i].dead && !batch->segment[i].eval)
      place_segment(self, flight, &batch->segment[i]);
}

/* Noise of the batch's own, other than that of any update; none where nothing is trained. */
static void choose_actions(struct inference *self, struct flight *flight) {
  const uint32_t OF_INFERENCE = 0x80000000u;
  struct network_noise noise = {self->pages != NULL, self->config.seed,
                                OF_INFERENCE | ++self->batches};
  acting_choose(&self->acting, &flight->acting, flight->batch,
                self->config.policy->action_values ? &noise : NULL);
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
  acting_begin(&self->acting, &flight->acting, batch->num_rows);
  enter_rows(self, flight);
  place_rows(self, flight);
  choose_actions(self, flight);
}

/* ---- finish */

/* What environments get for the actions of all rows. */
static const void *sent_actions(const struct inference *self, const struct flight *flight) {
  size_t bytes = (size_t)self->config.shape.action_bytes;
  if (!self->sent) return flight->acting.action.host;
  for (int row = 0; row < flight->batch->num_rows; row++)
    self->config.policy->send(self->sent + (size_t)row * bytes,
                              acting_action(&self->acting, &flight->acting, row),
                              self->config.space);
  return self->sent;
}

/* What a replay reads of the step on the host. */
static void leave_trail(const struct inference *self, const struct flight *flight, int row) {
  int statistics = self->config.shape.statistics;
  float *trail = self->rows->trail + flight->acting.rows.place[row] * (int64_t)(1 + statistics);
  trail[0] = flight->batch->reward[row];
  memcpy(trail + 1,
         (const float *)flight->acting.statistics.host + (size_t)row * (size_t)statistics,
         (size_t)statistics * sizeof(*trail));
}

/* Lets the slots of the segment's rows move on. Returns the number of steps that needed an
 * action. */
static int64_t leave_segment(struct inference *self, const struct flight *flight,
                             const struct batch_segment *segment) {
  const uint8_t *flags = flight->batch->flags;
  int64_t steps = 0;
  for (int row = segment->first_row; row < segment->first_row + segment->num_rows; row++) {
    int slot = flight->acting.rows.slot[row];
    /* A newer life of the slot may have entered with a batch that was launched since. */
    if (slot < 0 || self->memory->life[slot] != segment->life) continue;
    steps += !(flags[row] & STEP_TRUNCATED);
    if (self->acting.keeps_trail && !segment->eval) leave_trail(self, flight, row);
    memory_leave(self->memory, slot, acting_action(&self->acting, &flight->acting, row));
  }
  return !segment->eval || self->config.count_eval_steps ? steps : 0;
}

static int64_t leave_rows(struct inference *self, const struct flight *flight) {
  const struct row_batch *batch = flight->batch;
  int64_t steps = 0;
  if (flight->ended) return 0;
  for (int i = 0; i < batch->num_segments; i++)
    if (!batch->segment[i].dead) steps += leave_segment(self, flight, &batch->segment[i]);
  return steps;
}

/* Windows that are complete go to training; a newer life, which may have entered since the launch,
 * has dropped those of its slot. */
static void give_windows(struct inference *self, const struct flight *flight) {
  for (int i = 0; i < flight->num_closed; i++) {
    const struct window *window = &flight->closed[i];
    if (self->memory->life[window->slot] != window->life) continue;
    bool full = source_give(self->source, self->pages, window, weights_version(self->weights));
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

bool inference_computes(struct inference *self) {
  const struct device_ops *ops = self->device->ops;
  return self->running > 0 && ops->is_done &&
         !ops->is_done(self->device, oldest(self)->acting.chosen);
}

void inference_finish(struct inference *self) {
  CHECK(self->running > 0, "no batch runs");
  struct flight *flight = oldest(self);
  struct row_batch *batch = flight->batch;
  self->device->ops->wait(self->device, flight->acting.chosen);
  weights_release(self->weights, flight->params);

  int64_t answered_us = clock_now_us();
  batcher_stepping(self->batcher, batch, answered_us);
  reply_actions(batch, sent_actions(self, flight), (size_t)self->config.shape.action_bytes);
  measure(self, flight, answered_us);

  /* Where operations run in the call they come behind the answers. */
  acting_file(&self->acting, &flight->acting);
  int64_t steps = leave_rows(self, flight);
  if (self->pages) give_windows(self, flight);
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
