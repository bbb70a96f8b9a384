// The link against a learner that answers by a script.
#include "tests/unit/actor/fake_learner.h"

#include "actor/link.h"
#include "tests/unit/support/captured_log.h"

enum { K = 2 };

static struct link *link_;
static struct error error;
static struct wire_layout layout;
static float observation[K * 2] = {1, 2, 3, 4}; // (K, 2)
static float reward[K] = {0.5f, -1};
static uint8_t flags[K] = {STEP_FIRST, STEP_FIRST};
static struct wire_episode episodes[K];
static struct env_pool_rows rows = {(uint8_t *)observation, reward, flags, episodes, 0};
static int32_t actions[K];

static void open_link(const char *address, int64_t reconnect_us) {
  struct wire_join_request request = {
      .protocol = WIRE_PROTOCOL,
      .name = "actor/0/0",
      .environment = "fake",
      .space = {.num_tensors = 1, .tensor = {{"x", DTYPE_FLOAT32, 1, {2}}}, .discrete = 20},
      .num_environments = K,
      .role = WIRE_ROLE_EVAL,
  };
  wire_layout_of_space(&layout, &request.space, K);
  struct link_config config = {address, NULL, &request, &layout, reconnect_us, false};
  link_ = link_create(&config);
}

static enum status join(void) {
  const struct wire_join_reply *lease;
  enum status status = link_join(link_, &lease, &error);
  if (status != STATUS_OK) return status;
  assert_int_equal(lease->run_id, LEARNER_RUN_ID);
  assert_int_equal(lease->num_environments, K);
  assert_int_equal(lease->environment_seed[1], 600);
  return STATUS_OK;
}

static enum status exchange(void) {
  return link_exchange(link_, actions, &rows, &error);
}

static void verdicts(void **state) {
  (void)state;
  static const struct {
    enum rpc_code code;
    enum link_verdict joining, playing;
  } cases[] = {
      {RPC_OK, LINK_DONE, LINK_DONE},
      {RPC_UNAVAILABLE, LINK_RETRY, LINK_RETRY},
      {RPC_CANCELLED, LINK_RETRY, LINK_RETRY},
      {RPC_DEADLINE_EXCEEDED, LINK_RETRY, LINK_RETRY},
      {RPC_RESOURCE_EXHAUSTED, LINK_RETRY, LINK_REFUSE},
      {RPC_INVALID_ARGUMENT, LINK_REFUSE, LINK_REFUSE},
      {RPC_FAILED_PRECONDITION, LINK_REFUSE, LINK_REFUSE},
      {RPC_UNAUTHENTICATED, LINK_REFUSE, LINK_REFUSE},
      {RPC_ABORTED, LINK_REFUSE, LINK_REFUSE},
      {RPC_UNIMPLEMENTED, LINK_REFUSE, LINK_REFUSE},
      {RPC_INTERNAL, LINK_REFUSE, LINK_REFUSE},
  };
  for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
    assert_int_equal(link_verdict(cases[i].code, 1), cases[i].joining);
    assert_int_equal(link_verdict(cases[i].code, 0), cases[i].playing);
  }
}

static void rows_out_actions_back(void **state) {
  (void)state;
  static const struct learner_act act = {.messages = 3, .end = RPC_OK, .end_text = "training done"};
  learner_start(&act, 1);
  open_link(learner.address, 10000000);
  assert_int_equal(join(), STATUS_OK);
  learner_sync();
  assert_string_equal(learner.request.name, "actor/0/0");
  assert_string_equal(learner.request.environment, "fake");
  assert_int_equal(learner.request.role, WIRE_ROLE_EVAL);
  assert_int_equal(learner.run_id[0], LEARNER_RUN_ID); // before any rows
  assert_int_equal(learner.messages, 0);
  for (int message = 0; message < 3; message++) {
    flags[1] = message == 1 ? STEP_TRUNCATED : STEP_FIRST;
    rows.num_episodes = message == 1;
    episodes[0] = (struct wire_episode){.environment = 1, .length = 9, .episode_return = 4.5};
    memset(actions, 0, sizeof(actions));
    assert_int_equal(exchange(), STATUS_OK);
    assert_int_equal(actions[0], 10);
    assert_int_equal(actions[1], 11);
    learner_sync();
    assert_int_equal(learner.flags[message][1], flags[1]);
    assert_true(learner.reward[message][0] == 0.5f && learner.reward[message][1] == -1);
    assert_memory_equal(learner.observation, observation, 8);
    assert_memory_equal(learner.observation + 16, observation + 2, 8);
    learner_sync();
  }
  assert_int_equal(learner.num_episodes, 1);
  learner_sync();
  flags[1] = STEP_FIRST;
  rows.num_episodes = 0;
  assert_int_equal(exchange(), STATUS_DONE);
  link_destroy(link_);
  learner_stop();
}

/* ---- shared rows */

enum {
  WIDE = 8192, /* bytes of a row: two are enough to be shared */
  SMALL = 256, /* bytes that a message without observations has at most */
};

static void open_wide(const char *address, int bytes, bool shared_rows) {
  struct wire_join_request request = {
      .protocol = WIRE_PROTOCOL,
      .name = "actor/0/0",
      .environment = "fake",
      .space = {.num_tensors = 1, .tensor = {{"x", DTYPE_UINT8, 1, {bytes}}}, .discrete = 20},
      .num_environments = K};
  wire_layout_of_space(&layout, &request.space, K);
  struct link_config config = {address, NULL, &request, &layout, 10000000, shared_rows};
  link_ = link_create(&config);
}

/* One message whose rows are full of `byte`: they reach the learner, and are in the message only
 * where they are not shared. */
static void exchange_wide(uint8_t *where, int bytes, uint8_t byte) {
  struct env_pool_rows wide = {where, reward, flags, episodes, 0};
  memset(where, byte, (size_t)(K * bytes));
  assert_int_equal(link_exchange(link_, actions, &wide, &error), STATUS_OK);
  learner_sync();
  bool is_shared = where == link_shared_rows(link_);
  assert_true(is_shared ? learner.message_bytes <= SMALL
                        : learner.message_bytes >= (size_t)(K * bytes));
  assert_int_equal(learner.observation[0], byte);
  assert_int_equal(learner.observation[K * bytes - 1], byte);
  learner_sync();
}

static void close_wide(void) {
  link_destroy(link_);
  learner_stop();
}

static void rows_are_shared(void **state) {
  (void)state;
  static const struct learner_act act = {.messages = 2, .end = RPC_UNAVAILABLE, .shares = true};
  learner_start(&act, 1);
  open_wide(learner.address, WIDE, true);
  assert_int_equal(join(), STATUS_OK);
  uint8_t *shared = link_shared_rows(link_);
  assert_non_null(shared);
  learner_sync();
  assert_true(learner.request.shared_rows);
  learner_sync();
  exchange_wide(shared, WIDE, 1);
  /* Rows that stand elsewhere go in their message. */
  static uint8_t own[K * WIDE];
  exchange_wide(own, WIDE, 2);
  struct env_pool_rows last = {own, reward, flags, episodes, 0};
  assert_int_equal(link_exchange(link_, actions, &last, &error), STATUS_UNAVAILABLE);
  /* Another lease has memory of its own. */
  assert_int_equal(join(), STATUS_OK);
  exchange_wide(link_shared_rows(link_), WIDE, 3);
  close_wide();
}

static void where_rows_are_not_shared_they_go_in_messages(void **state) {
  (void)state;
  static const struct {
    struct learner_act act;
    int bytes;
    bool wanted, asks;
  } cases[] = {
      {{.messages = 9}, WIDE, true, true}, /* an older learner */
      {{.messages = 9, .shares = true, .other_file = 1}, WIDE, true, true},
      {{.messages = 9, .shares = true}, WIDE, false, false},
      {{.messages = 9, .shares = true}, WIDE - 1, true, false},
  };
  for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
    static uint8_t own[K * WIDE];
    learner_start(&cases[i].act, 1);
    open_wide(learner.address, cases[i].bytes, cases[i].wanted);
    for (int lease = 0; lease < 2; lease++) {
      assert_int_equal(join(), STATUS_OK);
      learner_sync();
      assert_int_equal(learner.request.shared_rows, cases[i].asks);
      learner_sync();
      assert_null(link_shared_rows(link_));
      exchange_wide(own, cases[i].bytes, 5);
    }
    close_wide();
  }
}

/* Each Join asks anew, and a reason is logged once. */
static void what_is_not_shared_now_may_be_later(void **state) {
  (void)state;
  static const struct learner_act acts[] = {
      {.messages = 9},
      {.messages = 9},
      {.messages = 9, .shares = true, .other_file = 100000},
      {.messages = 9, .shares = true, .other_file = 100000},
      {.messages = 9, .shares = true},
      {.messages = 9, .shares = true, .other_file = 100000},
  };
  static const int offers_none[] = {1, 1, 1, 1, 1, 1}, cannot_open[] = {0, 0, 1, 1, 1, 2};
  static uint8_t own[K * WIDE];
  learner_start(acts, 6);
  open_wide(learner.address, WIDE, true);
  captured_start();
  for (int i = 0; i < 6; i++) {
    assert_int_equal(join(), STATUS_OK);
    uint8_t *shared = link_shared_rows(link_);
    assert_int_equal(shared != NULL, i == 4);
    exchange_wide(shared ? shared : own, WIDE, 1);
    assert_int_equal(captured_count("observations go in messages: the learner offers no"),
                     offers_none[i]);
    assert_int_equal(captured_count("observations go in messages: the learner's memory cannot"),
                     cannot_open[i]);
  }
  captured_stop();
  close_wide();
}

/* How Join and Play may end, and the words of the error. */
static const struct {
  struct learner_act act;
  enum status join, exchange;
  const char *words;
} endings[] = {
    {{.join = RPC_FAILED_PRECONDITION, .join_text = "state is float32[4] here"},
     STATUS_MISMATCH,
     STATUS_OK,
     "state is float32[4] here"},
    {{.join = RPC_INVALID_ARGUMENT, .join_text = "no name"}, STATUS_MISMATCH, STATUS_OK, "no name"},
    {{.join = RPC_UNAUTHENTICATED, .join_text = "who?"}, STATUS_MISMATCH, STATUS_OK, "who?"},
    {{.join = RPC_OK, .join_text = "training done"}, STATUS_DONE, STATUS_OK, NULL},
    {{.messages = 0, .end = RPC_INVALID_ARGUMENT, .end_text = "flags[1] = 64"},
     STATUS_OK,
     STATUS_MISMATCH,
     "flags[1] = 64"},
    {{.messages = 0, .end = RPC_ABORTED, .end_text = "superseded"},
     STATUS_OK,
     STATUS_MISMATCH,
     "superseded"},
    {{.messages = 0, .end = RPC_UNAVAILABLE, .end_text = "stopping"},
     STATUS_OK,
     STATUS_UNAVAILABLE,
     "stopping"},
    {{.messages = 0, .end = RPC_OK, .end_text = "training done"}, STATUS_OK, STATUS_DONE, NULL},
};

static void endings_are_told(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof(endings) / sizeof(*endings); i++) {
    learner_start(&endings[i].act, 1);
    open_link(learner.address, 10000000);
    error.text[0] = 0;
    assert_int_equal(join(), endings[i].join);
    if (endings[i].join == STATUS_OK) assert_int_equal(exchange(), endings[i].exchange);
    if (endings[i].words) assert_non_null(strstr(error.text, endings[i].words));
    assert_int_equal(learner.joins, 1);
    link_destroy(link_);
    learner_stop();
  }
}

/* UNAVAILABLE and a full learner are waited for, 0.1 s, 0.2 s, ...; a learner that leases but ends
 * every stream at once does not get the short wait again. */
static void backs_off(void **state) {
  (void)state;
  static const struct learner_act acts[] = {
      {.join = RPC_UNAVAILABLE, .join_text = "starting"},
      {.join = RPC_RESOURCE_EXHAUSTED, .join_text = "no room"},
      {.messages = 0, .end = RPC_UNAVAILABLE, .end_text = "try again"},
      {.messages = 1, .end = RPC_UNAVAILABLE, .end_text = "restarting"},
      {.messages = 1, .end = RPC_OK, .end_text = "training done"},
  };
  learner_start(acts, 5);
  open_link(learner.address, 10000000);
  assert_int_equal(join(), STATUS_OK);
  assert_int_equal(exchange(), STATUS_UNAVAILABLE);
  assert_int_equal(join(), STATUS_OK);
  assert_int_equal(exchange(), STATUS_OK);
  assert_int_equal(exchange(), STATUS_UNAVAILABLE);
  assert_int_equal(join(), STATUS_OK);
  assert_int_equal(exchange(), STATUS_OK);
  assert_int_equal(exchange(), STATUS_DONE);
  link_destroy(link_);
  learner_stop();

  assert_int_equal(learner.joins, 5);
  for (int i = 2; i < 5; i++) // every stream starts with the id of its lease
    assert_int_equal(learner.run_id[i], LEARNER_RUN_ID);
  // After a step was answered there is no wait; without that it would be 800 ms.
  static const int64_t least_ms[] = {100, 200, 400, 0}, most_ms[] = {5000, 5000, 5000, 799};
  for (int i = 0; i < 4; i++)
    assert_in_range((learner.join_us[i + 1] - learner.join_us[i]) / 1000, least_ms[i], most_ms[i]);
}

static void gives_up_in_time(void **state) {
  (void)state;
  open_link("unix:/tmp/acorn-actor-test-nobody", 300000);
  int64_t start_us = clock_now_us();
  assert_int_equal(join(), STATUS_UNAVAILABLE);
  assert_true(clock_now_us() - start_us < 10000000);
  assert_non_null(strstr(error.text, "/tmp/acorn-actor-test-nobody"));
  assert_non_null(strstr(error.text, "is it running there?"));
  assert_non_null(strstr(error.text, "--reconnect_s"));
  link_destroy(link_);
}

static void a_full_learner_is_not_taken_for_an_absent_one(void **state) {
  (void)state;
  static const struct learner_act act = {.join = RPC_RESOURCE_EXHAUSTED, .join_text = "no room"};
  learner_start(&act, 1);
  open_link(learner.address, 1000000);
  assert_int_equal(join(), STATUS_UNAVAILABLE);
  assert_non_null(strstr(error.text, "no lease from the learner"));
  assert_null(strstr(error.text, "is it running there?"));
  link_destroy(link_);
  learner_stop();
}

static void a_host_that_is_not_found_is_named(void **state) {
  (void)state;
  open_link("no..such:8686", 100000);
  assert_int_equal(join(), STATUS_UNAVAILABLE);
  assert_non_null(strstr(error.text, "the host of no..such:8686 cannot be found: "));
  link_destroy(link_);
}

static void a_lease_must_fit(void **state) {
  (void)state;
  static const struct learner_act act = {.lease_more = 1};
  learner_start(&act, 1);
  open_link(learner.address, 10000000);
  assert_int_equal(join(), STATUS_MISMATCH);
  assert_non_null(strstr(error.text, "leased 3 environments, 2 were asked for"));
  link_destroy(link_);
  learner_stop();
}

static void *cancel_once_held(void *context) {
  (void)context;
  learner_wait_for(&learner.held, 1);
  link_cancel(link_);
  return NULL;
}

static void cancel_ends_an_exchange(void **state) {
  (void)state;
  static const struct learner_act act = {.messages = LEARNER_HOLD};
  learner_start(&act, 1);
  open_link(learner.address, 10000000);
  assert_int_equal(join(), STATUS_OK);
  pthread_t thread;
  pthread_create(&thread, NULL, cancel_once_held, NULL);
  assert_int_equal(exchange(), STATUS_DONE);
  pthread_join(thread, NULL);
  assert_int_equal(exchange(), STATUS_DONE);
  assert_int_equal(join(), STATUS_DONE);
  link_destroy(link_);
  learner_stop();
}

static void *cancel_soon(void *context) {
  (void)context;
  clock_sleep_us(150000);
  link_cancel(link_);
  return NULL;
}

/* Also the wait between two attempts ends. */
static void cancel_ends_a_back_off(void **state) {
  (void)state;
  static const struct learner_act act = {.join = RPC_UNAVAILABLE, .join_text = "starting"};
  learner_start(&act, 1);
  open_link(learner.address, 100000000);
  pthread_t thread;
  pthread_create(&thread, NULL, cancel_soon, NULL);
  int64_t start_us = clock_now_us();
  assert_int_equal(join(), STATUS_DONE);
  assert_true(clock_now_us() - start_us < 10000000);
  pthread_join(thread, NULL);
  link_destroy(link_);
  learner_stop();
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(verdicts),
      cmocka_unit_test(rows_out_actions_back),
      cmocka_unit_test(rows_are_shared),
      cmocka_unit_test(where_rows_are_not_shared_they_go_in_messages),
      cmocka_unit_test(what_is_not_shared_now_may_be_later),
      cmocka_unit_test(endings_are_told),
      cmocka_unit_test(backs_off),
      cmocka_unit_test(gives_up_in_time),
      cmocka_unit_test(a_full_learner_is_not_taken_for_an_absent_one),
      cmocka_unit_test(a_host_that_is_not_found_is_named),
      cmocka_unit_test(a_lease_must_fit),
      cmocka_unit_test(cancel_ends_an_exchange),
      cmocka_unit_test(cancel_ends_a_back_off),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
