/* The pages of a replay in a file: which pages there are, and the rows of the windows that are
 * kept.
 *
 * Layout, as content of a block file (common/base/block_file.h): u64 pages begun so far; a record
 * of 48 bytes for each page; of each window that is kept, in the order of their starts: int32
 * depth; then group after group of pages: of all rows in it that these windows need, in the order
 * of rows: observations, records, stamps (u64), trails (float32); then, of the windows' starts in
 * it and of those that follow them in their lives, in their order: previous actions, recurrent
 * states. A group is of pages that were begun one after the other and have numbers one after the
 * other, as many as make up GROUP_BYTES of observations; the oldest group comes first. What a page,
 * a row or a start is: pages.h.
 * Rows that are needed follow from the records, the depths and the windows, which the caller keeps.
 * A page that was being filled is loaded as one that its slot has left.
 *
 * Steps are appended while the file is written. What changes with that, which pages there are, is
 * copied by capture; what they hold stays, as an image's pages are not reused before they are
 * written (pages.h), and rows that are written later are those of windows that close later. Pages
 * are reused oldest first, and so they are written: reuse seldom waits.
 * Upstream: replay_file.c. Thread: capture, end: any, under the pages' lock; save and load: one at
 * a time, load before any life begins. Memory: staging for transfers and 84 bytes a page, allocated
 * by create. */
#ifndef ACORN_LEARNER_EXPERIENCE_PAGES_FILE_H
#define ACORN_LEARNER_EXPERIENCE_PAGES_FILE_H

#include "common/base/block_file.h"
#include "learner/device/device.h"
#include "learner/experience/pages.h"

/* The windows that are in the file. */
struct pages_kept {
  bool (*keeps)(const void *context, int32_t start);
  const void *context;
};

struct pages_file;

/* device: of the thread that saves or loads; inputs: of the steps, which load checks. Both are
 * borrowed, as the pages are. */
struct pages_file *pages_file_create(struct pages *pages, struct device *device,
                                     const struct device_inputs *inputs);
void pages_file_destroy(struct pages_file *file);

/* What is saved next: the pages as they are now. Begins their image (pages.h), which save ends. */
void pages_file_capture(struct pages_file *file);
/* Returns false once the writer has failed, or the image was ended by another. */
bool pages_file_save(struct pages_file *file, struct block_writer *writer,
                     const struct pages_kept *kept);

/* num_pages: in the file, at most those of the pages. After an error pages_file_clear is due.
 * Errors: CORRUPT: what is in it cannot be, or may not be trained on; the reader's. */
MUST_CHECK enum status pages_file_load(struct pages_file *file, struct block_reader *reader,
                                       int num_pages, const struct pages_kept *kept,
                                       struct error *error);

/* As if no page had ever been begun. No life has begun. */
void pages_file_clear(struct pages_file *file);

#endif
