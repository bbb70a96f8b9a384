/* The supervisor's inside: what supervisor.c (the learner, stopping, the loop) and
 * supervisor_actors.c (starting actors, and again) share. Nobody else includes this.
 * Thread: the loop's. */
#ifndef ACORN_DEPLOY_SUPERVISOR_STATE_H
#define ACORN_DEPLOY_SUPERVISOR_STATE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <uv.h>

#include "common/base/log.h"
#include "common/base/notify.h"
#include "deploy/child.h"
#include "deploy/supervisor.h"

enum { NUM_SIGNALS = 3 };

struct supervisor;

struct actor {
  struct supervisor *supervisor;
  int index;
  struct child child;
  uv_timer_t restart;
  uint64_t death_ms[SUPERVISOR_MAX_DEATHS]; /* of the last max_deaths deaths, a ring */
  int deaths;
  int deaths_in_a_row; /* without a life of pause_reset_ms between them */
  uint64_t stepped_ms; /* when it stepped first since its last start; 0: not yet */
  bool has_stepped;    /* ever in this run */
  bool finished;       /* it has sent so since its last start: the learner has ended its run */
  bool given_up;       /* it died too often, or is of no use */
  bool left_early;     /* it finished while the learner went on; that has been reported */
};

struct supervisor {
  const struct supervisor_config *config;
  uv_loop_t *loop;
  struct child learner;
  struct actor *actors; /* (num_actors) */
  uv_signal_t signals[NUM_SIGNALS];
  int num_signals;       /* handled */
  int notices[2];        /* a pipe: see common/base/notify.h */
  uv_poll_t noticed;     /* there is one to read */
  uv_timer_t probe;      /* until the learner listens */
  uv_timer_t stop_grace; /* then the actors get a SIGTERM */
  uv_timer_t kill;       /* then the actors are killed */
  uv_timer_t patience;   /* after a stop, or the end of the run: then the learner is killed */

  bool ready;       /* the learner listens */
  bool stopping;    /* the learner has been told to stop, or has ended */
  bool wants_stop;  /* asked for, not passed on yet */
  uint64_t stop_ms; /* when it was asked for */
  bool signalled;   /* the wish came from outside */
  bool killed;      /* by a second signal */
  bool no_actors;   /* all of them were given up */
  int exit_code;    /* the learner's */
};

/* A line for people while the learner's live line may stand on the terminal: it takes that row. */
#define say(...) (supervisor_clear_line(), log_info(__VA_ARGS__))
#define say_error(...) (supervisor_clear_line(), log_error(__VA_ARGS__))
void supervisor_clear_line(void);

/* ---- supervisor_actors.c's */

/* Counts a death after `worked_ms` of work. Returns the pause before the next start, in ms. */
int actor_next_pause_ms(struct actor *actor, const struct supervisor_config *config,
                        int64_t worked_ms);

/* Prints the last `lines` lines of a log, of its last 16 KiB; or that it cannot be read. */
void actor_print_tail(FILE *out, const char *path, int lines);

void actors_init(struct supervisor *self);
/* Lets the loop end; none is alive. */
void actors_close(struct supervisor *self);
void actors_start(struct supervisor *self);
void actors_signal(const struct supervisor *self, int signum);
bool actors_any_alive(const struct supervisor *self);
/* Those that have died stay so. */
void actors_forget_restarts(struct supervisor *self);
/* Tells them to stop; those that do not are killed after a while. */
void actors_stop(struct supervisor *self);

/* What an actor's process has sent; does nothing if `pid` is none of them. */
void actors_take_notice(struct supervisor *self, int pid, enum notice notice);

/* ---- supervisor.c's */

/* Takes the notices that children have sent so far. */
void supervisor_read_notices(struct supervisor *self);

/* Stops the run in order, once the learner can. */
void supervisor_request_stop(struct supervisor *self);
/* Lets the loop end once every child has been reaped. */
void supervisor_close_if_finished(struct supervisor *self);
void supervisor_close_timer(uv_timer_t *timer);

#endif
