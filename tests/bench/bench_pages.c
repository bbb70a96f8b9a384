/* What filing a step costs: nanoseconds per append, per append with its row written, and per
 * gathered window and step. The slots take turns as in inference, the windows go round the columns
 * of a batch. CPU time of the thread, so that other programs disturb it less. A window's gather is
 * what a run that gathers costs more than one that releases.
 * Usage: bench_pages */
#include <stdio.h>
#include <string.h>

#include "common/base/clock.h"
#include "learner/experience/pages.h"

enum { SLOTS = 256, T = 20, N = 32 };
enum work { APPEND, WRITE, GATHER };

static void write_row(const struct pages_rows *rows, const struct pages_place *place,
                      const uint8_t *observation, size_t stride) {
  if (place->row < 0) return;
  size_t row = (size_t)place->row;
  memcpy(rows->observation + row * stride, observation, stride);
  rows->step[row] = (struct pages_step){.version = 7, .action = 1, .behaviour = -0.7f, .reward = 1};
  if (place->starts_window) rows->start_previous_action[place->page] = 1;
}

/* One step of every slot; the windows that it closes are gathered at once, or only released.
 * Returns their number. */
static int round_of(struct pages *pages, struct train_batch *batch, const uint8_t *observations,
                    enum work work) {
  static int column;
  const struct pages_rows *rows = pages_rows(pages);
  size_t stride = batch->row_stride;
  int closed = 0;
  for (int slot = 0; slot < SLOTS; slot++) {
    struct pages_place place = pages_append(pages, slot);
    if (work >= WRITE) write_row(rows, &place, observations + (size_t)slot * stride, stride);
    if (!place.closes_window) continue;
    closed++;
    if (work == GATHER)
      pages_gather(pages, batch, column++ % N, &place.window);
    else
      pages_release(pages, &place.window);
  }
  return closed;
}

/* Units: nanoseconds per step. */
static double time_of(struct device *device, size_t stride, int rounds, enum work work,
                      double *windows_per_step) {
  struct pages_config config = {SLOTS, pages_needed(SLOTS), T, stride, 0, true, 0};
  struct pages *pages = pages_create(device, &config);
  struct train_batch *batch = train_batch_create(device, T, N, stride, 0);
  uint8_t *observations = device->ops->alloc(device, SLOTS * stride);
  memset(observations, 1, SLOTS * stride);
  for (int slot = 0; slot < SLOTS; slot++) pages_begin_life(pages, slot, 1);
  for (int i = 0; i < 4 * T; i++) round_of(pages, batch, observations, work);

  int64_t start_us = clock_thread_cpu_us(), windows = 0;
  for (int i = 0; i < rounds; i++) windows += round_of(pages, batch, observations, work);
  double steps = (double)rounds * SLOTS;
  double ns = (double)(clock_thread_cpu_us() - start_us) * 1e3 / steps;
  *windows_per_step = (double)windows / steps;

  device->ops->release(device, observations);
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

int main(void) {
  struct device *device = device_ref_float_create();
  measure(device, 16, 40000);
  measure(device, 7056, 1000);
  device_destroy(device);
  return 0;
}
