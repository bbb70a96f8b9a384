/* How far the run is: environment steps, finished episodes, and whether and why it ends.
 *
 * Scores, evaluation and --target_return come only from the episodes that actors report. In
 * evaluate mode each environment has a quota, so that short episodes are not counted more often
 * than long ones: environment i of E plays the episodes i, i + E, i + 2E, ... of the requested
 * number, and what it plays beyond is not counted. Threads: any, where nothing else is said;
 * guarded by one mutex, except the step counter (atomic). */
#ifndef ACORN_LEARNER_EPISODES_PROGRESS_H
#define ACORN_LEARNER_EPISODES_PROGRESS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "learner/episodes/episode_log.h"
#include "learner/episodes/numbers.h"

enum { PROGRESS_WINDOW = 100, PROGRESS_FIRST_EPISODES = 30 };

enum stop_reason {
  STOP_NONE,
  STOP_TOTAL_STEPS,
  STOP_TARGET_RETURN,
  STOP_EPISODES,
  STOP_EPISODE_STEPS, /* evaluate mode: what is still played does not end */
  STOP_SIGNAL,
  STOP_NO_ACTORS, /* the supervisor has given all of them up */
  STOP_ERROR
};

/* "total_steps", "target_return", "episodes", "episode_steps", "signal", "no_actors", "error". */
const char *stop_reason_name(enum stop_reason reason);

/* Which episodes the target and the result are about. */
enum progress_over {
  OVER_TRAIN,
  OVER_EVAL,
  OVER_AUTO, /* evaluation episodes once one has ended, else training episodes */
};

/* Whose episodes a figure is about. */
enum progress_set {
  PROGRESS_TRAIN, /* false */
  PROGRESS_EVAL,  /* true */
  /* Of the training episodes, those of the environments that explore most and least. */
  PROGRESS_MOST_RANDOM,
  PROGRESS_LEAST_RANDOM,
  /* The first PROGRESS_FIRST_EPISODES training episodes since the start, instead of the last. */
  PROGRESS_FIRST,
  PROGRESS_SETS
};

struct progress_config {
  int64_t total_steps;  /* 0: no limit */
  double target_return; /* NaN: none */
  enum progress_over over;
  int64_t quota_episodes;  /* evaluate mode: how many to count; 0: train mode */
  int quota_environments;  /* evaluate mode: E */
  int64_t episode_steps;   /* evaluate mode: of each environment without an episode that counts, to
                              the end of the run; 0: no limit */
  int max_kept;            /* environments whose episodes progress_keep_episode takes */
  struct episode_log *log; /* gets every episode that is counted; NULL: none */
  /* Where training environments explore less and less by their ids: those below most_random, and
   * those from least_random on; 0: none. */
  int most_random, least_random;
  /* Called once, by the thread that saw it, when the run should end. */
  void (*on_stop)(void *context);
  void *context;
};

/* Statistics of finished episodes. std is the population's. */
struct progress_returns {
  int64_t count; /* in all; of training, those before a resume and of other learners included */
  int window;    /* the last so many the rest is about: at most 100, all of them in evaluate mode */
  double mean, std, min, max, median, length_mean;
};

/* A finished episode, as its player reports it. Borrowed. */
struct progress_episode {
  bool eval;
  int environment; /* an id of its own role */
  double episode_return;
  uint32_t length;                  /* steps */
  const char *actor;                /* "actor/0/1" */
  const struct wire_number *number; /* (num_numbers) what its environment reports beside */
  int num_numbers;
};

/* What environments report: the means of the last episodes, as of struct progress_returns. */
struct progress_number {
  const char *name; /* the progress's, for its life */
  double mean, eval_mean;
};

struct progress;

struct progress *progress_create(const struct progress_config *config);
void progress_destroy(struct progress *progress);

/* Environment steps: rows that needed an action. Thread: inference. */
void progress_add_steps(struct progress *progress, int64_t steps);
int64_t progress_steps(const struct progress *progress);
/* From now on no step is counted: the result and the last checkpoint name the same one, though a
 * batch may still be on its way. Thread: main. */
void progress_close(struct progress *progress);
/* Evaluate mode: episodes of an environment that were counted. */
int64_t progress_played(struct progress *progress, int environment);
/* Training episodes of other learners, which are counted and no more. */
void progress_add_episodes(struct progress *progress, int64_t episodes);
/* Training episodes finished, those before a resume and of other learners included. */
int64_t progress_episodes(struct progress *progress);
/* For a resumed run: steps and episodes before it. Call before threads start. */
void progress_restore(struct progress *progress, int64_t steps, int64_t episodes);

/* Not counted once the run has ended. */
void progress_add_episode(struct progress *progress, const struct progress_episode *episode);

/* The same for --deterministic: kept until progress_count_kept, which adds them in the order of
 * their environments, so that it does not matter whose message came first. At most one of each of
 * `max_kept` environments between two calls. Threads: queue; inference. */
void progress_keep_episode(struct progress *progress, const struct progress_episode *episode);
void progress_count_kept(struct progress *progress);

/* Sorts, but not under the lock. Thread: main. */
struct progress_returns progress_returns(struct progress *progress, enum progress_set set);
/* Fills the numbers that environments report, by column; returns how many there are: never fewer
 * than before, in the same order. *dropped: as numbers_dropped. */
int progress_numbers(struct progress *progress, struct progress_number out[NUMBERS_MAX],
                     const char **dropped);
/* Whether the target and the result are over evaluation episodes, by now. */
bool progress_over_eval(struct progress *progress);
/* The returns of the last episodes, at most PROGRESS_WINDOW; returns how many, in no order. */
int progress_last_returns(struct progress *progress, bool eval, double *returns);

/* Asks the run to end; the first reason stays. */
void progress_stop(struct progress *progress, enum stop_reason reason);
/* A run that was to stop has failed, whatever asked for it. */
void progress_fail(struct progress *progress);
enum stop_reason progress_stopped(const struct progress *progress);

#endif
