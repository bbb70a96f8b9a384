/* Makes device "cuda" of a test the emulated one, whose plugin lies in the build folder beside the
 * tests. ACORN_CUDA_PLUGIN in the environment names another one, so that the same tests run on
 * a GPU. */
#ifndef ACORN_TESTS_SUPPORT_EMULATED_CUDA_H
#define ACORN_TESTS_SUPPORT_EMULATED_CUDA_H

#include <stdbool.h>

#include "learner/device/device.h"

/* Sets ACORN_CUDA_PLUGIN unless it is set. */
void emulated_cuda_use(void);

/* A CUDA device of that precision. Ends the process where there is none. Owner: the caller. */
struct device *emulated_cuda_create(const char *precision);

/* Whether the plugin is the emulated one. */
bool emulated_cuda_is_used(void);

/* Only where that is so: the runtime's calls so far, and a stop of its streams: they do not run
 * what they are given from the hold on until they are let go. */
long emulated_cuda_calls(void);
void emulated_cuda_hold(void);
void emulated_cuda_let_go(void);

#endif
