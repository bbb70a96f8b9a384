/* The mask of actions on every device: by hand, and what policies do with it: shares of what is
 * drawn, log-probabilities and gradients as over the allowed actions alone. */
#include "tests/unit/learner/device/categorical_testing.h"
#include "tests/unit/learner/device/q_testing.h"

#define FORBIDDEN (-1e30f)

static real *masked(struct testing *t, const float *x, int stride, const float *mask, int A,
                    int B) {
  real *y = testing_upload(t, x, (size_t)(B * stride));
  action_mask_apply(t->device, y, y, stride, testing_upload(t, mask, (size_t)(B * A)),
                    &(struct space_choices){.count = 0}, A, (size_t)B);
  return y;
}

/* In place, beside a number that is none of them; a row that allows nothing, and one with NaN. */
static void check_by_hand(struct testing *t) {
  static const float x[] = {1, 2, 3, 9, 4, 5, 6, 9, NAN, 7, NAN, 9},
                     mask[] = {1, 0, 1 / 255.0f, 0, 0, 0, 0, 1, 0},
                     y[] = {1, FORBIDDEN, 3, 9, 4, 5, 6, 9, FORBIDDEN, 7, FORBIDDEN, 9};
  float *got = testing_back(t, masked(t, x, 4, mask, 3, 3), 12);
  for (int i = 0; i < 12; i++)
    if (got[i] != y[i]) fail_msg("%s: %g, not %g", t->device->description, got[i], y[i]);
  free(got);
  testing_release(t);
}

/* ---- random masks: at least one action is allowed */

enum { MAX_A = 70, GRID = 1 << 9 };

struct masks {
  int A, count;
  float mask[MAX_A];
  int allowed[MAX_A]; /* (count) */
};

static struct masks random_masks(uint64_t *random, int A) {
  struct masks masks = {.A = A};
  int sure = testing_below(random, A);
  for (int a = 0; a < A; a++) {
    masks.mask[a] = a == sure || testing_below(random, 3) == 0 ? 1 : 0;
    if (masks.mask[a] > 0) masks.allowed[masks.count++] = a;
  }
  return masks;
}

/* The same row so many times. */
static float *repeated(const float *row, int A, int rows) {
  float *all = check_alloc((size_t)(A * rows), sizeof *all);
  for (int b = 0; b < rows; b++) memcpy(all + b * A, row, (size_t)A * sizeof *all);
  return all;
}

/* Each allowed action has its share of a grid of uniforms, no other one has any. */
static void check_epsilon_greedy(struct testing *t) {
  uint64_t random = 9;
  static float uniform[GRID], epsilon[GRID];
  for (int b = 0; b < GRID; b++) uniform[b] = (float)b / GRID, epsilon[b] = 0.5f;
  for (int A = 1; A <= MAX_A; A += 1 + A) {
    struct masks m = random_masks(&random, A);
    float *row = testing_floats(&random, (size_t)A, 3), *values = repeated(row, A, GRID),
          *mask = repeated(m.mask, A, GRID);
    real *given = masked(t, values, A, mask, A, GRID);
    int32_t *action = testing_bytes_room(t, GRID * sizeof *action);
    float *statistics = testing_bytes_room(t, 2 * GRID * sizeof *statistics);
    action_values_choose(t->device, action, statistics, given,
                         testing_bytes(t, uniform, sizeof uniform),
                         testing_bytes(t, epsilon, sizeof epsilon), GRID, A);
    int32_t *got = testing_bytes_back(t, action, GRID * sizeof *got);
    int best = m.allowed[0], count[MAX_A] = {0};
    for (int i = 1; i < m.count; i++)
      if (row[m.allowed[i]] > row[best]) best = m.allowed[i];
    for (int b = 0; b < GRID; b++) {
      assert_in_range(got[b], 0, A - 1);
      assert_true(m.mask[got[b]] > 0);
      if (uniform[b] < epsilon[b])
        count[got[b]]++;
      else
        assert_int_equal(got[b], best);
    }
    for (int i = 0; i < m.count; i++)
      assert_true(abs(count[m.allowed[i]] - GRID / 2 / m.count) <= 1);
    void *all[] = {row, values, mask, got};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) free(all[i]);
    testing_release(t);
  }
}

struct scores {
  float *log_prob, *entropy, *d_logits;
};

static struct scores score(struct testing *t, const real *logits, int A, const int32_t *action,
                           const float *d_log_prob, const float *d_entropy, int B) {
  size_t rows = (size_t)B;
  const int32_t *given = testing_bytes(t, action, rows * sizeof *action);
  real *log_prob = testing_room(t, rows), *entropy = testing_room(t, rows),
       *d_logits = testing_room(t, rows * (size_t)A);
  categorical_evaluate(t->device, log_prob, entropy, logits, A, given, B, A);
  categorical_backward(t->device, d_logits, A, logits, A, given,
                       testing_upload(t, d_log_prob, rows), testing_upload(t, d_entropy, rows), B,
                       A);
  struct scores scores = {testing_back(t, log_prob, rows), testing_back(t, entropy, rows),
                          testing_back(t, d_logits, rows * (size_t)A)};
  testing_release(t);
  return scores;
}

static void scores_free(struct scores *scores) {
  free(scores->log_prob);
  free(scores->entropy);
  free(scores->d_logits);
}

/* As if there were the allowed actions only. */
static void check_categorical(struct testing *t) {
  enum { B = 21 };
  uint64_t random = 12;
  for (int A = 1; A <= MAX_A; A += 1 + A) {
    struct masks m = random_masks(&random, A);
    float *logits = testing_floats(&random, (size_t)(B * A), 3), *mask = repeated(m.mask, A, B),
          *some = check_alloc((size_t)(B * m.count), sizeof *some),
          *d_log_prob = testing_floats(&random, B, 1), *d_entropy = testing_floats(&random, B, 1);
    int32_t among_all[B], among_some[B];
    for (int b = 0; b < B; b++) {
      among_some[b] = testing_below(&random, m.count);
      among_all[b] = m.allowed[among_some[b]];
      for (int i = 0; i < m.count; i++) some[b * m.count + i] = logits[b * A + m.allowed[i]];
    }
    struct scores got =
        score(t, masked(t, logits, A, mask, A, B), A, among_all, d_log_prob, d_entropy, B);
    struct scores expected = score(t, testing_upload(t, some, (size_t)(B * m.count)), m.count,
                                   among_some, d_log_prob, d_entropy, B);
    for (int b = 0; b < B; b++) {
      q_close("log-probability", t, got.log_prob[b], (double)expected.log_prob[b], 1e-6);
      q_close("entropy", t, got.entropy[b], (double)expected.entropy[b], 1e-6);
      for (int a = 0; a < A; a++)
        if (m.mask[a] <= 0) assert_true(got.d_logits[b * A + a] == 0);
      for (int i = 0; i < m.count; i++)
        q_close("gradient", t, got.d_logits[b * A + m.allowed[i]],
                (double)expected.d_logits[b * m.count + i], 2e-6);
    }
    scores_free(&got);
    scores_free(&expected);
    void *all[] = {logits, mask, some, d_log_prob, d_entropy};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) free(all[i]);
  }
}

/* Over a grid, with both ends, and greedily. */
static void check_samples(struct testing *t) {
  uint64_t random = 15;
  static float uniform[GRID];
  for (int b = 0; b < GRID; b++) uniform[b] = b ? (float)b / GRID : -1;
  uniform[GRID - 1] = 1 - 0x1p-24f;
  for (int A = 1; A <= MAX_A; A += 1 + A) {
    struct masks m = random_masks(&random, A);
    float *row = testing_floats(&random, (size_t)A, 30), *logits = repeated(row, A, GRID),
          *mask = repeated(m.mask, A, GRID);
    int32_t *action = testing_bytes_room(t, GRID * sizeof *action);
    float *log_prob = testing_bytes_room(t, GRID * sizeof *log_prob);
    categorical_sample(t->device, action, log_prob, masked(t, logits, A, mask, A, GRID), A,
                       testing_bytes(t, uniform, sizeof uniform), GRID, A);
    int32_t *got = testing_bytes_back(t, action, GRID * sizeof *got);
    for (int b = 0; b < GRID; b++) {
      assert_in_range(got[b], 0, A - 1);
      assert_true(m.mask[got[b]] > 0);
    }
    void *all[] = {row, logits, mask, got};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) free(all[i]);
    testing_release(t);
  }
}

/* Of distributions the means, without a copy of their own. */
static void check_values(struct testing *t) {
  const struct action_values v = {.A = 2, .Z = 2, .low = -1, .high = 1};
  const float numbers[] = {0, 0, 0, logf(3)}, mask[] = {0, 1};
  real *room = testing_room(t, 2);
  const real *values = action_values_of(t->device, room, testing_upload(t, numbers, 4), &v, 1);
  values = action_values_masked(t->device, room, values, testing_upload(t, mask, 2), 2, 1);
  float *got = testing_back(t, values, 2);
  assert_true(got[0] == FORBIDDEN);
  q_close("mean", t, got[1], 0.5, 1e-6);
  assert_ptr_equal(action_values_masked(t->device, NULL, room, NULL, 2, 1), room);
  free(got);
  testing_release(t);
}

static void test_by_hand(void **state) {
  (void)state;
  testing_each_device(check_by_hand);
}
static void test_epsilon_greedy(void **state) {
  (void)state;
  testing_each_device(check_epsilon_greedy);
}
static void test_categorical(void **state) {
  (void)state;
  testing_each_device(check_categorical);
}
static void test_samples(void **state) {
  (void)state;
  testing_each_device(check_samples);
}
static void test_values(void **state) {
  (void)state;
  testing_each_device(check_values);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_by_hand),     cmocka_unit_test(test_epsilon_greedy),
      cmocka_unit_test(test_categorical), cmocka_unit_test(test_samples),
      cmocka_unit_test(test_values),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
