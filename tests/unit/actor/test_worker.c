// A whole worker against a learner that answers by a script: leases, failures, and what it counts.
#include "tests/unit/actor/fake_learner.h"

#include "actor/worker.h"
#include "envs/registry.h"
#include "tests/unit/actor/fake_env.h"

static atomic_int finished;
static struct acorn_config no_options;
static struct error error;

static void count_finished(void) {
  atomic_fetch_add(&finished, 1);
}

static struct worker_config config_of(int K) {
  struct worker_config config = {
      .address = learner.address,
      .request = {.protocol = WIRE_PROTOCOL,
                  .name = "actor/0/0",
                  .environment = "fake",
                  .num_environments = K},
      .env = &fake_env,
      .env_config = &no_options,
      .reconnect_us = 10000000,
      .finished = count_finished,
  };
  assert_int_equal(registry_space(&config.request.space, &fake_env, &no_options, &error),
                   STATUS_OK);
  return config;
}

static struct worker *start(const char *script, int K) {
  struct worker_config config = config_of(K);
  struct worker *worker;
  fake_script = script;
  fake_resets = 0;
  atomic_store(&finished, 0);
  assert_int_equal(worker_create(&worker, &config, &error), STATUS_OK);
  return worker;
}

/* Waits for the end and returns how it ended. */
static enum status outcome(struct worker *worker) {
  enum status status = STATUS_OK;
  learner_wait_for(&finished, 1);
  assert_true(worker_finished(worker, &status, &error));
  return status;
}

static void close_all(struct worker *worker) {
  worker_destroy(worker);
  learner_stop();
  assert_int_equal(fake_alive, 0);
  assert_int_equal(fake_strangers, 0); // environments may belong to the thread that made them
}

static void plays_until_training_is_done(void **state) {
  (void)state;
  static const struct learner_act act = {.messages = 6, .end = RPC_OK, .end_text = "training done"};
  static const uint8_t flags[] = {1, 0, 0, 3, 0, 0, 3};
  learner_start(&act, 1);
  struct worker *worker = start("..T", 2);
  assert_int_equal(outcome(worker), STATUS_DONE);
  struct measure_sum sum = {0};
  measure_add(&sum, worker_measure(worker));
  assert_int_equal(sum.messages, 6);
  assert_int_equal(sum.steps, 12);
  assert_int_equal(worker_stepping_us(worker), 0);
  close_all(worker);

  assert_int_equal(learner.messages, 7);
  for (int m = 0; m < 7; m++) assert_int_equal(learner.flags[m][1], flags[m]);
  assert_int_equal(learner.num_episodes, 4);
  assert_int_equal(fake_last_action, 11); // environment 1 got its own action
  assert_true(fake_seed[0] == 500 && fake_seed[1] == 600 && fake_seed[2] == 501);
}

/* A learner that went away leases anew, and every environment starts a new episode with the new
 * lease's seeds. */
static void joins_again_after_a_restart(void **state) {
  (void)state;
  static const struct learner_act acts[] = {
      {.messages = 2, .end = RPC_UNAVAILABLE, .end_text = "restarting"},
      {.messages = 1, .end = RPC_OK, .end_text = "training done"},
  };
  learner_start(acts, 2);
  struct worker *worker = start("..........", 1);
  assert_int_equal(outcome(worker), STATUS_DONE);
  close_all(worker);
  assert_int_equal(learner.joins, 2);
  assert_int_equal(learner.flags[2][0], 0);
  assert_int_equal(learner.flags[3][0], STEP_FIRST); // the first message of the second lease
  assert_true(learner.reward[3][0] == 0);
  assert_int_equal(learner.run_id[1], LEARNER_RUN_ID);
  assert_true(fake_seed[0] == 500 && fake_seed[1] == 500);
}

static void a_refusal_is_final(void **state) {
  (void)state;
  static const struct learner_act act = {.join = RPC_FAILED_PRECONDITION,
                                         .join_text = "float32[4] here"};
  learner_start(&act, 1);
  struct worker *worker = start("..T", 1);
  assert_int_equal(outcome(worker), STATUS_MISMATCH);
  assert_non_null(strstr(error.text, "float32[4] here"));
  close_all(worker);
  assert_int_equal(learner.joins, 1);
}

/* An environment that fails is replaced under a new lease; what it would have sent is never sent.
 * */
static void a_failing_environment_ends_the_lease(void **state) {
  (void)state;
  static const struct learner_act act = {.messages = 1000};
  learner_start(&act, 1);
  struct worker *worker = start(".E", 1);
  assert_int_equal(outcome(worker), STATUS_IO); // the fifth failure within a minute is the last
  assert_non_null(strstr(error.text, "a ROM is missing"));
  close_all(worker);
  assert_int_equal(learner.joins, 5);
  assert_int_equal(learner.messages, 10);
  for (int m = 0; m < 10; m++) assert_int_equal(learner.flags[m][0], m % 2 ? 0 : STEP_FIRST);
  assert_int_equal(learner.num_episodes, 0);
}

static void what_cannot_be_made_is_told(void **state) {
  (void)state;
  struct worker_config config = config_of(2);
  struct worker *worker = NULL;
  fake_failing_creates = 1;
  assert_int_equal(worker_create(&worker, &config, &error), STATUS_IO);
  assert_non_null(strstr(error.text, "no simulator"));
  assert_null(worker);
  assert_int_equal(fake_alive, 0);
}

static void cancel_ends_it(void **state) {
  (void)state;
  static const struct learner_act act = {.messages = LEARNER_HOLD};
  learner_start(&act, 1);
  struct worker *worker = start("..T", 1);
  learner_wait_for(&learner.held, 1);
  enum status status;
  assert_false(worker_finished(worker, &status, &error));
  worker_cancel(worker);
  assert_int_equal(outcome(worker), STATUS_DONE);
  close_all(worker);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(plays_until_training_is_done),
      cmocka_unit_test(joins_again_after_a_restart),
      cmocka_unit_test(a_refusal_is_final),
      cmocka_unit_test(a_failing_environment_ends_the_lease),
      cmocka_unit_test(what_cannot_be_made_is_told),
      cmocka_unit_test(cancel_ends_it),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
