/* One checkpoint file on the disk: written whole or not at all, read only if it is a regular file.
 * checkpoint_read and checkpoint_list (checkpoint.h) are here too. Upstream: checkpoint.c.
 * Downstream: checkpoint_format.h. Thread: any (no state). */
#ifndef ACORN_LEARNER_PARAMS_CHECKPOINT_FILE_H
#define ACORN_LEARNER_PARAMS_CHECKPOINT_FILE_H

#include <stdbool.h>

#include "learner/params/checkpoint.h"

/* A whole file at `path`, synced to the disk, or none. Returns false with errno set. */
bool checkpoint_file_write(const char *path, const struct checkpoint_item *items, int num_items);

/* Of the file of a run's update, in its folder of checkpoints. */
#define CHECKPOINT_NAME_FORMAT "checkpoint-%012lld.acorn"

/* A file's new name is only safe when its folder is on the disk too; some file systems cannot do
 * that (EINVAL). Returns false with errno set. */
bool checkpoint_sync_folder(const char *folder);

/* The update that its content is the state of (CHECKPOINT_VERSION), from its header and those few
 * bytes alone: the other arrays are not read. *updates: -1: it has no such number.
 * Errors: as checkpoint_read. */
MUST_CHECK enum status checkpoint_file_version(int64_t *updates, const char *path,
                                               struct error *error);

#endif
