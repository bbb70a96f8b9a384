/* The parts of a run, made from its options in the order of these functions: each needs what those
 * before it made. Upstream: run.c; deploy/serve/{model,served}.c (the network alone). Downstream:
 * the parts' own headers. Thread: main, before any other. Owner: the run (run_destroy). */
#ifndef ACORN_LEARNER_RUN_RUN_PARTS_H
#define ACORN_LEARNER_RUN_RUN_PARTS_H

#include "learner/run/run.h"

/* Threads that share an update's products on a cpu, in a process that was given so many of the
 * machine's cores; 1 where none is trained. */
int run_trainer_threads(const struct learner_options *options, long cores, long machine_cores);

/* The network and its two devices, and with them the shape of a step. Errors: INVALID: --hidden,
 * the network or the device cannot be had so. */
MUST_CHECK enum status run_make_network(struct run *run, struct error *error);

/* How its policy explores, by the options. */
void run_plan_exploration(struct run *run);

void run_make_progress(struct run *run, const struct run_callbacks *callbacks);

/* The update holds the parameters, so evaluation needs it too; the rest only when something is
 * trained. Errors: update_create's. */
MUST_CHECK enum status run_make_training(struct run *run, const struct run_callbacks *callbacks,
                                         struct error *error);

/* Leases, batches, ingress and inference; they count on the restarts of a loaded checkpoint, and
 * an evaluation's exploration on its steps. */
void run_make_serving(struct run *run);

/* Threads that receive, for serve_config, on a machine with so many cores. */
int run_num_queues(const struct run *run, long cores);

#endif
