/* The device's part of inference: rows go to the device, the network and the policy choose their
 * actions, and the steps are filed. Inference decides on the host which rows there are and where
 * each goes (memory.h, pages.h); here is what is computed with them.
 *
 * On a device with recordings a batch is padded to the next of a few sizes, and what the device
 * does behind the upload, the filing included, is recorded for each size: then a batch costs the
 * same few calls whatever the network is. Rows of the padding are of no slot: they
 * change nothing. What varies from batch to batch lies in memory whose address stays, the
 * parameters too: a new version is copied, which reads and writes them once.
 * Upstream: inference.c, predictor.h. Downstream: memory.h, network/, experience/pages.h. Thread:
 * inference, or that of a predictor. */
#ifndef ACORN_LEARNER_SERVE_ACTING_H
#define ACORN_LEARNER_SERVE_ACTING_H

#include "learner/learn/policy.h"
#include "learner/device/recorded.h"
#include "learner/device/shared.h"
#include "learner/network/network.h"
#include "learner/serve/memory.h"
#include "learner/serve/row_batch.h"

enum { ACTING_MAX_SIZES = 40 };

/* Read-only after acting_init, but for `given`. Everything is borrowed but the workspace and
 * `params`. */
struct acting {
  struct device *device;
  const struct network *network;
  const struct policy *policy;
  struct device_inputs inputs; /* the layout of a row */
  struct step_shape shape;
  struct memory *memory;
  struct pages *pages; /* NULL: nothing is filed */
  bool keeps_trail;    /* the statistics of the actions come back to the host, too */
  uint64_t seed;
  int max_rows;

  struct network_workspace *workspace;
  int size[ACTING_MAX_SIZES]; /* of batches, in rows; where rows are not padded there are none */
  int num_sizes;
  real *params;      /* (P) own copy, where there are recordings; else NULL */
  const real *given; /* the newest parameters; held by the caller while a batch uses them */
};

/* A batch: arrays for max_rows, and what is recorded for each size. */
struct acting_batch {
  int num_rows, B;         /* without and with padding */
  struct memory_rows rows; /* (B) */
  bool begins_windows;     /* some rows.start are not -1 */
  const real *params;
  struct device_steps steps;       /* what operations read and write of the rows */
  struct network_outputs out;      /* what the actions are chosen from, until the next batch */
  uint8_t *observation;            /* where they are uploaded to; NULL on a unified device */
  struct device_shared action;     /* (rows, action_bytes) */
  struct device_shared statistics; /* (rows, statistics) */
  uint64_t chosen;                 /* mark: the actions are on the host */
  struct recorded recorded[ACTING_MAX_SIZES];
};

/* Creates the workspace, the copy of the parameters and the sizes; the other members are set. */
void acting_init(struct acting *acting);
void acting_deinit(struct acting *acting);

/* Owner: the caller. */
void acting_batch_init(const struct acting *acting, struct acting_batch *batch);
void acting_batch_deinit(const struct acting *acting, struct acting_batch *batch);

/* Parameters for the batches from now on. The caller keeps them as they are until the actions of
 * the first of these batches are there, without recordings until those of the last. */
void acting_set_params(struct acting *acting, const real *params);

/* Makes room for the rows of a batch: batch->rows, for B of them, which the caller fills: all of
 * rows.place and rows.start and, by memory.h, the others but reward and flags. The actions of an
 * earlier use of the batch are there, so that the device no longer reads its host arrays. */
void acting_begin(const struct acting *acting, struct acting_batch *batch, int num_rows);

/* Gives the device what computes the actions of these rows; they are on the host, in
 * batch->action, once `chosen` is waited for. An asynchronous device files the steps before, since
 * that takes it less time than another call takes the host. noise: of the batch; NULL: none is
 * set. */
void acting_choose(const struct acting *acting, struct acting_batch *batch,
                   const struct row_batch *rows, const struct network_noise *noise);

/* The action of a row, as it was chosen. */
static inline const void *acting_action(const struct acting *acting,
                                        const struct acting_batch *batch, int row) {
  return (const char *)batch->action.host + (size_t)row * (size_t)acting->shape.action_bytes;
}

/* Then what the slots remember, and the steps into rows.place, on a device that has not done it. */
void acting_file(const struct acting *acting, struct acting_batch *batch);

#endif
