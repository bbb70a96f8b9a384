/* A tree of priorities: draws leaf i with probability value[i] / total in O(log n). A leaf is a
 * window of the replay; its value is the window's priority to the power of the exponent, 0 where no
 * window can be drawn.
 *
 * A node holds the sums of its eight children, which is one cache line. A sum is always recomputed
 * from all eight, in the same order: so there is no drift, and the same values give the same sums
 * whatever was set before.
 * Thread: not thread-safe; its owner's lock guards it.
 * Invariant: find never returns a leaf of value 0, whatever rounding does. */
#ifndef ACORN_LEARNER_EXPERIENCE_SUM_TREE_H
#define ACORN_LEARNER_EXPERIENCE_SUM_TREE_H

#include <stdint.h>

struct sum_tree;

/* leaves >= 1, all of value 0. Allocates about 9.2 bytes a leaf. */
struct sum_tree *sum_tree_create(int64_t leaves);
void sum_tree_destroy(struct sum_tree *tree);

/* value: at least 0 and at most DBL_MAX / (2 x leaves), so that the total is finite. */
void sum_tree_set(struct sum_tree *tree, int64_t leaf, double value);
double sum_tree_get(const struct sum_tree *tree, int64_t leaf);
/* Of all leaves. Shapes: value (leaves). */
void sum_tree_get_all(const struct sum_tree *tree, double *value);
double sum_tree_total(const struct sum_tree *tree);
/* Leaves whose value is above 0. */
int64_t sum_tree_count(const struct sum_tree *tree);

/* As sum_tree_set for n leaves, level by level, so that their cache misses overlap. Of a leaf that
 * is given more than once, the last value counts. Shapes: leaf, value: (n). */
void sum_tree_set_many(struct sum_tree *tree, const int64_t *leaf, const double *value, int n);
/* For n positions in [0, total), likewise: the leaf i for which sum of value[0..i-1] <= position <
 * sum of value[0..i], sums as the tree rounds them. Shapes: leaf, position: (n). */
void sum_tree_find_many(const struct sum_tree *tree, int64_t *leaf, const double *position, int n);

#endif
