/* The state that is stored at the start of the next window, gathered with a window. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "tests/unit/learner/experience/history.h"
#include "tests/unit/support/any_device.h"
#include "tests/unit/support/emulated_cuda.h"

enum { SLOTS = 2, S = 3, STRIDE_BYTES = 16, STEPS = 100 };

struct world {
  struct device *device;
  struct pages *pages;
  struct train_batch *batch;
  struct pages_config config;
  int windows;
};

static struct world make_world(const char *device, int window_steps, int stride, int page_steps) {
  struct world world = {.config = {.num_slots = SLOTS,
                                   .page_steps = page_steps,
                                   .window_steps = window_steps,
                                   .stride = stride,
                                   .shape = discrete_shape(STRIDE_BYTES, S, 0)}};
  struct error error;
  assert_int_equal(any_device_create(&world.device, device, &error), STATUS_OK);
  world.pages = pages_create(world.device, &world.config);
  world.batch = train_batch_create(world.device, window_steps, SLOTS, &world.config.shape);
  train_batch_keep_next(world.device, world.batch, stride);
  return world;
}

static void destroy_world(struct world *world) {
  train_batch_destroy(world->device, world->batch);
  pages_destroy(world->pages);
  device_destroy(world->device);
}

static void check_state(const struct world *world, const real *states, int column,
                        const struct window *window, int step) {
  struct device *device = world->device;
  float state[SLOTS * S];
  device->ops->download(device, state, states, (size_t)(SLOTS * S));
  device_finish(device);
  for (int i = 0; i < S; i++) {
    double expected =
        history_state(window->slot, window->life, window->first_step + (uint64_t)step, i);
    assert_true(state[column * S + i] == (float)expected);
  }
}

/* Gathers the windows of all slots into a batch, at once, checks and releases them. */
static void gather(struct world *world, const struct window window[SLOTS]) {
  pages_gather(world->pages, world->device, world->batch, 0, window, SLOTS);
  for (int k = 0; k < SLOTS; k++) {
    check_state(world, world->batch->state, k, &window[k], 0);
    check_state(world, world->batch->next_state, k, &window[k], world->config.stride);
    pages_release(world->pages, &window[k]);
  }
  world->windows += SLOTS;
}

/* One step of every slot. Their windows close at the same step. */
static void step(struct world *world, uint64_t number) {
  struct window closed[SLOTS];
  int count = 0;
  for (int slot = 0; slot < SLOTS; slot++) {
    uint32_t life = (uint32_t)slot + 1;
    struct pages_place place = pages_append(world->pages, slot);
    history_write(world->pages, world->device, &world->config.shape, &place, slot, life, number);
    if (place.closes_window) closed[count++] = place.window;
  }
  if (count == SLOTS) gather(world, closed);
}

static void it_is_that_of_the_window_behind(void **state) {
  (void)state;
  emulated_cuda_use();
  static const char *const devices[] = {"ref", "guarded", "cuda"};
  /* In the window's own page, in the next one, and as late as the last step of a window. */
  static const struct {
    int window_steps, stride, page_steps;
  } cases[] = {{10, 4, 12}, {12, 12, 12}, {5, 1, 4}, {7, 6, 6}, {6, 6, 12}};
  for (size_t d = 0; d < sizeof(devices) / sizeof(*devices); d++)
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
      struct world world =
          make_world(devices[d], cases[i].window_steps, cases[i].stride, cases[i].page_steps);
      for (int slot = 0; slot < SLOTS; slot++)
        pages_begin_life(world.pages, slot, (uint32_t)slot + 1);
      for (uint64_t number = 0; number < STEPS; number++) step(&world, number);
      int windows = (STEPS - 1 - cases[i].window_steps) / cases[i].stride + 1;
      assert_int_equal(world.windows, SLOTS * windows);
      destroy_world(&world);
    }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(it_is_that_of_the_window_behind)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
