/* Notices from an actor or a learner to its supervisor, over a pipe.
 *
 * An actor reports that it has stepped its environments, and that the learner has ended the run; a
 * learner, that writing its last checkpoint makes progress, that only its exit is left, which other
 * learners it has started, and that another learner of the run is missing. An environment can end
 * an actor with exit code 0 (_exit, on any thread), but it sends no such notice.
 * Upstream: actor/main.c, actor/worker.c, learner/main.c, learner/run/run_replay.c,
 * learner/run/run_learners.c.
 * Downstream: deploy/launch/supervisor.c.
 * Thread: notify_init main, before there are others; notify_send any. */
#ifndef ACORN_COMMON_BASE_NOTIFY_H
#define ACORN_COMMON_BASE_NOTIFY_H

#include <spawn.h>

/* The variable with the number of the pipe that a supervisor leaves open for its children. */
#define NOTIFY_VARIABLE "ACORN_NOTIFY_FD"

/* The letter of a notice. STARTED has the process of another learner; the last two name a learner
 * by its rank + 1 in place of a process. */
enum notice {
  NOTICE_NONE = 0,
  NOTICE_STEPPED = 's',
  NOTICE_SAVING = 'w',
  NOTICE_FINISHED = 'f',
  NOTICE_STARTED = 'l',
  NOTICE_LEARNER_ENDED = 'e',
  NOTICE_LEARNER_SILENT = 'q'
};

/* A notice on the pipe: the process id, blanks, the letter, a line feed; so many bytes, which a
 * pipe never divides. */
enum { NOTICE_BYTES = 16 };

/* Takes the variable out of the environment, before other code sees it. */
void notify_init(void);

/* Sends a notice; does nothing if there is no pipe. */
void notify_send(enum notice notice);
/* The same with a number in place of the process id. */
void notify_send_number(enum notice notice, int number);

/* The next program that is spawned with `files` gets the pipe, too; then unsetenv(NOTIFY_VARIABLE).
 * Does nothing if there is no pipe. */
void notify_share(posix_spawn_file_actions_t *files);

/* Returns the notice in `bytes` and its number; NONE: it is not one. */
enum notice notify_read(int *number, const char bytes[NOTICE_BYTES]);

#endif
