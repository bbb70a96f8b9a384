/* The run folder: config.txt, environment.txt, space.json, address, metrics.jsonl, episodes.csv,
 * checkpoints/, logs/. One learner at a time owns it (a lock file), and nothing in it is deleted at
 * start: a folder that holds another run is refused unless it is resumed. Thread: start and end
 * only. */
#ifndef ACORN_LEARNER_RUN_FOLDER_H
#define ACORN_LEARNER_RUN_FOLDER_H

#include <jansson.h>
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

#include "common/base/space.h"
#include "common/base/status.h"
#include "common/rpc/credentials.h"

/* In it a launcher leaves its part of run.json, for the learner. */
#define FOLDER_LAUNCH_VARIABLE "ACORN_LAUNCH"

struct folder {
  char path[768]; /* by which its files are reached, see pinned_folder.h */
  char checkpoints[800];
  char name[PATH_MAX]; /* for people: where it is, once folder_moved has looked */
  int pin, lock;       /* file descriptors; lock: holds the lock. -1: none */
  bool held_run;       /* there was a run in it already, or one goes on in it */
  bool is_made;        /* by folder_open: it was not there before */
};

/* Creates the folder and what is above it and takes the lock. `path` "" makes
 * runs/<env>-<agent>-<time>. Errors: EXISTS: another learner is using it, or it holds a run and
 * `resume` is false; IO: also where it cannot be written. */
MUST_CHECK enum status folder_open(struct folder *folder, const char *path, const char *env,
                                   const char *agent, bool resume, struct error *error);
/* The folder of a finished or running run, read only: no lock. Errors: NOT_FOUND. */
MUST_CHECK enum status folder_open_read_only(struct folder *folder, const char *path,
                                             struct error *error);
void folder_close(struct folder *folder);

/* Whether the lock in the folder is still the one that is held. Errors: NOT_FOUND: somebody has
 * removed it, or the folder; another learner may be at work under its name. */
MUST_CHECK enum status folder_check(const struct folder *folder, struct error *error);
/* Whether the folder was renamed since the last look: it is `name` now, and goes on to be used. */
bool folder_moved(struct folder *folder);

/* Writes the file `address`, for those who want to watch the run: where the learner listens, then a
 * line NAME=PATH for each file that a client on this machine needs (paths, no secrets).
 * listen: as it was given; port: the one that was bound, 0 on a Unix socket. Errors: IO. */
MUST_CHECK enum status folder_write_address(const struct folder *folder, const char *listen,
                                            int port, const struct credentials_options *access,
                                            struct error *error);

/* environment.txt: in line 0 what the run's environment is, "tmaze(length=20)". config.txt does not
 * always say that: --env may be a path, or `join`. In line 1 its action, if that is of several
 * choices, whose sum alone the network's size tells: "choices(3,2,4)"; else "". Reading a line that
 * is not there leaves `text` empty. Errors of writing: IO. */
MUST_CHECK enum status folder_write_environment(const struct folder *folder, const char *name,
                                                const char *action, struct error *error);
void folder_read_environment(const struct folder *folder, int line, char *text, size_t bytes);

/* space.json: the run's observation and action, for programs that do not have its environment.
 * Errors: IO; of reading NOT_FOUND; INVALID: it holds no space. */
MUST_CHECK enum status folder_write_space(const struct folder *folder, const struct space *space,
                                          struct error *error);
MUST_CHECK enum status folder_read_space(struct space *out, const char *folder,
                                         struct error *error);

/* result.json of a start that has ended: every member, null where the caller does not set it.
 * `why`: of one that failed; else "". Owner: the caller, as of json_object. */
json_t *folder_result(const char *reason, int exit_code, const char *why);
/* What a file of results ends with: the program, and the time. */
void folder_stamp(json_t *object);

/* Of a run that did not come about: closes it, and removes again what was made for it. */
void folder_abandon(struct folder *folder);

#endif
