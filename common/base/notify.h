/* Notices from an actor or a learner to its supervisor, over a pipe.
 *
 * An actor reports that it has stepped its environments, and that the learner has ended the run; a
 * learner, that writing its last checkpoint makes progress, and that only its exit is left. An
 * environment can end an actor with exit code 0
 * (_exit, on any thread), but it sends no such notice.
 * Upstream: actor/main.c, actor/worker.c, learner/main.c,
 * learner/run/run_replay.c.
 * Downstream: deploy/launch/supervisor.c.
 * Thread: notify_init main, before there are others; notify_send any. */
#ifndef ACORN_COMMON_BASE_NOTIFY_H
#define ACORN_COMMON_BASE_NOTIFY_H

/* The variable with the number of the pipe that a supervisor leaves open for its actors. */
#define NOTIFY_VARIABLE "ACORN_NOTIFY_FD"

/* The letter of a notice. */
enum notice { NOTICE_NONE = 0, NOTICE_STEPPED = 's', NOTICE_SAVING = 'w', NOTICE_FINISHED = 'f' };

/* A notice on the pipe: the process id, blanks, the letter, a line feed; so many bytes, which a
 * pipe never divides. */
enum { NOTICE_BYTES = 16 };

/* Takes the variable out of the environment, before other code sees it. */
void notify_init(void);

/* Sends a notice; does nothing if there is no pipe. */
void notify_send(enum notice notice);

/* Returns the notice in `bytes` and the process that sent it; NONE: it is not one. */
enum notice notify_read(int *pid, const char bytes[NOTICE_BYTES]);

#endif
