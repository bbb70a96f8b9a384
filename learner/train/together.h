/* Updates of several learners whose devices are a group (struct device_group_ops): a sum in a graph
 * must be in the graphs of all, so that all record, and play, at the same time. They agree on each
 * update by the places of their batches; all have the same recordings, since all know all places.
 *
 * Upstream: train/update.c. Downstream: train/peers.h, device/recorded.h. Thread: the trainer's. */
#ifndef ACORN_LEARNER_TRAIN_TOGETHER_H
#define ACORN_LEARNER_TRAIN_TOGETHER_H

#include "learner/device/recorded.h"
#include "learner/train/peers.h"

enum { MAX_TOGETHER = 8 };

struct agreed_update {
  double place[PEERS_MAX]; /* 0: unused */
  int64_t agreed;          /* its last agreement, of num_agreed */
  struct recorded recorded;
};

struct together {
  struct device *device; /* borrowed */
  struct peers *peers;   /* borrowed; NULL: there is one learner */
  struct agreed_update update[MAX_TOGETHER];
  int64_t num_agreed;         /* so far */
  struct agreed_update *next; /* NULL: none is agreed */
};

bool together_in_group(const struct together *together);

/* The places (peers_learners) of the batches of the next update; without a group nothing. */
void together_agree(struct together *together, const double *places);

/* Gives the device the update that was agreed, or, where none was, `own`: as recorded_run. */
void together_run(struct together *together, struct recorded *own, void (*give)(void *context),
                  void *context);

/* Until the mark is done, or another learner is missing: then the device leaves its group, and
 * peers_status has the reason. Without a group it waits for the mark. */
void together_wait(struct together *together, uint64_t mark);

/* Frees the recordings. */
void together_deinit(struct together *together);

#endif
