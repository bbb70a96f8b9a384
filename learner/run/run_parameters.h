/* The calls GetParameters and SetParameters of a running learner: files in pieces, and who may.
 *
 * A piece is answered before the next one comes, so that neither a message nor the learner's other
 * work has to wait for a whole file. Parameters are set once the last piece has come and all of it
 * has been checked: a client that goes before changes nothing.
 * Upstream: run.c. Downstream: train/trainer.h, params/named.h, common/rpc/server.h. Threads: the
 * one that polls the control queue; the trainer's, which answers what waits for it.
 * Invariant: a transfer lives until its stream is closed and the trainer is done with it. */
#ifndef ACORN_LEARNER_RUN_RUN_PARAMETERS_H
#define ACORN_LEARNER_RUN_RUN_PARAMETERS_H

#include "common/rpc/server.h"
#include "learner/run/run.h"

/* Borrows the run. After run_make_training, before the server starts. */
struct run_parameters *run_parameters_create(const struct run *run);
/* After the server has ended. */
void run_parameters_destroy(struct run_parameters *parameters);

enum { RUN_PARAMETERS_METHODS = 2 };
const struct rpc_method *run_parameters_methods(const struct run_parameters *parameters);

#endif
