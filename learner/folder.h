/* The run folder: config.txt, metrics.jsonl, checkpoints/, logs/. One learner at a time owns it (a
 * lock file), and nothing in it is deleted at start: a folder that holds another run is refused
 * unless it is resumed. Thread: start and end only. */
#ifndef ACORN_LEARNER_FOLDER_H
#define ACORN_LEARNER_FOLDER_H

#include <stdbool.h>

#include "common/base/status.h"

struct folder {
  char path[768];
  char checkpoints[800];
  int lock;      /* file descriptor that holds the lock */
  bool held_run; /* there was a run in it already */
};

/* Creates the folder and what is above it and takes the lock. `path` "" makes
 * runs/<env>-<agent>-<time>. Errors: EXISTS: another learner is using it, or it holds a run and
 * `resume` is false; IO. */
MUST_CHECK enum status folder_open(struct folder *folder, const char *path, const char *env,
                                   const char *agent, bool resume, struct error *error);
/* The folder of a finished or running run, read only: no lock. Errors: NOT_FOUND. */
MUST_CHECK enum status folder_open_read_only(struct folder *folder, const char *path,
                                             struct error *error);
void folder_close(struct folder *folder);

/* Closes it, and removes it again if it was made for a run that did not come about. */
void folder_abandon(struct folder *folder);

#endif
