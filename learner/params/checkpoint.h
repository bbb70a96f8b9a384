/* Checkpoint files: named arrays behind a magic, a format version and checksums, written as a
 * temporary file, fsync, rename.
 *
 * Layout (little-endian): "ACORNCKP", u32 format, u32 number of items, then per item: u16 name
 * length, name, u8 dtype, u8 rank, u64 shape[rank], u64 bytes, u32 crc32c of the data; then u32
 * crc32c of everything before it; then the data of all items in order. The header and the data of
 * each item are followed by zeros up to a multiple of 64 bytes. A reader trusts nothing it has not
 * checked: any one bit that is wrong makes the file CORRUPT.
 * File names: checkpoint-<updates, 12 digits>.acorn in the run's folder `checkpoints/`; while it is
 * written: checkpoint.tmp (what a crashed run left there is replaced by the next write); with
 * .aside-<number> behind it: a damaged file, or one of another update, that was in the way.
 * Upstream: learner/train (what is in it), learner/run/run_checkpoint.c (when).
 * Thread: any, one call per folder at a time. */
#ifndef ACORN_LEARNER_PARAMS_CHECKPOINT_H
#define ACORN_LEARNER_PARAMS_CHECKPOINT_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/status.h"

enum checkpoint_dtype {
  CHECKPOINT_FLOAT32 = 1,
  CHECKPOINT_FLOAT64 = 2,
  CHECKPOINT_INT64 = 3,
  CHECKPOINT_BYTES = 4
};
enum {
  CHECKPOINT_MAX_RANK = 4,
  CHECKPOINT_MAX_ITEMS = 320,
  CHECKPOINT_NAME_BYTES = 64,
  CHECKPOINT_FORMAT = 1,
  CHECKPOINT_PATH_BYTES = PATH_MAX
};

/* The array, one int64, with the number of updates that a checkpoint is the state of: it decides
 * which checkpoint of a folder is the newest, not the file's name. */
#define CHECKPOINT_VERSION "update/version"

/* One array. `data` is borrowed: read by write, filled by read. */
struct checkpoint_item {
  char name[CHECKPOINT_NAME_BYTES];
  enum checkpoint_dtype dtype;
  int rank;
  uint64_t shape[CHECKPOINT_MAX_RANK];
  void *data;
  bool optional; /* reading leaves the data as they are where the file has none */
};

size_t checkpoint_item_bytes(const struct checkpoint_item *item);
/* "float32 (4, 64)". */
const char *checkpoint_item_describe(const struct checkpoint_item *item, char text[128]);

/* How many files a writer keeps, and what it remembers of them. checked_ns is 0 at first. */
struct checkpoint_kept {
  int count;          /* so many whole ones, this one included; 0: all */
  int64_t checked_ns; /* private: files that have not changed since then are whole */
};

/* Writes <folder>/checkpoint-<updates>.acorn and removes the oldest beyond those that are kept once
 * it is safely there. Damaged files do not count, and none is removed or replaced: it is set aside
 * under another name, with a warning. Files of more updates (which the run was resumed without)
 * neither count nor are removed.
 * Errors: IO, with the path and the reason (a full disk leaves the older files untouched and no
 * temporary file). */
MUST_CHECK enum status checkpoint_write(const char *folder, int64_t updates,
                                        const struct checkpoint_item *items, int num_items,
                                        struct checkpoint_kept *kept, struct error *error);

/* Fills every item from one file, by name; items in the file that were not asked for are ignored.
 * Errors: NOT_FOUND, CORRUPT (with what is wrong and where; also what is no regular file), MISMATCH
 * (an item is missing, or has another dtype or shape: names both sides'), IO. After an error the
 * items' data is as before. */
MUST_CHECK enum status checkpoint_read(const char *path, struct checkpoint_item *items,
                                       int num_items, struct error *error);

/* Writes <folder>/<name>.acorn, which no writer of checkpoints removes or counts and no reader
 * takes for the newest. One of that name is replaced. Errors: IO, as above. */
MUST_CHECK enum status checkpoint_write_named(const char *folder, const char *name,
                                              const struct checkpoint_item *items, int num_items,
                                              struct error *error);

/* Reads the newest whole checkpoint of a folder: the one whose content is of the most updates. A
 * damaged one is reported with log_warn and the one before it is used. `path`: the file that was
 * read, or the one that a MISMATCH or IO is about. Changes nothing in the folder.
 * Errors: NOT_FOUND if there is none; CORRUPT if all are damaged; MISMATCH and IO at once. */
MUST_CHECK enum status checkpoint_read_newest(const char *folder, struct checkpoint_item *items,
                                              int num_items, char path[CHECKPOINT_PATH_BYTES],
                                              struct error *error);

/* Names, dtypes and shapes in a file, data NULL; *num_items of them, at most CHECKPOINT_MAX_ITEMS.
 * Checks everything. */
MUST_CHECK enum status checkpoint_list(const char *path, struct checkpoint_item *items,
                                       int *num_items, struct error *error);

/* The same on bytes in memory: what the fuzzer calls. */
MUST_CHECK enum status checkpoint_parse(const uint8_t *bytes, size_t size,
                                        struct checkpoint_item *items, int num_items,
                                        struct error *error);

#endif
