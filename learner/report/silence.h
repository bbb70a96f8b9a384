/* Stall diagnosis: logs the reason when training makes no progress.
 *
 * The line is repeated at growing intervals, and at once when the reason changes; another line
 * tells that training goes on. Progress is an update; where nothing is learned (agents that only
 * act, evaluation), a step. The diagnosis uses plain numbers, so that tests can set up every cause.
 * Thread: main. Upstream: vitals.c. */
#ifndef ACORN_LEARNER_REPORT_SILENCE_H
#define ACORN_LEARNER_REPORT_SILENCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/wire/wire.h"

enum { SILENCE_MIN_US = 10 * 1000 * 1000, SILENCE_MAX_US = 600 * 1000 * 1000 };

enum silence_cause {
  SILENCE_NONE,
  SILENCE_TRAINER,    /* one update takes all the time */
  SILENCE_COLLECTING, /* --deterministic: not all have asked to join */
  SILENCE_NOBODY,     /* no actor */
  SILENCE_EVALUATORS, /* only such as are not trained on */
  SILENCE_BARRIER,    /* --deterministic: one has gone */
  SILENCE_STEPPING,   /* actors have their answers and send nothing */
  SILENCE_INFERENCE,  /* actors wait for their answers */
  SILENCE_DROPPED,    /* --max_lag */
  SILENCE_FILLING,    /* steps come, but slowly */
  SILENCE_STARTING,   /* the replay has too few windows for training to start */
  SILENCE_WINDOWS,    /* the trainer waits for new windows in the replay */
  SILENCE_SAVING,     /* the replay is being saved */
  SILENCE_ACTING,     /* the trainer trains, and acting waits for it */
};

/* What the parts say. silent_us: since something was trained; still_us: since a step came. */
struct silence_figures {
  int64_t silent_us, still_us;
  const char *listen;
  bool evaluates; /* the steps of evaluators are the run's */
  int expected_environments;
  int barrier_environments, waiting_environments; /* --deterministic; else 0 */
  bool collecting;                                /* it has not begun */
  const struct wire_player *players;
  int num_players;
  int64_t busy_us;   /* the trainer has held its batch for so long */
  bool acting_waits; /* for the trainer */
  int open_windows, batch_windows, window_steps;
  int64_t windows_dropped; /* since something was trained */
  int64_t max_lag;
  double steps_per_second;
  struct {
    bool exists, started;    /* started: enough windows were there for training to start */
    int64_t windows, needed; /* in it, and before training starts */
    double due;              /* windows that sampling is behind; negative: ahead */
    double ratio;            /* asked */
    int64_t saving_us;       /* acting has waited for its file for so long; 0: it does not */
    int stride;              /* steps of an environment between two windows */
  } replay;
};

/* Finds the cause and writes it as the second half of a sentence. */
enum silence_cause silence_explain(char *text, size_t bytes, const struct silence_figures *figures);

/* The same for acting that waits for a trainer that does train, from a replay. */
enum silence_cause silence_explain_acting(char *text, size_t bytes,
                                          const struct silence_figures *figures);

/* When to speak. Begin with silence_init. */
struct silence {
  int64_t trained, trained_us; /* the newest value, and since when it stands */
  int64_t steps, steps_us;
  int64_t ended_us;    /* of the last silence, whether or not it was explained; 0: none */
  int64_t said_us;     /* the last line; 0: none in this silence */
  int64_t patience_us; /* how long to wait for the next one; grows, also from silence to silence */
  enum silence_cause said;
};
void silence_init(struct silence *silence, int64_t trained, int64_t steps, int64_t now_us);

/* Notes how far the run is. Returns how long the silence was that has just ended, if a line was
 * said in it; else 0. Units: microseconds. */
int64_t silence_note(struct silence *silence, int64_t trained, int64_t steps, int64_t now_us);

/* Whether it lasts long enough to be explained. */
bool silence_lasts(const struct silence *silence, int64_t now_us);

/* Whether the cause is to be said now; notes that it was. */
bool silence_say(struct silence *silence, enum silence_cause cause, int64_t now_us);

#endif
