#include "learner/serve/inference.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/check.h"
#include "common/base/clock.h"
#include "common/base/random.h"
#include "common/rpc/wire.h"
#include "learner/experience/frames.h"
#include "learner/experience/slots.h"
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

  struct slots *slots;
  struct network_workspace *workspace;
  const real *params; /* the snapshot in use, held */
  int64_t version;    /* of that snapshot */

  /* one row each of the batch in hand, allocated for max_rows */
  int32_t *slot; /* -1: not to be filed (dead, absent, of an old life, or a hole) */
  int32_t *previous_action;
  float *uniform;
  int32_t *action;
  float *log_prob;
  real *state_in, *state_out; /* (rows, S) */

  /* where frames are stacked: */
  int footprint;         /* frames beside the newest; 0: none are */
  const uint8_t **frame; /* (rows, footprint + 1) */
  int *depth;            /* (slots) steps before the next one in its episode, at most footprint */
  struct frames *frames; /* of slots without pages */
};

static void create_stacks(struct inference *self) {
  const struct inference_config *config = &self->config;
  self->footprint = self->inputs.stack - 1;
  self->frame = self->device->ops->alloc(
      self->device, (size_t)config->max_rows * (size_t)self->inputs.stack * sizeof(*self->frame));
  self->depth = check_alloc((size_t)config->num_slots, sizeof(*self->depth));
  int first = config->num_train_slots;
  if (config->num_slots > first)
    self->frames = frames_create(self->device, config->num_slots - first, self->footprint,
                                 self->inputs.row_stride);
}

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
  size_t rows = (size_t)config->max_rows, state = (size_t)network_state_size(network);
  self->slots = slots_create(device, config->num_slots, (int)state);
  self->workspace = network_workspace_create(network, device, config->max_rows, false);
  self->slot = check_alloc(rows, sizeof(*self->slot));
  self->previous_action = device->ops->alloc(device, rows * sizeof(*self->previous_action));
  self->uniform = device->ops->alloc(device, rows * sizeof(*self->uniform));
  self->action = device->ops->alloc(device, rows * sizeof(*self->action));
  self->log_prob = device->ops->alloc(device, rows * sizeof(*self->log_prob));
  if (state) {
    self->state_in = device->ops->alloc(device, rows * state * device->ops->real_bytes);
    self->state_out = device->ops->alloc(device, rows * state * device->ops->real_bytes);
  }
  if (inputs->stack > 1) create_stacks(self);
  return self;
}

void inference_destroy(struct inference *self) {
  if (!self) return;
  const struct device_ops *ops = self->device->ops;
  if (self->params) weights_release(self->weights, self->params);
  void *arrays[] = {self->previous_action, self->uniform,   self->action, self->log_prob,
                    self->state_in,        self->state_out, self->frame};
  for (size_t i = 0; i < sizeof(arrays) / sizeof(arrays[0]); i++)
    if (arrays[i]) ops->release(self->device, arrays[i]);
  free(self->slot);
  free(self->depth);
  frames_destroy(self->device, self->frames);
  network_workspace_destroy(self->workspace);
  slots_destroy(self->device, self->slots);
  free(self);
}

/* Between batches: the newest parameters. A snapshot is held until a newer one is taken. */
static void take_newest_parameters(struct inference *self) {
  if (self->params && weights_version(self->weights) == self->version) return;
  if (self->params) weights_release(self->weights, self->params);
  self->params = weights_acquire(self->weights, &self->version);
  self->device->ops->weights_changed(self->device);
}

static real *row_of(const struct inference *self, real *array, int row) {
  return device_at(self->device, array, (size_t)row * (size_t)self->slots->state_size);
}

/* The frames that the row shows, newest first. Rows that are not played show only themselves. */
static void stack_row(struct inference *self, const struct row_batch *batch, int row, int slot) {
  const uint8_t **frame = self->frame + (size_t)row * (size_t)self->inputs.stack;
  int depth = slot < 0 ? 0 : self->depth[slot], first = self->config.num_train_slots;
  frame[0] = batch->observation + (size_t)row * self->inputs.row_stride;
  for (int k = 1; k <= self->footprint; k++)
    frame[k] = k > depth       ? NULL
               : slot >= first ? frames_before(self->frames, slot - first, k)
                               : pages_observation_before(self->pages, slot, k);
}

/* Life check, slot reset, previous action and recurrent state of one segment's rows. */
static void enter_segment(struct inference *self, const struct row_batch *batch,
                          const struct batch_segment *segment) {
  struct slots *slots = self->slots;
  const bool trained = self->pages && !segment->eval;
  for (int i = 0; i < segment->num_rows; i++) {
    int row = segment->first_row + i, slot = segment->first_slot + i;
    uint8_t flags = batch->flags[row];
    enum slots_life life = slots_enter(slots, slot, segment->life);
    if (life == SLOTS_NEW_LIFE && trained) pages_begin_life(self->pages, slot, segment->life);
    if (life == SLOTS_OLD_LIFE) continue;
    if (self->depth && (life == SLOTS_NEW_LIFE || flags & STEP_FIRST)) self->depth[slot] = 0;
    if (flags & STEP_ABSENT) continue;
    self->slot[row] = slot;
    if (flags & STEP_FIRST) slots->previous_action[slot] = -1;
    self->previous_action[row] = slots->previous_action[slot];
    if (self->frame) stack_row(self, batch, row, slot);
    if (slots->state_size)
      self->device->ops->copy(self->device, row_of(self, self->state_in, row),
                              row_of(self, slots->state, slot), (size_t)slots->state_size);
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
      self->slots->steps + segment->first_slot, RANDOM_ACTION, segment->num_rows);
}

static void enter_rows(struct inference *self, const struct row_batch *batch) {
  for (int row = 0; row < batch->num_rows; row++) {
    self->slot[row] = -1;
    self->previous_action[row] = -1;
    self->uniform[row] = 0;
    if (self->frame) stack_row(self, batch, row, -1);
  }
  for (int i = 0; i < batch->num_segments; i++) {
    if (batch->segment[i].dead) continue;
    enter_segment(self, batch, &batch->segment[i]);
    draw_segment(self, &batch->segment[i]);
  }
}

/* Forward, then an action and its log-probability for every row. */
static void choose_actions(struct inference *self, const struct row_batch *batch) {
  struct device_inputs inputs = self->inputs;
  inputs.observation = batch->observation;
  inputs.previous_action = self->previous_action;
  inputs.reward = batch->reward;
  inputs.flags = batch->flags;
  inputs.frame = self->frame;
  struct network_outputs out;
  network_forward(self->workspace, &out, self->state_out, self->params, &inputs, self->state_in, 1,
                  batch->num_rows);
  struct policy_rows rows = {.uniform = self->uniform};
  self->config.policy->choose(self->device, self->action, self->log_prob, &out, &rows,
                              batch->num_rows);
}

/* The frame is the next one's past. */
static void leave_frame(struct inference *self, const struct row_batch *batch, int slot, int row) {
  if (self->depth[slot] < self->footprint) self->depth[slot]++;
  int evaluated = slot - self->config.num_train_slots;
  if (evaluated >= 0)
    frames_push(self->frames, evaluated,
                batch->observation + (size_t)row * self->inputs.row_stride);
}

/* The slot's memory moves on by one step. */
static void leave_row(struct inference *self, int slot, int row) {
  struct slots *slots = self->slots;
  slots->steps[slot]++;
  slots->previous_action[slot] = self->action[row];
  if (slots->state_size)
    self->device->ops->copy(self->device, row_of(self, slots->state, slot),
                            row_of(self, self->state_out, row), (size_t)slots->state_size);
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
  size_t stride = self->inputs.row_stride;
  copy_observation(rows->observation + (size_t)to * stride,
                   batch->observation + (size_t)row * stride, stride);
  rows->step[to] = (struct pages_step){.version = self->version,
                                       .action = self->action[row],
                                       .behaviour = self->log_prob[row],
                                       .reward = batch->reward[row],
                                       .flags = batch->flags[row]};
}

/* The step begins a page, or has none yet; a window that it closes goes to training. */
static void file_at_boundary(struct inference *self, const struct row_batch *batch, int row) {
  const struct pages_rows *rows = self->rows;
  struct pages_place place = pages_append(self->pages, self->slot[row]);
  if (place.row < 0) return;
  write_step(self, batch, row, place.row);
  if (place.starts_window) {
    rows->start_previous_action[place.page] = self->previous_action[row];
    if (self->depth) rows->start_depth[place.page] = self->depth[self->slot[row]];
    if (self->slots->state_size)
      self->device->ops->copy(self->device, row_of(self, rows->start_state, place.page),
                              row_of(self, self->state_in, row), (size_t)self->slots->state_size);
  }
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
    if (slot < 0 || self->slots->life[slot] != segment->life) continue;
    leave_row(self, slot, row);
    steps += !(batch->flags[row] & STEP_TRUNCATED);
    int64_t to = trained ? pages_try_append(self->rows, slot) : -1;
    if (to >= 0)
      write_step(self, batch, row, to);
    else if (trained)
      file_at_boundary(self, batch, row);
    if (self->depth) leave_frame(self, batch, slot, row);
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
  reply_actions(batch, self->action, sizeof(int32_t));
  measure(self, batch, start_us, answered_us);

  int64_t steps = 0;
  for (int i = 0; i < batch->num_segments; i++)
    if (!batch->segment[i].dead && !ended) steps += file_segment(self, batch, &batch->segment[i]);
  batcher_recycle(self->batcher, batch);
  progress_add_steps(self->progress, steps);
}
