/* Who is missed when a run ends: the rest of leases is tested through ingress. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "learner/serve/leases.h"

static const struct wire_space space = {
    .num_tensors = 1, .tensor = {{"x", WIRE_FLOAT32, 1, {4}}}, .discrete = 2};

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

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_training_run_misses_its_actors_only),
      cmocka_unit_test(an_evaluation_misses_who_plays),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
