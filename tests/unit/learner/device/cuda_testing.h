/* What the tests of the CUDA device share. */
#ifndef ACORN_TESTS_UNIT_LEARNER_DEVICE_CUDA_TESTING_H
#define ACORN_TESTS_UNIT_LEARNER_DEVICE_CUDA_TESTING_H

#include "tests/unit/support/emulated_cuda.h"

/* Owner: the caller, with device_destroy. */
static inline struct device *testing_cuda(const char *precision) {
  return emulated_cuda_create(precision);
}

#endif
