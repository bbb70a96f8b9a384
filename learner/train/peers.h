/* The learners of one run: processes of one host that share memory, or of several hosts that have a
 * connection to each other, or those of a job of MPI.
 *
 * Every function but the last four is a meeting: it returns once all learners have called it, in
 * the same order, or once one is missing, which is an error for all that wait. After the first
 * error all later calls fail with it. Sums are made in the order of ranks, so that all learners
 * have the same bits, in every run.
 *
 * Upstream: learner/run/run_learners.c, train/trainer.c, train/reduction.h; learner/learn and
 * learner/network through struct device. Threads: main opens and closes, and lives as long as its
 * process; between trainer_start and trainer_join all else is the trainer's. */
#ifndef ACORN_LEARNER_TRAIN_PEERS_H
#define ACORN_LEARNER_TRAIN_PEERS_H

#include <stdbool.h>
#include <stddef.h>

#include "common/base/status.h"
#include "learner/device/device.h"

enum { PEERS_MAX = 64, PEERS_WORDS = 6 };

struct tokens;

struct peers_config {
  const char
      *path;       /* one host: a file that all of them map, new or empty: the first one fills it */
  char *const *at; /* several: HOST:PORT where each one waits for the others, by rank; else NULL */
  const struct tokens *tokens; /* a caller must have one of these (common/base/token.h) */
  bool by_mpi; /* neither of these: the processes that MPI's launcher has started, by its ranks */
  int rank, learners;
  int timeout_ms;    /* one that the others have waited for so long is given up */
  const char *about; /* lines NAME=VALUE, in which all have to agree */
  /* Whether the process of a learner that has not come yet has ended; NULL: not known. */
  bool (*has_ended)(void *context, int rank);
  /* Called once: this learner has found that one is missing; silent: it did not answer in time. The
   * rank is `learners` where devices do not tell which. Not for one that has never come. NULL: not
   * wanted. Thread: the trainer's, main until opened. */
  void (*lost)(void *context, int rank, bool silent);
  void *context; /* kept until closed */
};

struct peers;

/* Waits for all others. Errors: INVALID, EXISTS, IO: the file or address; UNAVAILABLE: a learner is
 * missing; MISMATCH: two disagree: names the line, and both values. */
MUST_CHECK enum status peers_open(struct peers **out, const struct peers_config *config,
                                  struct error *error);
void peers_close(struct peers *peers);

/* all (learners, n): what each of them has in `mine`; n <= PEERS_WORDS. Errors: UNAVAILABLE. */
MUST_CHECK enum status peers_exchange(struct peers *peers, double *all, const double *mine, int n,
                                      struct error *error);
/* What rank 0 has in `bytes` goes to all. Errors: UNAVAILABLE. */
MUST_CHECK enum status peers_broadcast(struct peers *peers, void *bytes, size_t count,
                                       struct error *error);

/* In place, on the host's memory: of the first P numbers the mean over the learners, by their
 * weights, of the others the sum. NaN after an error. real_bytes: of a float or a double. */
void peers_mean(struct peers *peers, void *numbers, size_t P, size_t sums, size_t real_bytes,
                double weight);

/* For struct device: adds up by peers_mean. */
struct device_peers *peers_of_device(struct peers *peers);

int peers_rank(const struct peers *peers);
int peers_learners(const struct peers *peers);
/* The first error. */
MUST_CHECK enum status peers_status(const struct peers *peers, struct error *error);
/* No meeting: whether all others still run, while this learner has waited for their devices for
 * so long. Errors: UNAVAILABLE: one has ended, or the time is over. */
MUST_CHECK enum status peers_look(struct peers *peers, int64_t waited_us, struct error *error);
/* This learner's own error, of the status UNAVAILABLE, unless there is one. */
void peers_fail(struct peers *peers, const struct error *error);
/* Whether no learner of a lower rank runs any more, or can be reached: what rank 0 wrote is for
 * this one to write. Not for one that the others have given up. */
bool peers_is_first(struct peers *peers);
/* After the last meeting or an error, once this learner has written its last file: where the end of
 * one process ends the others (MPI), waits until all have come here: two minutes at most, after an
 * error the timeout. well: what this learner had to write is written; others do not take it for
 * lost. */
void peers_leave(struct peers *peers, bool well);

#endif
