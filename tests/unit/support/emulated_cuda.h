/* Makes device "cuda" of a test the emulated one, whose plugin lies in the build folder beside the
 * tests. ACORN_CUDA_PLUGIN in the environment names another one, so that the same tests run on
 * a GPU. */
#ifndef ACORN_TESTS_SUPPORT_EMULATED_CUDA_H
#define ACORN_TESTS_SUPPORT_EMULATED_CUDA_H

#include <stdbool.h>

#include "learner/device/device.h"

/* Sets ACORN_CUDA_PLUGIN unless it is set. */
void emulated_cuda_use(void);

/* The emulated NCCL, before another one that this machine may have. */
void emulated_nccl_use(void);

/* A CUDA device of that precision. Ends the process where there is none. Owner: the caller. */
struct device *emulated_cuda_create(const char *precision);

/* How often the runtime's function of that name was called so far, NULL: any; "work" counts
 * kernels, copies and products that were given to a stream one by one, "spin" waits for an event
 * that keep a core busy on a GPU. Only of the emulated plugin,
 * after a device was created. */
long emulated_cuda_count(const char *name);

/* The nodes of all graphs that were launched since the last call; unless `what` is NULL it
 * is printed with their number and their names. */
int emulated_cuda_take_nodes(const char *what);

/* Whether the plugin is the emulated one. */
bool emulated_cuda_is_used(void);

/* Only where that is so: a stop of its streams, which do not run what they are given from the hold
 * on until they are let go. What they are given after the spare runs at once on a stream that has
 * nothing that is held. */
void emulated_cuda_hold(void);
void emulated_cuda_spare(void);
void emulated_cuda_let_go(void);

#endif
