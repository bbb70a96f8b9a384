// Rows, flags, episodes and seeds of a pool of scripted environments.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "actor/env_pool.h"
#include "common/base/clock.h"
#include "envs/registry.h"
#include "tests/unit/actor/fake_env.h"

enum { MAX_K = 3, MAX_ROW = 16 };

static struct env_pool *pool;
static struct wire_layout layout;
static struct acorn_config no_options;
static _Alignas(16) uint8_t observation[MAX_K * MAX_ROW + 1];
static float reward[MAX_K];
static uint8_t flags[MAX_K];
static struct wire_episode episodes[MAX_K];
static struct env_pool_rows rows = {observation, reward, flags, episodes, 0};
static int32_t actions[MAX_K];
static struct error error;

static void open_pool(const char *script, int K, int64_t step_delay_us) {
  struct space space;
  fake_script = script;
  fake_resets = 0;
  memset(observation, 0xa5, sizeof(observation));
  assert_int_equal(registry_space(&space, &fake_env, &no_options, &error), STATUS_OK);
  wire_layout_of_space(&layout, &space, K);
  struct env_pool_config config = {&fake_env, &no_options, &layout, &space, step_delay_us};
  assert_int_equal(env_pool_create(&pool, &config, &error), STATUS_OK);
}

static void close_pool(void) {
  env_pool_destroy(pool);
  assert_int_equal(fake_alive, 0);
}

static void begin(uint64_t stride) {
  static const uint64_t seed[MAX_K] = {1000, 2000, 3000};
  struct env_pool_seeds seeds = {seed, stride};
  assert_int_equal(env_pool_begin(pool, &rows, &seeds, &error), STATUS_OK);
}

static enum status step(void) {
  return env_pool_step(pool, &rows, actions, &error);
}

/* The float of row k, wherever it stands. */
static float seen(int k) {
  float value;
  memcpy(&value, observation + (size_t)k * layout.wire_bytes + (fake_aligned ? 0 : 1),
         sizeof(value));
  return value;
}

/* One row of a single environment, call by call: what "A step" in docs/protocol.md says. */
struct expected {
  float observation, reward;
  uint8_t flags;
  int episode_length; /* 0: none ended */
  double episode_return;
};

static void play_script(const char *script, const struct expected *expected, int calls) {
  open_pool(script, 1, 0);
  for (int i = 0; i < calls; i++, expected++) {
    if (i == 0) {
      begin(1);
    } else {
      assert_int_equal(step(), STATUS_OK);
    }
    assert_true(seen(0) == expected->observation);
    assert_true(reward[0] == expected->reward);
    assert_int_equal(flags[0], expected->flags);
    assert_int_equal(rows.num_episodes, expected->episode_length > 0);
    if (expected->episode_length == 0) continue;
    assert_int_equal(episodes[0].environment, 0);
    assert_int_equal(episodes[0].length, expected->episode_length);
    assert_true(episodes[0].episode_return == expected->episode_return);
    assert_int_equal(episodes[0].num_numbers, 1);
    assert_string_equal(episodes[0].number[0].name, "lives");
    assert_true(episodes[0].number[0].value == 3);
  }
  assert_int_equal(observation[layout.wire_bytes], 0xa5); // nothing is written behind the row
  close_pool();
}

static const struct {
  const char *script;
  int calls;
  struct expected row[6];
} stories[] = {
    {"..T",
     6,
     {{0, 0, 1, 0, 0},
      {1, 1, 0, 0, 0},
      {2, 2, 0, 0, 0},
      {100, 3, 3, 3, 6},
      {101, 1, 0, 0, 0},
      {102, 2, 0, 0, 0}}},
    {"..C",
     6,
     {{0, 0, 1, 0, 0},
      {1, 1, 0, 0, 0},
      {2, 2, 0, 0, 0},
      {3, 3, 4, 3, 6},
      {100, 0, 1, 0, 0},
      {101, 1, 0, 0, 0}}},
    {".B", 4, {{0, 0, 1, 0, 0}, {1, 1, 0, 0, 0}, {100, 2, 3, 2, 3}, {101, 1, 0, 0, 0}}},
    {".L",
     5,
     {{0, 0, 1, 0, 0}, {1, 1, 0, 0, 0}, {100, 2, 3, 0, 0}, {101, 1, 0, 0, 0}, {200, 2, 3, 4, 6}}},
    {"T", 3, {{0, 0, 1, 0, 0}, {100, 1, 3, 1, 1}, {200, 1, 3, 1, 1}}},
    {"C",
     5,
     {{0, 0, 1, 0, 0}, {1, 1, 4, 1, 1}, {100, 0, 1, 0, 0}, {101, 1, 4, 1, 1}, {200, 0, 1, 0, 0}}},
};

static void rows_of_every_ending(void **state) {
  (void)state;
  for (fake_aligned = 0; fake_aligned <= 1; fake_aligned++) {
    for (size_t i = 0; i < sizeof(stories) / sizeof(*stories); i++) {
      play_script(stories[i].script, stories[i].row, stories[i].calls);
    }
  }
  fake_aligned = 0;
}

static void environments_keep_apart(void **state) {
  (void)state;
  open_pool("..T", 3, 0);
  begin(1);
  for (int call = 1; call <= 3; call++) {
    for (int k = 0; k < 3; k++) actions[k] = 10 * call + k;
    assert_int_equal(step(), STATUS_OK);
    assert_int_equal(fake_last_action, 10 * call + 2);
    for (int k = 0; k < 3; k++) assert_true(seen(k) == (float)(call == 3 ? 100 : call));
  }
  assert_int_equal(rows.num_episodes, 3);
  for (int k = 0; k < 3; k++) assert_int_equal(episodes[k].environment, k);
  assert_int_equal(observation[3 * layout.wire_bytes], 0xa5);
  assert_int_equal(env_pool_steps(pool), 9);
  close_pool();
}

/* The call after a truncation ignores the action: nothing is stepped. */
static void a_cut_episode_takes_no_action(void **state) {
  (void)state;
  open_pool("C", 1, 0);
  begin(1);
  actions[0] = 5;
  assert_int_equal(step(), STATUS_OK);
  actions[0] = 6;
  assert_int_equal(step(), STATUS_OK);
  assert_int_equal(fake_last_action, 5);
  assert_int_equal(env_pool_steps(pool), 1);
  close_pool();
}

static void seeds_follow_the_lease(void **state) {
  (void)state;
  static const struct {
    uint64_t stride;
    int64_t seed[6]; /* of the resets of two environments, in order */
  } cases[] = {
      {7, {1000, 2000, 1007, 2007, 1014, 2014}},
      {0, {1000, 2000, FAKE_UNSEEDED, FAKE_UNSEEDED, FAKE_UNSEEDED, FAKE_UNSEEDED}},
  };
  for (int i = 0; i < 2; i++) {
    open_pool("T", 2, 0);
    for (int lease = 0; lease < 2; lease++) { // a new lease starts with episode 0 again
      fake_resets = 0;
      begin(cases[i].stride);
      assert_int_equal(step(), STATUS_OK);
      assert_int_equal(step(), STATUS_OK);
      assert_int_equal(fake_resets, 6);
      for (int r = 0; r < 6; r++) assert_true(fake_seed[r] == cases[i].seed[r]);
    }
    close_pool();
  }
}

/* A failed step ends the call with a sentence and reports no episode; a new environment begins
 * anew. */
static void a_life_takes_no_seed(void **state) {
  (void)state;
  open_pool("L", 1, 0);
  begin(10);
  for (int i = 0; i < 3; i++) assert_int_equal(step(), STATUS_OK);
  const int64_t seeds[] = {1000, FAKE_UNSEEDED, 1010, FAKE_UNSEEDED};
  assert_int_equal(fake_resets, 4);
  for (int r = 0; r < 4; r++) assert_true(fake_seed[r] == seeds[r]);
  close_pool();
}

static void a_failed_environment_is_replaced(void **state) {
  (void)state;
  open_pool("..E", 2, 0);
  begin(1);
  assert_int_equal(step(), STATUS_OK);
  assert_int_equal(step(), STATUS_OK);
  assert_int_equal(step(), STATUS_IO);
  assert_non_null(strstr(error.text, "fake"));
  assert_non_null(strstr(error.text, "number 0"));
  assert_non_null(strstr(error.text, "a ROM is missing"));
  assert_int_equal(rows.num_episodes, 0);
  assert_int_equal(fake_alive, 2);
  begin(1);
  assert_int_equal(flags[0], STEP_FIRST);
  assert_true(seen(0) == 0);   // this instance is new
  assert_true(seen(1) == 100); // the other one has gone on
  close_pool();
}

/* What cannot be is never sent: the call fails as if the environment had said so. */
static void a_lie_is_a_failure(void **state) {
  (void)state;
  static const struct {
    const char *script, *words;
  } cases[] = {{".N", "failed in step, after 1 steps: its reward is nan"},
               {".O", "failed in step, after 1 steps: its observation 'step' has nan"},
               {".F", "failed in step, after 1 steps: it set terminated to 7"}};
  for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
    open_pool(cases[i].script, 2, 0);
    begin(1);
    assert_int_equal(step(), STATUS_OK);
    assert_int_equal(step(), STATUS_IO);
    if (!strstr(error.text, cases[i].words)) fail_msg("%s", error.text);
    assert_int_equal(rows.num_episodes, 0);
    assert_int_equal(fake_alive, 2);
    begin(1);
    close_pool();
  }
}

static void an_action_that_there_is_not_is_refused(void **state) {
  (void)state;
  open_pool("...T", 2, 0);
  begin(1);
  actions[1] = 1000;
  assert_int_equal(step(), STATUS_MISMATCH);
  assert_non_null(strstr(error.text, "action 1000, there are 0..999"));
  actions[1] = 0;
  close_pool();
}

/* Each environment gets its own numbers, and only such as are within its bounds. */
static void a_box_of_numbers_is_taken_apart(void **state) {
  (void)state;
  float numbers[2][2] = {{-1, 1e30f}, {2, -8}};
  fake_box = 1;
  open_pool("....T", 2, 0);
  begin(1);
  for (int call = 0; call < 3; call++) {
    numbers[1][1] = (float)call / 4;
    assert_int_equal(env_pool_step(pool, &rows, numbers, &error), STATUS_OK);
    assert_memory_equal(fake_last_numbers, numbers[1], sizeof(fake_last_numbers));
  }
  numbers[0][0] = -1.5f;
  assert_int_equal(env_pool_step(pool, &rows, numbers, &error), STATUS_MISMATCH);
  assert_non_null(strstr(error.text, "chose -1.5 for dimension 0"));
  assert_memory_equal(fake_last_numbers, numbers[1], sizeof(fake_last_numbers));
  close_pool();
  fake_box = 0;
}

static void a_failed_reset_or_create_is_told(void **state) {
  (void)state;
  static const uint64_t seed[2] = {1, 2};
  struct env_pool_seeds seeds = {seed, 1};
  open_pool("..T", 2, 0);
  fake_failing_resets = 1;
  assert_int_equal(env_pool_begin(pool, &rows, &seeds, &error), STATUS_IO);
  assert_non_null(strstr(error.text, "the emulator died"));
  begin(1);

  // The replacement cannot be created either; the next begin tries again.
  fake_failing_resets = 1;
  fake_failing_creates = 2;
  assert_int_equal(env_pool_begin(pool, &rows, &seeds, &error), STATUS_IO);
  assert_non_null(
      strstr(error.text, "the emulator died; a new one could not be created: no simulator"));
  assert_int_equal(env_pool_begin(pool, &rows, &seeds, &error), STATUS_IO);
  begin(1);
  assert_int_equal(fake_alive, 2);
  close_pool();

  struct space space;
  assert_int_equal(registry_space(&space, &fake_env, &no_options, &error), STATUS_OK);
  struct env_pool_config config = {&fake_env, &no_options, &layout, &space, 0};
  for (fake_failing_creates = 1; fake_failing_creates;) {
    assert_int_equal(env_pool_create(&pool, &config, &error), STATUS_IO);
    assert_null(pool);
    assert_int_equal(fake_alive, 0);
  }
}

static void the_delay_is_per_step(void **state) {
  (void)state;
  open_pool("....T", 3, 10000);
  begin(1);
  int64_t start_us = clock_now_us();
  assert_int_equal(step(), STATUS_OK);
  assert_true(clock_now_us() - start_us >= 30000);
  close_pool();
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(rows_of_every_ending),
      cmocka_unit_test(environments_keep_apart),
      cmocka_unit_test(a_cut_episode_takes_no_action),
      cmocka_unit_test(seeds_follow_the_lease),
      cmocka_unit_test(a_life_takes_no_seed),
      cmocka_unit_test(a_failed_environment_is_replaced),
      cmocka_unit_test(a_lie_is_a_failure),
      cmocka_unit_test(an_action_that_there_is_not_is_refused),
      cmocka_unit_test(a_box_of_numbers_is_taken_apart),
      cmocka_unit_test(a_failed_reset_or_create_is_told),
      cmocka_unit_test(the_delay_is_per_step),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
