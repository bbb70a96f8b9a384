/* The file that an actor prints to, of all its lives.
 * Upstream: deploy/launch/supervisor.c. Thread: the caller's. */
#ifndef ACORN_DEPLOY_LAUNCH_ACTOR_LOG_H
#define ACORN_DEPLOY_LAUNCH_ACTOR_LOG_H

#include <limits.h>
#include <stdbool.h>
#include <sys/types.h>

enum { ACTOR_LOG_LINE = 1024, ACTOR_LOG_OURS = -1, ACTOR_LOG_FAILED = -2 };

struct actor_log {
  const char *folder;   /* the caller's; NULL: it prints to this process's output */
  char path[PATH_MAX];  /* in it; "": none */
  off_t bytes_at_start; /* of the actor's last start */
};

/* FOLDER/KIND-NUMBER.log. */
void actor_log_init(struct actor_log *log, const char *folder, const char *kind, int number);

/* A descriptor to append to, of the caller; ACTOR_LOG_OURS, or ACTOR_LOG_FAILED: errno says why. */
int actor_log_open(struct actor_log *log);

/* The error that it ends with, without digits: times, steps and numbers of environments differ
 * where the reason is the same. "": none, or not of the actor's last life. */
void actor_log_error(char words[ACTOR_LOG_LINE], const struct actor_log *log);

/* Prints the last lines, the likely reason, to stderr. Without a file the terminal has them. */
void actor_log_show(const struct actor_log *log, int lines);

/* Where there are more than so many bytes keeps the newest half, from the first whole line on. The
 * actor goes on to append; what it writes at this very moment may be lost. Returns whether it has
 * cut. */
bool actor_log_bound(struct actor_log *log, int most);

#endif
