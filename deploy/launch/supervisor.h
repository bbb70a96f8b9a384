/* Keeps one learner and its actors running, and ends them together; or actors alone, whose learner
 * runs on another machine.
 *
 * Starts the learner, waits until it listens, starts the actors with their output in log files, and
 * starts an actor again that crashes or is stopped by others. One that has stepped in this run is
 * started again for ever, with a back-off; one that never has is not after max_deaths, nor if it
 * refuses its options (exit code 2). Only a notice of common/base/notify.h tells that the learner
 * has ended an actor's run: an exit code of 0 may be the environment's. Every child is the leader
 * of a process group of its own, so that a terminal's Ctrl-C reaches only the supervisor, which
 * passes it on in the right order.
 * Invariant: supervisor_run returns only when every child has been reaped.
 * Upstream: deploy/launch/plan.h. Downstream: none; children are configured by their
 * arguments. Thread: one, and no other thread may be there: signals are blocked and read. */
#ifndef ACORN_DEPLOY_LAUNCH_SUPERVISOR_H
#define ACORN_DEPLOY_LAUNCH_SUPERVISOR_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

enum { SUPERVISOR_MAX_DEATHS = 16 };

/* Files that its process keeps open: stdin, stdout and stderr; one that signals come from; a pipe
 * that children write to; the lock of the launcher's folder; the run folder. And one for each
 * learner that the first one starts. */
enum { SUPERVISOR_FILES = 3 + 1 + 2 + 1 + 1 };

/* Which of several learners of this host is missing, so that the run ended. */
struct supervisor_loss {
  int rank;    /* -1: none; as many as there are: not known */
  bool silent; /* it did not answer in time; else its process has ended */
  int signum;  /* of a signal that stopped what was left; 0: none */
};

struct supervisor_config {
  const char *name;     /* of what `learner` starts, in lines */
  char *const *learner; /* its command, NULL-terminated; the first word is a path. NULL: none */
  char *const *const *actors; /* (num_actors) commands */
  int num_actors;
  int num_evaluators;     /* the last so many of them do not train: the run goes on without them */
  bool actors_elsewhere;  /* other hosts have actors of this learner: it goes on by those */
  const char *address;    /* where the learner listens: HOST:PORT or unix:PATH */
  const char *log_folder; /* made when needed; actor i appends to actor-<i>.log in it,
                              and evaluator i to evaluator-<i>.log. NULL: they write where the
                              supervisor does */
  int log_bytes;          /* a longer one is cut to its newest half, within a second */
  int lost_exit_code;     /* an actor that ends so has looked for its learner long enough and is not
                             started again; 0: there is no such code */
  int stopped_exit_code;  /* that of a run which SIGTERM or SIGHUP has stopped in order */
  struct supervisor_loss
      *loss; /* set at the end, of a run that listened; NULL: the learner is alone */

  /* Pauses before a dead actor that has stepped starts again: each is twice the one before, up to
   * longest_pause_ms; after so long at work they begin with first_pause_ms again. */
  int first_pause_ms, longest_pause_ms, pause_reset_ms;
  int restart_ms; /* one that never has starts again after so long; with max_deaths 0, all do */
  int home_ms;    /* so does one that finished, if the learner goes on for so long */
  int max_deaths; /* so many deaths (0: no number of them) ... */
  int death_window_ms; /* ... within so long end an actor for good that has never stepped; at most
                          SUPERVISOR_MAX_DEATHS */
  int ready_ms;        /* a stop waits so long for a learner that does not listen yet */
  int stop_grace_ms;   /* after a stop, the learner has so long to end its actors' streams */
  int actor_stop_ms;   /* an actor told to stop is killed after so long */
  int learner_stop_ms; /* so is the learner, which has a checkpoint to write, so long after it last
                          told that it is writing; also one whose run has ended by itself */
};

/* The name of a learner, and the usual times: pauses of 1, 2, 4 ... 60 s, and of 1 s again after a
 * minute of work; restart after 0.2 s, or 30 s where the learner should have ended; five deaths in
 * 60 s, 3 s for the learner to end its streams, 5 s for an actor to stop, and 120 s for a
 * checkpoint. Logs: 8 MiB. */
void supervisor_defaults(struct supervisor_config *config);

/* From here on signals wait until the loop of a run reads them, as they do after it; those that
 * were inherited as ignored stay so. held: which wait. */
void supervisor_hold_signals(sigset_t *held);

/* Runs until all children have ended. SIGTERM stops the run in order, and so do SIGINT and SIGHUP
 * unless they were inherited as ignored; a second signal kills it at once (a repeated SIGTERM or
 * SIGHUP within a second, or SIGINT within 100 ms, is still the first). Returns the exit code: the
 * learner's; 128 + its signal if one ended it that was not asked for; 1 if it could not start or no
 * actor is left; 130 after SIGINT or a second signal. Without a learner: 0 once the actors have
 * finished; 1 if all were given up. Where it would be 0 after SIGTERM or SIGHUP it is
 * stopped_exit_code.
 *
 * The first of several learners starts the others. It is killed, with exit code 1, once they tell
 * that it does not answer. They may write its last checkpoint, so their end is waited for, for
 * learner_stop_ms; then they are killed. A signal meanwhile is a first one. Signals stay blocked:
 * one that comes later is the next run's. */
int supervisor_run(const struct supervisor_config *config);

/* Counts the death of an actor that has stepped, after so long at work. Returns the pause before
 * its next start, in ms. */
int supervisor_pause_ms(int *deaths_in_a_row, const struct supervisor_config *config,
                        int64_t worked_ms);

#endif
