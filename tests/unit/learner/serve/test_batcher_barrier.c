/* The batcher with a barrier, as --deterministic has it: every live row, each at its slot. */
#include "tests/unit/learner/serve/batcher_clients.h"

/* Behind the rows of training, one after the other. */
static void a_barrier_puts_evaluators_behind(void **state) {
  (void)state;
  struct batcher_config config = config_of(4, 8);
  config.barrier_rows = 4;
  struct batcher *batcher = batcher_create(&config);
  for (int i = 0; i < 4; i++) batcher_add(batcher, i, 2, i * 2, 1, i >= 2, i < 2, 0);
  const int order[] = {3, 1, 2, 0}, first_row[] = {0, 2, 4, 6}, client[] = {0, 1, 3, 2};
  for (int round = 0; round < 2; round++) {
    for (int i = 0; i < 4; i++) send(batcher, order[i], 10 * round + i);
    struct row_batch *batch = take(batcher, 10 * round + 5);
    assert_non_null(batch);
    assert_int_equal(batch->num_rows, 8);
    for (int i = 0; i < 4; i++) {
      assert_int_equal(batch->segment[i].first_row, first_row[i]);
      assert_int_equal(batch->segment[i].client, client[i]);
    }
    finish(batcher, batch, 10 * round + 6);
  }
  batcher_destroy(batcher);
}

/* Rows of a client that went do not fill up a barrier: who took its place has to come. */
static void a_barrier_waits_for_the_living(void **state) {
  (void)state;
  struct batcher_config config = config_of(3, 8);
  config.barrier_rows = 4;
  struct batcher *batcher = batcher_create(&config);
  for (int i = 0; i < 2; i++) batcher_add(batcher, i, 2, i * 2, 1, false, true, 0);
  send(batcher, 0, 1);
  batcher_remove(batcher, 0);
  batcher_add(batcher, 2, 2, 0, 2, false, true, 2);
  send(batcher, 2, 3);
  assert_null(take(batcher, 4));
  send(batcher, 1, 5);
  struct row_batch *batch = take(batcher, 6);
  assert_non_null(batch);
  finish(batcher, batch, 7);
  batcher_destroy(batcher);
}

/* However long it takes: no time is named at which it would run. */
static void a_barrier_has_no_deadline(void **state) {
  (void)state;
  struct batcher *batcher = with_patience(20, 0, 20);
  for (int64_t now = 0, deadline; now < 200000; now += 100000) {
    for (int i = 0; i < 10; i++) send(batcher, i, now);
    assert_null(batcher_try_take(batcher, now + 50000, &deadline));
    assert_true(deadline > now + 51000);
    assert_false(batcher_waits_out(batcher));
    for (int i = 10; i < 20; i++) send(batcher, i, now + 60000);
    finish(batcher, take(batcher, now + 60001), now + 60002);
  }
  batcher_destroy(batcher);
}

/* Removed while its message is decoded, which is then refused or comes too late. */
static void a_barrier_is_not_disturbed_by_who_goes_while_its_message_is_decoded(void **state) {
  (void)state;
  for (int refused = 0; refused < 2; refused++) {
    struct batcher_config config = config_of(2, 8);
    config.barrier_rows = 8;
    struct batcher *batcher = batcher_create(&config);
    for (int i = 0; i < 2; i++) batcher_add(batcher, i, 4, 4 * i, 1, false, true, 0);
    int segment;
    struct row_batch *batch = batcher_reserve(batcher, 0, &segment, 1);
    batcher_remove(batcher, 0);
    batcher_add(batcher, 0, 4, 0, 2, false, true, 2); /* the place is taken again meanwhile */
    if (refused)
      batcher_cancel(batcher, batch, segment);
    else
      batcher_commit(batcher, batch, segment, fake_stream(0), 3);
    send(batcher, 1, 4);
    assert_null(take(batcher, 5));
    send(batcher, 0, 6);
    batch = take(batcher, 7);
    assert_non_null(batch);
    for (int i = 0; i < 3; i++)
      assert_int_equal(batch->segment[i].dead,
                       batch->segment[i].client == 0 && batch->segment[i].life == 1);
    finish(batcher, batch, 8);
    batcher_destroy(batcher);
  }
}

/* Nobody live is left: what an evaluator sends meanwhile is not held up. */
static void a_barrier_that_everybody_left_lets_evaluators_pass(void **state) {
  (void)state;
  struct batcher_config config = config_of(2, 8);
  config.barrier_rows = 4;
  struct batcher *batcher = batcher_create(&config);
  batcher_add(batcher, 0, 4, 0, 1, false, true, 0);
  batcher_add(batcher, 1, 2, 4, 1, true, false, 0);
  int segment;
  struct row_batch *batch = batcher_reserve(batcher, 0, &segment, 1);
  batcher_remove(batcher, 0);
  batcher_cancel(batcher, batch, segment);
  send(batcher, 1, 2);
  batch = take(batcher, 3);
  assert_non_null(batch);
  finish(batcher, batch, 4);
  batcher_destroy(batcher);
}

static void a_barrier_orders_rows_by_slot(void **state) {
  (void)state;
  struct batcher_config config = config_of(3, 12);
  config.barrier_rows = 12;
  struct batcher *batcher = batcher_create(&config);
  for (int i = 0; i < 3; i++) batcher_add(batcher, i, 4, i * 4, 1, false, true, 0);
  send(batcher, 2, 1);
  send(batcher, 0, 2);
  assert_null(take(batcher, 1000000));
  send(batcher, 1, 1000001);
  struct row_batch *batch = take(batcher, 1000002);
  assert_non_null(batch);
  for (int i = 0; i < 3; i++) assert_int_equal(batch->segment[i].first_row, 4 * i);
  finish(batcher, batch, 1000003);
  batcher_destroy(batcher);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_barrier_puts_evaluators_behind),
      cmocka_unit_test(a_barrier_waits_for_the_living),
      cmocka_unit_test(a_barrier_has_no_deadline),
      cmocka_unit_test(a_barrier_is_not_disturbed_by_who_goes_while_its_message_is_decoded),
      cmocka_unit_test(a_barrier_that_everybody_left_lets_evaluators_pass),
      cmocka_unit_test(a_barrier_orders_rows_by_slot),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
