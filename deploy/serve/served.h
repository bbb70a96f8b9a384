/* What a version of a model computes with: the network of its run with the parameters of a
 * checkpoint, and how rows of requests go through it.
 *
 * Upstream: version.h. Downstream: learner/run (network, devices), learner/serve/predictor.h.
 * Thread: one at a time. */
#ifndef ACORN_DEPLOY_SERVE_SERVED_H
#define ACORN_DEPLOY_SERVE_SERVED_H

#include "deploy/serve/request.h"
#include "learner/run/run.h"
#include "learner/serve/predictor.h"

struct served {
  const struct signature *signature; /* the model's */
  struct learner_options options;
  struct run run; /* its environment, network and devices alone */
  real *params;   /* (P) */
  struct predictor predictor;
};

/* How a run's policy looks from outside. `run`: its environment and network are known. */
void served_describe(struct signature *signature, const struct run *run);

/* Loads the checkpoint `file` of the run in `folder`, whose options are taken over, also on
 * failure; served_close follows either way. `of`: a run of the same environment, which is not asked
 * again. Errors: MISMATCH: another environment or signature; checkpoint_read's. */
MUST_CHECK enum status served_open(struct served *self, const char *folder, const char *file,
                                   const struct learner_options *options, const struct run *of,
                                   const struct signature *signature, int max_rows, int num_slots,
                                   struct error *error);
void served_close(struct served *self);

/* Errors: INVALID: a mask forbids every action. Thread: any. */
MUST_CHECK enum status served_check(const struct served *self, const struct request *request,
                                    struct error *error);

/* Computes the outputs of all requests of the list, which have so many rows. */
void served_answer(struct served *self, const struct request *requests, int rows);

#endif
