/* What the tests of a replay's file share: a small replay whose steps, priorities and schedule
 * follow from counters, so that two of them that are in the same state stay so. */
#ifndef ACORN_TESTS_UNIT_LEARNER_EXPERIENCE_REPLAY_FILE_WORLD_H
#define ACORN_TESTS_UNIT_LEARNER_EXPERIENCE_REPLAY_FILE_WORLD_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/check.h"
#include "learner/experience/replay.h"
#include "tests/unit/learner/experience/pages_count.h"
#include "tests/unit/support/any_device.h"
#include "tests/unit/support/host_batch.h"

enum { WORLD_SLOTS = 5, WORLD_MAX_STRIDE = 8192, WORLD_MAX_STATE = 4 };

/* What is wrong with the steps that a world files, for those that a file may not have. */
enum world_fault {
  FAULT_NONE,
  FAULT_REWARD_NAN,
  FAULT_REWARD_LARGE,
  FAULT_FLAGS_UNKNOWN,
  FAULT_FLAGS_ABSENT,
  FAULT_FLAGS_TERMINATED, /* but not first */
  FAULT_FLAGS_TRUNCATED,  /* and first */
  FAULT_ACTION_LARGE,
  FAULT_ACTION_NONE,
  FAULT_PREVIOUS_LARGE,
  FAULT_PREVIOUS_BELOW_NONE,
  FAULT_STATE,
  FAULT_OBSERVATION_NAN,
  FAULT_OBSERVATION_LARGE,
  FAULTS
};
enum { WORLD_ACTIONS = 256 };

/* Sizes; a world has spare_pages more pages than its slots need. */
struct world_config {
  const char *device;
  int page_steps, stride, window_steps, footprint, state_size, N, spare_pages;
  size_t row_stride;
  enum pages_phase phase;
  int64_t min_windows;
  double ratio, exponent;
};

struct world {
  struct world_config config;
  struct device *device, *trainer, *saver; /* inference's, and the other threads' */
  struct device_inputs inputs;
  enum world_fault fault; /* of the steps from now on */
  struct step_shape shape;
  struct pages *pages;
  struct source *source;
  struct host_batch host; /* what was in the batch that was taken last */
  float *weight;          /* (N) of it */
  float *next_state;      /* (N, S) of it */
  uint32_t draws;         /* of the schedule */
  uint32_t life[WORLD_SLOTS];
  uint64_t step[WORLD_SLOTS];
  int depth[WORLD_SLOTS];
  int64_t batches;
};

/* ---- steps */

static inline uint64_t world_bits(int slot, uint32_t life, uint64_t step) {
  return random_bits(3, (uint32_t)slot, life, (uint32_t)step, RANDOM_TEST);
}

static inline uint8_t world_byte(uint64_t bits, size_t i) {
  return (uint8_t)((bits >> i % 8 * 8) + i / 8 * 31);
}

static inline uint8_t world_flags(int slot, uint32_t life, uint64_t step) {
  return step == 0 || world_bits(slot, life, step) % 7 == 0 ? STEP_FIRST : 0;
}

/* Then they are all 0. */
static inline bool world_of_floats(const struct world *world) {
  return world->inputs.tensor[0].dtype == DTYPE_FLOAT32;
}

/* Changes one value of a step. observation: of floats */
static inline void world_spoil(enum world_fault fault, struct host_step *step, int32_t *action,
                               int32_t *before, float *state, float *observation) {
  static const uint8_t flags[FAULTS] = {
      [FAULT_FLAGS_UNKNOWN] = 16,
      [FAULT_FLAGS_ABSENT] = STEP_ABSENT,
      [FAULT_FLAGS_TERMINATED] = STEP_TERMINATED,
      [FAULT_FLAGS_TRUNCATED] = STEP_TRUNCATED | STEP_FIRST,
  };
  if (flags[fault]) step->flags = flags[fault];
  if (fault == FAULT_REWARD_NAN) step->reward = NAN;
  if (fault == FAULT_REWARD_LARGE) step->reward = -1.1e9f;
  if (fault == FAULT_ACTION_LARGE) *action = WORLD_ACTIONS;
  if (fault == FAULT_ACTION_NONE) *action = -1;
  if (fault == FAULT_PREVIOUS_LARGE) *before = WORLD_ACTIONS;
  if (fault == FAULT_PREVIOUS_BELOW_NONE) *before = -2;
  if (fault == FAULT_STATE) state[1] = INFINITY;
  if (fault == FAULT_OBSERVATION_NAN) observation[1] = NAN;
  if (fault == FAULT_OBSERVATION_LARGE) observation[0] = 1.1e9f;
}

static inline void world_write(struct world *world, const struct pages_place *place, int slot) {
  uint64_t step = world->step[slot], bits = world_bits(slot, world->life[slot], step);
  _Alignas(float) uint8_t observation[WORLD_MAX_STRIDE];
  float state[WORLD_MAX_STATE], statistics[2] = {(float)(bits >> 40 & 0xff), (float)(bits >> 48)};
  int32_t action = (int32_t)(bits & 0xff), before = (int32_t)(bits >> 8 & 0xff);
  for (size_t i = 0; i < world->shape.row_stride; i++)
    observation[i] = world_of_floats(world) ? 0 : world_byte(bits, i);
  for (int i = 0; i < world->shape.state_size; i++) state[i] = (float)(bits >> 50) + (float)i;
  struct host_step filed = {.observation = observation,
                            .action = &action,
                            .previous_action = &before,
                            .statistics = statistics,
                            .state = state,
                            .reward = (float)(bits >> 56),
                            .flags = world_flags(slot, world->life[slot], step),
                            .version = (int64_t)(bits >> 20)};
  world_spoil(world->fault, &filed, &action, &before, state, (float *)(void *)observation);
  host_step_file(world->pages, world->device, &world->shape, place, &filed);
  float *trail = pages_rows(world->pages)->trail + place->row * 3;
  memcpy(trail, &filed.reward, sizeof(float));
  memcpy(trail + 1, statistics, sizeof(statistics));
}

/* Whether a column of the batch that was taken last holds the steps that its window says. Before
 * anything else is filed. */
static inline bool world_column_matches(const struct world *world, int n) {
  const struct train_batch *batch = world->host.batch;
  const struct window *window = &batch->window[n];
  size_t stride = world->shape.row_stride;
  for (int t = -batch->depth[n]; t <= batch->T; t++) {
    uint64_t step = window->first_step + (uint64_t)(int64_t)t;
    uint64_t bits = world_bits(window->slot, window->life, step);
    ptrdiff_t at = (ptrdiff_t)t * batch->N + n;
    for (size_t i = 0; i < stride; i++)
      if (batch->observation[at * (ptrdiff_t)stride + (ptrdiff_t)i] != world_byte(bits, i))
        return false;
    if (t < 0) continue;
    if (((int32_t *)batch->action)[at] != (int32_t)(bits & 0xff)) return false;
    if (batch->reward[at] != (float)(bits >> 56)) return false;
    if (step_stamp_version(*train_batch_stamp(batch, t, n)) != (int64_t)(bits >> 20)) return false;
    const float *trail = pages_rows(world->pages)->trail + pages_row(world->pages, window, t) * 3;
    if (trail[0] != (float)(bits >> 56) || trail[1] != (float)(bits >> 40 & 0xff)) return false;
    int S = world->shape.state_size;
    for (int i = 0; i < S && t == world->config.stride; i++)
      if (world->next_state[n * S + i] != (float)(bits >> 50) + (float)i) return false;
  }
  return true;
}

/* ---- made */

static inline struct world *world_create(const struct world_config *config) {
  struct world *world = calloc(1, sizeof(*world));
  struct error error;
  *world = (struct world){.config = *config};
  assert_int_equal(any_device_create(&world->device, config->device, &error), STATUS_OK);
  assert_int_equal(any_device_create(&world->trainer, config->device, &error), STATUS_OK);
  assert_int_equal(any_device_create(&world->saver, config->device, &error), STATUS_OK);
  world->inputs = (struct device_inputs){.row_stride = config->row_stride,
                                         .num_tensors = 1,
                                         .tensor = {{.dtype = DTYPE_UINT8, .count = 16}},
                                         .discrete = WORLD_ACTIONS};
  world->shape = (struct step_shape){.row_stride = config->row_stride,
                                     .action_bytes = sizeof(int32_t),
                                     .statistics = 2,
                                     .state_size = config->state_size,
                                     .footprint = config->footprint};
  struct pages_config pages = {.num_slots = WORLD_SLOTS,
                               .page_steps = config->page_steps,
                               .shape = world->shape,
                               .phase = config->phase,
                               .stride = config->stride,
                               .window_steps = config->window_steps,
                               .replays = true};
  pages.num_pages = pages_needed(&pages) + config->spare_pages;
  world->pages = pages_create(world->device, &pages);
  struct replay_config replay = {.N = config->N,
                                 .min_windows = config->min_windows,
                                 .ratio = config->ratio,
                                 .band = 1e9,
                                 .exponent = config->exponent,
                                 .importance = 0.6,
                                 .next_states = config->state_size > 0,
                                 .priority = {.T = config->window_steps,
                                              .counted = config->window_steps,
                                              .n_steps = 1,
                                              .discount = 0.9f,
                                              .reward_scale = 1,
                                              .eta = 0.9f},
                                 .seed = 11,
                                 .saving = world->saver,
                                 .inputs = &world->inputs};
  world->source = replay_create(world->trainer, world->device, world->pages, &replay);
  world->host = host_batch_create(config->window_steps, config->N, &world->shape);
  world->weight = calloc((size_t)config->N, sizeof(*world->weight));
  world->next_state = calloc((size_t)(config->N * WORLD_MAX_STATE), sizeof(float));
  return world;
}

static inline void world_destroy(struct world *world) {
  source_destroy(world->source);
  pages_destroy(world->pages);
  host_batch_destroy(&world->host);
  device_destroy(world->saver);
  device_destroy(world->trainer);
  device_destroy(world->device);
  free(world->weight);
  free(world->next_state);
  free(world);
}

/* ---- playing */

static inline uint32_t world_draw(struct world *world, uint32_t below) {
  return (uint32_t)(random_bits(5, 0, 0, world->draws++, RANDOM_TEST) % below);
}

/* All slots, from life `life` on; the schedule begins anew. */
static inline void world_begin(struct world *world, uint32_t life) {
  world->draws = life << 16;
  for (int slot = 0; slot < WORLD_SLOTS; slot++) {
    world->life[slot] = life + (uint32_t)slot;
    world->step[slot] = 0;
    world->depth[slot] = 0;
    pages_begin_life(world->pages, slot, world->life[slot]);
  }
}

/* Returns whether a batch is due. */
static inline bool world_step(struct world *world, int slot) {
  int64_t row = pages_try_append(pages_rows(world->pages), slot);
  struct pages_place place = {.row = row, .start = -1};
  if (row < 0) place = pages_append(world->pages, slot);
  bool due = false;
  int *depth = &world->depth[slot], footprint = world->config.footprint;
  if (world_flags(slot, world->life[slot], world->step[slot]) & STEP_FIRST) *depth = 0;
  if (place.start >= 0) pages_rows(world->pages)->start_depth[place.start] = *depth;
  if (place.row >= 0) world_write(world, &place, slot);
  if (place.closes_window) due = source_give(world->source, world->pages, &place.window, 0);
  if (*depth < footprint) ++*depth;
  world->step[slot]++;
  return due;
}

/* Takes a batch and gives its windows new priorities. */
static inline void world_train(struct world *world) {
  struct train_batch *batch = source_take(world->source);
  assert_non_null(batch);
  host_batch_read(&world->host, world->trainer, batch);
  memcpy(world->weight, batch->weight.host, (size_t)batch->N * sizeof(float));
  if (batch->next_state)
    world->trainer->ops->download(world->trainer, world->next_state, batch->next_state,
                                  (size_t)(batch->N * world->shape.state_size));
  for (int n = 0; n < batch->N; n++) {
    uint64_t bits = world_bits(batch->window[n].start, (uint32_t)world->batches, (uint64_t)n);
    ((float *)batch->priority.host)[n] = (float)(bits & 0xfff) * 0.01f;
  }
  source_release(world->source, batch);
  world->batches++;
}

/* A new life now and then, steps of random slots, a batch whenever one is due. */
static inline void world_play(struct world *world, int steps) {
  for (int i = 0; i < steps; i++) {
    int slot = (int)world_draw(world, WORLD_SLOTS);
    if (world_draw(world, 200) == 0) {
      world->life[slot] += WORLD_SLOTS;
      world->step[slot] = 0;
      world->depth[slot] = 0;
      pages_begin_life(world->pages, slot, world->life[slot]);
    }
    if (!world_step(world, slot)) continue;
    world_train(world);
    for (int n = 0; n < world->config.N; n++) assert_true(world_column_matches(world, n));
  }
}

/* ---- its file */

/* What was captured. meanwhile: called before each block is written; true cancels; may be NULL. */
static inline enum status world_write_captured(struct world *world, const char *path,
                                               bool (*meanwhile)(void *), void *context) {
  struct error error;
  struct block_writer *writer = block_writer_create();
  assert_int_equal(block_writer_begin(writer, path, meanwhile, context, &error), STATUS_OK);
  enum status status = source_save(world->source, writer, &error);
  if (status == STATUS_OK) status = block_writer_end(writer, &error);
  block_writer_destroy(writer);
  return status;
}

static inline void world_save(struct world *world, const char *path) {
  source_capture(world->source);
  assert_int_equal(world_write_captured(world, path, NULL, NULL), STATUS_OK);
}

static inline enum status world_try_load(struct world *world, const char *path,
                                         struct error *error) {
  struct block_reader *reader = block_reader_create();
  enum status status = block_reader_begin(reader, path, error);
  if (status == STATUS_OK) status = source_load(world->source, reader, error);
  block_reader_destroy(reader);
  return status;
}

static inline void world_load(struct world *world, const char *path) {
  struct error error;
  if (world_try_load(world, path, &error) != STATUS_OK) fail_msg("%s", error.text);
}

static inline int64_t world_windows(const struct world *world) {
  return source_counters(world->source).windows_held;
}

/* The file's bytes; *size of them. Owner: the caller, with free. */
static inline uint8_t *world_read_file(const char *path, size_t *size) {
  FILE *file = fopen(path, "rb");
  assert_non_null(file);
  fseek(file, 0, SEEK_END);
  *size = (size_t)ftell(file);
  rewind(file);
  uint8_t *bytes = malloc(*size + 1);
  assert_int_equal(fread(bytes, 1, *size, file), *size);
  fclose(file);
  return bytes;
}

static inline void world_assert_same_files(const char *a, const char *b) {
  size_t size_a, size_b;
  uint8_t *bytes_a = world_read_file(a, &size_a), *bytes_b = world_read_file(b, &size_b);
  assert_int_equal(size_a, size_b);
  assert_memory_equal(bytes_a, bytes_b, size_a);
  free(bytes_a);
  free(bytes_b);
}

static inline void world_write_file(const char *path, const uint8_t *bytes, size_t size) {
  FILE *file = fopen(path, "wb");
  assert_non_null(file);
  assert_int_equal(fwrite(bytes, 1, size, file), size);
  fclose(file);
}

#endif
