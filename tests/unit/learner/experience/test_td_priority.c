/* The first priority of a window: by hand, and against q_loss in double on the same values. */
#include "learner/experience/td_priority.h"

#include "tests/unit/learner/device/q_testing.h"

/* ---- by hand: value 0 throughout, so that TD is the return */

enum { END = STEP_FIRST | STEP_TERMINATED };

static const struct {
  const char *name;
  int n_steps, counted;
  float eta, reward[4], largest[4];
  uint8_t flags[4];
  double expected;
} table[] = {
    {"the largest", 2, 3, 1, {9, 1, 2, 3}, {9, 100, 200, 300}, {0}, 273},
    {"the mean", 2, 3, 0, {9, 1, 2, 3}, {9, 100, 200, 300}, {0}, (164.8 + 247.7 + 273) / 3},
    {"both", 1, 3, 0.75f, {9, 1, 2, 3}, {9, 100, 200, 300}, {0}, 0.75 * 273 + 0.25 * 182},
    {"terminated", 1, 3, 0, {9, 1, 2, 3}, {9, 100, 200, 300}, {0, 0, END}, (91 + 2 + 273) / 3.0},
    {"truncated",
     3,
     3,
     0,
     {9, 1, 2, 0},
     {9, 100, 200, 300},
     {0, 0, STEP_TRUNCATED, STEP_FIRST},
     (164.8 + 182) / 2},
    {"the first alone counts", 2, 1, 0, {9, 1, 2, 3}, {9, 100, 200, 300}, {0}, 164.8},
    {"none counts", 2, 1, 1, {9, 1, 2, 3}, {9, 100, 200, 300}, {STEP_TRUNCATED, STEP_FIRST}, 0},
    {"NaN in a reward", 2, 3, 1, {9, 1, NAN, 3}, {9, 100, 200, 300}, {0}, NAN},
    {"NaN in a value", 2, 3, 1, {9, 1, 2, 3}, {9, 100, 200, NAN}, {0}, NAN},
    {"NaN that nothing reads", 3, 3, 1, {9, 1, 2, 3}, {NAN, NAN, 200, 300}, {0, 0, 0, END}, 5.23},
};

static void test_by_hand(void **state) {
  (void)state;
  static const float value[4] = {0};
  for (size_t k = 0; k < sizeof table / sizeof *table; k++) {
    struct td_settings settings = {.counted = table[k].counted,
                                   .n_steps = table[k].n_steps,
                                   .discount = 0.9f,
                                   .reward_scale = 1,
                                   .eta = table[k].eta};
    double got = (double)td_priority(&settings, value, table[k].largest, table[k].reward,
                                     table[k].flags, 3),
           expected = table[k].expected;
    if (isnan(expected) ? !isnan(got) : !(fabs(got - expected) <= 1e-6 * (1 + expected)))
      fail_msg("%s: %.9g, not %.9g", table[k].name, got, expected);
  }
}

/* ---- against q_loss, whose two networks are the one that acted */

struct acted {
  float *value, *largest; /* (T+1, N) */
};

/* The two numbers that acting keeps: of the action taken, and the largest. */
static struct acted act(struct testing *t, const struct q_batch *batch) {
  const struct device_q_loss *loss = &batch->loss;
  size_t rows = q_rows(loss), A = (size_t)loss->values.A;
  float *uniform = check_alloc(rows, sizeof(float)), *epsilon = check_alloc(rows, sizeof(float));
  for (size_t i = 0; i < rows; i++) {
    epsilon[i] = 1;
    uniform[i] = ((float)batch->action[i] + 0.5f) / (float)A; /* draws the action of the batch */
  }
  int32_t *action = testing_bytes_room(t, rows * sizeof(int32_t));
  float *statistics = testing_bytes_room(t, 2 * rows * sizeof(float));
  t->device->ops->epsilon_greedy(
      t->device, action, statistics, testing_upload(t, batch->online, rows * (size_t)loss->stride),
      loss->stride, &loss->values, testing_bytes(t, uniform, rows * sizeof(float)),
      testing_bytes(t, epsilon, rows * sizeof(float)), (int)rows);
  int32_t *chosen = testing_bytes_back(t, action, rows * sizeof(int32_t));
  assert_memory_equal(chosen, batch->action, rows * sizeof(int32_t));
  float *pairs = testing_bytes_back(t, statistics, 2 * rows * sizeof(float));
  for (size_t i = 0; i < rows; i++) uniform[i] = pairs[2 * i], epsilon[i] = pairs[2 * i + 1];
  free(chosen);
  free(pairs);
  testing_release(t);
  return (struct acted){.value = uniform, .largest = epsilon};
}

static float priority_of(const struct q_batch *batch, const struct acted *acted, int n) {
  enum { MAX_ROWS = 14 };
  const struct device_q_loss *loss = &batch->loss;
  const struct td_settings settings = {.counted = loss->counted,
                                       .n_steps = loss->n_steps,
                                       .discount = loss->discount,
                                       .reward_scale = loss->reward_scale,
                                       .reward_clip = loss->reward_clip,
                                       .rescaling = loss->rescaling,
                                       .eta = loss->eta};
  float value[MAX_ROWS], largest[MAX_ROWS], reward[MAX_ROWS];
  uint8_t flags[MAX_ROWS];
  for (int t = 0; t <= loss->T; t++) {
    int i = t * loss->N + n;
    value[t] = acted->value[i], largest[t] = acted->largest[i];
    reward[t] = batch->reward[i], flags[t] = batch->flags[i];
  }
  return td_priority(&settings, value, largest, reward, flags, loss->T);
}

static void test_against_q_loss(void **state) {
  (void)state;
  struct testing t = {.device = device_ref_double_create()};
  uint64_t random = 81;
  int compared = 0;
  for (int k = 0; k < 300; k++) {
    struct q_batch batch = q_random_batch(&random, 13, 19, 1);
    size_t rows = q_rows(&batch.loss);
    memcpy(batch.target, batch.online, rows * (size_t)batch.loss.stride * sizeof(float));
    for (size_t i = 0; i < rows; i++) batch.action[i] = testing_below(&random, batch.loss.values.A);
    struct acted acted = act(&t, &batch);
    struct q_results expected = q_run(&t, &batch);
    for (int n = 0; n < batch.loss.N; n++, compared++)
      q_close("priority", &t, priority_of(&batch, &acted, n), (double)expected.priority[n], 1e-6);
    q_results_free(&expected);
    free(acted.value);
    free(acted.largest);
    q_batch_free(&batch);
  }
  assert_true(compared > 1000);
  device_destroy(t.device);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_by_hand),
      cmocka_unit_test(test_against_q_loss),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
