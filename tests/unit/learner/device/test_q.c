/* q_loss on every device: published numbers, and cases by hand. */
#include "tests/unit/learner/device/q_testing.h"

/* ---- returns: one window, one action whose online value is 0, so that TD is the return */

enum { MAX_T = 7, END = STEP_FIRST | STEP_TERMINATED };

/* Row t + 1 has reward[t], flags[t] and the target's value[t]. */
static const struct {
  const char *name;
  int T, n_steps, counted;
  float reward[MAX_T], value[MAX_T];
  uint8_t flags[MAX_T];
  double expected[MAX_T];
} returns[] = {
    {"SEED RL, terminated inside",
     7,
     3,
     7,
     {1, 2, 3, 4, 5, 6, 7},
     {100, 200, 300, 400, 500, 600, 700},
     {0, 0, 0, END},
     {223.93, 7.94, 6.6, 4, 526.37, 579.3, 637}},
    {"SEED RL, two steps", 3, 2, 3, {1, 2, 3}, {100, 200, 300}, {0}, {164.8, 247.7, 273}},
    {"SEED RL, one step", 3, 1, 3, {1, 2, 3}, {100, 200, 300}, {0}, {91, 182, 273}},
    {"SEED RL, one step, terminated", 3, 1, 3, {1, 2, 3}, {100, 200, 300}, {0, END}, {91, 2, 273}},
    {"more steps than the window has",
     3,
     7,
     3,
     {1, 2, 3},
     {100, 200, 300},
     {0},
     {1 + 1.8 + 2.43 + 218.7, 2 + 2.7 + 243, 273}},
    {"truncated inside",
     4,
     3,
     4,
     {1, 2, 0, 4},
     {100, 200, 300, 400},
     {0, STEP_TRUNCATED, STEP_FIRST},
     {164.8, 182, 0, 364}},
    {"truncated at the end", 2, 3, 2, {1, 2}, {100, 200}, {0, STEP_TRUNCATED}, {164.8, 182}},
    {"terminated at the end", 2, 1, 2, {1, 2}, {100, 200}, {0, END}, {91, 2}},
    {"some only looked at", 3, 2, 1, {1, 2, 3}, {100, 200, 300}, {0}, {164.8}},
    {"none counts", 2, 2, 0, {1, 2}, {100, 200}, {0}, {0}},
};

static const struct q_case PLAIN = {.N = 1,
                                    .n_steps = 1,
                                    .values = {.A = 1, .Z = 1},
                                    .reduction = LOSS_SUM_OVER_TIME,
                                    .discount = 0.9f,
                                    .reward_scale = 1,
                                    .eta = 0.9f,
                                    .stride = 1};

static void check_returns(struct testing *t) {
  for (size_t k = 0; k < sizeof returns / sizeof *returns; k++) {
    struct q_case loss = PLAIN;
    int T = loss.T = returns[k].T;
    loss.n_steps = returns[k].n_steps, loss.counted = returns[k].counted;
    struct q_batch batch = q_batch_make(loss);
    memcpy(batch.target + 1, returns[k].value, (size_t)T * sizeof(float));
    memcpy(batch.reward + 1, returns[k].reward, (size_t)T * sizeof(float));
    memcpy(batch.flags + 1, returns[k].flags, (size_t)T);
    struct q_results got = q_run(t, &batch);
    double largest = 0, total = 0;
    int count = 0;
    for (int i = 0; i < T; i++) {
      double expected = returns[k].expected[i];
      q_close(returns[k].name, t, got.td[i], expected, 1e-6);
      q_close(returns[k].name, t, got.dhead[i], -expected, 1e-6);
      largest = fmax(largest, expected), total += expected, count += expected > 0;
    }
    q_close("steps", t, got.sums[Q_SUM_STEPS], count, 0);
    q_close("target", t, got.sums[Q_SUM_TARGET], total, 1e-6);
    q_close("priority", t, got.priority[0], count ? 0.9 * largest + 0.1 * total / count : 0, 1e-6);
    q_results_free(&got);
    q_batch_free(&batch);
  }
}

/* ---- one step: what it is trained towards */

static float one_step(struct testing *t, struct q_case loss, const float *online,
                      const float *target, float reward, uint8_t flags) {
  loss.T = loss.counted = 1;
  struct q_batch batch = q_batch_make(loss);
  memcpy(batch.online + loss.stride, online, (size_t)loss.stride * sizeof(float));
  memcpy(batch.target + loss.stride, target, (size_t)loss.stride * sizeof(float));
  batch.reward[1] = reward, batch.flags[1] = flags;
  struct q_results got = q_run(t, &batch);
  float td = got.td[0];
  q_results_free(&got);
  q_batch_free(&batch);
  return td;
}

static void check_double_q(struct testing *t) {
  static const float online[] = {1, 3}, target[] = {5, 2};
  struct q_case loss = PLAIN;
  loss.values.A = loss.stride = 2;
  loss.discount = 0.95f;
  q_close("target network alone", t, one_step(t, loss, online, target, 1, 0), 5.75, 1e-6);
  loss.double_q = true;
  q_close("double Q", t, one_step(t, loss, online, target, 1, 0), 2.9, 1e-6);
}

/* By the formula as it is published. */
static double h(double x, double epsilon) {
  return copysign(sqrt(fabs(x) + 1) - 1, x) + epsilon * x;
}

static void check_rescaling(struct testing *t) {
  static const struct {
    float x;
    double h;
  } table[] = {{0, 0},
               {1, 0.415214},
               {3, 1.003},
               {-3, -1.003},
               {10, 2.326625},
               {100, 9.149876},
               {1000, 31.638584},
               {-1000, -31.638584},
               {1e-3f, 0.000500875},
               {-1e-3f, -0.000500875},
               {1e6f, 1999.0005}};
  struct q_case loss = PLAIN;
  loss.rescaling = 1e-3f;
  float zero = 0;
  for (size_t k = 0; k < sizeof table / sizeof *table; k++) {
    float x = table[k].x, rescaled = (float)h((double)x, 1e-3);
    loss.discount = 0.5f;
    q_close("h", t, one_step(t, loss, &zero, &zero, x, END), table[k].h, 1e-6);
    q_close("h of half its inverse", t, one_step(t, loss, &zero, &rescaled, 0, 0),
            h((double)x / 2, 1e-3), 1e-6);
  }
}

static void check_rewards(struct testing *t) {
  struct q_case loss = PLAIN;
  float zero = 0;
  loss.reward_scale = 0.5f;
  q_close("scaled", t, one_step(t, loss, &zero, &zero, 3, END), 1.5, 1e-6);
  loss.reward_clip = 1;
  q_close("clipped", t, one_step(t, loss, &zero, &zero, 3, END), 1, 1e-6);
  q_close("clipped", t, one_step(t, loss, &zero, &zero, -3, END), -1, 1e-6);
}

/* ---- the loss of one step: TD = 2, weight 0.5, of two windows */

static void check_huber(struct testing *t) {
  static const struct {
    float huber;
    double loss, gradient;
  } table[] = {{0, 2, -2}, {1, 1.5, -1}, {2, 2, -2}, {3, 2, -2}};
  for (size_t k = 0; k < sizeof table / sizeof *table; k++) {
    struct q_case loss = PLAIN;
    loss.T = loss.counted = 1, loss.N = 2, loss.huber = table[k].huber;
    struct q_batch batch = q_batch_make(loss);
    batch.reward[2] = 2, batch.reward[3] = -2;
    batch.flags[2] = batch.flags[3] = END;
    batch.weight = check_alloc(2, sizeof(float));
    batch.weight[0] = 0.5f;
    struct q_results got = q_run(t, &batch);
    q_close("Huber loss", t, got.sums[Q_SUM_LOSS], 0.5 * table[k].loss, 1e-6);
    q_close("its gradient", t, got.dhead[0], 0.25 * table[k].gradient, 1e-6);
    q_close("weight 0", t, got.dhead[1], 0, 0);
    q_close("priority without the weight", t, got.priority[1], 2, 1e-6);
    q_results_free(&got);
    q_batch_free(&batch);
  }
}

/* Atoms -1, 0, 1; the target's distribution (1/4, 1/2, 1/4), of which 1/4 + z/2 lies at -1/4, 1/4
 * and 3/4, so that the atoms get 1/16, 10/16 and 5/16. The online one is uniform. */
static void check_distribution(struct testing *t) {
  static const double projected[] = {0.0625, 0.625, 0.3125};
  struct q_case loss = PLAIN;
  loss.T = loss.counted = 1, loss.stride = 3, loss.discount = 0.5f;
  loss.values = (struct action_values){.A = 1, .Z = 3, .low = -1, .high = 1};
  struct q_batch batch = q_batch_make(loss);
  batch.target[4] = logf(2);
  batch.reward[1] = 0.25f;
  struct q_results got = q_run(t, &batch);
  double divergence = 0;
  for (int z = 0; z < 3; z++) {
    divergence += projected[z] * log(3 * projected[z]);
    q_close("gradient", t, got.dhead[z], 1.0 / 3 - projected[z], 1e-6);
  }
  q_close("cross-entropy", t, got.sums[Q_SUM_LOSS], log(3), 1e-6);
  q_close("divergence", t, got.td[0], divergence, 1e-6);
  q_close("value", t, got.sums[Q_SUM_VALUE], 0, 1e-6);
  q_close("target", t, got.sums[Q_SUM_TARGET], 0.25, 1e-6);
  q_results_free(&got);

  batch.reward[1] = 5, batch.flags[1] = END; // beyond the last atom
  got = q_run(t, &batch);
  q_close("gradient", t, got.dhead[2], 1.0 / 3 - 1, 1e-6);
  q_close("divergence", t, got.td[0], log(3), 1e-6);
  q_results_free(&got);
  q_batch_free(&batch);
}

/* ---- NaN stays in its window */

static void expect_nan(struct testing *t, const char *what, const struct q_batch *clean,
                       float *number, int count, int window) {
  struct q_results expected = q_run(t, clean);
  float *kept = check_alloc((size_t)count, sizeof *kept);
  memcpy(kept, number, (size_t)count * sizeof *kept);
  for (int i = 0; i < count; i++) number[i] = NAN;
  struct q_results got = q_run(t, clean);
  memcpy(number, kept, (size_t)count * sizeof *kept);
  for (int n = 0; n < clean->loss.N; n++) {
    if (n == window && !isnan(got.priority[n]))
      fail_msg("%s: NaN in %s: priority %g", t->device->description, what, (double)got.priority[n]);
    if (n != window) q_close(what, t, got.priority[n], (double)expected.priority[n], 0);
  }
  free(kept);
  q_results_free(&got);
  q_results_free(&expected);
}

static void check_nan(struct testing *t) {
  enum { T = 3, N = 19, WINDOW = 5 };
  uint64_t random = 21;
  for (int k = 0; k < testing_cases(8); k++) {
    struct q_case loss = PLAIN;
    loss.T = loss.counted = T, loss.N = N, loss.double_q = true;
    loss.values =
        (struct action_values){.A = 3, .Z = k & 1 ? 5 : 1, .dueling = k & 2, .low = -2, .high = 2};
    loss.rescaling = k & 1 ? 0 : 1e-3f, loss.huber = k & 4 ? 1 : 0;
    int stride = loss.stride = q_outputs_size(&loss.values);
    struct q_batch batch = q_batch_make(loss);
    for (size_t i = 0; i < q_rows(&loss) * (size_t)stride; i++)
      batch.online[i] = testing_uniform(&random), batch.target[i] = testing_uniform(&random);
    int row = (1 + testing_below(&random, T)) * N + WINDOW;
    expect_nan(t, "a reward", &batch, batch.reward + row, 1, WINDOW);
    expect_nan(t, "an online head", &batch, batch.online + row * stride, stride, WINDOW);
    expect_nan(t, "a target head", &batch, batch.target + row * stride, stride, WINDOW);
    for (int i = 0; i < stride; i++) /* of a row that is only looked at */
      expect_nan(t, "one number of an online head", &batch,
                 batch.online + (T * N + WINDOW) * stride + i, 1, WINDOW);
    q_batch_free(&batch);
  }
}

static void test_returns(void **state) {
  (void)state;
  testing_each_device(check_returns);
}
static void test_double_q(void **state) {
  (void)state;
  testing_each_device(check_double_q);
}
static void test_rescaling(void **state) {
  (void)state;
  testing_each_device(check_rescaling);
}
static void test_rewards(void **state) {
  (void)state;
  testing_each_device(check_rewards);
}
static void test_huber(void **state) {
  (void)state;
  testing_each_device(check_huber);
}
static void test_distribution(void **state) {
  (void)state;
  testing_each_device(check_distribution);
}
static void test_nan(void **state) {
  (void)state;
  testing_each_device(check_nan);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_returns),   cmocka_unit_test(test_double_q),
      cmocka_unit_test(test_rescaling), cmocka_unit_test(test_rewards),
      cmocka_unit_test(test_huber),     cmocka_unit_test(test_distribution),
      cmocka_unit_test(test_nan),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
