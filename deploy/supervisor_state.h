/* The supervisor's inside: what supervisor.c (the learner, stopping, the loop) and
 * supervisor_actors.c (starting actors, and again) share. Nobody else includes this.
 * Thread: the loop's. */
#ifndef ACORN_DEPLOY_SUPERVISOR_STATE_H
#define ACORN_DEPLOY_SUPERVISOR_STATE_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

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
  bool given_up;   /* it died too often */
  bool sent_home;  /* it has said so since its last start */
  bool left_early; /* it was sent home while the learner went on; that has been said */
};

struct supervisor {
  const struct supervisor_config *config;
  uv_loop_t *loop;
  struct child learner;
  int learner_word[2];    /* a pipe: the learner says that its run is over */
  uv_poll_t learner_says; /* until it has */
  struct actor *actors;   /* (num_actors) */
  uv_signal_t signals[NUM_SIGNALS];
  int num_signals;     /* handled */
  int words[2];        /* a pipe: actors that are sent home say so */
  uv_timer_t probe;    /* until the learner listens */
  uv_timer_t goodbye;  /* then the actors are told to stop */
  uv_timer_t kill;     /* then the actors are killed */
  uv_timer_t patience; /* after a stop, or the end of the run: then the learner is killed */

  bool ready;       /* the learner listens */
  bool stopping;    /* the learner has been told to stop, or has ended */
  bool wants_stop;  /* asked for, not passed on yet */
  uint64_t stop_ms; /* when it was asked for */
  bool signalled;   /* the wish came from outside */
  bool killed;      /* by a second signal */
  bool no_actors;   /* all of them were given up */
  int exit_code;    /* the learner's */
};

/* ---- supervisor_actors.c's */

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

/* ---- supervisor.c's */

/* Stops the run in order, once the learner can. */
void supervisor_request_stop(struct supervisor *self);
/* Lets the loop end once every child has been reaped. */
void supervisor_close_if_finished(struct supervisor *self);
void supervisor_close_timer(uv_timer_t *timer);

#endif
