/* The age of a window when it is sampled: the steps of all slots since its page was begun. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "common/metrics/metrics.h"
#include "learner/device/create.h"
#include "learner/experience/replay.h"
#include "tests/unit/support/discrete_shape.h"

enum { SLOTS = 3, STEPS = 4 };

/* A step that was filed with values of 0: only the host's part of it, which is what a replay looks
 * at. Returns whether it closed a window, which the replay gets. */
static bool step(struct pages *pages, struct source *source, int slot) {
  struct pages_place place = pages_append(pages, slot);
  const struct pages_rows *rows = pages_rows(pages);
  rows->stamp[place.row] = 0;
  for (int i = 0; i < 3; i++) rows->trail[3 * place.row + i] = 0;
  if (place.closes_window) source_give(source, pages, &place.window, 0);
  return place.closes_window;
}

static double sample(struct source *source, const struct metric *age, struct metric_sum *since) {
  struct train_batch *batch = source_take(source);
  float *priority = batch->priority.host;
  priority[0] = 1;
  source_release(source, batch);
  return metric_mean_since(age, since);
}

static void it_counts_the_steps_of_all_slots(void **state) {
  (void)state;
  struct device *device = device_ref_float_create();
  struct pages_config config = {.num_slots = SLOTS,
                                .num_pages = 30,
                                .page_steps = STEPS,
                                .shape = discrete_shape(16, 0, 0),
                                .replays = true};
  config.shape.statistics = 2;
  struct pages *pages = pages_create(device, &config);
  struct metrics *metrics = metrics_create(1);
  struct metric *age = metrics_histogram(metrics, "age", "");
  struct metric_sum since = {0};
  struct replay_config replay = {.N = 1,
                                 .min_windows = 1,
                                 .ratio = 10,
                                 .band = 1000,
                                 .initial_max = true,
                                 .priority = {.T = STEPS},
                                 .window_age_steps = age};
  struct source *source = replay_create(device, device, pages, &replay);
  for (int slot = 0; slot < SLOTS; slot++) pages_begin_life(pages, slot, 1);
  for (int t = 0; t < STEPS; t++)
    for (int slot = 0; slot < SLOTS; slot++) assert_false(step(pages, source, slot));
  assert_true(step(pages, source, 0)); /* with its second page, the fourth of all */
  for (int t = 1; t <= STEPS; t++) step(pages, source, 0); /* and its third */
  /* The first window's page is four pages old, the second's one: the pages of the other slots count
   * though they have no window yet. */
  for (int i = 0; i < 10; i++) {
    double steps = sample(source, age, &since);
    assert_true(steps == 4 * STEPS || steps == STEPS);
  }
  source_destroy(source);
  metrics_destroy(metrics);
  pages_destroy(pages);
  device_destroy(device);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(it_counts_the_steps_of_all_slots)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
