#include "learner/serve/memory.h"

#include <stdlib.h>

#include "common/base/check.h"

/* ---- create */

int memory_spare_rows(int num_slots, const struct step_shape *shape) {
  return num_slots * shape->footprint;
}

/* Where the frames of slots without pages go. */
static void make_rings(struct memory *memory) {
  const struct memory_config *config = &memory->config;
  const struct step_shape *shape = &config->shape;
  int slots = config->num_slots - config->num_paged;
  if (!shape->footprint) return;
  memory->ring = check_alloc((size_t)slots, sizeof(*memory->ring));
  if (config->pages) {
    memory->history = pages_rows(config->pages)->pool.observation;
    memory->first_ring_row = pages_capacity_steps(config->pages);
  } else {
    size_t rows = (size_t)memory_spare_rows(slots, shape);
    memory->own_history = memory->device->ops->alloc(memory->device, rows * shape->row_stride);
    memory->history = memory->own_history;
  }
}

struct memory *memory_create(struct device *device, const struct memory_config *config) {
  const struct step_shape *shape = &config->shape;
  size_t n = (size_t)config->num_slots, state = n * (size_t)shape->state_size;
  CHECK(config->num_slots > 0 && config->num_paged <= config->num_slots &&
            (config->pages || !config->num_paged),
        "%d slots, %d of them in pages", config->num_slots, config->num_paged);
  struct memory *memory = check_alloc(1, sizeof(*memory));
  *memory = (struct memory){.config = *config, .device = device};
  memory->life = check_alloc(n, sizeof(*memory->life));
  memory->steps = check_alloc(n, sizeof(*memory->steps));
  memory->depth = check_alloc(n, sizeof(*memory->depth));
  memory->previous_action = check_alloc(n, (size_t)shape->action_bytes);
  if (state) memory->state = device->ops->alloc(device, state * device->ops->real_bytes);
  make_rings(memory);
  return memory;
}

void memory_destroy(struct memory *memory) {
  if (!memory) return;
  if (memory->own_history) memory->device->ops->release(memory->device, memory->own_history);
  if (memory->state) memory->device->ops->release(memory->device, memory->state);
  free(memory->ring);
  free(memory->previous_action);
  free(memory->depth);
  free(memory->steps);
  free(memory->life);
  free(memory);
}

/* ---- rows */

/* Takes so many bytes of the block, aligned for any operation; *offset moves on. The block is NULL
 * while it is being measured. */
static void *part(uint8_t *block, size_t *offset, size_t bytes) {
  enum { ALIGNMENT = 16 };
  void *at = block ? block + *offset : NULL;
  *offset += (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
  return at;
}

/* Sets the arrays of the host; returns the bytes of the block. */
static size_t lay_out(struct memory_rows *rows, uint8_t *block, size_t n,
                      const struct step_shape *shape) {
  size_t offset = 0, footprint = (size_t)shape->footprint;
  rows->slot = part(block, &offset, n * sizeof(*rows->slot));
  rows->previous_action = part(block, &offset, n * (size_t)shape->action_bytes);
  rows->environment = part(block, &offset, n * sizeof(*rows->environment));
  rows->life = part(block, &offset, n * sizeof(*rows->life));
  rows->step = part(block, &offset, n * sizeof(*rows->step));
  rows->greedy = part(block, &offset, n);
  rows->epsilon = part(block, &offset, n * sizeof(*rows->epsilon));
  if (footprint) {
    rows->frame = part(block, &offset, n * footprint * sizeof(*rows->frame));
    rows->ring = part(block, &offset, n * sizeof(*rows->ring));
  }
  rows->place = part(block, &offset, n * sizeof(*rows->place));
  rows->start = part(block, &offset, n * sizeof(*rows->start));
  rows->reward = part(block, &offset, n * sizeof(*rows->reward));
  rows->flags = part(block, &offset, n);
  return offset;
}

struct memory_rows memory_rows_create(const struct memory *memory, int rows) {
  const struct step_shape *shape = &memory->config.shape;
  struct device *device = memory->device;
  size_t n = (size_t)rows, state = n * (size_t)shape->state_size * device->ops->real_bytes;
  size_t draws = (size_t)memory->config.draws;
  struct memory_rows out = {.uniform = device->ops->alloc(device, n * draws * sizeof(float))};
  out.block = device_share(device, lay_out(&out, NULL, n, shape));
  memory_rows_lay_out(memory, &out, rows);
  if (state) {
    out.state_in = device->ops->alloc(device, state);
    out.state_out = device->ops->alloc(device, state);
  }
  return out;
}

void memory_rows_lay_out(const struct memory *memory, struct memory_rows *rows, int count) {
  rows->used = lay_out(rows, rows->block.host, (size_t)count, &memory->config.shape);
}

void memory_rows_destroy(const struct memory *memory, struct memory_rows *rows) {
  void *arrays[] = {rows->uniform, rows->state_in, rows->state_out};
  device_release_all(memory->device, arrays, sizeof(arrays) / sizeof(arrays[0]));
  device_unshare(memory->device, &rows->block);
  *rows = (struct memory_rows){.slot = NULL};
}

/* ---- rows enter */

static uint8_t *action_of(const struct memory *memory, uint8_t *actions, int at) {
  return actions + (size_t)at * (size_t)memory->config.shape.action_bytes;
}

static void set_action(const struct memory *memory, uint8_t *actions, int at, const void *action) {
  step_shape_copy(action_of(memory, actions, at), action,
                  (size_t)memory->config.shape.action_bytes);
}

static void set_no_action(const struct memory *memory, uint8_t *actions, int at) {
  const struct step_shape *shape = &memory->config.shape;
  memset(action_of(memory, actions, at), step_shape_no_action(shape), (size_t)shape->action_bytes);
}

static void begin_episode(struct memory *memory, int slot) {
  memory->depth[slot] = 0;
  set_no_action(memory, memory->previous_action, slot);
}

enum memory_life memory_enter_life(struct memory *memory, int slot, uint32_t life) {
  if (memory->life[slot] == life) return MEMORY_SAME_LIFE;
  if (memory->life[slot] > life) return MEMORY_OLD_LIFE;
  memory->life[slot] = life;
  memory->steps[slot] = 0;
  begin_episode(memory, slot);
  return MEMORY_NEW_LIFE;
}

/* Row of history of the slot's ring, `back` before the one that is next. */
static int32_t ring_row(const struct memory *memory, int slot, int back) {
  int footprint = memory->config.shape.footprint, at = slot - memory->config.num_paged;
  int place = (memory->ring[at] - back + footprint) % footprint;
  return (int32_t)(memory->first_ring_row + (int64_t)at * footprint + place);
}

/* The rows of history that a row shows besides itself, newest first, and the one that it becomes.
 * depth: how many there are; slot: not read without any. */
static void stack_row(const struct memory *memory, const struct memory_rows *rows, int row,
                      int slot, int depth) {
  int footprint = memory->config.shape.footprint;
  int32_t *frame = rows->frame + (size_t)row * (size_t)footprint;
  bool paged = slot < memory->config.num_paged;
  for (int k = 1; k <= footprint; k++)
    frame[k - 1] = k > depth ? -1
                   : paged   ? (int32_t)pages_row_before(memory->config.pages, slot, k)
                             : ring_row(memory, slot, k);
}

void memory_clear_row(const struct memory *memory, const struct memory_rows *rows, int row) {
  rows->slot[row] = -1;
  set_no_action(memory, rows->previous_action, row);
  rows->greedy[row] = true;
  rows->epsilon[row] = 0;
  if (!rows->frame) return;
  stack_row(memory, rows, row, 0, 0);
  rows->ring[row] = -1;
}

void memory_enter_row(struct memory *memory, const struct memory_rows *rows, int row, int slot,
                      uint8_t flags, bool greedy) {
  if (flags & STEP_FIRST) begin_episode(memory, slot);
  rows->slot[row] = slot;
  set_action(memory, rows->previous_action, row, action_of(memory, memory->previous_action, slot));
  rows->environment[row] = random_environment(memory->config.rank, (uint32_t)slot);
  rows->life[row] = memory->life[slot];
  rows->step[row] = memory->steps[slot];
  rows->greedy[row] = greedy;
  rows->epsilon[row] = 0;
  if (!rows->frame) return;
  stack_row(memory, rows, row, slot, memory->depth[slot]);
  rows->ring[row] = slot < memory->config.num_paged ? -1 : ring_row(memory, slot, 0);
}

void memory_rows_begin(const struct memory *memory, const struct memory_rows *rows,
                       struct device_inputs *inputs, uint64_t seed, int B) {
  const struct device_ops *ops = memory->device->ops;
  const struct device_shared *block = &rows->block;
  if (!ops->unified) ops->upload_bytes(memory->device, block->memory, block->host, rows->used);
  struct device_draws draws = {.count = memory->config.draws,
                               .environment = device_shared_at(block, rows->environment),
                               .life = device_shared_at(block, rows->life),
                               .step = device_shared_at(block, rows->step),
                               .greedy = device_shared_at(block, rows->greedy)};
  ops->random_uniforms(memory->device, rows->uniform, seed, &draws, RANDOM_ACTION, B);
  if (rows->state_in)
    ops->gather_rows(memory->device, rows->state_in, memory->state,
                     device_shared_at(block, rows->slot), B,
                     (size_t)memory->config.shape.state_size * ops->real_bytes);
  inputs->previous_action = device_shared_at(block, rows->previous_action);
  inputs->history = memory->history;
  inputs->frame = device_shared_at(block, rows->frame);
}

/* ---- rows leave */

void memory_rows_end(const struct memory *memory, const struct memory_rows *rows,
                     const uint8_t *observation, int B) {
  const struct device_ops *ops = memory->device->ops;
  const struct step_shape *shape = &memory->config.shape;
  if (rows->state_out)
    ops->scatter_rows(memory->device, memory->state, rows->state_out,
                      device_shared_at(&rows->block, rows->slot), B,
                      (size_t)shape->state_size * ops->real_bytes);
  if (rows->ring)
    ops->scatter_rows(memory->device, memory->history, observation,
                      device_shared_at(&rows->block, rows->ring), B, shape->row_stride);
}

void memory_leave(struct memory *memory, int slot, const void *action) {
  int footprint = memory->config.shape.footprint, without_pages = slot - memory->config.num_paged;
  memory->steps[slot]++;
  set_action(memory, memory->previous_action, slot, action);
  if (!footprint) return;
  if (memory->depth[slot] < footprint) memory->depth[slot]++;
  if (without_pages >= 0)
    memory->ring[without_pages] = (memory->ring[without_pages] + 1) % footprint;
}

/* ---- slots that are kept elsewhere */

size_t memory_slot_bytes(const struct memory *memory) {
  const struct step_shape *shape = &memory->config.shape;
  return sizeof(*memory->steps) + (size_t)shape->action_bytes +
         (size_t)shape->state_size * memory->device->ops->real_bytes +
         (size_t)shape->footprint * shape->row_stride;
}

/* Copies what an array has of the slot, so many bytes, to `kept` or from it. Returns what is behind
 * them. */
static uint8_t *carry(uint8_t *kept, void *array, int slot, size_t bytes, bool loads) {
  if (!bytes) return kept;
  uint8_t *own = (uint8_t *)array + (size_t)slot * bytes;
  memcpy(loads ? own : kept, loads ? kept : own, bytes);
  return kept + bytes;
}

static void carry_arrays(const struct memory *memory, uint8_t *kept, int slot, bool loads) {
  const struct step_shape *shape = &memory->config.shape;
  size_t state = (size_t)shape->state_size * memory->device->ops->real_bytes;
  size_t frames = (size_t)shape->footprint * shape->row_stride;
  kept = carry(kept, memory->own_history, slot, frames, loads);
  kept = carry(kept, memory->state, slot, state, loads);
  carry(kept, memory->previous_action, slot, (size_t)shape->action_bytes, loads);
}

/* Of the steps as many as depth and ring follow from. */
void memory_save_slot(const struct memory *memory, uint8_t *kept, int slot) {
  uint32_t ring = memory->config.shape.footprint ? (uint32_t)memory->config.shape.footprint : 1;
  uint32_t steps = memory->steps[slot];
  if (steps > ring) steps = ring + steps % ring;
  memcpy(kept, &steps, sizeof(steps));
  carry_arrays(memory, kept + sizeof(steps), slot, false);
}

void memory_load_slot(struct memory *memory, uint8_t *kept, int slot) {
  uint32_t footprint = (uint32_t)memory->config.shape.footprint, steps;
  memcpy(&steps, kept, sizeof(steps));
  memory->steps[slot] = steps;
  memory->depth[slot] = (int32_t)(steps < footprint ? steps : footprint);
  if (footprint) memory->ring[slot] = (int32_t)(steps % footprint);
  carry_arrays(memory, kept + sizeof(steps), slot, true);
}
