/* Which versions of a model there are on disk, and where: the checkpoints of a run folder, numbered
 * by their updates, or a folder with a run folder for each number.
 * Upstream: deploy/serve/model.c. Thread: any. */
#ifndef ACORN_DEPLOY_SERVE_VERSION_FILES_H
#define ACORN_DEPLOY_SERVE_VERSION_FILES_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#include "learner/params/checkpoint.h"

enum { VERSION_FILES_MOST = 1024 };

struct version_files {
  const char *path;  /* the caller's */
  bool is_run;       /* not a folder of numbered ones */
  bool prefers_best; /* of a run's checkpoints those that were the best, not the newest */
};

/* The largest first, each once. */
struct version_numbers {
  int count;
  int64_t number[VERSION_FILES_MOST];
};

void version_numbers_add(struct version_numbers *numbers, int64_t number);

/* Reads digits, and moves the text behind them. */
bool version_files_number(int64_t *number, const char **text);

bool version_files_is_run(const char *folder);

/* Adds what there is; of a run's checkpoints also those of the other kind, if asked. Returns
 * whether there is anything: a run's folder of checkpoints counts. */
bool version_files_scan(struct version_numbers *numbers, const struct version_files *files,
                        bool other_kind);

/* The run folder and the file of a version. Of a numbered folder that is its best or newest
 * checkpoint, one of the other kind where there is none. */
void version_files_locate(const struct version_files *files, int64_t number, char folder[PATH_MAX],
                          char file[CHECKPOINT_PATH_BYTES]);

#endif
