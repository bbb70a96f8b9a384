#include "learner/serve/memory.h"

#include <stdlib.h>

#include "common/base/check.h"

/* ---- create */

struct memory *memory_create(struct device *device, const struct memory_config *config) {
  const struct step_shape *shape = &config->shape;
  size_t n = (size_t)config->num_slots, state = n * (size_t)shape->state_size;
  int without_pages = config->num_slots - config->num_paged;
  CHECK(config->num_slots > 0 && without_pages >= 0 && (config->pages || !config->num_paged),
        "%d slots, %d of them in pages", config->num_slots, config->num_paged);
  struct memory *memory = check_alloc(1, sizeof(*memory));
  *memory = (struct memory){.config = *config, .device = device};
  memory->life = check_alloc(n, sizeof(*memory->life));
  memory->steps = check_alloc(n, sizeof(*memory->steps));
  memory->depth = check_alloc(n, sizeof(*memory->depth));
  memory->previous_action = check_alloc(n, (size_t)shape->action_bytes);
  if (state) memory->state = device->ops->alloc(device, state * device->ops->real_bytes);
  if (shape->footprint && without_pages)
    memory->frames = frames_create(device, without_pages, shape->footprint, shape->row_stride);
  return memory;
}

void memory_destroy(struct memory *memory) {
  if (!memory) return;
  frames_destroy(memory->device, memory->frames);
  if (memory->state) memory->device->ops->release(memory->device, memory->state);
  free(memory->previous_action);
  free(memory->depth);
  free(memory->steps);
  free(memory->life);
  free(memory);
}

struct memory_rows memory_rows_create(const struct memory *memory, int rows) {
  const struct step_shape *shape = &memory->config.shape;
  struct device *device = memory->device;
  size_t n = (size_t)rows, state = n * (size_t)shape->state_size * device->ops->real_bytes;
  struct memory_rows out = {.previous_action =
                                device->ops->alloc(device, n * (size_t)shape->action_bytes)};
  if (state) {
    out.state_in = device->ops->alloc(device, state);
    out.state_out = device->ops->alloc(device, state);
  }
  if (shape->footprint)
    out.frame = device->ops->alloc(device, n * (size_t)(shape->footprint + 1) * sizeof(*out.frame));
  return out;
}

void memory_rows_destroy(const struct memory *memory, struct memory_rows *rows) {
  void *arrays[] = {rows->previous_action, rows->state_in, rows->state_out, rows->frame};
  for (size_t i = 0; i < sizeof(arrays) / sizeof(arrays[0]); i++)
    if (arrays[i]) memory->device->ops->release(memory->device, arrays[i]);
  *rows = (struct memory_rows){NULL};
}

/* ---- rows enter */

static uint8_t *action_of(const struct memory *memory, uint8_t *actions, int at) {
  return actions + (size_t)at * (size_t)memory->config.shape.action_bytes;
}

static void set_action(const struct memory *memory, uint8_t *actions, int at, const void *action) {
  step_shape_copy(action_of(memory, actions, at), action,
                  (size_t)memory->config.shape.action_bytes);
}

static void begin_episode(struct memory *memory, int slot) {
  memory->depth[slot] = 0;
  set_action(memory, memory->previous_action, slot, step_shape_no_action(&memory->config.shape));
}

enum memory_life memory_enter_life(struct memory *memory, int slot, uint32_t life) {
  if (memory->life[slot] == life) return MEMORY_SAME_LIFE;
  if (memory->life[slot] > life) return MEMORY_OLD_LIFE;
  memory->life[slot] = life;
  memory->steps[slot] = 0;
  begin_episode(memory, slot);
  return MEMORY_NEW_LIFE;
}

/* The slot's k-th last frame. */
static const uint8_t *frame_before(const struct memory *memory, int slot, int k) {
  int first = memory->config.num_paged;
  if (slot < first) return pages_observation_before(memory->config.pages, slot, k);
  return frames_before(memory->frames, slot - first, k);
}

static void stack_row(const struct memory *memory, const struct memory_rows *rows, int row,
                      int slot, int depth, const uint8_t *observation) {
  int footprint = memory->config.shape.footprint;
  if (footprint == 0) return;
  const uint8_t **frame = rows->frame + (size_t)row * (size_t)(footprint + 1);
  frame[0] = observation;
  for (int k = 1; k <= footprint; k++) frame[k] = k > depth ? NULL : frame_before(memory, slot, k);
}

void memory_clear_row(const struct memory *memory, const struct memory_rows *rows, int row,
                      const uint8_t *observation) {
  set_action(memory, rows->previous_action, row, step_shape_no_action(&memory->config.shape));
  stack_row(memory, rows, row, 0, 0, observation);
}

static void copy_state(const struct memory *memory, real *to, int to_row, real *from,
                       int from_row) {
  size_t S = (size_t)memory->config.shape.state_size;
  if (S == 0) return;
  memory->device->ops->copy(memory->device, device_at(memory->device, to, (size_t)to_row * S),
                            device_at(memory->device, from, (size_t)from_row * S), S);
}

void memory_enter_row(struct memory *memory, const struct memory_rows *rows, int row, int slot,
                      uint8_t flags, const uint8_t *observation) {
  if (flags & STEP_FIRST) begin_episode(memory, slot);
  set_action(memory, rows->previous_action, row, action_of(memory, memory->previous_action, slot));
  stack_row(memory, rows, row, slot, memory->depth[slot], observation);
  copy_state(memory, rows->state_in, row, memory->state, slot);
}

/* ---- rows leave */

void memory_leave_row(struct memory *memory, const struct memory_rows *rows, int row, int slot,
                      const void *action, const uint8_t *observation) {
  int without_pages = slot - memory->config.num_paged;
  memory->steps[slot]++;
  set_action(memory, memory->previous_action, slot, action);
  copy_state(memory, memory->state, slot, rows->state_out, row);
  /* The frame is the next one's past. */
  if (memory->depth[slot] < memory->config.shape.footprint) memory->depth[slot]++;
  if (memory->frames && without_pages >= 0) frames_push(memory->frames, without_pages, observation);
}
