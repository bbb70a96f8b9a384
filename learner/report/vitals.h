/* The figures that an operator sees, in one place: for Status, the live line, stall diagnosis.
 * Thread: main, which also polls the control queue.
 * Upstream: report.c. Downstream: silence.h; serve/ingress.h (Status), serve/players.h. */
#ifndef ACORN_LEARNER_REPORT_VITALS_H
#define ACORN_LEARNER_REPORT_VITALS_H

#include "learner/run/run.h"
#include "learner/report/diagnosis.h"
#include "learner/report/silence.h"

/* Rates are of so many half seconds: some algorithms act and train in turns of seconds. */
enum { VITALS_MOMENTS = 10 };

/* What had been counted at a moment. */
struct vitals_moment {
  int64_t at_us, updates, steps, trained_steps, cpu_us, give_wait_us, take_wait_us;
};

struct vitals {
  struct run *run;
  struct wire_status status; /* its players are listed when they are asked for */
  struct players *players;
  struct silence silence;              /* of training */
  struct silence acting;               /* of steps, while something is trained */
  struct diagnosis diagnosis;          /* of learning */
  int64_t diagnosed;                   /* updates by then */
  int64_t first_updates;               /* at the start */
  struct progress_returns train, eval; /* of finished episodes, at the last tick */
  char dial[256];                      /* the address that actors dial */
  double cpu_cores;                    /* that the process used of late */
  int64_t start_us;
  /* the last ones: moment i is at i modulo VITALS_MOMENTS */
  struct vitals_moment moment[VITALS_MOMENTS];
  int64_t num_moments;
  bool is_measured; /* there are rates */
  struct metric_sum batch_rows, batch_wait_us;
  /* when something was last trained */
  int64_t windows_dropped;
  int64_t explained_us; /* when the cause was last looked for */
  bool is_irregular;    /* --deterministic: an actor has gone, and that has been logged */
};

/* From now on Status is answered from it. */
void vitals_open(struct vitals *vitals, struct run *run, int64_t start_us);
void vitals_close(struct vitals *vitals);

/* Reads the returns of finished episodes anew; a tick does so too. */
void vitals_read_returns(struct vitals *vitals);

/* With --deterministic: warns once an actor has left before the end of the run, which the seed does
 * not give again then. A tick does so too. */
void vitals_check_repeatable(struct vitals *vitals);

/* Once more at the end of the run, before its result: says it if the run may not have learned. A
 * tick does so too. */
void vitals_watch_learning(struct vitals *vitals, const struct trainer_report *trainer);

/* Brings it up to date; says why nothing is trained when that is due. */
void vitals_tick(struct vitals *vitals, const struct trainer_report *trainer, int64_t now_us);

#endif
