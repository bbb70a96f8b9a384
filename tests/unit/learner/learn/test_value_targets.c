/* The running statistics of targets on every device, against the same from their definition in
 * double: of the steps that count, far from 0, over a window, where all are alike. */
#include "learner/learn/value_targets.h"
#include "tests/unit/learner/device/device_testing.h"
#include "tests/unit/learner/network/fixture.h"

enum { T = 20, N = 13, STEPS = T * N, BATCHES = 1200, WINDOW = 1 << 17 };

/* Sum over all numbers so far, each with its weight. */
struct expected {
  double weight, sum, squares;
};

static void take(struct expected *e, const float *target, const uint8_t *flags) {
  double kept = e->weight > WINDOW ? WINDOW / e->weight : 1;
  e->weight *= kept, e->sum *= kept, e->squares *= kept;
  for (int i = 0; i < STEPS; i++) {
    if (flags[i] & STEP_TRUNCATED) continue;
    e->weight += 1, e->sum += (double)target[i];
    e->squares += (double)target[i] * (double)target[i];
  }
}

static void compare(struct testing *t, const real *next, const struct expected *e, double least) {
  float *got = testing_back(t, next, NETWORK_VALUE_STATISTICS);
  double mean = e->sum / e->weight;
  double deviation = fmax(least, sqrt(fmax(0, e->squares / e->weight - mean * mean)));
  double expected[] = {fmin(e->weight, WINDOW), mean, deviation};
  for (int k = 0; k < NETWORK_VALUE_STATISTICS; k++)
    if (!(fabs((double)got[k] - expected[k]) <= 1e-4 * fabs(expected[k])))
      fail_msg("%s: statistic %d is %.9g, not %.9g", t->device->description, k, (double)got[k],
               expected[k]);
  free(got);
}

struct world {
  struct network *network;
  struct value_targets targets;
  real *params, *skipped;
};

static void open_world(struct world *w, struct testing *t) {
  struct network_config config = fixture_config("mlp", 0, ACTIVATION_NONE);
  config.scale_value = true;
  w->network = fixture_network(&config);
  size_t P = network_num_parameters(w->network);
  float *host = check_alloc(P, sizeof *host);
  network_init_parameters(w->network, host, 1);
  w->params = testing_upload(t, host, P);
  w->skipped = testing_zeros(t, 1);
  value_targets_init(&w->targets, t->device, w->network);
  free(host);
}

static void close_world(struct world *w) {
  value_targets_deinit(&w->targets);
  network_destroy(w->network);
}

/* Returns that grow: what was met first is forgotten. The first step never counts. */
static void check_statistics(struct testing *t) {
  struct world w;
  struct expected e = {0};
  uint64_t random = 3;
  open_world(&w, t);
  real *given = testing_room(t, STEPS);
  uint8_t flags[STEPS];
  int batches = testing_cases(BATCHES);
  for (int b = 0; b < batches; b++) {
    float *target = testing_floats(&random, STEPS, 5);
    for (int i = 0; i < STEPS; i++) {
      target[i] += 30 + (float)b / 10;
      flags[i] = i == 0 || testing_below(&random, 5) == 0 ? STEP_TRUNCATED : 0;
      if (flags[i]) target[i] = 1e6f;
    }
    void *on_device = testing_bytes(t, flags, sizeof flags);
    t->device->ops->upload(t->device, given, target, STEPS);
    value_targets_measure(&w.targets, w.params, given, on_device, T, N);
    take(&e, target, flags);
    if (b < 3 || b == batches - 1) compare(t, w.targets.next, &e, 0);
    value_targets_adopt(&w.targets, w.params, w.skipped);
    t->device->ops->release(t->device, on_device);
    t->count--;
    free(target);
  }
  if (batches == BATCHES) assert_true(e.weight > WINDOW);
  close_world(&w);
}

static void statistics_are_of_the_targets_that_count(void **state) {
  (void)state;
  testing_each_device(check_statistics);
}

/* All alike: a deviation that is not 0. None that counts: as before. */
static void check_borders(struct testing *t) {
  struct world w;
  struct expected e = {0};
  open_world(&w, t);
  float target[STEPS];
  uint8_t flags[STEPS] = {0}, none[STEPS];
  for (int i = 0; i < STEPS; i++) target[i] = 7.5f, none[i] = STEP_TRUNCATED;
  const real *given = testing_upload(t, target, STEPS);
  value_targets_measure(&w.targets, w.params, given, testing_bytes(t, none, sizeof none), T, N);
  float *untouched = testing_back(t, w.targets.next, NETWORK_VALUE_STATISTICS);
  assert_true(untouched[0] == 0 && untouched[1] == 0 && untouched[2] == 1);
  free(untouched);
  value_targets_measure(&w.targets, w.params, given, testing_bytes(t, flags, sizeof flags), T, N);
  take(&e, target, flags);
  compare(t, w.targets.next, &e, 0.01);
  close_world(&w);
}

static void borders_are_finite(void **state) {
  (void)state;
  testing_each_device(check_borders);
}

/* Of a batch alone, whatever was before: targets that fall by orders of magnitude, all alike. */
static void check_batch_alone(struct testing *t) {
  struct world w;
  uint64_t random = 5;
  uint8_t flags[STEPS] = {STEP_TRUNCATED};
  const float before[] = {WINDOW, 50, 20}, scale[] = {100, 1e-2f, 0};
  open_world(&w, t);
  value_targets_of_batch(&w.targets, 1e-6f);
  network_set_value_statistics(w.network, t->device, w.params,
                               testing_upload(t, before, NETWORK_VALUE_STATISTICS), w.skipped);
  for (int b = 0; b < 3; b++) {
    float *target = testing_floats(&random, STEPS, 1);
    double sum = 0, squares = 0, count = STEPS - 1;
    for (int i = 0; i < STEPS; i++) {
      target[i] = scale[b] * (target[i] + 2);
      if (i > 0) sum += (double)target[i], squares += (double)target[i] * (double)target[i];
    }
    value_targets_measure(&w.targets, w.params, testing_upload(t, target, STEPS),
                          testing_bytes(t, flags, sizeof flags), T, N);
    value_targets_adopt(&w.targets, w.params, w.skipped);
    float *got = testing_back(t, network_value_statistics(w.network, t->device, w.params),
                              NETWORK_VALUE_STATISTICS);
    double mean = sum / count, deviation = sqrt(fmax(1e-12, squares / count - mean * mean));
    const double expected[] = {0, mean, deviation};
    for (int k = 0; k < NETWORK_VALUE_STATISTICS; k++)
      if (!(fabs((double)got[k] - expected[k]) <= 1e-4 * fabs(expected[k])))
        fail_msg("%s, batch %d: statistic %d is %.9g, not %.9g", t->device->description, b, k,
                 (double)got[k], expected[k]);
    free(got);
    free(target);
  }
  close_world(&w);
}

static void statistics_of_a_batch_forget(void **state) {
  (void)state;
  testing_each_device(check_batch_alone);
}

/* One step that counts has no deviation of its own: that of before stays, and its mean is it. */
static void check_one_alone(struct testing *t) {
  struct world w;
  uint8_t flags[STEPS];
  float target[STEPS];
  const float before[] = {WINDOW, 50, 20}, expected[] = {0, 7, 20};
  open_world(&w, t);
  value_targets_of_batch(&w.targets, 1e-6f);
  network_set_value_statistics(w.network, t->device, w.params,
                               testing_upload(t, before, NETWORK_VALUE_STATISTICS), w.skipped);
  for (int i = 0; i < STEPS; i++) target[i] = 7 + (float)i, flags[i] = i ? STEP_TRUNCATED : 0;
  value_targets_measure(&w.targets, w.params, testing_upload(t, target, STEPS),
                        testing_bytes(t, flags, sizeof flags), T, N);
  float *got = testing_back(t, w.targets.next, NETWORK_VALUE_STATISTICS);
  for (int k = 0; k < NETWORK_VALUE_STATISTICS; k++)
    if (got[k] != expected[k])
      fail_msg("%s: statistic %d is %g, not %g", t->device->description, k, (double)got[k],
               (double)expected[k]);
  free(got);
  close_world(&w);
}

static void one_step_alone_keeps_the_deviation(void **state) {
  (void)state;
  testing_each_device(check_one_alone);
}

/* Of the advantages of one batch, whatever was before; a deviation that is not 0. */
static void check_advantages(struct testing *t) {
  struct world w;
  uint64_t random = 4;
  open_world(&w, t);
  for (int b = 0; b < 3; b++) {
    float *advantage = testing_floats(&random, STEPS, b == 2 ? 1e-4f : 3);
    uint8_t flags[STEPS];
    double count = 0, sum = 0, squares = 0;
    for (int i = 0; i < STEPS; i++) {
      flags[i] = i % 7 == 0 ? STEP_TRUNCATED : 0;
      if (flags[i]) continue;
      count++, sum += (double)advantage[i];
      squares += (double)advantage[i] * (double)advantage[i];
    }
    value_targets_measure_advantages(&w.targets, testing_upload(t, advantage, STEPS),
                                     testing_bytes(t, flags, sizeof flags), T, N);
    float *got = testing_back(t, w.targets.advantage_deviation, 1);
    double expected = fmax(0.01, sqrt(squares / count - sum / count * (sum / count)));
    if (!(fabs((double)*got - expected) < 1e-5 * expected))
      fail_msg("%s: %g, not %g", t->device->description, (double)*got, expected);
    free(got);
    free(advantage);
  }
  close_world(&w);
}

static void advantages_have_their_own_deviation(void **state) {
  (void)state;
  testing_each_device(check_advantages);
}

/* Where the network has none the deviation is 1. */
static void check_without(struct testing *t) {
  struct network_config config = fixture_config("mlp", 0, ACTIVATION_NONE);
  struct network *network = fixture_network(&config);
  struct value_targets targets;
  const float one = 1;
  value_targets_init(&targets, t->device, network);
  const real *params = testing_zeros(t, network_num_parameters(network));
  value_targets_measure(&targets, params, params, NULL, T, N);
  float *got = testing_back(t, targets.deviation, 1);
  assert_memory_equal(got, &one, sizeof one);
  free(got);
  value_targets_deinit(&targets);
  network_destroy(network);
}

static void without_statistics_the_unit_is_1(void **state) {
  (void)state;
  testing_each_device(check_without);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(statistics_are_of_the_targets_that_count),
      cmocka_unit_test(borders_are_finite),
      cmocka_unit_test(statistics_of_a_batch_forget),
      cmocka_unit_test(one_step_alone_keeps_the_deviation),
      cmocka_unit_test(advantages_have_their_own_deviation),
      cmocka_unit_test(without_statistics_the_unit_is_1),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
