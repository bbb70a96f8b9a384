/* The tree of priorities against a plain array, under random operations. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <float.h>
#include <math.h>
#include <stdlib.h>

#include "common/base/random.h"
#include "learner/experience/sum_tree.h"
#include "tests/unit/support/aborts.h"

enum { MAX_LEAVES = 4097, MAX_MANY = 200, OPERATIONS = 4000 };

static const int64_t sizes[] = {1, 7, 8, 9, 63, 64, 65, 513, MAX_LEAVES};
enum { NUM_SIZES = sizeof(sizes) / sizeof(*sizes) };

static uint32_t draws;

static uint64_t draw(void) {
  return random_bits(5, 0, 0, draws++, RANDOM_TEST);
}

static double draw_uniform(void) {
  return (double)(draw() >> 11) * 0x1p-53;
}

/* One in three is 0. Whole numbers: every sum is exact. Others: of very different sizes. */
static double draw_value(bool whole) {
  if (draw() % 3 == 0) return 0;
  if (whole) return (double)(draw() % 1000);
  return ldexp(draw_uniform(), (int)(draw() % 60) - 30);
}

static int64_t find(const struct sum_tree *tree, double position) {
  int64_t leaf;
  sum_tree_find_many(tree, &leaf, &position, 1);
  return leaf;
}

/* ---- the model */

struct model {
  int64_t leaves;
  double value[MAX_LEAVES];
};

static double model_sum(const struct model *model, int64_t leaves) {
  double sum = 0;
  for (int64_t i = 0; i < leaves; i++) sum += model->value[i];
  return sum;
}

static int64_t model_count(const struct model *model) {
  int64_t count = 0;
  for (int64_t i = 0; i < model->leaves; i++) count += model->value[i] > 0;
  return count;
}

static int64_t model_find(const struct model *model, double position) {
  int64_t i = 0;
  for (double sum = model->value[0]; position >= sum; sum += model->value[i]) i++;
  return i;
}

/* What every leaf that is found must be, also where sums are rounded: one above 0 whose range holds
 * the position but for rounding. */
static void expect_holds(const struct model *model, int64_t leaf, double position, double total) {
  double before = model_sum(model, leaf), tolerance = 1e-12 * total;
  assert_in_range(leaf, 0, model->leaves - 1);
  assert_true(model->value[leaf] > 0);
  assert_true(position >= before - tolerance);
  assert_true(position < before + model->value[leaf] + tolerance);
}

/* ---- random operations on both */

static void set_one(struct sum_tree *tree, struct model *model, bool whole) {
  int64_t leaf = (int64_t)(draw() % (uint64_t)model->leaves);
  model->value[leaf] = draw_value(whole);
  sum_tree_set(tree, leaf, model->value[leaf]);
}

/* Some leaves come twice, the last value counts. */
static void set_many(struct sum_tree *tree, struct model *model, bool whole) {
  int64_t leaf[MAX_MANY];
  double value[MAX_MANY];
  int n = (int)(draw() % (MAX_MANY + 1));
  for (int i = 0; i < n; i++) {
    bool again = i > 0 && draw() % 8 == 0;
    leaf[i] = again ? leaf[i - 1] : (int64_t)(draw() % (uint64_t)model->leaves);
    model->value[leaf[i]] = value[i] = draw_value(whole);
  }
  sum_tree_set_many(tree, leaf, value, n);
}

static void find_many(const struct sum_tree *tree, const struct model *model, bool whole) {
  int64_t leaf[MAX_MANY];
  double position[MAX_MANY], total = sum_tree_total(tree);
  int n = total > 0 ? (int)(draw() % (MAX_MANY + 1)) : 0;
  for (int i = 0; i < n; i++) position[i] = draw_uniform() * total;
  sum_tree_find_many(tree, leaf, position, n);
  for (int i = 0; i < n; i++) {
    assert_int_equal(leaf[i], find(tree, position[i]));
    if (whole) assert_int_equal(leaf[i], model_find(model, position[i]));
    expect_holds(model, leaf[i], position[i], total);
  }
}

static void expect_same(const struct sum_tree *tree, const struct model *model, bool whole) {
  double total = model_sum(model, model->leaves);
  for (int64_t i = 0; i < model->leaves; i++) assert_true(sum_tree_get(tree, i) == model->value[i]);
  assert_int_equal(sum_tree_count(tree), model_count(model));
  assert_true(fabs(sum_tree_total(tree) - total) <= (whole ? 0 : 1e-12 * total));
}

static struct sum_tree *play(struct model *model, int64_t leaves, bool whole) {
  struct sum_tree *tree = sum_tree_create(leaves);
  *model = (struct model){.leaves = leaves};
  expect_same(tree, model, whole);
  for (int i = 0; i < OPERATIONS; i++) {
    switch (draw() % 8) {
      case 0:
        set_many(tree, model, whole);
        break;
      case 1:
        find_many(tree, model, whole);
        break;
      default:
        set_one(tree, model, whole);
    }
    if (i % 500 == 0) expect_same(tree, model, whole);
  }
  expect_same(tree, model, whole);
  return tree;
}

static void whole_numbers_agree_with_an_array(void **state) {
  (void)state;
  struct model model;
  for (int i = 0; i < NUM_SIZES; i++) sum_tree_destroy(play(&model, sizes[i], true));
}

static void numbers_of_any_size_agree_with_an_array(void **state) {
  (void)state;
  struct model model;
  for (int i = 0; i < NUM_SIZES; i++) sum_tree_destroy(play(&model, sizes[i], false));
}

/* A tree with a long history and one in which the same values were set once, the last first, have
 * the same total and draw the same leaves, to the last bit. */
static void sums_do_not_depend_on_history(void **state) {
  (void)state;
  struct model model;
  for (int i = 0; i < NUM_SIZES; i++) {
    struct sum_tree *old = play(&model, sizes[i], false);
    struct sum_tree *fresh = sum_tree_create(sizes[i]);
    sum_tree_set(old, 0, model.value[0] = 1);
    for (int64_t leaf = sizes[i] - 1; leaf >= 0; leaf--)
      sum_tree_set(fresh, leaf, model.value[leaf]);
    double total = sum_tree_total(old);
    assert_true(sum_tree_total(fresh) == total);
    for (int k = 0; k < 1000; k++) {
      double position = draw_uniform() * total;
      assert_int_equal(find(old, position), find(fresh, position));
    }
    sum_tree_destroy(old);
    sum_tree_destroy(fresh);
  }
}

/* ---- borders */

/* At the first position of every leaf and at the last one before it. */
static void a_border_belongs_to_the_leaf_behind_it(void **state) {
  (void)state;
  struct model model;
  for (int i = 0; i < NUM_SIZES; i++) {
    struct sum_tree *tree = play(&model, sizes[i], true);
    sum_tree_set(tree, sizes[i] / 2, model.value[sizes[i] / 2] = 3);
    double total = sum_tree_total(tree), sum = 0;
    assert_int_equal(find(tree, 0), model_find(&model, 0));
    for (int64_t leaf = 0; leaf < sizes[i]; sum += model.value[leaf++]) {
      if (model.value[leaf] == 0) continue;
      double last = nextafter(sum + model.value[leaf], 0);
      assert_int_equal(find(tree, sum), leaf);
      assert_int_equal(find(tree, last), leaf);
    }
    assert_int_equal(find(tree, nextafter(total, 0)), model_find(&model, nextafter(total, 0)));
    sum_tree_destroy(tree);
  }
}

/* Leaves of 0 beside leaves whose sums are rounded: positions around every border, as the array
 * rounds it, and the last positions. */
static void rounding_never_leads_to_an_empty_leaf(void **state) {
  (void)state;
  static const double values[] = {0.1, 1.0 / 3, 1e16, 1, 1e-300, DBL_TRUE_MIN, DBL_MIN};
  enum { NUM_VALUES = sizeof(values) / sizeof(*values) };
  for (int i = 0; i < NUM_SIZES; i++)
    for (int mix = 0; mix <= NUM_VALUES; mix++) {
      struct sum_tree *tree = sum_tree_create(sizes[i]);
      for (int64_t leaf = 0; leaf < sizes[i]; leaf++) {
        int which = mix < NUM_VALUES ? mix : (int)(draw() % NUM_VALUES);
        sum_tree_set(tree, leaf, leaf > 0 && draw() % 2 ? 0 : values[which]);
      }
      double total = sum_tree_total(tree), sum = 0;
      for (int64_t leaf = 0; leaf < sizes[i]; sum += sum_tree_get(tree, leaf++)) {
        double near[] = {sum, nextafter(sum, 0), nextafter(sum, INFINITY)};
        for (int k = 0; k < 3; k++)
          if (near[k] < total) assert_true(sum_tree_get(tree, find(tree, near[k])) > 0);
      }
      for (double last = total, k = 0; k < 20 && last > 0; k++) {
        last = nextafter(last, 0);
        assert_true(sum_tree_get(tree, find(tree, last)) > 0);
      }
      sum_tree_destroy(tree);
    }
}

/* The position is below the sum of both values, and yet the position less the first value rounds to
 * the second: ties to even, with u the spacing of numbers in [1, 2). */
static void the_rest_within_a_child_is_below_its_sum(void **state) {
  (void)state;
  const double u = DBL_EPSILON, first = 1.5 * u, second = 1 + 2 * u, position = 1 + 3 * u;
  struct sum_tree *tree = sum_tree_create(16);
  sum_tree_set(tree, 0, first);
  sum_tree_set(tree, 8, second);
  assert_true(position < sum_tree_total(tree) && position - first == second);
  assert_int_equal(find(tree, position), 8);
  sum_tree_destroy(tree);
}

static void the_total_of_the_largest_values_is_finite(void **state) {
  (void)state;
  for (int i = 0; i < NUM_SIZES; i++) {
    struct sum_tree *tree = sum_tree_create(sizes[i]);
    double largest = DBL_MAX / 2 / (double)sizes[i];
    for (int64_t leaf = 0; leaf < sizes[i]; leaf++) sum_tree_set(tree, leaf, largest);
    assert_true(isfinite(sum_tree_total(tree)));
    assert_int_equal(find(tree, nextafter(sum_tree_total(tree), 0)), sizes[i] - 1);
    sum_tree_destroy(tree);
  }
}

/* ---- what it is for */

/* Priorities 1, 2, 4, 8 with exponent 0.6 (Schaul et al. 2016, eq. 1), drawn with one position in
 * each of many strata: the shares are the probabilities to within a stratum at each border. */
static void shares_are_the_priorities(void **state) {
  (void)state;
  enum { STRATA = 10000000, BATCH = 1000 };
  static const double expected[] = {.120550, .182720, .276951, .419779};
  int64_t drawn[4] = {0}, leaf[BATCH];
  double position[BATCH];
  struct sum_tree *tree = sum_tree_create(4);
  for (int i = 0; i < 4; i++) sum_tree_set(tree, i, pow(1 << i, 0.6));
  for (int start = 0; start < STRATA; start += BATCH) {
    for (int i = 0; i < BATCH; i++) position[i] = (start + i + 0.5) / STRATA * sum_tree_total(tree);
    sum_tree_find_many(tree, leaf, position, BATCH);
    for (int i = 0; i < BATCH; i++) drawn[leaf[i]]++;
  }
  for (int i = 0; i < 4; i++) {
    assert_true(fabs((double)drawn[i] / STRATA - expected[i]) < 1e-6);
    assert_true(fabs(sum_tree_get(tree, i) / sum_tree_total(tree) - expected[i]) < 1e-6);
  }
  sum_tree_destroy(tree);
}

/* ---- misuse */

static void misuse(void *subject, int what) {
  struct sum_tree *tree = subject;
  switch (what) {
    case 0:
      sum_tree_set(tree, 0, -1);
      break;
    case 1:
      sum_tree_set(tree, 0, NAN);
      break;
    case 2:
      sum_tree_set(tree, 0, INFINITY);
      break;
    case 3:
      sum_tree_set(tree, -1, 1);
      break;
    case 4:
      sum_tree_set(tree, 9, 1);
      break;
    case 5:
      sum_tree_get(tree, 9);
      break;
    case 6:
      find(tree, -1e-9);
      break;
    case 7:
      find(tree, sum_tree_total(tree));
      break;
    case 8:
      find(tree, NAN);
      break;
    case 9:
      sum_tree_create(0);
      break;
    default:
      find(tree, 0);
  }
}

static void misuse_aborts(void **state) {
  (void)state;
  struct sum_tree *tree = sum_tree_create(9);
  assert_true(aborts(misuse, tree, 10)); /* finds in an empty tree */
  sum_tree_set(tree, 3, 2);
  for (int what = 0; what < 10; what++) assert_true(aborts(misuse, tree, what));
  assert_false(aborts(misuse, tree, 10));
  sum_tree_destroy(tree);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(whole_numbers_agree_with_an_array),
      cmocka_unit_test(numbers_of_any_size_agree_with_an_array),
      cmocka_unit_test(sums_do_not_depend_on_history),
      cmocka_unit_test(a_border_belongs_to_the_leaf_behind_it),
      cmocka_unit_test(rounding_never_leads_to_an_empty_leaf),
      cmocka_unit_test(the_rest_within_a_child_is_below_its_sum),
      cmocka_unit_test(the_total_of_the_largest_values_is_finite),
      cmocka_unit_test(shares_are_the_priorities),
      cmocka_unit_test(misuse_aborts),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
