#include <math.h>

#include "tests/unit/envs/play.h"

static struct play play;

static void options_shape_it(void **state) {
  (void)state;
  struct space space;
  struct error error;
  play_open(&play, "synthetic", "{\"bytes\": 100, \"actions\": 7, \"episode_steps\": 300}");
  assert_int_equal(registry_space(&space, play.env, &play.config, &error), STATUS_OK);
  assert_int_equal(space.discrete, 7);
  assert_int_equal(space.tensor[0].shape[0], 100);
  assert_int_equal(space.tensor[0].dtype, DTYPE_UINT8);

  play_reset(&play, NULL);
  for (int step = 1; step <= 300; step++) {
    assert_int_equal(play_step(&play, step % 7), 0);
    for (int i = 0; i < 100; i++) assert_int_equal(play.bytes[i], step & 255);
    assert_int_equal(play.bytes[100], 0xa5);
    assert_int_equal(play.row.terminated, step == 300);
    assert_true(play.row.reward == 0 && !play.row.truncated);
  }
  play_reset(&play, NULL);
  assert_int_equal(play.bytes[99], 0);
  play_refuses(&play, 7);
  play_close(&play);
}

// At the step that was asked for, across episodes, and only there.
static void faults_are_rehearsed(void **state) {
  (void)state;
  static const char *const faults[] = {"error:7", "nan:7"};
  for (int i = 0; i < 2; i++) {
    setenv("ACORN_SYNTHETIC_FAULT", faults[i], 1);
    play_open(&play, "synthetic", "{\"episode_steps\": 3}");
    unsetenv("ACORN_SYNTHETIC_FAULT");
    for (int step = 1; step <= 9; step++) {
      if (step % 3 == 1) play_reset(&play, NULL);
      int failed = play_step(&play, 0);
      assert_int_equal(failed, i == 0 && step == 7 ? -1 : 0);
      assert_int_equal(isnan(play.row.reward) != 0, i == 1 && step == 7);
    }
    if (i == 0) assert_string_equal(play.error, "a fault was asked for after 7 steps");
    play_close(&play);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(options_shape_it),
                                     cmocka_unit_test(faults_are_rehearsed)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
