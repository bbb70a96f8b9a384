/* What filing a step costs, and holding it. Nanoseconds per append, per append with its row
 * written, and per gathered window and step. The slots take turns as in inference, the windows go
 * round the columns of a batch. CPU time of the thread, so that other programs disturb it less. A
 * window's gather is what a run that gathers costs more than one that releases.
 * Held: the bytes that a full pool allocates for observations over the steps that are in it whole,
 * each counted once. In a replay: over the steps that are in a window that can be sampled; the
 * memory of its observations is never written, so that it takes addresses and no memory.
 * Usage: bench_pages */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "common/base/check.h"
#include "common/base/clock.h"
#include "learner/device/create.h"
#include "learner/device/shared.h"
#include "learner/experience/pages.h"
#include "tests/unit/support/discrete_shape.h"

enum { SLOTS = 256, T = 20, N = 32 };
enum work { APPEND, WRITE, GATHER };

/* A step of every slot, as inference has them: in memory that the device's operations read. */
struct rows {
  struct device_steps steps;
  struct device_shared block;
  int32_t *place, *begins; /* rows of the pool and pages, or -1 */
  struct window closed[SLOTS];
};

static void *part(struct rows *rows, size_t *offset, size_t bytes, int value) {
  uint8_t *at = (uint8_t *)rows->block.host + *offset;
  memset(at, value, bytes);
  *offset += (bytes + 63) / 64 * 64;
  return at;
}

static struct rows *make_rows(struct device *device, size_t stride) {
  struct rows *rows = check_alloc(1, sizeof(*rows));
  size_t offset = 0, words = SLOTS * sizeof(int32_t);
  rows->block = device_share(device, SLOTS * stride + 6 * words + 8 * 64);
  rows->steps = (struct device_steps){.observation = part(rows, &offset, SLOTS * stride, 1),
                                      .reward = part(rows, &offset, words, 0),
                                      .flags = part(rows, &offset, SLOTS, 0),
                                      .statistics = part(rows, &offset, words, 0),
                                      .action = part(rows, &offset, words, 0)};
  rows->place = part(rows, &offset, words, 0);
  rows->begins = part(rows, &offset, words, 0);
  return rows;
}

/* Room for a step of every slot. Returns how many windows close; *begun: how many begin. */
static int append_all(struct pages *pages, struct rows *rows, int *begun) {
  const struct pages_rows *pool = pages_rows(pages);
  int closed = *begun = 0;
  for (int slot = 0; slot < SLOTS; slot++) {
    int64_t row = pages_try_append(pool, slot);
    rows->begins[slot] = -1;
    if (row < 0) {
      struct pages_place place = pages_append(pages, slot);
      row = place.row;
      rows->begins[slot] = place.start;
      *begun += place.start >= 0;
      if (place.closes_window) rows->closed[closed++] = place.window;
    }
    rows->place[slot] = (int32_t)row;
    if (row >= 0) pool->stamp[row] = step_stamp(7, 0);
  }
  return closed;
}

/* One step of every slot; the windows that it closes are gathered at once, or only released.
 * Returns their number. */
static int round_of(struct device *device, struct pages *pages, struct train_batch *batch,
                    struct rows *rows, enum work work) {
  static int column;
  int begun, closed = append_all(pages, rows, &begun);
  if (work >= WRITE) {
    pages_write(pages, rows->place, &rows->steps, SLOTS);
    if (begun) pages_write_starts(pages, rows->begins, rows->steps.action, NULL, SLOTS);
  }
  for (int i = 0; i < closed; i++) {
    if (work == GATHER) pages_gather(pages, device, batch, column++ % N, &rows->closed[i], 1);
    pages_release(pages, &rows->closed[i]);
  }
  return closed;
}

/* Units: nanoseconds per step. */
static double time_of(struct device *device, size_t stride, int rounds, enum work work,
                      double *windows_per_step) {
  struct step_shape shape = discrete_shape(stride, 0, 0);
  struct pages_config config = {
      .num_slots = SLOTS, .page_steps = T, .shape = shape, .phase = PAGES_STAGGERED};
  struct pages *pages = pages_create(device, &config);
  struct train_batch *batch = train_batch_create(device, T, N, &shape);
  struct rows *rows = make_rows(device, stride);
  for (int slot = 0; slot < SLOTS; slot++) pages_begin_life(pages, slot, 1);
  for (int i = 0; i < 4 * T; i++) round_of(device, pages, batch, rows, work);

  int64_t start_us = clock_thread_cpu_us(), windows = 0;
  for (int i = 0; i < rounds; i++) windows += round_of(device, pages, batch, rows, work);
  double steps = (double)rounds * SLOTS;
  double ns = (double)(clock_thread_cpu_us() - start_us) * 1e3 / steps;
  *windows_per_step = (double)windows / steps;

  device_unshare(device, &rows->block);
  free(rows);
  train_batch_destroy(device, batch);
  pages_destroy(pages);
  return ns;
}

static void measure(struct device *device, size_t stride, int rounds) {
  double windows_per_step;
  double append = time_of(device, stride, rounds, APPEND, &windows_per_step);
  double write = time_of(device, stride, rounds, WRITE, &windows_per_step);
  double gather = time_of(device, stride, rounds, GATHER, &windows_per_step);
  double window = (gather - write) / windows_per_step;
  printf(
      "pages %zu B: append %.1f ns, with its row %.1f ns; window of %d steps %.0f ns, %.1f ns a "
      "step\n",
      stride, append, write, T + 1, window, window / (T + 1));
}

/* ---- memory */

enum { OBSERVATION_BYTES = 84 * 84, REPLAY_SLOTS = 64, REPLAY_STEPS = 64000 };

/* Passes allocations on and adds up their bytes. */
struct counting_device {
  struct device device;
  struct device_ops ops;
  struct device *real_one;
  size_t bytes;
  uint8_t *unwritten; /* of a replay: its observations */
};

static void *count_alloc(struct device *device, size_t bytes) {
  struct counting_device *self = (struct counting_device *)device;
  self->bytes += bytes;
  return self->real_one->ops->alloc(self->real_one, bytes);
}

/* Which step of which slot a row holds, written at both ends of the observation. */
struct stamp {
  int32_t slot, step;
};

static void stamp_row(uint8_t *row, struct stamp stamp) {
  memcpy(row, &stamp, sizeof(stamp));
  memcpy(row + OBSERVATION_BYTES - sizeof(stamp), &stamp, sizeof(stamp));
}

/* Steps whose observation is whole, however often it is there. */
static size_t steps_held(const uint8_t *observation, size_t rows, size_t stride, size_t steps) {
  uint8_t *seen = check_alloc(REPLAY_SLOTS * steps, 1);
  size_t held = 0;
  for (size_t row = 0; row < rows; row++) {
    struct stamp first, last;
    memcpy(&first, observation + row * stride, sizeof(first));
    memcpy(&last, observation + row * stride + OBSERVATION_BYTES - sizeof(last), sizeof(last));
    if (first.step == 0 || memcmp(&first, &last, sizeof(first)) != 0) continue;
    uint8_t *mark = &seen[(size_t)first.slot * steps + (size_t)first.step];
    held += *mark == 0;
    *mark = 1;
  }
  free(seen);
  return held;
}

/* Bytes per step of a pool for REPLAY_STEPS steps after it has been filled twice over, where
 * `footprint` older frames are stacked. */
static double bytes_per_step(struct device *real_one, size_t stride, int footprint) {
  struct counting_device self = {.ops = *real_one->ops, .real_one = real_one};
  self.device.ops = &self.ops;
  self.ops.alloc = count_alloc;
  struct pages_config config = {.num_slots = REPLAY_SLOTS,
                                .page_steps = T,
                                .shape = discrete_shape(stride, 0, footprint),
                                .phase = PAGES_STAGGERED};
  int num_pages = config.num_pages = pages_needed(&config) + REPLAY_STEPS / T;
  struct pages *pages = pages_create(&self.device, &config);
  const struct pages_rows *rows = pages_rows(pages);
  size_t num_rows = (size_t)num_pages * T, steps = 2 * num_rows / REPLAY_SLOTS;
  memset(rows->pool.observation, 0, num_rows * stride);
  for (int slot = 0; slot < REPLAY_SLOTS; slot++) pages_begin_life(pages, slot, 1);
  for (size_t step = 1; step < steps; step++)
    for (int slot = 0; slot < REPLAY_SLOTS; slot++) {
      struct pages_place place = pages_append(pages, slot);
      if (place.row >= 0)
        stamp_row(rows->pool.observation + (size_t)place.row * stride,
                  (struct stamp){slot, (int32_t)step});
      if (place.closes_window) pages_release(pages, &place.window);
    }
  size_t held = steps_held(rows->pool.observation, num_rows, stride, steps);
  pages_destroy(pages);
  return (double)self.bytes / (double)held;
}

static void measure_memory(struct device *device, int footprint) {
  double bytes = bytes_per_step(device, OBSERVATION_BYTES, footprint);
  printf(
      "memory of frames of %d B, stacks of %d: %.1f B a step, all records included, ratio %.4f\n",
      OBSERVATION_BYTES, footprint + 1, bytes, bytes / OBSERVATION_BYTES);
}

/* ---- memory of a replay */

/* SEED RL's for the Atari. */
enum { ENVIRONMENTS = 640, WINDOWS = 100000, BURN_IN = 40, UNROLL = 80 };

/* Counts the bytes of observations, and gives them addresses alone. */
static void *count_alloc_unwritten(struct device *device, size_t bytes) {
  struct counting_device *self = (struct counting_device *)device;
  if (bytes < (size_t)WINDOWS * UNROLL * OBSERVATION_BYTES)
    return self->real_one->ops->alloc(self->real_one, bytes);
  void *memory = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  CHECK(memory != MAP_FAILED, "no %zu bytes of addresses", bytes);
  self->bytes += bytes;
  return memory;
}

static void release_unwritten(struct device *device, void *memory) {
  struct counting_device *self = (struct counting_device *)device;
  if ((uint8_t *)memory == self->unwritten)
    munmap(memory, self->bytes);
  else
    self->real_one->ops->release(self->real_one, memory);
}

struct replay {
  struct pages *pages;
  struct stamp *stamp;   /* (rows) which step is there */
  struct window *window; /* (starts) that closed there last; life 0: none */
};

/* One step of every environment, in the middle of an episode. */
static void play(struct replay *replay, int32_t step) {
  for (int slot = 0; slot < ENVIRONMENTS; slot++) {
    const struct pages_rows *rows = pages_rows(replay->pages);
    struct pages_place place = {.row = pages_try_append(rows, slot), .start = -1};
    if (place.row < 0) place = pages_append(replay->pages, slot);
    replay->stamp[place.row] = (struct stamp){slot, step};
    if (place.start >= 0)
      rows->start_depth[place.start] = pages_config(replay->pages)->shape.footprint;
    if (!place.closes_window) continue;
    replay->window[place.window.start] = place.window;
    pages_release(replay->pages, &place.window);
  }
}

/* Steps that are in a window that is there. */
static size_t steps_sampled(const struct replay *replay, uint8_t *seen) {
  size_t count = 0;
  for (int start = 0; start < pages_num_starts(replay->pages); start++) {
    const struct window *window = &replay->window[start];
    if (!window->life || !pages_has(replay->pages, window)) continue;
    for (int t = 0; t <= BURN_IN + UNROLL; t++) {
      int64_t row = pages_row(replay->pages, window, t);
      CHECK(replay->stamp[row].slot == window->slot &&
                replay->stamp[row].step == (int32_t)window->first_step + t,
            "step %d of a window of slot %d is not there", t, window->slot);
      count += !seen[row];
      seen[row] = 1;
    }
  }
  return count;
}

/* After all pages have been reused once and some a second time. */
static void measure_replay(struct device *real_one, int footprint) {
  struct counting_device self = {.ops = *real_one->ops, .real_one = real_one};
  self.device.ops = &self.ops;
  self.ops.alloc = count_alloc_unwritten;
  self.ops.release = release_unwritten;
  struct pages_config config = {.num_slots = ENVIRONMENTS,
                                .num_pages = WINDOWS,
                                .page_steps = UNROLL,
                                .shape = discrete_shape(OBSERVATION_BYTES, 0, footprint),
                                .phase = PAGES_STAGGERED,
                                .window_steps = BURN_IN + UNROLL,
                                .replays = true};
  struct replay replay = {.pages = pages_create(&self.device, &config)};
  self.unwritten = pages_rows(replay.pages)->pool.observation;
  size_t rows = (size_t)WINDOWS * UNROLL;
  replay.stamp = check_alloc(rows, sizeof(*replay.stamp));
  replay.window = check_alloc(WINDOWS, sizeof(*replay.window));
  uint8_t *seen = check_alloc(rows, 1);
  for (int slot = 0; slot < ENVIRONMENTS; slot++) pages_begin_life(replay.pages, slot, 1);
  for (size_t step = 0; step < rows / ENVIRONMENTS * 5 / 2; step++) play(&replay, (int32_t)step);
  double bytes = (double)self.bytes / (double)steps_sampled(&replay, seen);
  printf(
      "replay of %d windows of %d + %d steps every %d, %d environments, stacks of %d: %.1f B a "
      "step, ratio %.4f\n",
      WINDOWS, BURN_IN, UNROLL, UNROLL, ENVIRONMENTS, footprint + 1, bytes,
      bytes / OBSERVATION_BYTES);
  free(seen);
  free(replay.window);
  free(replay.stamp);
  pages_destroy(replay.pages);
}

int main(void) {
  struct device *device;
  struct error error;
  CHECK(device_create(&device, "cpu", &error) == STATUS_OK, "%s", error.text);
  measure(device, 16, 40000);
  measure(device, OBSERVATION_BYTES, 1000);
  measure_memory(device, 0);
  measure_memory(device, 3);
  measure_replay(device, 0);
  measure_replay(device, 3);
  device_destroy(device);
  return 0;
}
