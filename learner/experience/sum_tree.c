#include "learner/experience/sum_tree.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/check.h"

/* The children of a node: eight doubles are one cache line. MAX_LEVELS: 8^21 leaves. */
enum { CHILD_BITS = 3, CHILDREN = 1 << CHILD_BITS, MAX_LEVELS = 21 };

struct sum_tree {
  int64_t leaves;
  int levels;
  double max_value; /* of a leaf */
  /* level[0]: the leaves; level[k + 1][i]: the sum of level[k][8 i .. 8 i + 7]. The last level has
   * at most eight entries, whose sum is the total. Each is aligned to 64 bytes and filled up with
   * zeros to a multiple of eight. */
  double *level[MAX_LEVELS];
  double *values; /* of all levels */
  double total;
  int64_t count;
};

/* Nodes above so many entries. */
static int64_t nodes_of(int64_t entries) {
  return (entries + CHILDREN - 1) >> CHILD_BITS;
}

struct sum_tree *sum_tree_create(int64_t leaves) {
  CHECK(leaves >= 1 && leaves <= INT64_MAX / 64, "%lld leaves", (long long)leaves);
  struct sum_tree *tree = check_alloc(1, sizeof(*tree));
  tree->leaves = leaves;
  tree->max_value = DBL_MAX / 2 / (double)leaves;

  int64_t offset[MAX_LEVELS], total = 0;
  for (int64_t nodes = leaves; nodes > 1 || tree->levels == 0;) {
    nodes = nodes_of(nodes);
    offset[tree->levels++] = total;
    total += nodes * CHILDREN;
  }
  tree->values = check_alloc((size_t)total, sizeof(double));
  for (int k = 0; k < tree->levels; k++) tree->level[k] = tree->values + offset[k];
  return tree;
}

void sum_tree_destroy(struct sum_tree *tree) {
  if (!tree) return;
  free(tree->values);
  free(tree);
}

double sum_tree_total(const struct sum_tree *tree) {
  return tree->total;
}

int64_t sum_tree_count(const struct sum_tree *tree) {
  return tree->count;
}

static void check_leaf(const struct sum_tree *tree, int64_t leaf) {
  CHECK(leaf >= 0 && leaf < tree->leaves, "leaf %lld of %lld", (long long)leaf,
        (long long)tree->leaves);
}

double sum_tree_get(const struct sum_tree *tree, int64_t leaf) {
  check_leaf(tree, leaf);
  return tree->level[0][leaf];
}

void sum_tree_get_all(const struct sum_tree *tree, double *value) {
  memcpy(value, tree->level[0], (size_t)tree->leaves * sizeof(*value));
}

/* ---- setting */

static void put(struct sum_tree *tree, int64_t leaf, double value) {
  check_leaf(tree, leaf);
  CHECK(value >= 0 && value <= tree->max_value, "leaf %lld: value %g", (long long)leaf, value);
  double *at = &tree->level[0][leaf];
  tree->count += (value > 0) - (*at > 0);
  *at = value;
}

/* The order of the additions is that of `descend`. */
static double sum_of(const double *child) {
  double sum = 0;
  for (int i = 0; i < CHILDREN; i++) sum += child[i];
  return sum;
}

void sum_tree_set_many(struct sum_tree *tree, const int64_t *leaf, const double *value, int n) {
  for (int i = 0; i < n; i++) put(tree, leaf[i], value[i]);
  int top = tree->levels - 1;
  for (int k = 0; k < top; k++) {
    int shift = CHILD_BITS * (k + 1);
    for (int i = 0; i < n; i++) {
      int64_t node = leaf[i] >> shift;
      if (i > 0 && node == leaf[i - 1] >> shift) continue;
      tree->level[k + 1][node] = sum_of(tree->level[k] + node * CHILDREN);
    }
  }
  tree->total = sum_of(tree->level[top]);
}

void sum_tree_set(struct sum_tree *tree, int64_t leaf, double value) {
  sum_tree_set_many(tree, &leaf, &value, 1);
}

/* ---- finding */

/* Which of the eight children holds *position, which is below their sum, and the position within
 * that child. The child is never of sum 0: the first prefix sum above *position differs from the
 * one before it. Without branches that depend on the values, which are hard to predict. */
static int descend(const double *child, double *position) {
  double before[CHILDREN];
  int chosen = 0;
  before[0] = 0;
  for (int i = 1; i < CHILDREN; i++) {
    before[i] = before[i - 1] + child[i - 1];
    chosen += *position >= before[i];
  }
  double rest = *position - before[chosen];
  /* The prefix sums are rounded: the rest may come out as large as the child. */
  *position = rest < child[chosen] ? rest : nextafter(child[chosen], 0);
  return chosen;
}

/* At most BLOCK positions. */
static void find_block(const struct sum_tree *tree, int64_t *leaf, double *position, int n) {
  for (int i = 0; i < n; i++) leaf[i] = 0;
  for (int k = tree->levels - 1; k >= 0; k--)
    for (int i = 0; i < n; i++) {
      leaf[i] = leaf[i] * CHILDREN + descend(tree->level[k] + leaf[i] * CHILDREN, &position[i]);
      if (k > 0) __builtin_prefetch(tree->level[k - 1] + leaf[i] * CHILDREN);
    }
}

void sum_tree_find_many(const struct sum_tree *tree, int64_t *leaf, const double *position, int n) {
  enum { BLOCK = 64 };
  double within[BLOCK];
  for (int start = 0; start < n; start += BLOCK) {
    int count = n - start < BLOCK ? n - start : BLOCK;
    for (int i = 0; i < count; i++) {
      within[i] = position[start + i];
      CHECK(within[i] >= 0 && within[i] < tree->total, "position %g of %g", within[i], tree->total);
    }
    find_block(tree, leaf + start, within, count);
  }
}
