/* What a batch of inference costs a device of its own: the same few calls and transfers whatever
 * the network is, and bytes for the rows that are there; a second batch runs behind the first one;
 * a batch acts with the newest parameters, and holds them. On the emulated CUDA device, whose calls
 * are counted. */
#include "tests/unit/learner/serve/inference_parts.h"
#include "tests/unit/support/skip.h"

enum { CLIENTS = 40, T = 1000, N = 2, WARM_BATCHES = 6 };

struct fixture {
  struct inference_parts parts;
  struct rpc_stream stream[CLIENTS];
  int steps[CLIENTS];
};

static void open_with(struct fixture *f, struct inference_parts_config config) {
  struct inference_metrics none = {NULL};
  config.reads_past = config.trains = true;
  config.train_slots = config.clients = CLIENTS;
  config.T = T;
  config.N = N;
  config.inference.seed = 3;
  memset(f, 0, sizeof(*f));
  inference_parts_device = "cuda";
  inference_parts_create(&f->parts, &config, &none);
  for (int i = 0; i < CLIENTS; i++) batcher_add(f->parts.batcher, i, 1, i, 1, false, true, 0);
}

static void open_parts(struct fixture *f, const char *network, int running) {
  open_with(f, (struct inference_parts_config){.network = network, .inference.running = running});
}

/* Rows of clients first .. first + count - 1 become a batch, which is launched. */
static void launch(struct fixture *f, int first, int count) {
  for (int i = first; i < first + count; i++) {
    int t = f->steps[i]++;
    inference_parts_send(&f->parts, i, &f->stream[i], (float)t / 10, 0.5f, t ? 0 : STEP_FIRST, 0);
  }
  int64_t deadline, late_us = 2000000;
  struct row_batch *batch = batcher_try_take(f->parts.batcher, late_us, &deadline);
  assert_non_null(batch);
  assert_int_equal(batch->num_rows, count);
  inference_launch(f->parts.inference, batch);
}

static void finish(struct fixture *f) {
  inference_finish(f->parts.inference);
}

/* So large that the recurrent state shows in the actions. */
static float parameter_of(int64_t version, size_t i) {
  return 5 * ((float)((i + (size_t)version) * 7919 % 1009) / 1009 - 0.5f);
}

static void publish(struct fixture *f, int64_t version) {
  struct device *device = f->parts.device;
  size_t P = network_num_parameters(f->parts.network);
  float *host = check_alloc(P, sizeof(*host));
  for (size_t i = 0; i < P; i++) host[i] = parameter_of(version, i);
  real *params = device->ops->alloc(device, P * device->ops->real_bytes);
  device->ops->upload(device, params, host, P);
  weights_publish(f->parts.weights, device, params, version);
  device->ops->release(device, params);
  free(host);
}

/* ---- what a batch costs */

struct cost {
  long calls;
  struct device_traffic traffic;
};

static long calls_so_far(void) {
  return emulated_cuda_is_used() ? emulated_cuda_count(NULL) : 0;
}

/* Of a batch of so many rows. A GPU's runtime counts no calls. */
static struct cost cost_of(struct fixture *f, int rows) {
  long calls = calls_so_far();
  struct device_traffic before = device_traffic_read(f->parts.device);
  launch(f, 0, rows);
  finish(f);
  struct device_traffic after = device_traffic_read(f->parts.device);
  return (struct cost){calls_so_far() - calls,
                       {after.bytes_up - before.bytes_up, after.bytes_down - before.bytes_down,
                        after.transfers - before.transfers}};
}

/* The observations' upload, the rest of the batch, the mark behind it, the wait. */
static void a_batch_costs_the_same_few_calls_for_any_network(void **state) {
  enum { CALLS = 4, COPY_OF_PARAMETERS = 1, UP_AND_DOWN = 3 };
  static const char *const networks[] = {"mlp", "lstm"};
  (void)state;
  if (!emulated_cuda_is_used()) SKIP("for the emulated plugin only");
  for (int k = 0; k < 2; k++) {
    struct fixture f;
    open_parts(&f, networks[k], 2);
    for (int i = 0; i < WARM_BATCHES; i++) cost_of(&f, 5 + i % 3);
    for (int i = 0; i < 4; i++) {
      struct cost cost = cost_of(&f, 8 - i);
      assert_int_equal(cost.calls, CALLS);
      assert_int_equal(cost.traffic.transfers, UP_AND_DOWN);
    }
    publish(&f, 1);
    assert_int_equal(cost_of(&f, 6).calls, CALLS + COPY_OF_PARAMETERS);
    assert_int_equal(cost_of(&f, 6).calls, CALLS);
    publish(&f, 1); /* set from outside, which leaves the number of updates */
    assert_int_equal(cost_of(&f, 6).calls, CALLS + COPY_OF_PARAMETERS);
    inference_parts_destroy(&f.parts);
  }
}

static void a_batch_of_a_small_network_is_a_few_nodes(void **state) {
  enum { MOST_NODES = 8 };
  (void)state;
  if (!emulated_cuda_is_used()) SKIP("for the emulated plugin only");
  struct fixture f;
  open_parts(&f, "mlp", 2);
  for (int i = 0; i < WARM_BATCHES; i++) cost_of(&f, 8);
  emulated_cuda_take_nodes(NULL);
  cost_of(&f, 8);
  assert_in_range(emulated_cuda_take_nodes("batch"), 1, MOST_NODES);
  inference_parts_destroy(&f.parts);
}

/* Observations of the rows that are there, and for each row of the padded batch at most 2% of an
 * Atari frame, the third that may be padding included. */
static void bytes_follow_the_rows(void **state) {
  enum { SMALL = 48, FRAME = 84 * 84, BLOCK = 16 * 16 };
  static const int rows[] = {1, 3, 8, 17, 32}, padded[] = {1, 4, 8, 32, 32};
  (void)state;
  struct fixture f;
  open_parts(&f, "lstm", 1);
  for (int i = 0; i < 5; i++) {
    struct cost cost = cost_of(&f, rows[i]);
    assert_in_range(cost.traffic.bytes_up, rows[i] * STRIDE + padded[i] * 16,
                    rows[i] * STRIDE + padded[i] * SMALL + BLOCK);
    assert_int_equal(cost.traffic.bytes_down, padded[i] * (int)sizeof(int32_t));
  }
  assert_true(1.5 * SMALL <= 0.02 * FRAME);
  inference_parts_destroy(&f.parts);
}

/* ---- two at a time */

static void a_second_batch_is_launched_while_the_first_runs(void **state) {
  (void)state;
  if (!emulated_cuda_is_used()) SKIP("for the emulated plugin only");
  struct fixture f;
  open_parts(&f, "lstm", 2);
  /* The first runs allocate memory, which waits for the device. */
  for (int i = 0; i < WARM_BATCHES; i++) cost_of(&f, 5);
  emulated_cuda_hold();
  launch(&f, 0, 5);
  launch(&f, 5, 5);
  assert_int_equal(inference_running(f.parts.inference), 2);
  assert_true(inference_computes(f.parts.inference));
  for (int i = 0; i < 10; i++) assert_true(f.stream[i].in_hand);
  emulated_cuda_let_go();
  finish(&f);
  device_finish(f.parts.device);
  assert_false(inference_computes(f.parts.inference));
  finish(&f);
  assert_false(inference_computes(f.parts.inference));
  for (int i = 0; i < 10; i++) assert_false(f.stream[i].in_hand);
  inference_parts_destroy(&f.parts);
}

/* The second one's operations do not run before the first one's actions went out. */
static void the_first_is_answered_before_the_second_is_done(void **state) {
  (void)state;
  if (!emulated_cuda_is_used()) SKIP("for the emulated plugin only");
  struct fixture f;
  open_parts(&f, "lstm", 2);
  for (int i = 0; i < WARM_BATCHES; i++) cost_of(&f, 5);
  for (int turn = 0; turn < 5; turn++) {
    launch(&f, 0, 5);
    emulated_cuda_hold();
    launch(&f, 5, 5);
    finish(&f);
    for (int i = 0; i < 10; i++) assert_int_equal(f.stream[i].in_hand, i >= 5);
    emulated_cuda_let_go();
    finish(&f);
    for (int i = 0; i < 10; i++) inference_parts_heard(&f.stream[i]);
  }
  inference_parts_destroy(&f.parts);
}

/* ---- parameters */

/* Others may write the snapshot once it is released. */
static void a_batch_that_runs_holds_its_parameters(void **state) {
  enum { PUBLISHED = 8 };
  (void)state;
  struct fixture f;
  open_parts(&f, "mlp", 1);
  publish(&f, 1);
  int64_t version;
  const real *taken = weights_acquire(f.parts.weights, &version);
  weights_release(f.parts.weights, taken);
  launch(&f, 0, 5);
  for (version = 2; version <= PUBLISHED; version++) publish(&f, version);
  size_t P = network_num_parameters(f.parts.network);
  float *host = check_alloc(P, sizeof(*host));
  f.parts.device->ops->download(f.parts.device, host, taken, P);
  for (size_t i = 0; i < P; i++) assert_true(host[i] == parameter_of(1, i));
  finish(&f);
  free(host);
  inference_parts_destroy(&f.parts);
}

/* Two steps of clients first .. first + CLIENTS / 2 - 1. */
static void act_twice(struct fixture *f, int first) {
  for (int t = 0; t < 2; t++)
    for (int i = first; i < first + CLIENTS / 2; i += 5) {
      launch(f, i, 5);
      finish(f);
    }
}

/* What the second half of the clients heard, with parameters 2; the first half may act before, with
 * others. The second step reads the recurrent weights. */
static void act_with_second(const char *precision, bool after_others, int32_t heard[CLIENTS / 2]) {
  enum { HALF = CLIENTS / 2, LARGE = 128 };
  struct fixture f;
  open_with(&f, (struct inference_parts_config){
                    .network = "lstm", .lstm_size = LARGE, .precision = precision});
  publish(&f, 1);
  if (after_others) act_twice(&f, 0);
  publish(&f, 2);
  act_twice(&f, HALF);
  for (int i = 0; i < HALF; i++) heard[i] = inference_parts_heard(&f.stream[HALF + i]);
  inference_parts_destroy(&f.parts);
}

/* Of large weights in bf16 the device keeps a copy. */
static void new_parameters_are_acted_with(void **state) {
  static const char *const precisions[] = {"float32", "bf16"};
  (void)state;
  for (int i = 0; i < 2; i++) {
    int32_t alone[CLIENTS / 2], after_others[CLIENTS / 2];
    act_with_second(precisions[i], false, alone);
    act_with_second(precisions[i], true, after_others);
    assert_memory_equal(after_others, alone, sizeof(alone));
  }
}

/* ---- the same actions whatever the batch */

/* Actions of all clients over some steps, whose rows go in batches of so many; 0: of 8 and 5 in
 * turn, so that rows of padding were clients' before. */
static void act(int at_a_time, int32_t heard[][CLIENTS], int steps) {
  struct fixture f;
  open_parts(&f, "lstm", 1);
  publish(&f, 1);
  for (int t = 0; t < steps; t++) {
    if (t == steps / 2) publish(&f, 2);
    for (int first = 0, turn = 0, count; first < CLIENTS; first += count, turn++) {
      count = at_a_time ? at_a_time : turn % 2 ? 5 : 8;
      if (count > CLIENTS - first) count = CLIENTS - first;
      launch(&f, first, count);
      finish(&f);
    }
    for (int i = 0; i < CLIENTS; i++) heard[t][i] = inference_parts_heard(&f.stream[i]);
  }
  inference_parts_destroy(&f.parts);
}

static void actions_do_not_depend_on_the_batch(void **state) {
  enum { STEPS = 6 };
  static const int at_a_time[] = {3, 17, CLIENTS, 0};
  static int32_t alone[STEPS][CLIENTS], together[STEPS][CLIENTS];
  (void)state;
  act(1, alone, STEPS);
  for (int i = 0; i < 4; i++) {
    act(at_a_time[i], together, STEPS);
    assert_memory_equal(together, alone, sizeof(alone));
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_batch_costs_the_same_few_calls_for_any_network),
      cmocka_unit_test(a_batch_of_a_small_network_is_a_few_nodes),
      cmocka_unit_test(bytes_follow_the_rows),
      cmocka_unit_test(a_second_batch_is_launched_while_the_first_runs),
      cmocka_unit_test(the_first_is_answered_before_the_second_is_done),
      cmocka_unit_test(a_batch_that_runs_holds_its_parameters),
      cmocka_unit_test(new_parameters_are_acted_with),
      cmocka_unit_test(actions_do_not_depend_on_the_batch),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
