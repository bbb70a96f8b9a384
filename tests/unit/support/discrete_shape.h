/* The shape of steps whose action is one int32 with its log-probability: what categorical policies
 * make. */
#ifndef ACORN_TESTS_UNIT_SUPPORT_DISCRETE_SHAPE_H
#define ACORN_TESTS_UNIT_SUPPORT_DISCRETE_SHAPE_H

#include <stdint.h>

#include "learner/experience/step_shape.h"

static inline struct step_shape discrete_shape(size_t row_stride, int state_size, int footprint) {
  return (struct step_shape){.row_stride = row_stride,
                             .action_bytes = (int)sizeof(int32_t),
                             .statistics = 1,
                             .state_size = state_size,
                             .footprint = footprint};
}

#endif
