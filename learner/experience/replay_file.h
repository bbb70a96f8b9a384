/* A replay in a file: sizes, counts, priorities and pages, so that the replay that is loaded draws
 * the same batches as the one that was saved would have.
 *
 * Layout, as content of a block file (common/base/block_file.h): int64 sizes and counts, doubles
 * (enum size, struct replay_counts, in replay_file.c); a double for each start of a window: its
 * leaf in the tree, 0: none; then pages_file.h's part.
 * Upstream: replay.c. Downstream: pages_file.h. Thread: as in pages_file.h. */
#ifndef ACORN_LEARNER_EXPERIENCE_REPLAY_FILE_H
#define ACORN_LEARNER_EXPERIENCE_REPLAY_FILE_H

#include "learner/experience/pages_file.h"
#include "learner/experience/sum_tree.h"

/* What a replay has counted. */
struct replay_counts {
  int64_t started; /* 0 or 1 */
  int64_t inserted, sampled, inserted_before;
  int64_t batches, late, not_finite;
  double largest;
};

/* A replay, as far as a file has to know it. */
struct replay_parts {
  const struct pages *pages;
  struct pages_file *file; /* of the pages */
  struct sum_tree *tree;
  double *leaf;           /* (starts) of the tree, captured: the windows that are saved */
  size_t real_bytes;      /* of the device's numbers */
  double exponent, ratio; /* as in struct replay_config */
  double least_priority, most_priority; /* that a window may have */
  struct replay_counts counts;
};

/* What is saved next: the leaves and pages as they are now. Begins the pages' image, which save
 * ends. Under the pages' lock. */
void replay_file_capture(const struct replay_parts *parts);
/* As it was captured, with counts of that moment. Returns false once the writer has failed, or the
 * image was ended by another. */
bool replay_file_save(const struct replay_parts *parts, struct block_writer *writer);

/* Into new pages and a tree of zeros; parts->counts are set. A replay may be loaded into a larger
 * one. With another ratio, inserted_before is set so that as many batches are due as were. Errors:
 * MISMATCH: other sizes, an exponent that the leaves are not of; CORRUPT; IO. Pages and tree are
 * empty then. */
MUST_CHECK enum status replay_file_load(struct replay_parts *parts, struct block_reader *reader,
                                        struct error *error);

/* How many steps the replay that was saved had room for; 0: it cannot be read. What it says is not
 * checked further. */
double replay_file_steps(struct block_reader *reader);

#endif
