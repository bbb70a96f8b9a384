/* Who is missed when a run ends, and who is refused for want of room: the rest of leases is tested
 * through ingress. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "learner/serve/leases.h"
#include "tests/unit/learner/serve/loopback.h"
#include "tests/unit/support/captured_log.h"

static const struct space space = {
    .num_tensors = 1, .tensor = {{"x", DTYPE_FLOAT32, 1, {4}}}, .discrete = 2};

/* Joins, and leaves again without a goodbye; how many are missed then. */
static int missed_after(struct leases *leases, enum wire_role role) {
  struct wire_join_request request = {
      .name = "a/0/0", .space = space, .num_environments = 2, .role = role};
  struct lease *lease;
  struct rpc_stream *superseded;
  assert_int_equal(leases_join(leases, &lease, &superseded, &request, 0, NULL), STATUS_OK);
  assert_int_equal(leases_count(leases).absent, 0);
  leases_end(leases, lease, false);
  assert_int_equal(leases_count(leases).players, 0);
  return leases_count(leases).absent;
}

static void a_training_run_misses_its_actors_only(void **state) {
  (void)state;
  struct leases *leases = leases_create(&(struct leases_config){.max_train = 4, .max_eval = 4});
  assert_int_equal(missed_after(leases, WIRE_ROLE_EVAL), 0);
  assert_int_equal(missed_after(leases, WIRE_ROLE_TRAIN), 1);
  leases_destroy(leases);
}

static void an_evaluation_misses_who_plays(void **state) {
  (void)state;
  struct leases *leases = leases_create(&(struct leases_config){.max_eval = 4});
  assert_int_equal(missed_after(leases, WIRE_ROLE_EVAL), 1);
  leases_destroy(leases);
}

static struct rpc_stream stream[32], *superseded;
static struct error error;

/* The lease, or NULL and the words of the refusal in `error`. */
static struct lease *join(struct leases *leases, const char *name, int count) {
  struct wire_join_request request = {.space = space, .num_environments = count};
  snprintf(request.name, sizeof(request.name), "%s", name);
  struct lease *lease;
  return leases_join(leases, &lease, &superseded, &request, 0, &error) == STATUS_OK ? lease : NULL;
}

static void play(struct leases *leases, struct lease *lease, struct rpc_stream *on) {
  assert_int_equal(leases_play(leases, &lease, lease->run_id, on, &error), STATUS_OK);
}

/* A Join that asks for more than its older lease and the free ids together changes nothing. */
static void a_refused_join_leaves_its_older_lease(void **state) {
  (void)state;
  struct leases *leases = leases_create(&(struct leases_config){.max_train = 6});
  struct lease *a = join(leases, "a", 2), *b = join(leases, "b", 3);
  play(leases, a, &stream[0]);
  assert_null(join(leases, "a", 4));
  assert_null(superseded);
  assert_false(a->ended);
  assert_non_null(strstr(error.text, "for 4 more training environments: 5 of 6 are taken; start"));
  assert_null(join(leases, "b", 5));
  assert_true(b->used);
  assert_int_equal(leases_count(leases).train_envs, 5);
  assert_null(join(leases, "c", 2));
  assert_non_null(strstr(error.text, "5 of 6 are taken"));
  /* One that fits where the older one was takes its ids. */
  struct lease *newer = join(leases, "a", 2);
  assert_non_null(newer);
  assert_ptr_equal(superseded, &stream[0]);
  assert_int_equal(newer->first_slot, 0);
  rpc_stream_unref(superseded);
  leases_end(leases, a, false);
  leases_destroy(leases);
}

static void free_ids_that_are_apart_are_named(void **state) {
  (void)state;
  struct leases *leases = leases_create(&(struct leases_config){.max_train = 3});
  struct lease *a = join(leases, "a", 1), *b = join(leases, "b", 1);
  play(leases, a, &stream[0]);
  assert_non_null(b);
  leases_end(leases, a, true);
  assert_null(join(leases, "c", 2));
  assert_non_null(strstr(error.text, "1 of 3 are taken and the others do not lie side by side"));
  leases_destroy(leases);
}

/* Streams of replaced actors that do not end hold all entries, while their ids are free. */
static void entries_that_have_not_ended_are_named(void **state) {
  (void)state;
  enum { SLOTS = 4 };
  struct leases *leases = leases_create(&(struct leases_config){.max_train = SLOTS});
  struct lease *lease[SLOTS];
  for (int i = 0; i < SLOTS; i++) {
    lease[i] = join(leases, "a", 1);
    assert_non_null(lease[i]);
    if (superseded) rpc_stream_unref(superseded);
    play(leases, lease[i], &stream[i]);
  }
  assert_null(join(leases, "b", 1));
  assert_non_null(strstr(error.text, "the streams of 3 actors that were replaced"));
  assert_null(strstr(error.text, "are taken"));
  leases_end(leases, lease[0], false);
  assert_non_null(join(leases, "b", 1));
  for (int i = 1; i < SLOTS; i++) leases_end(leases, lease[i], false);
  leases_destroy(leases);
}

/* Evaluators, and actors that the run sends home, are not lost. */
static void training_leases_that_end_before_the_run_are_counted(void **state) {
  (void)state;
  struct leases *leases = leases_create(&(struct leases_config){.max_train = 8, .max_eval = 4});
  missed_after(leases, WIRE_ROLE_EVAL);
  assert_int_equal(leases_count(leases).lost, 0);
  leases_end(leases, join(leases, "home/0/0", 2), true);
  assert_int_equal(leases_count(leases).lost, 0);
  leases_end(leases, join(leases, "dead/0/0", 2), false);
  assert_int_equal(leases_count(leases).lost, 1);
  /* One that another of its name replaces, and whose stream closes later. */
  struct lease *old = join(leases, "twice/0/0", 2);
  play(leases, old, &stream[0]);
  struct lease *new = join(leases, "twice/0/0", 2);
  assert_int_equal(leases_count(leases).lost, 2);
  leases_end(leases, old, false);
  assert_int_equal(leases_count(leases).lost, 2);
  leases_end(leases, new, true);
  join(leases, "silent/0/0", 2);
  leases_expire(leases, LEASE_PLAY_WAIT_US + 1);
  assert_int_equal(leases_count(leases).lost, 3);
  struct lease *resets = join(leases, "resets/0/0", 2);
  play(leases, resets, &stream[1]);
  assert_ptr_equal(leases_expire(leases, LEASE_ROWS_WAIT_US + 1), &stream[1]);
  assert_int_equal(leases_count(leases).lost, 4);
  leases_end(leases, resets, false);
  assert_int_equal(leases_count(leases).lost, 4);
  assert_string_equal(leases_count(leases).first_lost, "dead/0/0");
  leases_destroy(leases);
}

/* A lease of one environment whose actor asks for memory. */
static struct lease *join_sharing(struct leases *leases, int name, int64_t now_us) {
  struct wire_join_request request = {.space = space, .num_environments = 1, .shared_rows = true};
  snprintf(request.name, sizeof(request.name), "a/%d/0", name);
  struct lease *lease;
  assert_int_equal(leases_join(leases, &lease, &superseded, &request, now_us, &error), STATUS_OK);
  return lease;
}

/* Joins that no Play follows take few descriptors, and few lines of the log. */
static void memory_that_waits_for_a_play_is_bounded(void **state) {
  (void)state;
  enum { SOME = 64, ALL = 200, SECOND = 1000000 };
  struct leases *leases = leases_create(&(struct leases_config){.max_train = ALL + 2});
  struct lease *lease[ALL];
  captured_start();
  for (int i = 0; i < ALL; i++) {
    lease[i] = join_sharing(leases, i, SECOND);
    assert_int_equal(lease[i]->shared_file != 0, i < SOME);
    assert_int_equal(lease[i]->shared.data != NULL, i < SOME);
  }
  const char *words = "a/64/0 sends its observations in messages: 64 leases with memory to share";
  assert_int_equal(captured_count(words), 1);
  assert_int_equal(captured_count("in messages"), 1);
  join_sharing(leases, ALL - 1, 11 * SECOND - 1);
  assert_int_equal(captured_count("in messages"), 1);
  join_sharing(leases, ALL - 1, 11 * SECOND);
  assert_int_equal(captured_count("in messages"), 2);
  captured_stop();

  /* A Play makes room for one more, as does the end of a lease. */
  play(leases, lease[0], &stream[0]);
  assert_int_not_equal(join_sharing(leases, ALL, SECOND)->shared_file, 0);
  assert_int_equal(join_sharing(leases, ALL + 1, SECOND)->shared_file, 0);
  leases_end(leases, lease[1], false);
  assert_int_not_equal(join_sharing(leases, ALL + 1, SECOND)->shared_file, 0);
  leases_end(leases, lease[0], false);
  leases_destroy(leases);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(training_leases_that_end_before_the_run_are_counted),
      cmocka_unit_test(a_training_run_misses_its_actors_only),
      cmocka_unit_test(an_evaluation_misses_who_plays),
      cmocka_unit_test(a_refused_join_leaves_its_older_lease),
      cmocka_unit_test(free_ids_that_are_apart_are_named),
      cmocka_unit_test(entries_that_have_not_ended_are_named),
      cmocka_unit_test(memory_that_waits_for_a_play_is_bounded),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
