/* A replay that is saved and loaded goes on as the one that was saved: the same batches, bit for
 * bit, until the same end; on devices whose memory the host reads, and on one whose it does not.
 * What does not fit is named. */
#include <stdio.h>
#include <math.h>

#include "tests/unit/learner/experience/replay_file_world.h"
#include "tests/unit/support/temporary_folder.h"

static const struct world_config configs[] = {
    /* windows of a page and a step of the next; a recurrent state */
    {"ref", 6, 6, 6, 0, 3, 4, 30, 24, PAGES_STAGGERED, 20, 1.5, 0.9},
    /* several windows in a page, which overlap; stacked frames; none of them at start 0 */
    {"ref", 12, 3, 5, 3, 0, 4, 20, 16, PAGES_STAGGERED, 20, 0.7, 0.6},
    /* windows over three pages */
    {"ref", 4, 2, 9, 0, 2, 3, 60, 16, PAGES_AT_ONCE, 10, 1, 1},
    /* rows of more than a chunk's worth together; uniform priorities */
    {"ref", 8, 8, 8, 2, 0, 4, 25, 8192, PAGES_STAGGERED, 15, 1, 0},
    {"guarded", 12, 3, 5, 3, 2, 4, 20, 16, PAGES_STAGGERED, 20, 0.7, 0.6},
    {"ref_double", 6, 6, 6, 0, 3, 4, 30, 24, PAGES_STAGGERED, 20, 1.5, 0.9},
    {"cpu", 1, 1, 1, 0, 0, 8, 200, 16, PAGES_AT_ONCE, 50, 1, 0.9},
};
enum { CONFIGS = sizeof(configs) / sizeof(configs[0]), RESTART = 1 << 12 };

static const char *path_of(const char *name) {
  static char path[2][TEMPORARY_PATH_BYTES];
  static int turn;
  turn = !turn;
  return strcpy(path[turn], temporary_folder_path(temporary_folder(), name));
}

static void assert_same_batch(const struct world *a, const struct world *b) {
  const struct train_batch *left = a->host.batch, *right = b->host.batch;
  struct host_batch_arrays from = host_batch_arrays(left), to = host_batch_arrays(right);
  size_t N = (size_t)left->N, rows = (size_t)(left->T + 1) * N;
  for (int n = 0; n < left->N; n++) {
    assert_int_equal(left->window[n].start, right->window[n].start);
    assert_int_equal(left->window[n].generation, right->window[n].generation);
    assert_int_equal(left->window[n].slot, right->window[n].slot);
    assert_int_equal(left->window[n].life, right->window[n].life);
    assert_int_equal(left->window[n].first_step, right->window[n].first_step);
  }
  /* array 0 has frames that nothing has written where an episode is younger than the footprint */
  for (int i = 1; i < 6; i++) assert_memory_equal(from.array[i], to.array[i], from.bytes[i]);
  assert_memory_equal(left->observation, right->observation, rows * left->shape.row_stride);
  assert_memory_equal(left->stamp, right->stamp, rows * sizeof(*left->stamp));
  assert_memory_equal(left->depth, right->depth, N * sizeof(*left->depth));
  assert_memory_equal(a->weight, b->weight, N * sizeof(*a->weight));
  if (left->state)
    assert_memory_equal(left->state, right->state,
                        N * (size_t)left->shape.state_size * sizeof(float));
}

/* Both play on from new lives, as after a restart. */
static void assert_go_on_alike(struct world *a, struct world *b, uint32_t life, int steps) {
  world_begin(a, life);
  world_begin(b, life);
  int64_t first = a->batches;
  b->batches = a->batches;
  for (int i = 0; i < steps; i++) {
    int64_t before = a->batches;
    world_play(a, 1);
    world_play(b, 1);
    assert_int_equal(a->batches, b->batches);
    if (a->batches > before) assert_same_batch(a, b);
    assert_int_equal(pages_held(a->pages), pages_held(b->pages));
    assert_int_equal(world_windows(a), world_windows(b));
  }
  if (world_windows(a) >= a->config.min_windows) assert_true(a->batches > first);
}

static int steps_of(const struct world_config *config) {
  bool slow = strcmp(config->device, "guarded") == 0 || config->row_stride > 1000;
  return slow ? 1500 : 6000;
}

static void a_loaded_replay_draws_the_same_batches(void **state) {
  (void)state;
  for (int i = 0; i < CONFIGS; i++) {
    struct world *a = world_create(&configs[i]), *b = world_create(&configs[i]);
    world_begin(a, 1);
    world_play(a, steps_of(&configs[i]));
    assert_true(a->batches > 10);
    world_save(a, path_of("a"));
    world_load(b, path_of("a"));
    assert_int_equal(pages_held(b->pages), 0);
    assert_go_on_alike(a, b, RESTART, steps_of(&configs[i]));
    world_save(a, path_of("a"));
    world_save(b, path_of("b"));
    world_assert_same_files(path_of("a"), path_of("b"));
    world_destroy(b);
    world_destroy(a);
  }
}

/* Saving changes nothing, and a loaded replay is saved to the same bytes. */
static void saving_changes_nothing(void **state) {
  (void)state;
  for (int i = 0; i < CONFIGS; i++) {
    struct world *a = world_create(&configs[i]), *b = world_create(&configs[i]);
    world_begin(a, 1);
    world_begin(b, 1);
    for (int round = 0; round < 5; round++) {
      world_play(a, steps_of(&configs[i]) / 5);
      world_play(b, steps_of(&configs[i]) / 5);
      world_save(a, path_of("a"));
      assert_int_equal(a->batches, b->batches);
    }
    assert_same_batch(a, b);
    world_destroy(b);
    b = world_create(&configs[i]);
    world_load(b, path_of("a"));
    world_save(b, path_of("b"));
    world_assert_same_files(path_of("a"), path_of("b"));
    world_destroy(b);
    world_destroy(a);
  }
}

/* Nothing in it yet; too little to be sampled; just enough. */
static void young_replays(void **state) {
  (void)state;
  static const int steps[] = {0, 3, 40, 100, 200, 300};
  for (int i = 0; i < CONFIGS; i++)
    for (size_t k = 0; k < sizeof(steps) / sizeof(steps[0]); k++) {
      struct world *a = world_create(&configs[i]), *b = world_create(&configs[i]);
      world_begin(a, 1);
      world_play(a, steps[k]);
      world_save(a, path_of("a"));
      world_load(b, path_of("a"));
      assert_go_on_alike(a, b, RESTART, 300);
      world_destroy(b);
      world_destroy(a);
    }
}

static void a_larger_replay_takes_it(void **state) {
  (void)state;
  for (int i = 0; i < CONFIGS; i++) {
    struct world_config larger = configs[i];
    larger.spare_pages += 50;
    struct world *a = world_create(&configs[i]), *b = world_create(&larger);
    world_begin(a, 1);
    world_play(a, 1500);
    world_save(a, path_of("a"));
    world_load(b, path_of("a"));
    assert_int_equal(world_windows(a), world_windows(b));
    world_begin(a, RESTART);
    world_begin(b, RESTART);
    int64_t batches = b->batches = a->batches;
    while (b->batches == batches) world_play(b, 1);
    for (int n = 0; n < larger.N; n++) assert_true(world_column_matches(b, n));
    world_play(b, 3000);
    assert_true(world_windows(b) > world_windows(a));
    world_destroy(b);
    world_destroy(a);
  }
}

/* ---- what does not fit */

static void assert_does_not_fit(struct world *a, const struct world_config *config,
                                const char *says) {
  struct error error = {""};
  struct world *b = world_create(config);
  world_save(a, path_of("a"));
  assert_int_equal(world_try_load(b, path_of("a"), &error), STATUS_MISMATCH);
  if (!strstr(error.text, says) || !strstr(error.text, path_of("a")))
    fail_msg("it says: %s", error.text);
  assert_int_equal(world_windows(b), 0);
  world_begin(b, 1);
  world_play(b, 500);
  world_destroy(b);
}

static void other_sizes_are_named(void **state) {
  (void)state;
  struct world *a = world_create(&configs[1]);
  world_begin(a, 1);
  world_play(a, 1000);
  struct world_config other = configs[1];
  other.page_steps = 6;
  assert_does_not_fit(a, &other, "steps of a page: 12 in it, 6 here");
  other = configs[1];
  other.stride = 4;
  assert_does_not_fit(a, &other, "(--window_stride): 3 in it, 4 here");
  other = configs[1];
  other.window_steps = 6;
  assert_does_not_fit(a, &other, "(--burn_in and --unroll_length): 5 in it, 6 here");
  other = configs[1];
  other.footprint = 1;
  assert_does_not_fit(a, &other, "(--frame_stack): 3 in it, 1 here");
  other = configs[1];
  other.state_size = 4;
  assert_does_not_fit(a, &other, "recurrent state: 0 in it, 4 here");
  other = configs[1];
  other.row_stride = 32;
  assert_does_not_fit(a, &other, "bytes of an observation: 16 in it, 32 here");
  other = configs[1];
  other.device = "ref_double";
  assert_does_not_fit(a, &other, "bytes of a number (--device): 4 in it, 8 here");
  other = configs[1];
  other.spare_pages--;
  assert_does_not_fit(a, &other, "pages of 12 steps, and has");
  other = configs[1];
  other.exponent = 0.7;
  assert_does_not_fit(a, &other, "--priority_exponent=0.7 here, and its priorities are of 0.6");
  world_destroy(a);
}

/* Windows that may be sampled for those that came, and have not been yet. */
static double due(const struct world *world) {
  struct source_counters counters = source_counters(world->source);
  return world->config.ratio * (double)counters.windows_since - (double)counters.windows_sampled;
}

static void with_another_ratio_as_much_is_due(void **state) {
  (void)state;
  static const double ratios[] = {0.1, 0.7, 3, 50};
  struct world *a = world_create(&configs[1]);
  world_begin(a, 1);
  world_play(a, 3000);
  world_save(a, path_of("a"));
  for (size_t i = 0; i < sizeof(ratios) / sizeof(ratios[0]); i++) {
    struct world_config other = configs[1];
    other.ratio = ratios[i];
    struct world *b = world_create(&other);
    world_load(b, path_of("a"));
    assert_true(fabs(due(a) - due(b)) <= other.ratio / 2 + 1e-9);
    assert_int_equal(source_counters(a->source).windows_given,
                     source_counters(b->source).windows_given);
    world_destroy(b);
  }
  world_destroy(a);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_loaded_replay_draws_the_same_batches),
      cmocka_unit_test(saving_changes_nothing),
      cmocka_unit_test(young_replays),
      cmocka_unit_test(a_larger_replay_takes_it),
      cmocka_unit_test(other_sizes_are_named),
      cmocka_unit_test(with_another_ratio_as_much_is_due),
  };
  return cmocka_run_group_tests(tests, temporary_folder_setup, temporary_folder_teardown);
}
