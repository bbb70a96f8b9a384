/* What sampling from a replay costs in its tree of priorities: drawing 64 of 1,000,000 windows by
 * priority, stratified, with their priorities, then new priorities for 64 random windows. Medians
 * of many rounds in microseconds: rounds that follow each other at once, and rounds between which
 * 64 MB are read, as an update does, so that little of the tree is left in the caches.
 * Usage: bench_replay */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "common/base/check.h"
#include "common/base/random.h"
#include "learner/experience/sum_tree.h"

enum { LEAVES = 1000000, BATCH = 64, MAX_ROUNDS = 5000 };
enum { OTHER_BYTES = 64 << 20, LINE = 64 };

static double now_us(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec * 1e6 + (double)now.tv_nsec * 1e-3;
}

static uint64_t draw(void) {
  static uint32_t draws;
  return random_bits(1, 0, 0, draws++, RANDOM_TEST);
}

/* In (0, 1]. */
static double draw_priority(void) {
  return (double)((draw() >> 40) + 1) * 0x1p-24;
}

struct round {
  double uniform[BATCH], position[BATCH], sampled_value[BATCH], value[BATCH];
  int64_t sampled[BATCH], updated[BATCH];
};

/* Everything random of a round, which is not part of its time. */
static void draw_round(struct round *round) {
  for (int i = 0; i < BATCH; i++) {
    round->uniform[i] = (double)(draw() >> 40) * 0x1p-24;
    round->updated[i] = (int64_t)(draw() % LEAVES);
    round->value[i] = draw_priority();
  }
}

static double time_of(struct sum_tree *tree, struct round *round) {
  double start_us = now_us();
  double stratum = sum_tree_total(tree) / BATCH;
  for (int i = 0; i < BATCH; i++) round->position[i] = (i + round->uniform[i]) * stratum;
  sum_tree_find_many(tree, round->sampled, round->position, BATCH);
  for (int i = 0; i < BATCH; i++) round->sampled_value[i] = sum_tree_get(tree, round->sampled[i]);
  sum_tree_set_many(tree, round->updated, round->value, BATCH);
  return now_us() - start_us;
}

static int ascending(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* other: bytes that are read between rounds; NULL: none. */
static double median_us(struct sum_tree *tree, const uint8_t *other, int rounds) {
  double us[MAX_ROUNDS];
  uint64_t sum = 0;
  struct round round;
  for (int i = 0; i < rounds; i++) {
    draw_round(&round);
    for (size_t at = 0; other && at < OTHER_BYTES; at += LINE) sum += other[at];
    us[i] = time_of(tree, &round);
    for (int b = 0; b < BATCH; b++) CHECK(round.sampled_value[b] > 0, "an empty leaf was drawn");
  }
  CHECK(sum == 0, "the other memory is all zeros");
  qsort(us, (size_t)rounds, sizeof(*us), ascending);
  return us[rounds / 2];
}

int main(void) {
  struct sum_tree *tree = sum_tree_create(LEAVES);
  uint8_t *other = check_alloc(OTHER_BYTES, 1);
  for (int i = 0; i < LEAVES; i++) sum_tree_set(tree, i, draw_priority());
  double warm_us = median_us(tree, NULL, MAX_ROUNDS);
  double cold_us = median_us(tree, other, MAX_ROUNDS / 10);
  printf("tree of %d leaves, %d sampled and %d updated: warm_us=%.2f cold_us=%.2f\n", LEAVES, BATCH,
         BATCH, warm_us, cold_us);
  free(other);
  sum_tree_destroy(tree);
  return 0;
}
