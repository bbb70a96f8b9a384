/* Steps, episodes, quotas and the reasons to stop. */
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "learner/episodes/progress.h"
#include "tests/unit/support/episodes.h"

static int stops;

static void count_stop(void *context) {
  (void)context;
  stops++;
}

static struct progress *create(struct progress_config config) {
  stops = 0;
  config.on_stop = count_stop;
  return progress_create(&config);
}

static void stops_at_total_steps_once(void **state) {
  (void)state;
  struct progress *progress =
      create((struct progress_config){.total_steps = 100, .target_return = NAN});
  progress_add_steps(progress, 99);
  assert_int_equal(progress_stopped(progress), STOP_NONE);
  progress_add_steps(progress, 1);
  progress_add_steps(progress, 1);
  progress_stop(progress, STOP_SIGNAL);
  assert_int_equal(progress_stopped(progress), STOP_TOTAL_STEPS);
  assert_int_equal(stops, 1);
  progress_destroy(progress);
}

static void a_closed_progress_counts_no_steps(void **state) {
  (void)state;
  struct progress_config config = {.total_steps = 100, .target_return = NAN};
  struct progress *progress = progress_create(&config);
  progress_add_steps(progress, 99);
  progress_close(progress);
  progress_add_steps(progress, 5);
  assert_int_equal(progress_steps(progress), 99);
  assert_int_equal(progress_stopped(progress), STOP_NONE);
  progress_destroy(progress);
}

static void target_needs_a_hundred_episodes_of_its_role(void **state) {
  (void)state;
  struct progress *progress = create((struct progress_config){.target_return = 10});
  for (int i = 0; i < 200; i++) add_episode(progress, true, 0, 1000, 1);
  for (int i = 0; i < 99; i++) add_episode(progress, false, 0, 1000, 1);
  assert_int_equal(progress_stopped(progress), STOP_NONE);
  add_episode(progress, false, 0, 1000, 1);
  assert_int_equal(progress_stopped(progress), STOP_TARGET_RETURN);
  progress_destroy(progress);
}

static void target_is_over_the_last_hundred(void **state) {
  (void)state;
  struct progress *progress = create((struct progress_config){.target_return = 10});
  for (int i = 0; i < 100; i++) add_episode(progress, false, 0, 0, 1);
  for (int i = 0; i < 99; i++) add_episode(progress, false, 0, 10, 1);
  assert_int_equal(progress_stopped(progress), STOP_NONE);
  add_episode(progress, false, 0, 10, 1);
  assert_int_equal(progress_stopped(progress), STOP_TARGET_RETURN);
  progress_destroy(progress);
}

static void the_target_follows_what_the_result_is_over(void **state) {
  (void)state;
  static const struct {
    enum progress_over over;
    bool trained, evaluated; /* which hundred episodes reach the target */
    enum stop_reason reason;
    bool over_eval;
  } cases[] = {
      {OVER_TRAIN, true, true, STOP_TARGET_RETURN, false},
      {OVER_TRAIN, false, true, STOP_NONE, false},
      {OVER_EVAL, true, false, STOP_NONE, true},
      {OVER_EVAL, false, true, STOP_TARGET_RETURN, true},
      {OVER_AUTO, true, false, STOP_TARGET_RETURN, false},
      {OVER_AUTO, false, true, STOP_TARGET_RETURN, true},
  };
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
    struct progress *progress =
        create((struct progress_config){.target_return = 10, .over = cases[i].over});
    for (int k = 0; k < 100 && cases[i].evaluated; k++) add_episode(progress, true, 0, 10, 1);
    for (int k = 0; k < 100 && cases[i].trained; k++) add_episode(progress, false, 0, 10, 1);
    assert_int_equal(progress_stopped(progress), cases[i].reason);
    assert_int_equal(progress_over_eval(progress), cases[i].over_eval);
    progress_destroy(progress);
  }
}

static void one_evaluation_episode_makes_auto_wait_for_a_hundred(void **state) {
  (void)state;
  struct progress *progress =
      create((struct progress_config){.target_return = 10, .over = OVER_AUTO});
  add_episode(progress, true, 0, 10, 1);
  for (int i = 0; i < 200; i++) add_episode(progress, false, 0, 1000, 1);
  assert_int_equal(progress_stopped(progress), STOP_NONE);
  progress_destroy(progress);
}

static void statistics(void **state) {
  (void)state;
  struct progress *progress = create((struct progress_config){.target_return = NAN});
  assert_true(isnan(progress_returns(progress, false).mean));
  const double returns[] = {1, 5, 3, 7};
  for (int i = 0; i < 4; i++) add_episode(progress, false, i, returns[i], (uint32_t)(10 * i));
  struct progress_returns r = progress_returns(progress, false);
  assert_int_equal(r.count, 4);
  assert_int_equal(r.window, 4);
  assert_true(r.mean == 4 && r.min == 1 && r.max == 7 && r.median == 4 && r.length_mean == 15);
  assert_true(fabs(r.std - sqrt(5)) < 1e-15);
  progress_restore(progress, 50, 1000);
  assert_int_equal(progress_returns(progress, false).count, 1004);
  assert_int_equal(progress_episodes(progress), 1004);
  assert_int_equal(progress_steps(progress), 50);
  progress_destroy(progress);
}

static void *add_many(void *progress) {
  for (int i = 0; i < 20000; i++) add_episode(progress, false, 0, i, (uint32_t)i + 1);
  return NULL;
}

/* Every window that is read is one that was there: the last so many of the numbers in order. */
static void returns_are_read_while_episodes_come(void **state) {
  (void)state;
  struct progress *progress = create((struct progress_config){.target_return = NAN});
  pthread_t queue;
  pthread_create(&queue, NULL, add_many, progress);
  struct progress_returns r = {0};
  while (r.count < 20000) {
    r = progress_returns(progress, false);
    if (r.window == 0) continue;
    double newest = (double)(r.count - 1), oldest = newest - r.window + 1;
    assert_true(r.min == oldest && r.max == newest);
    assert_true(r.mean == (oldest + newest) / 2 && r.median == r.mean);
    assert_true(r.length_mean == r.mean + 1);
  }
  pthread_join(queue, NULL);
  progress_destroy(progress);
}

/* 10 episodes over 4 environments: environments 0 and 1 play three, 2 and 3 two; a fast one may not
 * play for the others. */
static void evaluation_counts_a_quota_of_each_environment(void **state) {
  (void)state;
  struct progress *progress = create((struct progress_config){
      .target_return = NAN, .quota_episodes = 10, .quota_environments = 4});
  for (int i = 0; i < 50; i++) add_episode(progress, true, 3, 1000, 1);
  assert_int_equal(progress_returns(progress, true).count, 2);
  const int quota[] = {3, 3, 2};
  for (int environment = 0; environment < 3; environment++)
    for (int i = 0; i < quota[environment]; i++) {
      assert_int_equal(progress_stopped(progress), STOP_NONE);
      add_episode(progress, true, environment, 1, 1);
    }
  assert_int_equal(progress_stopped(progress), STOP_EPISODES);
  assert_int_equal(progress_returns(progress, true).window, 10);
  progress_destroy(progress);
}

/* As a run's that is evaluated: it would end while it is lucky. */
static void an_evaluation_does_not_end_at_the_target(void **state) {
  (void)state;
  struct progress *progress = create((struct progress_config){
      .target_return = 1, .quota_episodes = 300, .quota_environments = 2, .over = OVER_EVAL});
  for (int i = 0; i < 300; i++) {
    assert_int_equal(progress_stopped(progress), STOP_NONE);
    assert_int_equal(progress_played(progress, i % 2), i / 2);
    add_episode(progress, true, i % 2, 2, 1);
  }
  assert_int_equal(progress_stopped(progress), STOP_EPISODES);
  assert_int_equal(progress_played(progress, 2), 0);
  progress_destroy(progress);
}

/* Deterministic: the order in which messages came does not show. */
static void kept_episodes_are_counted_in_order_of_their_environments(void **state) {
  (void)state;
  double mean[2];
  for (int backwards = 0; backwards < 2; backwards++) {
    struct progress *progress =
        create((struct progress_config){.target_return = 50, .max_kept = 150});
    for (int i = 0; i < 150; i++) {
      int environment = backwards ? 149 - i : i;
      keep_episode(progress, environment, environment, 1);
    }
    assert_int_equal(progress_returns(progress, false).count, 0);
    progress_count_kept(progress);
    assert_int_equal(progress_stopped(progress), STOP_TARGET_RETURN);
    mean[backwards] = progress_returns(progress, false).mean;
    progress_destroy(progress);
  }
  assert_true(mean[0] == mean[1]);
}

static void the_last_returns_are_handed_out(void **state) {
  (void)state;
  double returns[PROGRESS_WINDOW], sum = 0;
  struct progress *progress = create((struct progress_config){.target_return = NAN});
  assert_int_equal(progress_last_returns(progress, false, returns), 0);
  for (int i = 0; i < 250; i++) add_episode(progress, false, 0, i, 1);
  assert_int_equal(progress_last_returns(progress, true, returns), 0);
  assert_int_equal(progress_last_returns(progress, false, returns), PROGRESS_WINDOW);
  for (int i = 0; i < PROGRESS_WINDOW; i++) sum += returns[i];
  assert_true(sum / PROGRESS_WINDOW == 199.5);
  progress_destroy(progress);
}

/* Of 8 environments the first two explore most; one that joined beyond them explores least. */
static void the_most_and_the_least_random_are_apart(void **state) {
  (void)state;
  struct progress *progress = create((struct progress_config){
      .target_return = NAN, .max_kept = 10, .most_random = 2, .least_random = 6});
  for (int i = 0; i < 8; i++) add_episode(progress, false, i, i, 1);
  keep_episode(progress, 9, 9, 1);
  progress_count_kept(progress);
  for (int i = 0; i < 8; i++) add_episode(progress, true, i, 1000, 1);
  struct progress_returns most = progress_returns(progress, PROGRESS_MOST_RANDOM);
  struct progress_returns least = progress_returns(progress, PROGRESS_LEAST_RANDOM);
  assert_true(most.count == 2 && most.mean == 0.5 && most.max == 1);
  assert_true(least.count == 3 && least.min == 6 && least.max == 9);
  assert_true(fabs(least.mean - 22.0 / 3) < 1e-12);
  progress_restore(progress, 50, 1000);
  assert_int_equal(progress_returns(progress, PROGRESS_MOST_RANDOM).count, 2);
  for (int i = 0; i < 150; i++) add_episode(progress, false, 0, 5, 1);
  most = progress_returns(progress, PROGRESS_MOST_RANDOM);
  assert_true(most.window == PROGRESS_WINDOW && most.mean == 5);
  progress_destroy(progress);

  progress = create((struct progress_config){.target_return = NAN});
  for (int i = 0; i < 8; i++) add_episode(progress, false, i, i, 1);
  assert_int_equal(progress_returns(progress, PROGRESS_MOST_RANDOM).count, 0);
  assert_int_equal(progress_returns(progress, PROGRESS_LEAST_RANDOM).count, 0);
  progress_destroy(progress);
}

/* Episodes that count keep an evaluation going, and others do not. */
static void an_evaluation_does_not_wait_for_ever(void **state) {
  (void)state;
  struct progress *progress = create((struct progress_config){
      .target_return = NAN, .quota_episodes = 4, .quota_environments = 2, .episode_steps = 100});
  progress_add_steps(progress, 199);
  add_episode(progress, true, 0, 1, 90);
  progress_add_steps(progress, 199);
  assert_int_equal(progress_stopped(progress), STOP_NONE);
  add_episode(progress, true, 0, 1, 90);
  progress_add_steps(progress, 100);
  add_episode(progress, true, 0, 1, 90); /* beyond its quota */
  progress_add_steps(progress, 99);
  assert_int_equal(progress_stopped(progress), STOP_NONE);
  progress_add_steps(progress, 1);
  assert_int_equal(progress_stopped(progress), STOP_EPISODE_STEPS);
  assert_string_equal(stop_reason_name(STOP_EPISODE_STEPS), "episode_steps");
  assert_int_equal(progress_returns(progress, PROGRESS_EVAL).window, 2);
  assert_int_equal(stops, 1);
  progress_destroy(progress);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(stops_at_total_steps_once),
      cmocka_unit_test(a_closed_progress_counts_no_steps),
      cmocka_unit_test(target_needs_a_hundred_episodes_of_its_role),
      cmocka_unit_test(target_is_over_the_last_hundred),
      cmocka_unit_test(the_target_follows_what_the_result_is_over),
      cmocka_unit_test(one_evaluation_episode_makes_auto_wait_for_a_hundred),
      cmocka_unit_test(statistics),
      cmocka_unit_test(kept_episodes_are_counted_in_order_of_their_environments),
      cmocka_unit_test(returns_are_read_while_episodes_come),
      cmocka_unit_test(evaluation_counts_a_quota_of_each_environment),
      cmocka_unit_test(an_evaluation_does_not_end_at_the_target),
      cmocka_unit_test(an_evaluation_does_not_wait_for_ever),
      cmocka_unit_test(the_last_returns_are_handed_out),
      cmocka_unit_test(the_most_and_the_least_random_are_apart),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
