/* Rows in, actions out, windows to training: what the trainer gets is what was sent and what was
 * answered, step for step. */
#include "common/base/clock.h"
#include "tests/unit/learner/serve/inference_parts.h"
#include "tests/unit/support/episodes.h"

enum { SLOTS = 4, EVAL_SLOTS = 2, T = 3, N = 2 };

struct fixture {
  struct inference_parts parts;
  struct metrics *metrics;
  struct inference_metrics metric;
};

static struct fixture *open_with(const struct inference_config *config, bool trains,
                                 int64_t max_lag) {
  struct fixture *f = calloc(1, sizeof(*f));
  f->metrics = metrics_create(2);
  f->metric.actor_step_us = metrics_histogram(f->metrics, "actor/step_us", "");
  f->metric.actor_wait_us = metrics_histogram(f->metrics, "actor/wait_us", "");
  struct inference_parts_config parts = {.network = "random",
                                         .train_slots = SLOTS,
                                         .clients = SLOTS + EVAL_SLOTS,
                                         .trains = trains,
                                         .T = T,
                                         .N = N,
                                         .max_lag = max_lag,
                                         .inference = *config};
  parts.inference.seed = 3;
  inference_parts_create(&f->parts, &parts, &f->metric);
  return f;
}

static int create(void **state) {
  *state = open_with(&(struct inference_config){.greedy_eval = true}, true, 0);
  return 0;
}

static void shut(struct fixture *f) {
  inference_parts_destroy(&f->parts);
  metrics_destroy(f->metrics);
  free(f);
}

static int destroy(void **state) {
  shut(*state);
  return 0;
}

/* A client of one row: its stream, and what it has sent and heard. */
struct client {
  int index, slot;
  struct rpc_stream stream;
  int steps;
  float sent[64], reward[64];
  uint8_t flags[64];
  int32_t heard[64];
};

static void join(struct fixture *f, struct client *client, int index, int slot, uint32_t life,
                 bool eval) {
  memset(client, 0, sizeof(*client));
  client->index = index;
  client->slot = slot;
  batcher_add(f->parts.batcher, index, 1, slot, life, eval, true, 0);
}

static void send(struct fixture *f, struct client *client, uint8_t flags, int64_t now_us) {
  int t = client->steps++;
  client->sent[t] = (float)(1000 * (client->slot + 1) + t);
  client->reward[t] = flags & STEP_FIRST ? 0 : (float)t / 10;
  client->flags[t] = flags;
  inference_parts_send(&f->parts, client->index, &client->stream, client->sent[t],
                       client->reward[t], flags, now_us);
}

/* Runs the batch that is ready and notes the answers. */
static void run(struct fixture *f, struct client **clients, int count, int64_t now_us) {
  inference_parts_run(&f->parts, now_us);
  for (int i = 0; i < count; i++)
    clients[i]->heard[clients[i]->steps - 1] = inference_parts_heard(&clients[i]->stream);
}

static void check_column(const struct train_batch *batch, int n, const struct client *client,
                         int first) {
  assert_int_equal(batch->window[n].slot, client->slot);
  assert_int_equal(batch->window[n].first_step, first);
  for (int t = 0; t <= T; t++) {
    int at = t * N + n, step = first + t;
    float x;
    memcpy(&x, batch->observation + (size_t)at * STRIDE, sizeof(x));
    assert_true(x == client->sent[step]);
    assert_true(batch->reward[at] == client->reward[step]);
    assert_int_equal(batch->flags[at], client->flags[step]);
    assert_int_equal(((const int32_t *)batch->action)[at], client->heard[step]);
    assert_true(fabsf(batch->statistics[at] - logf(1.0f / ACTIONS)) < 1e-6f);
    int32_t previous = client->flags[step] & STEP_FIRST ? -1 : client->heard[step - 1];
    assert_int_equal(((const int32_t *)batch->previous_action)[at], previous);
  }
}

static void training_gets_what_was_sent_and_answered(void **state) {
  struct fixture *f = *state;
  struct client a, b, *both[] = {&a, &b};
  join(f, &a, 0, 0, 1, false);
  join(f, &b, 1, 1, 1, false);
  const uint8_t flags_a[] = {STEP_FIRST, 0, STEP_FIRST | STEP_TERMINATED, 0, 0, 0, 0};
  const uint8_t flags_b[] = {STEP_FIRST, STEP_TRUNCATED, STEP_FIRST, 0, 0, 0, 0};
  for (int t = 0; t <= 2 * T; t++) {
    send(f, &a, flags_a[t], t);
    send(f, &b, flags_b[t], t);
    run(f, both, 2, t);
    if (t > 0 && t % T == 0) {
      const struct train_batch *batch = inference_parts_take(&f->parts);
      check_column(batch, 0, &a, t - T);
      check_column(batch, 1, &b, t - T);
    }
  }
  /* 14 rows, one of them truncated: it needed no action. */
  assert_int_equal(progress_steps(f->parts.progress), 13);
}

static void rows_of_a_dead_client_are_dropped(void **state) {
  struct fixture *f = *state;
  struct client old, new, *one[] = {&new};
  join(f, &old, 0, 0, 1, false);
  send(f, &old, STEP_FIRST, 0);
  batcher_remove(f->parts.batcher, 0);
  join(f, &new, 1, 0, 2, false);
  send(f, &new, STEP_FIRST, 1);
  run(f, one, 1, 2);
  assert_false(old.stream.in_hand); /* answered all the same, exactly once */
  assert_int_equal(progress_steps(f->parts.progress), 1);
  for (int t = 1; t <= 2 * T; t++) {
    send(f, &new, 0, 2 + t);
    run(f, one, 1, 2 + t);
  }
  const struct train_batch *batch = inference_parts_take(&f->parts);
  for (int n = 0; n < N; n++) {
    assert_int_equal(batch->window[n].life, 2);
    check_column(batch, n, &new, n * T);
  }
}

/* On a device that pads batches the fourth row of three is padding, where that of the batch before
 * was a client's. Nor do rows that begin no window write where one of an earlier batch began. */
static void only_rows_of_the_batch_are_filed(void **state) {
  enum { LAST = SLOTS - 1, LATER_US = 2000000 };
  struct fixture *f = *state;
  struct client client[SLOTS], *each[SLOTS];
  for (int i = 0; i < SLOTS; i++) {
    each[i] = &client[i];
    join(f, &client[i], i, i, 1, false);
  }
  for (int t = 0; t <= 2 * T + 1; t++) {
    bool together = t > 0 && t % 2 == 0;
    for (int i = 0; i < LAST; i++) send(f, &client[i], t ? 0 : STEP_FIRST, t);
    if (!together) run(f, each, LAST, t + LATER_US);
    if (t == 0) continue;
    send(f, &client[LAST], t == 1 ? STEP_FIRST : 0, t);
    run(f, together ? each : &each[LAST], together ? SLOTS : 1, t + LATER_US);
    int closed = t % T == 0 ? 0 : t > T && t % T == 1 ? N : -1; /* the first client of a batch */
    if (closed < 0) continue;
    const struct train_batch *batch = inference_parts_take(&f->parts);
    for (int n = 0; n < N; n++) check_column(batch, n, &client[closed + n], (t / T - 1) * T);
  }
}

/* A window that was given is gathered before its slot has a newer life. */
static void a_window_outlives_its_actor(void **state) {
  struct fixture *f = *state;
  struct client client[2], *one;
  for (int i = 0; i < 2; i++) {
    if (i) batcher_remove(f->parts.batcher, 0);
    one = &client[i];
    join(f, one, i, 0, 1 + (uint32_t)i, false);
    for (int t = 0; t <= T; t++) {
      send(f, one, t ? 0 : STEP_FIRST, t);
      run(f, &one, 1, t);
    }
  }
  const struct train_batch *batch = inference_parts_take(&f->parts);
  for (int n = 0; n < N; n++) check_column(batch, n, &client[n], 0);
}

static void absent_rows_are_neither_counted_nor_stored(void **state) {
  struct fixture *f = *state;
  struct client a, *one[] = {&a};
  join(f, &a, 0, 0, 1, false);
  send(f, &a, STEP_FIRST, 0);
  run(f, one, 1, 0);
  for (int t = 1; t < 20; t++) {
    send(f, &a, STEP_ABSENT, t);
    run(f, one, 1, t);
  }
  assert_int_equal(progress_steps(f->parts.progress), 1);
  assert_int_equal(source_counters(f->parts.source).windows_given, 0);
}

static void evaluators_take_the_argmax_and_are_never_trained_on(void **state) {
  struct fixture *f = *state;
  struct client a, *one[] = {&a};
  join(f, &a, 0, SLOTS, 1, true);
  for (int t = 0; t < 30; t++) {
    send(f, &a, t ? 0 : STEP_FIRST, t);
    run(f, one, 1, t);
    assert_int_equal(a.heard[t], 0); /* all logits are equal: the lowest index */
  }
  assert_int_equal(progress_steps(f->parts.progress), 0);
  assert_int_equal(source_counters(f->parts.source).windows_given, 0);
}

/* The same life draws the same actions again; another life others. */
static void actions_are_a_function_of_seed_slot_life_and_step(void **state) {
  struct fixture *f = *state;
  int32_t first[30];
  int same = 0;
  for (uint32_t life = 1; life <= 2; life++) {
    struct client a, *one[] = {&a};
    join(f, &a, 0, 0, life, false);
    for (int t = 0; t < 30; t++) {
      send(f, &a, t ? 0 : STEP_FIRST, t);
      run(f, one, 1, t);
      if (life == 1)
        first[t] = a.heard[t];
      else
        same += a.heard[t] == first[t];
      source_close(f->parts.source);
    }
    batcher_remove(f->parts.batcher, 0);
  }
  assert_in_range(same, 1, 25);
}

static void count_observed(void *context, const struct metric_view *view) {
  int64_t *count = context;
  count[strcmp(view->name, "actor/wait_us") == 0] = view->total;
}

/* The actor's time is from an answer to the next message, so a first message has none; ours is from
 * a message to its answer. */
static void the_times_of_actors_are_measured(void **state) {
  struct fixture *f = *state;
  struct client a, *one[] = {&a};
  join(f, &a, 0, 0, 1, false);
  int64_t answer_us = 0, steps_us = 0, waits_us = 0; /* no more than these can be measured */
  for (int t = 0; t < 3; t++) {
    int64_t now_us = clock_now_us();
    if (t) steps_us += now_us - answer_us;
    send(f, &a, t ? 0 : STEP_FIRST, now_us);
    clock_sleep_us(3000);
    answer_us = clock_now_us();
    run(f, one, 1, now_us);
    waits_us += clock_now_us() - now_us;
    clock_sleep_us(9000);
  }
  int64_t count[2];
  assert_in_range(metric_mean_since(f->metric.actor_step_us, &(struct metric_sum){0}), 9000,
                  steps_us / 2);
  assert_in_range(metric_mean_since(f->metric.actor_wait_us, &(struct metric_sum){0}), 3000,
                  waits_us / 3);
  metrics_close_interval(f->metrics);
  metrics_each(f->metrics, count_observed, count);
  assert_int_equal(count[0], 2);
  assert_int_equal(count[1], 3);
}

/* An actor whose stream has not closed yet, and the one that took its place: both send into one
 * batch. */
static void a_slot_that_has_a_newer_life_in_the_batch_is_filed_for_that_only(void **state) {
  struct fixture *f = *state;
  struct client old, new, *both[] = {&old, &new}, *one[] = {&new};
  join(f, &old, 0, 0, 1, false);
  join(f, &new, 1, 0, 2, false);
  send(f, &old, STEP_FIRST, 0);
  send(f, &new, STEP_FIRST, 0);
  run(f, both, 2, 1);
  assert_int_equal(progress_steps(f->parts.progress), 1);
  batcher_remove(f->parts.batcher, 0);
  for (int t = 1; t <= 2 * T; t++) {
    send(f, &new, 0, 1 + t);
    run(f, one, 1, 1 + t);
  }
  const struct train_batch *batch = inference_parts_take(&f->parts);
  for (int n = 0; n < N; n++) check_column(batch, n, &new, n * T);
}

/* ---- two batches between launch and finish */

static void launch(struct fixture *f, int64_t now_us) {
  int64_t deadline;
  struct row_batch *batch = batcher_try_take(f->parts.batcher, now_us, &deadline);
  assert_non_null(batch);
  inference_launch(f->parts.inference, batch);
}

static void finish(struct fixture *f, struct client *client) {
  inference_finish(f->parts.inference);
  client->heard[client->steps - 1] = inference_parts_heard(&client->stream);
}

/* Two clients in turn, each of whose batches is launched before the other's is finished. */
static void batches_may_overlap(void **state) {
  (void)state;
  struct fixture *f = open_with(&(struct inference_config){.running = 2}, true, 0);
  struct client client[2];
  join(f, &client[0], 0, 0, 1, false);
  join(f, &client[1], 1, 1, 1, false);
  for (int t = 0, i = 0; t < 2 * (2 * T + 1); t++, i = !i) {
    send(f, &client[i], client[i].steps ? 0 : STEP_FIRST, t);
    launch(f, t + 2000000);
    assert_int_equal(inference_running(f->parts.inference), t ? 2 : 1);
    assert_int_equal(inference_has_room(f->parts.inference), t == 0);
    if (t) finish(f, &client[!i]);
  }
  finish(f, &client[1]);
  assert_int_equal(inference_running(f->parts.inference), 0);
  for (int k = 0; k < 2; k++) {
    const struct train_batch *batch = inference_parts_take(&f->parts);
    for (int n = 0; n < N; n++) check_column(batch, n, &client[n], k * T);
  }
  assert_int_equal(progress_steps(f->parts.progress), 2 * (2 * T + 1));
  shut(f);
}

/* The actor is replaced while its batch runs: the new life's row enters with the next batch, and
 * the old one's step is not filed. */
static void a_newer_life_in_the_next_batch_drops_the_row(void **state) {
  (void)state;
  struct fixture *f = open_with(&(struct inference_config){.running = 2}, true, 0);
  struct client old, new, *one[] = {&new};
  join(f, &old, 0, 0, 1, false);
  send(f, &old, STEP_FIRST, 0);
  launch(f, 1);
  batcher_remove(f->parts.batcher, 0);
  join(f, &new, 1, 0, 2, false);
  send(f, &new, STEP_FIRST, 2);
  launch(f, 3);
  finish(f, &old);
  assert_int_equal(progress_steps(f->parts.progress), 0);
  finish(f, &new);
  for (int t = 1; t <= 2 * T; t++) {
    send(f, &new, 0, 3 + t);
    run(f, one, 1, 3 + t);
  }
  assert_int_equal(progress_steps(f->parts.progress), 2 * T + 1);
  const struct train_batch *batch = inference_parts_take(&f->parts);
  for (int n = 0; n < N; n++) {
    assert_int_equal(batch->window[n].life, 2);
    check_column(batch, n, &new, n * T);
  }
  shut(f);
}

/* The same where the old life's row completes a window. */
static void a_newer_life_in_the_next_batch_drops_the_window(void **state) {
  (void)state;
  struct fixture *f = open_with(&(struct inference_config){.running = 2}, true, 0);
  struct client old, new, *one[] = {&old}, *other[] = {&new};
  join(f, &old, 0, 0, 1, false);
  for (int t = 0; t < T; t++) {
    send(f, &old, t ? 0 : STEP_FIRST, t);
    run(f, one, 1, t);
  }
  send(f, &old, 0, T);
  launch(f, T);
  batcher_remove(f->parts.batcher, 0);
  join(f, &new, 1, 0, 2, false);
  send(f, &new, STEP_FIRST, T);
  launch(f, T);
  finish(f, &old);
  finish(f, &new);
  assert_int_equal(source_counters(f->parts.source).windows_given, 0);
  assert_int_equal(progress_steps(f->parts.progress), T + 1);
  for (int t = 1; t <= 2 * T; t++) {
    send(f, &new, 0, T + t);
    run(f, other, 1, T + t);
  }
  const struct train_batch *batch = inference_parts_take(&f->parts);
  for (int n = 0; n < N; n++) check_column(batch, n, &new, n * T);
  shut(f);
}

/* Four parameter versions come while the step that closes the window is answered. */
static void publish_four(struct rpc_stream *stream) {
  struct fixture *f = stream->user;
  real *nothing = f->parts.device->ops->alloc(f->parts.device, 0);
  weights_publish(f->parts.weights, f->parts.device, nothing,
                  weights_version(f->parts.weights) + 4);
  f->parts.device->ops->release(f->parts.device, nothing);
}

static void the_lag_of_a_window_counts_to_the_newest_parameters(void **state) {
  (void)state;
  for (int max_lag = 3; max_lag <= 4; max_lag++) {
    struct fixture *f = open_with(&(struct inference_config){.seed = 3}, true, max_lag);
    struct client a, *one[] = {&a};
    join(f, &a, 0, 0, 1, false);
    for (int t = 0; t <= T; t++) {
      send(f, &a, t ? 0 : STEP_FIRST, t);
      a.stream.user = f;
      a.stream.on_reply = t == T ? publish_four : NULL;
      run(f, one, 1, t);
    }
    struct source_counters counters = source_counters(f->parts.source);
    assert_int_equal(counters.windows_dropped_lag, max_lag == 3);
    shut(f);
  }
}

static void play_eval(struct fixture *f, struct client *client, int steps) {
  join(f, client, 0, SLOTS, 1, true);
  for (int t = 0; t < steps; t++) {
    send(f, client, t ? 0 : STEP_FIRST, t);
    run(f, &client, 1, t);
  }
}

/* --policy=sample; the steps of an evaluation are the run's. */
static void an_evaluation_may_sample_and_counts_its_steps(void **state) {
  (void)state;
  struct fixture *f = open_with(&(struct inference_config){.count_eval_steps = true}, false, 0);
  struct client a;
  int greedy = 0;
  play_eval(f, &a, 30);
  for (int t = 0; t < 30; t++) greedy += a.heard[t] == 0;
  assert_in_range(greedy, 1, 25);
  assert_int_equal(progress_steps(f->parts.progress), 30);
  shut(f);
}

/* Deterministic: kept episodes are counted before a batch; once the run has ended a batch is
 * answered and not filed. */
static void lockstep_counts_episodes_first_and_files_nothing_after_the_end(void **state) {
  (void)state;
  struct fixture *f =
      open_with(&(struct inference_config){.lockstep = true, .waits_for_updates = true}, true, 0);
  struct client a, *one[] = {&a};
  join(f, &a, 0, 0, 1, false);
  send(f, &a, STEP_FIRST, 0);
  keep_episode(f->parts.progress, 0, 5, 9);
  assert_int_equal(progress_episodes(f->parts.progress), 0);
  run(f, one, 1, 0);
  assert_int_equal(progress_episodes(f->parts.progress), 1);
  assert_int_equal(progress_steps(f->parts.progress), 1);
  progress_stop(f->parts.progress, STOP_TARGET_RETURN);
  assert_true(inference_ended(f->parts.inference));
  send(f, &a, 0, 1);
  run(f, one, 1, 1);
  assert_int_equal(progress_steps(f->parts.progress), 1);
  shut(f);
}

int main(void) {
#define WITH(test) cmocka_unit_test_setup_teardown(test, create, destroy)
  const struct CMUnitTest tests[] = {
      WITH(training_gets_what_was_sent_and_answered),
      WITH(rows_of_a_dead_client_are_dropped),
      WITH(only_rows_of_the_batch_are_filed),
      WITH(a_window_outlives_its_actor),
      WITH(absent_rows_are_neither_counted_nor_stored),
      WITH(evaluators_take_the_argmax_and_are_never_trained_on),
      WITH(actions_are_a_function_of_seed_slot_life_and_step),
      WITH(the_times_of_actors_are_measured),
      WITH(a_slot_that_has_a_newer_life_in_the_batch_is_filed_for_that_only),
      cmocka_unit_test(the_lag_of_a_window_counts_to_the_newest_parameters),
      cmocka_unit_test(an_evaluation_may_sample_and_counts_its_steps),
      cmocka_unit_test(lockstep_counts_episodes_first_and_files_nothing_after_the_end),
  };
  int failed = 0;
  for (int i = 0; i < INFERENCE_PARTS_DEVICES; i++) {
    inference_parts_device = inference_parts_devices[i];
    failed += cmocka_run_group_tests_name(inference_parts_device, tests, NULL, NULL);
  }
  /* As a device must be for two batches at a time. */
  static const char *const asynchronous[] = {"guarded", "cuda"};
  const struct CMUnitTest overlapping[] = {
      cmocka_unit_test(batches_may_overlap),
      cmocka_unit_test(a_newer_life_in_the_next_batch_drops_the_row),
      cmocka_unit_test(a_newer_life_in_the_next_batch_drops_the_window),
  };
  for (int i = 0; i < 2; i++) {
    inference_parts_device = asynchronous[i];
    failed += cmocka_run_group_tests_name("two at a time", overlapping, NULL, NULL);
  }
  return failed;
}
