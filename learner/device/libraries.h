/* Versions of the libraries that compute. Upstream: learner/report/record.c. Thread: any. */
#ifndef ACORN_LEARNER_DEVICE_LIBRARIES_H
#define ACORN_LEARNER_DEVICE_LIBRARIES_H

#include <stddef.h>

/* "2.6.3". */
void device_onednn_version(char *text, size_t bytes);

/* CUDA's as the driver of a device in use has it, "12.8"; "" where none is used. */
void device_cuda_version(char *text, size_t bytes);

#endif
