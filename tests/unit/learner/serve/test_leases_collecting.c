/* Deterministic mode: Joins wait for each other and are leased in the order of their names; the
 * seeds of their environments. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "learner/serve/leases.h"
#include "tests/unit/learner/serve/loopback.h"

enum { ENVS = 5 };

static const struct space space = {
    .num_tensors = 1, .tensor = {{"x", DTYPE_FLOAT32, 1, {4}}}, .discrete = 2};

static struct leases *create(void) {
  struct leases_config config = {.max_train = ENVS, .max_eval = 2, .deterministic_envs = ENVS};
  return leases_create(&config);
}

static struct wire_join_request request_of(const char *name, int count, enum wire_role role) {
  struct wire_join_request request = {.space = space, .num_environments = count, .role = role};
  snprintf(request.name, sizeof(request.name), "%s", name);
  return request;
}

static bool wait_as(struct leases *leases, const char *name, int count, enum wire_role role,
                    struct rpc_stream *stream, struct rpc_stream **replaced) {
  struct wire_join_request request = request_of(name, count, role);
  struct error error;
  bool complete;
  assert_int_equal(leases_wait(leases, &complete, replaced, &request, stream, &error), STATUS_OK);
  return complete;
}

static void expect_refused(struct leases *leases, const char *name, int count, enum wire_role role,
                           enum status expected, const char *words) {
  struct wire_join_request request = request_of(name, count, role);
  struct rpc_stream stream, *replaced;
  struct error error;
  bool complete;
  assert_int_equal(leases_wait(leases, &complete, &replaced, &request, &stream, &error), expected);
  assert_non_null(strstr(error.text, words));
  assert_null(replaced);
  assert_false(complete);
}

static void expect_next(struct leases *leases, const char *name, struct rpc_stream *expected) {
  struct wire_join_request request;
  struct rpc_stream *stream;
  assert_true(leases_next_waiting(leases, &request, &stream));
  assert_string_equal(request.name, name);
  assert_ptr_equal(stream, expected);
}

static void expect_no_more(struct leases *leases) {
  struct wire_join_request request;
  struct rpc_stream *stream;
  assert_false(leases_next_waiting(leases, &request, &stream));
}

/* actor/9 before actor/10; evaluators wait too, and nobody waits for them. */
static void names_are_in_the_order_of_their_numbers(void **state) {
  (void)state;
  struct leases *leases = create();
  struct rpc_stream s[5], *replaced;
  assert_true(leases_collecting(leases));
  assert_false(wait_as(leases, "actor/10/0", 2, WIRE_ROLE_TRAIN, &s[0], &replaced));
  assert_false(wait_as(leases, "actor/9/1", 1, WIRE_ROLE_TRAIN, &s[1], &replaced));
  assert_false(wait_as(leases, "actor/2/0", 2, WIRE_ROLE_EVAL, &s[2], &replaced));
  assert_int_equal(leases_waiting(leases), 3);
  assert_false(wait_as(leases, "actor/9/0", 1, WIRE_ROLE_TRAIN, &s[3], &replaced));
  assert_null(replaced);
  assert_true(wait_as(leases, "actor/100/0", 1, WIRE_ROLE_TRAIN, &s[4], &replaced));
  assert_null(replaced);
  assert_false(leases_collecting(leases));
  assert_int_equal(leases_waiting(leases), 0);
  expect_next(leases, "actor/2/0", &s[2]);
  expect_next(leases, "actor/9/0", &s[3]);
  expect_next(leases, "actor/9/1", &s[1]);
  expect_next(leases, "actor/10/0", &s[0]);
  expect_next(leases, "actor/100/0", &s[4]);
  expect_no_more(leases);
  leases_destroy(leases);
}

static void who_asks_again_replaces_its_older_join(void **state) {
  (void)state;
  struct leases *leases = create();
  struct rpc_stream older, newer, other, *replaced;
  assert_false(wait_as(leases, "a", 4, WIRE_ROLE_TRAIN, &older, &replaced));
  assert_null(replaced);
  assert_false(wait_as(leases, "a", 2, WIRE_ROLE_TRAIN, &newer, &replaced));
  assert_ptr_equal(replaced, &older);
  assert_int_equal(leases_waiting(leases), 2);
  assert_true(wait_as(leases, "b", 3, WIRE_ROLE_TRAIN, &other, &replaced));
  expect_next(leases, "a", &newer);
  expect_next(leases, "b", &other);
  expect_no_more(leases);
  leases_destroy(leases);
}

static void who_leaves_is_not_waited_for(void **state) {
  (void)state;
  struct leases *leases = create();
  struct rpc_stream a, b, c, *replaced;
  assert_false(wait_as(leases, "a", 2, WIRE_ROLE_TRAIN, &a, &replaced));
  assert_false(wait_as(leases, "b", 2, WIRE_ROLE_TRAIN, &b, &replaced));
  assert_true(leases_forget_waiting(leases, &a));
  assert_false(leases_forget_waiting(leases, &a));
  assert_int_equal(leases_waiting(leases), 2);
  assert_true(wait_as(leases, "c", 3, WIRE_ROLE_TRAIN, &c, &replaced));
  expect_next(leases, "b", &b);
  expect_next(leases, "c", &c);
  expect_no_more(leases);
  leases_destroy(leases);
}

/* They would be counted, and then find no room when all are there. */
static void what_does_not_fit_is_refused_and_not_counted(void **state) {
  (void)state;
  struct leases *leases = create();
  struct rpc_stream s[4], *replaced;
  expect_refused(leases, "a", ENVS + 1, WIRE_ROLE_TRAIN, STATUS_MISMATCH, "holds 5 at most");
  assert_int_equal(leases_waiting(leases), 0);
  assert_false(wait_as(leases, "a", 2, WIRE_ROLE_TRAIN, &s[0], &replaced));
  assert_false(wait_as(leases, "b", 2, WIRE_ROLE_TRAIN, &s[1], &replaced));
  expect_refused(leases, "c", 2, WIRE_ROLE_TRAIN, STATUS_EXHAUSTED, "have asked for 4 of 5");
  expect_refused(leases, "b", 4, WIRE_ROLE_TRAIN, STATUS_EXHAUSTED, "have asked for 2 of 5");
  assert_false(wait_as(leases, "e", 2, WIRE_ROLE_EVAL, &s[2], &replaced));
  expect_refused(leases, "f", 1, WIRE_ROLE_EVAL, STATUS_EXHAUSTED, "--num_eval_envs");
  assert_int_equal(leases_waiting(leases), 4);
  assert_true(wait_as(leases, "c", 1, WIRE_ROLE_TRAIN, &s[3], &replaced));
  expect_next(leases, "a", &s[0]);
  expect_next(leases, "b", &s[1]);
  expect_next(leases, "c", &s[3]);
  expect_next(leases, "e", &s[2]);
  expect_no_more(leases);
  leases_destroy(leases);
}

/* A run that is stopped while it collects: those that wait are answered by who stops it, and a
 * stream that closes then is not found. */
static void the_end_of_collecting_gives_those_that_wait_to_the_caller(void **state) {
  (void)state;
  struct leases *leases = create();
  struct rpc_stream a, b, *replaced;
  assert_false(wait_as(leases, "a", 1, WIRE_ROLE_TRAIN, &a, &replaced));
  assert_false(wait_as(leases, "b", 1, WIRE_ROLE_TRAIN, &b, &replaced));
  leases_end_collecting(leases);
  assert_false(leases_collecting(leases));
  assert_false(leases_forget_waiting(leases, &a));
  expect_next(leases, "a", &a);
  expect_next(leases, "b", &b);
  expect_no_more(leases);
  leases_destroy(leases);
}

/* Nobody would find it there. */
static void a_join_after_the_end_of_collecting_is_not_kept(void **state) {
  (void)state;
  struct leases *leases = create();
  leases_end_collecting(leases);
  expect_refused(leases, "a", 1, WIRE_ROLE_TRAIN, STATUS_DONE, "wait for nobody");
  expect_no_more(leases);
  leases_destroy(leases);
}

static struct lease *join(struct leases *leases, const char *name, int count, enum wire_role role) {
  struct wire_join_request request = request_of(name, count, role);
  struct lease *lease;
  struct rpc_stream *superseded;
  struct error error;
  assert_int_equal(leases_join(leases, &lease, &superseded, &request, 0, &error), STATUS_OK);
  return lease;
}

/* Evaluation: numbered environments, their ids counted from the first evaluation id. */
static void seeds_of_an_evaluation_are_its_environments_numbers(void **state) {
  (void)state;
  struct leases_config config = {
      .max_train = 3, .max_eval = 4, .seed_base = 1000, .seed_stride = 4};
  struct leases *leases = leases_create(&config);
  uint64_t seeds[2];
  join(leases, "a", 2, WIRE_ROLE_EVAL);
  leases_seeds(leases, join(leases, "b", 2, WIRE_ROLE_EVAL), seeds);
  assert_int_equal(seeds[0], 1002);
  assert_int_equal(seeds[1], 1003);
  assert_int_equal(leases_seed_stride(leases), 4);
  leases_destroy(leases);
}

/* Training: a function of the run's seed, the slot and its life; never negative as a signed number.
 */
static void seeds_of_training_differ_by_slot_life_and_seed(void **state) {
  (void)state;
  uint64_t seeds[2][2][2]; /* seed, life, slot */
  for (uint64_t seed = 0; seed < 2; seed++) {
    struct leases *leases = leases_create(&(struct leases_config){.max_train = 2, .seed = seed});
    for (int life = 0; life < 2; life++) {
      struct lease *lease = join(leases, "a", 2, WIRE_ROLE_TRAIN);
      leases_seeds(leases, lease, seeds[seed][life]);
      uint64_t again[2];
      leases_seeds(leases, lease, again);
      assert_memory_equal(again, seeds[seed][life], sizeof(again));
    }
    leases_destroy(leases);
  }
  const uint64_t *all = &seeds[0][0][0];
  for (int i = 0; i < 8; i++) {
    assert_true(all[i] <= INT64_MAX);
    for (int k = 0; k < i; k++) assert_true(all[i] != all[k]);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(names_are_in_the_order_of_their_numbers),
      cmocka_unit_test(who_asks_again_replaces_its_older_join),
      cmocka_unit_test(who_leaves_is_not_waited_for),
      cmocka_unit_test(what_does_not_fit_is_refused_and_not_counted),
      cmocka_unit_test(the_end_of_collecting_gives_those_that_wait_to_the_caller),
      cmocka_unit_test(a_join_after_the_end_of_collecting_is_not_kept),
      cmocka_unit_test(seeds_of_an_evaluation_are_its_environments_numbers),
      cmocka_unit_test(seeds_of_training_differ_by_slot_life_and_seed),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
