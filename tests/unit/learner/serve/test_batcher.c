/* The batching rule on a clock of the test's own, and random schedules against a simple model. */
#include "tests/unit/learner/serve/batcher_clients.h"

static void runs_at_half_of_the_live_rows(void **state) {
  (void)state;
  struct batcher *batcher = with_clients(4, 8, 0);
  send(batcher, 0, 10);
  assert_null(take(batcher, 11));
  send(batcher, 1, 12);
  struct row_batch *batch = take(batcher, 13);
  assert_non_null(batch);
  assert_int_equal(batch->num_rows, 16);
  assert_int_equal(batch->num_segments, 2);
  finish(batcher, batch, 20);
  batcher_destroy(batcher);
}

static void runs_when_nobody_else_can_come(void **state) {
  (void)state;
  struct batcher_config config = config_of(2, 16);
  config.target_rows = 100;
  struct batcher *batcher = batcher_create(&config);
  batcher_add(batcher, 0, 8, 0, 1, false, true, 0);
  batcher_add(batcher, 1, 8, 8, 1, false, true, 0);
  send(batcher, 0, 1);
  assert_null(take(batcher, 2));
  send(batcher, 1, 3);
  struct row_batch *batch = take(batcher, 4);
  assert_non_null(batch);
  finish(batcher, batch, 5);
  batcher_destroy(batcher);
}

static void runs_when_the_oldest_row_has_waited(void **state) {
  (void)state;
  struct batcher *batcher = with_clients(4, 1, 0);
  send(batcher, 2, 1000);
  int64_t deadline = 0;
  assert_null(batcher_try_take(batcher, 1001, &deadline));
  assert_true(deadline <= 6000);
  assert_null(take(batcher, 5999));
  struct row_batch *batch = take(batcher, 6000);
  assert_non_null(batch);
  finish(batcher, batch, 6001);
  batcher_destroy(batcher);
}

/* Some batches of messages of clients [first, last), each after 5 ms. Whether the next batch is to
 * be waited for once it has a message. */
static bool waits_after_batches_of(struct batcher *batcher, int first, int last, int64_t *now_us) {
  for (int batches = 0; batches < 30; batches++, *now_us += 10000) {
    assert_false(batches == 0 && batcher_waits_out(batcher)); /* nothing to wait with */
    for (int i = first; i < last; i++) send(batcher, i, *now_us);
    finish(batcher, take(batcher, *now_us + 5000), *now_us + 5001);
  }
  send(batcher, 0, *now_us);
  bool waits = batcher_waits_out(batcher);
  finish(batcher, take(batcher, *now_us + 5000), *now_us + 5001);
  *now_us += 10000;
  return waits;
}

/* As it ran the recent ones: of many messages, and by far not full. */
static void time_alone_is_likely_to_run_the_next_one(void **state) {
  (void)state;
  int64_t now_us = 1000;
  struct batcher *batcher = with_patience(160, 0, 0); /* 80 make a full batch */
  assert_false(waits_after_batches_of(batcher, 1, 8, &now_us));
  assert_true(waits_after_batches_of(batcher, 1, 10, &now_us));
  assert_true(waits_after_batches_of(batcher, 1, 41, &now_us));
  assert_false(waits_after_batches_of(batcher, 1, 43, &now_us));
  batcher_destroy(batcher);
}

static void one_full_batch_is_all_that_is_known(void **state) {
  (void)state;
  struct batcher *batcher = with_patience(160, 0, 0);
  for (int i = 0; i < 80; i++) send(batcher, i, 1000);
  finish(batcher, take(batcher, 1000), 1001);
  send(batcher, 0, 1002);
  assert_false(batcher_waits_out(batcher));
  batcher_destroy(batcher);
}

/* All that there are make it full, also of a target that they cannot reach. */
static void a_batch_of_half_the_fleet_is_not_far_from_full(void **state) {
  (void)state;
  int64_t now_us = 1000;
  struct batcher *batcher = with_patience(20, 1000, 0);
  assert_true(waits_after_batches_of(batcher, 1, 11, &now_us));
  assert_false(waits_after_batches_of(batcher, 1, 13, &now_us));
  batcher_destroy(batcher);
}

/* Rows come in lumps: a full batch, or one of a few rows after it, changes nothing. */
static void one_other_batch_does_not_end_the_patience(void **state) {
  (void)state;
  int64_t now_us = 1000;
  struct batcher *batcher = with_patience(160, 0, 0);
  assert_true(waits_after_batches_of(batcher, 1, 21, &now_us));
  for (int i = 0; i < 80; i++) send(batcher, i, now_us);
  finish(batcher, take(batcher, now_us), now_us + 1);
  send(batcher, 0, now_us + 2);
  assert_true(batcher_waits_out(batcher));
  finish(batcher, take(batcher, now_us + 5002), now_us + 5003);
  send(batcher, 0, now_us + 5004);
  assert_true(batcher_waits_out(batcher));
  batcher_destroy(batcher);
}

static void a_late_client_is_not_waited_for_until_it_answers(void **state) {
  (void)state;
  struct batcher_config config = config_of(2, 2);
  config.target_rows = 2;
  config.max_wait_us = 1000000;
  struct batcher *batcher = batcher_create(&config);
  batcher_add(batcher, 0, 1, 0, 1, false, true, 0);
  batcher_add(batcher, 1, 1, 1, 1, false, true, 0);
  send(batcher, 0, 100);
  assert_null(take(batcher, 200));
  /* Client 1 has stepped for longer than 20 ms: client 0 goes alone. */
  struct row_batch *batch = take(batcher, 20002);
  assert_non_null(batch);
  assert_string_equal(batcher_client(batcher, 1).state, "late");
  finish(batcher, batch, 20003);
  assert_int_equal(batcher_counts(batcher).live_rows, 1);
  send(batcher, 1, 30000);
  assert_string_equal(batcher_client(batcher, 1).state, "queued");
  assert_int_equal(batcher_counts(batcher).live_rows, 2);
  assert_null(take(batcher, 30001));
  send(batcher, 0, 30002);
  batch = take(batcher, 30003);
  assert_int_equal(batch->num_rows, 2);
  finish(batcher, batch, 30004);
  batcher_destroy(batcher);
}

static void the_bound_for_late_follows_the_median(void **state) {
  (void)state;
  struct batcher *batcher = with_clients(1, 1, 0);
  int64_t now = 0;
  for (int i = 0; i < 64; i++) {
    now += 10000;
    send(batcher, 0, now);
    finish(batcher, take(batcher, now), now);
  }
  assert_int_equal(batcher_counts(batcher).late_us, 100000);
  batcher_destroy(batcher);
}

/* Ten times the middle one of 64, whatever the others are. */
static void and_not_the_fastest_or_the_slowest(void **state) {
  (void)state;
  struct batcher *batcher = with_clients(1, 1, 0);
  int64_t now = 0;
  for (int i = 0; i < 64; i++) {
    now += i < 20 ? 1000 : i < 50 ? 3000 : 15000;
    send(batcher, 0, now);
    finish(batcher, take(batcher, now), now);
  }
  assert_int_equal(batcher_counts(batcher).late_us, 30000);
  batcher_destroy(batcher);
}

/* Where all must stay in step a hiccup makes nobody late. */
static void the_bound_for_late_has_a_floor(void **state) {
  (void)state;
  struct batcher_config config = config_of(1, 1);
  config.late_min_us = 1000000;
  struct batcher *batcher = batcher_create(&config);
  batcher_add(batcher, 0, 1, 0, 1, false, true, 0);
  assert_int_equal(batcher_counts(batcher).late_us, 1000000);
  int64_t now = 0;
  for (int i = 0; i < 128; i++) {
    now += i < 64 ? 1000 : 200000;
    send(batcher, 0, now);
    finish(batcher, take(batcher, now), now);
    if (i == 63) assert_int_equal(batcher_counts(batcher).late_us, 1000000);
  }
  assert_int_equal(batcher_counts(batcher).late_us, 2000000);
  batcher_destroy(batcher);
}

/* At the bound itself it is not late yet; one that goes while it is late is not counted on. */
static void late_is_past_the_bound(void **state) {
  (void)state;
  struct batcher_config config = config_of(2, 2);
  config.target_rows = 2;
  config.late_us = 800;
  config.max_wait_us = 1000000;
  struct batcher *batcher = batcher_create(&config);
  for (int i = 0; i < 2; i++) batcher_add(batcher, i, 1, i, 1, false, true, 200);
  send(batcher, 0, 300);
  int64_t deadline;
  assert_null(batcher_try_take(batcher, 1000, &deadline));
  assert_int_equal(batcher_counts(batcher).late_clients, 0);
  assert_int_equal(deadline, 1100); /* an eighth of the bound, and so on until it is past */
  struct row_batch *batch = take(batcher, 1100);
  assert_non_null(batch);
  assert_int_equal(batcher_counts(batcher).late_clients, 1);
  finish(batcher, batch, 1101);
  batcher_remove(batcher, 1);
  assert_int_equal(batcher_counts(batcher).late_clients, 0);
  assert_int_equal(batcher_counts(batcher).live_rows, 1);
  batcher_destroy(batcher);
}

/* Half, rounded up: one of three is not enough. */
static void half_of_an_odd_number_is_rounded_up(void **state) {
  (void)state;
  struct batcher *batcher = with_clients(3, 1, 0);
  send(batcher, 0, 10);
  assert_null(take(batcher, 11));
  send(batcher, 1, 12);
  struct row_batch *batch = take(batcher, 13);
  assert_non_null(batch);
  finish(batcher, batch, 14);
  batcher_destroy(batcher);
}

static void evaluators_never_count_as_live(void **state) {
  (void)state;
  struct batcher_config config = config_of(2, 16);
  struct batcher *batcher = batcher_create(&config);
  batcher_add(batcher, 0, 8, 0, 1, false, true, 0);
  batcher_add(batcher, 1, 8, 8, 1, true, false, 0);
  assert_int_equal(batcher_counts(batcher).live_rows, 8);
  send(batcher, 0, 1);
  struct row_batch *batch = take(batcher, 2); /* the evaluator steps, nobody waits for it */
  assert_non_null(batch);
  finish(batcher, batch, 3);
  batcher_destroy(batcher);
}

static void rows_of_evaluators_start_no_batch(void **state) {
  (void)state;
  struct batcher_config config = config_of(3, 24);
  struct batcher *batcher = batcher_create(&config);
  batcher_add(batcher, 0, 4, 0, 1, false, true, 0);
  batcher_add(batcher, 1, 4, 4, 1, false, true, 0);
  batcher_add(batcher, 2, 16, 8, 1, true, false, 0);
  send(batcher, 2, 1);
  assert_null(take(batcher, 2)); /* 16 rows, none of which counts */
  send(batcher, 0, 3);           /* half of the live rows: the evaluator's go along */
  struct row_batch *batch = take(batcher, 4);
  assert_non_null(batch);
  assert_int_equal(batch->num_rows, 20);
  finish(batcher, batch, 5);
  send(batcher, 2, 6);
  assert_null(take(batcher, 5005));
  batch = take(batcher, 5006); /* they wait no longer than others */
  assert_non_null(batch);
  finish(batcher, batch, 5007);
  batcher_destroy(batcher);
}

static void slow_evaluators_do_not_move_the_bound_for_late(void **state) {
  (void)state;
  struct batcher_config config = config_of(1, 16);
  struct batcher *batcher = batcher_create(&config);
  batcher_add(batcher, 0, 8, 0, 1, true, false, 0);
  for (int64_t now = 10000; now <= 640000; now += 10000) {
    send(batcher, 0, now);
    finish(batcher, take(batcher, now), now);
  }
  assert_int_equal(batcher_counts(batcher).late_us, 20000);
  batcher_destroy(batcher);
}

static void a_removed_client_drops_its_rows(void **state) {
  (void)state;
  struct batcher *batcher = with_clients(2, 4, 0);
  send(batcher, 0, 1);
  batcher_remove(batcher, 0);
  struct row_batch *batch = take(batcher, 2);
  assert_non_null(batch);
  assert_true(batch->segment[0].dead);
  assert_ptr_equal(batch->segment[0].stream, fake_stream(0)); /* still to be answered */
  /* The place is taken again before the old batch comes back: it must not be touched by it. */
  batcher_add(batcher, 0, 4, 0, 2, false, true, 3);
  send(batcher, 0, 4);
  finish(batcher, batch, 5);
  assert_string_equal(batcher_client(batcher, 0).state, "queued");
  batcher_destroy(batcher);
}

static void a_removed_running_client_does_not_step(void **state) {
  (void)state;
  struct batcher *batcher = with_clients(1, 4, 0);
  send(batcher, 0, 1);
  struct row_batch *batch = take(batcher, 2);
  batcher_remove(batcher, 0);
  finish(batcher, batch, 3);
  struct batcher_counts counts = batcher_counts(batcher);
  assert_int_equal(counts.live_rows, 0);
  assert_int_equal(counts.stepping_rows, 0);
  batcher_destroy(batcher);
}

static void a_cancelled_message_is_not_waited_for(void **state) {
  (void)state;
  struct batcher *batcher = with_clients(2, 1, 0);
  int segment;
  struct row_batch *batch = batcher_reserve(batcher, 0, &segment, 1);
  assert_null(take(batcher, 2)); /* not decided yet */
  batcher_cancel(batcher, batch, segment);
  batcher_remove(batcher, 0);
  send(batcher, 1, 3);
  batch = take(batcher, 4);
  assert_non_null(batch);
  assert_true(batch->segment[0].dead);
  assert_null(batch->segment[0].stream);
  finish(batcher, batch, 5);
  batcher_destroy(batcher);
}

/* Clients come, send, die and return at random; a model of who must be in which batch is kept
 * beside it. */
/* As many batches as the configuration says, and another buffer fills all the while. */
static void two_batches_may_run(void **state) {
  (void)state;
  struct batcher_config config = config_of(3, 24);
  config.target_rows = 8;
  config.running = 2;
  struct batcher *batcher = batcher_create(&config);
  struct row_batch *batch[3];
  for (int i = 0; i < 3; i++) batcher_add(batcher, i, 8, 8 * i, 1, false, true, 0);
  for (int i = 0; i < 2; i++) {
    send(batcher, i, i);
    batch[i] = take(batcher, i);
    assert_non_null(batch[i]);
  }
  send(batcher, 2, 2);
  assert_null(take(batcher, 10000));
  assert_string_equal(batcher_client(batcher, 0).state, "running");
  assert_string_equal(batcher_client(batcher, 1).state, "running");
  assert_string_equal(batcher_client(batcher, 2).state, "queued");
  finish(batcher, batch[0], 10001);
  batch[2] = take(batcher, 10002);
  assert_non_null(batch[2]);
  assert_int_equal(batch[2]->segment[0].client, 2);
  send(batcher, 0, 10003);
  assert_null(take(batcher, 20000));
  finish(batcher, batch[2], 20001); /* not in the order in which they were taken */
  assert_non_null(take(batcher, 20002));
  finish(batcher, batch[1], 20003);
  batcher_destroy(batcher);
}

static void random_schedules_agree_with_a_model(void **state) {
  (void)state;
  enum { CLIENTS = 12, STEPS = 200000 };
  enum { GONE, STEPPING, QUEUED } model[CLIENTS] = {0};
  int rows[CLIENTS], total = 0;
  uint32_t life[CLIENTS] = {0};
  bool was_dropped[CLIENTS] = {false};
  srand(7);
  for (int i = 0; i < CLIENTS; i++) total += rows[i] = 1 + rand() % 5;
  struct batcher_config config = config_of(CLIENTS, total);
  struct batcher *batcher = batcher_create(&config);
  int64_t now = 0;
  int batches = 0;
  for (int step = 0; step < STEPS; step++) {
    now += rand() % 300;
    int i = rand() % CLIENTS;
    if (model[i] == GONE && !was_dropped[i] && rand() % 2) {
      batcher_add(batcher, i, rows[i], 0, ++life[i], false, true, now);
      model[i] = STEPPING;
    } else if (model[i] == STEPPING) {
      send(batcher, i, now);
      model[i] = QUEUED;
    } else if (model[i] != GONE && rand() % 20 == 0) {
      was_dropped[i] = model[i] == QUEUED;
      batcher_remove(batcher, i);
      model[i] = GONE;
    }
    struct row_batch *batch = take(batcher, now);
    if (!batch) continue;
    batches++;
    int seen[CLIENTS] = {0}, next_row = 0;
    for (int s = 0; s < batch->num_segments; s++) {
      const struct batch_segment *segment = &batch->segment[s];
      assert_int_equal(segment->first_row, next_row); /* no gap, no overlap, never split */
      assert_int_equal(segment->num_rows, rows[segment->client]);
      next_row += segment->num_rows;
      seen[segment->client]++;
      assert_int_equal(segment->dead, model[segment->client] != QUEUED);
      if (!segment->dead) assert_int_equal(segment->life, life[segment->client]);
    }
    assert_int_equal(next_row, batch->num_rows);
    int live = 0, stepping = 0;
    for (int c = 0; c < CLIENTS; c++) {
      assert_int_equal(seen[c], model[c] == QUEUED || was_dropped[c]);
      was_dropped[c] = false;
      if (model[c] == QUEUED) model[c] = STEPPING;
      if (model[c] != GONE) live += rows[c];
      if (model[c] == STEPPING) stepping += rows[c];
    }
    finish(batcher, batch, now);
    struct batcher_counts counts = batcher_counts(batcher);
    if (counts.late_clients == 0) {
      assert_int_equal(counts.live_rows, live);
      assert_int_equal(counts.stepping_rows, stepping);
    }
  }
  assert_true(batches > STEPS / 100);
  batcher_destroy(batcher);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(runs_at_half_of_the_live_rows),
      cmocka_unit_test(runs_when_nobody_else_can_come),
      cmocka_unit_test(runs_when_the_oldest_row_has_waited),
      cmocka_unit_test(time_alone_is_likely_to_run_the_next_one),
      cmocka_unit_test(one_full_batch_is_all_that_is_known),
      cmocka_unit_test(a_batch_of_half_the_fleet_is_not_far_from_full),
      cmocka_unit_test(one_other_batch_does_not_end_the_patience),
      cmocka_unit_test(a_late_client_is_not_waited_for_until_it_answers),
      cmocka_unit_test(the_bound_for_late_follows_the_median),
      cmocka_unit_test(and_not_the_fastest_or_the_slowest),
      cmocka_unit_test(the_bound_for_late_has_a_floor),
      cmocka_unit_test(late_is_past_the_bound),
      cmocka_unit_test(half_of_an_odd_number_is_rounded_up),
      cmocka_unit_test(evaluators_never_count_as_live),
      cmocka_unit_test(rows_of_evaluators_start_no_batch),
      cmocka_unit_test(slow_evaluators_do_not_move_the_bound_for_late),
      cmocka_unit_test(a_removed_client_drops_its_rows),
      cmocka_unit_test(a_removed_running_client_does_not_step),
      cmocka_unit_test(a_cancelled_message_is_not_waited_for),
      cmocka_unit_test(two_batches_may_run),
      cmocka_unit_test(random_schedules_agree_with_a_model),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
