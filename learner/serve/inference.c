#include "learner/serve/inference.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/check.h"
#include "common/base/clock.h"
#include "common/base/random.h"
#include "common/rpc/wire.h"
#include "learner/serve/memory.h"
#include "learner/serve/reply.h"

struct inference {
  struct inference_config config; /* read-only after create */
  struct device *device;
  const struct network *network;
  struct device_inputs inputs;
  struct weights *weights;
  struct batcher *batcher;
  struct pages *pages;
  const struct pages_rows *rows; /* of pages */
  struct fifo *fifo;
  struct progress *progress;
  struct inference_metrics metrics;

  struct memory *memory;
  struct network_workspace *workspace;
  const real *params; /* the snapshot in use, held */
  int64_t version;    /* of that snapshot */

  /* one row each of the batch in hand, allocated for max_rows */
  int32_t *slot; /* -1: not to be filed (dead, absent, of an old life, or a hole) */
  struct memory_rows remembered;
  float *uniform;
  uint8_t *action;   /* (rows, action_bytes) */
  float *statistics; /* (rows, statistics) */
};

struct inference *inference_create(const struct inference_config *config, struct device *device,
                                   const struct network *network,
                                   const struct device_inputs *inputs, struct weights *weights,
                                   struct batcher *batcher, struct pages *pages, struct fifo *fifo,
                                   struct progress *progress,
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
                             .fifo = fifo,
                             .progress = progress,
                             .metrics = *metrics,
                             .version = -1};
  const struct step_shape *shape = &config->shape;
  size_t rows = (size_t)config->max_rows;
  CHECK(shape->statistics == config->policy->statistics &&
            shape->state_size == network_state_size(network),
        "steps with %d statistics and a state of %d, not %d and %d", shape->statistics,
        shape->state_size, config->policy->statistics, network_state_size(network));
  struct memory_config memory = {.num_slots = config->num_slots,
                                 .shape = *shape,
                                 .pages = pages,
                                 .num_paged = pages ? config->num_train_slots : 0};
  self->memory = memory_create(device, &memory);
  self->remembered = memory_rows_create(self->memory, config->max_rows);
  self->workspace = network_workspace_create(network, device, config->max_rows, false);
  self->slot = check_alloc(rows, sizeof(*self->slot));
  self->uniform = device->ops->alloc(device, rows * sizeof(*self->uniform));
  self->action = device->ops->alloc(device, rows * (size_t)shape->action_bytes);
  self->statistics =
      device->ops->alloc(device, rows * (size_t)shape->statistics * sizeof(*self->statistics));
  return self;
}

void inference_destroy(struct inference *self) {
  if (!self) return;
  const struct device_ops *ops = self->device->ops;
  if (self->params) weights_release(self->weights, self->params);
  ops->release(self->device, self->uniform);
  ops->release(self->device, self->action);
  ops->release(self->device, self->statistics);
  free(self->slot);
  network_workspace_destroy(self->workspace);
  memory_rows_destroy(self->memory, &self->remembered);
  memory_destroy(self->memory);
  free(self);
}

/* Between batches: the newest parameters. A snapshot is held until a newer one is taken. */
static void take_newest_parameters(struct inference *self) {
  if (self->params && weights_version(self->weights) == self->version) return;
  if (self->params) weights_release(self->weights, self->params);
  self->params = weights_acquire(self->weights, &self->version);
  self->device->ops->weights_changed(self->device);
}

static const uint8_t *observation_of(const struct inference *self, const struct row_batch *batch,
                                     int row) {
  return batch->observation + (size_t)row * self->config.shape.row_stride;
}

static const uint8_t *action_of(const struct inference *self, int row) {
  return self->action + (size_t)row * (size_t)self->config.shape.action_bytes;
}

/* Life check of one segment's rows, and what their slots remember. */
static void enter_segment(struct inference *self, const struct row_batch *batch,
                          const struct batch_segment *segment) {
  const bool trained = self->pages && !segment->eval;
  for (int i = 0; i < segment->num_rows; i++) {
    int row = segment->first_row + i, slot = segment->first_slot + i;
    uint8_t flags = batch->flags[row];
    enum memory_life life = memory_enter_life(self->memory, slot, segment->life);
    if (life == MEMORY_NEW_LIFE && trained) pages_begin_life(self->pages, slot, segment->life);
    if (life == MEMORY_OLD_LIFE || flags & STEP_ABSENT) continue;
    self->slot[row] = slot;
    memory_enter_row(self->memory, &self->remembered, row, slot, flags,
                     observation_of(self, batch, row));
  }
}

/* A random number for each of the segment's rows, needed or not. */
static void draw_segment(struct inference *self, const struct batch_segment *segment) {
  float *uniform = self->uniform + segment->first_row;
  if (segment->eval && self->config.greedy_eval) {
    for (int i = 0; i < segment->num_rows; i++) uniform[i] = -1;
    return;
  }
  self->device->ops->random_uniforms(
      self->device, uniform, self->config.seed, (uint32_t)segment->first_slot, segment->life,
      self->memory->steps + segment->first_slot, RANDOM_ACTION, segment->num_rows);
}

static void enter_rows(struct inference *self, const struct row_batch *batch) {
  for (int row = 0; row < batch->num_rows; row++) {
    self->slot[row] = -1;
    self->uniform[row] = 0;
    memory_clear_row(self->memory, &self->remembered, row, observation_of(self, batch, row));
  }
  for (int i = 0; i < batch->num_segments; i++) {
    if (batch->segment[i].dead) continue;
    enter_segment(self, batch, &batch->segment[i]);
    draw_segment(self, &batch->segment[i]);
  }
}

/* Forward, then an action and its statistics for every row. */
static void choose_actions(struct inference *self, const struct row_batch *batch) {
  struct device_inputs inputs = self->inputs;
  inputs.observation = batch->observation;
  inputs.previous_action = self->remembered.previous_action;
  inputs.reward = batch->reward;
  inputs.flags = batch->flags;
  inputs.frame = self->remembered.frame;
  struct network_outputs out;
  network_forward(self->workspace, &out, self->remembered.state_out, self->params, &inputs,
                  self->remembered.state_in, 1, batch->num_rows);
  struct policy_rows rows = {.uniform = self->uniform};
  self->config.policy->choose(self->device, self->action, self->statistics, &out, &rows,
                              batch->num_rows);
}

/* A row is a multiple of 16 bytes, and often just that: then it is one move instead of a call. */
static inline void copy_observation(uint8_t *to, const uint8_t *from, size_t bytes) {
  if (bytes == 16)
    memcpy(to, from, 16);
  else
    memcpy(to, from, bytes);
}

static inline void write_step(const struct inference *self, const struct row_batch *batch, int row,
                              int64_t to) {
  const struct pages_rows *rows = self->rows;
  size_t stride = self->config.shape.row_stride;
  copy_observation(rows->observation + (size_t)to * stride, observation_of(self, batch, row),
                   stride);
  pages_write_step(rows, to, self->version, batch->reward[row], batch->flags[row],
                   action_of(self, row),
                   self->statistics + (size_t)row * (size_t)self->config.shape.statistics);
}

/* What a window that begins with the row needs of the time before. */
static void start_page(const struct inference *self, int row, int page) {
  const struct pages_rows *rows = self->rows;
  size_t bytes = rows->action_bytes, S = (size_t)self->config.shape.state_size;
  step_shape_copy(rows->start_previous_action + (size_t)page * bytes,
                  self->remembered.previous_action + (size_t)row * bytes, bytes);
  rows->start_depth[page] = self->memory->depth[self->slot[row]];
  if (S)
    self->device->ops->copy(self->device,
                            device_at(self->device, rows->start_state, (size_t)page * S),
                            device_at(self->device, self->remembered.state_in, (size_t)row * S), S);
}

/* The step begins a page, or has none yet; a window that it closes goes to training. */
static void file_at_boundary(struct inference *self, const struct row_batch *batch, int row) {
  struct pages_place place = pages_append(self->pages, self->slot[row]);
  if (place.row < 0) return;
  write_step(self, batch, row, place.row);
  if (place.starts_window) start_page(self, row, place.page);
  if (place.closes_window) {
    bool full = fifo_give(self->fifo, self->pages, &place.window, weights_version(self->weights));
    if (full && self->config.waits_for_updates) fifo_drain(self->fifo);
  }
}

/* Files the segment's rows and counts the steps that needed an action. */
static int64_t file_segment(struct inference *self, const struct row_batch *batch,
                            const struct batch_segment *segment) {
  const bool trained = self->pages && !segment->eval;
  int64_t steps = 0;
  for (int row = segment->first_row; row < segment->first_row + segment->num_rows; row++) {
    int slot = self->slot[row];
    /* A newer life of the slot may have entered with this very batch. */
    if (slot < 0 || self->memory->life[slot] != segment->life) continue;
    steps += !(batch->flags[row] & STEP_TRUNCATED);
    int64_t to = trained ? pages_try_append(self->rows, slot) : -1;
    if (to >= 0)
      write_step(self, batch, row, to);
    else if (trained)
      file_at_boundary(self, batch, row);
    memory_leave_row(self->memory, &self->remembered, row, slot, action_of(self, row),
                     observation_of(self, batch, row));
  }
  return !segment->eval || self->config.count_eval_steps ? steps : 0;
}

static void measure(struct inference *self, const struct row_batch *batch, int64_t start_us,
                    int64_t answered_us) {
  metric_add(self->metrics.batches, 1);
  metric_observe(self->metrics.batch_rows, batch->num_rows);
  metric_observe(self->metrics.batch_run_us, (double)(answered_us - start_us));
  for (int i = 0; i < batch->num_segments; i++) {
    const struct batch_segment *segment = &batch->segment[i];
    metric_observe(self->metrics.batch_wait_us, (double)(start_us - segment->queued_us));
    if (segment->dead) continue;
    metric_observe(self->metrics.actor_wait_us, (double)(answered_us - segment->queued_us));
    if (segment->step_us >= 0)
      metric_observe(self->metrics.actor_step_us, (double)segment->step_us);
  }
}

bool inference_ended(const struct inference *self) {
  return progress_stopped(self->progress) != STOP_NONE;
}

void inference_run(struct inference *self, struct row_batch *batch) {
  int64_t start_us = clock_now_us();
  if (self->config.lockstep) progress_count_kept(self->progress);
  /* A target that is reached here ends the run, and training with it: nothing more is filed. */
  const bool ended = self->config.lockstep && inference_ended(self);
  take_newest_parameters(self);
  enter_rows(self, batch);
  choose_actions(self, batch);

  int64_t answered_us = clock_now_us();
  batcher_stepping(self->batcher, batch, answered_us);
  reply_actions(batch, self->action, (size_t)self->config.shape.action_bytes);
  measure(self, batch, start_us, answered_us);

  int64_t steps = 0;
  for (int i = 0; i < batch->num_segments; i++)
    if (!batch->segment[i].dead && !ended) steps += file_segment(self, batch, &batch->segment[i]);
  batcher_recycle(self->batcher, batch);
  progress_add_steps(self->progress, steps);
}
