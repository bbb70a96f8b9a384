/* The priority of a window from what acting kept (experience/td_priority.h) against that of q_loss
 * in double, both of whose networks are the one that acted. */
#include "learner/experience/td_priority.h"

#include "tests/unit/learner/device/q_testing.h"
#include "learner/device/create.h"

struct acted {
  float *value, *largest; /* (T+1, N) */
};

/* The two numbers that acting keeps: of the action taken, and the largest. */
static struct acted act(struct testing *t, const struct q_batch *batch) {
  const struct q_case *loss = &batch->loss;
  size_t rows = q_rows(loss), A = (size_t)loss->values.A;
  float *uniform = check_alloc(rows, sizeof(float)), *epsilon = check_alloc(rows, sizeof(float));
  for (size_t i = 0; i < rows; i++) {
    epsilon[i] = 1;
    uniform[i] = ((float)batch->action[i] + 0.5f) / (float)A; /* draws the action of the batch */
  }
  int32_t *action = testing_bytes_room(t, rows * sizeof(int32_t));
  float *statistics = testing_bytes_room(t, 2 * rows * sizeof(float));
  q_choose(t->device, action, statistics,
           testing_upload(t, batch->online, rows * (size_t)loss->stride), loss->stride,
           &loss->values, testing_bytes(t, uniform, rows * sizeof(float)),
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
  const struct q_case *loss = &batch->loss;
  const struct td_priority_config config = {.T = loss->T,
                                            .counted = loss->counted,
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
  return td_priority(&config, value, largest, reward, flags);
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
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_against_q_loss)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
