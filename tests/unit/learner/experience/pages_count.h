/* What tests count in the pages themselves. */
#ifndef ACORN_TESTS_UNIT_LEARNER_EXPERIENCE_PAGES_COUNT_H
#define ACORN_TESTS_UNIT_LEARNER_EXPERIENCE_PAGES_COUNT_H

#include "learner/experience/pages_state.h"

static inline int pages_free(const struct pages *pages) {
  return pages->num_free;
}

static inline int pages_held(const struct pages *pages) {
  return pages->config.num_pages - pages->num_free;
}

/* Bytes of observations allocated. */
static inline size_t pages_observation_bytes(const struct pages *pages) {
  return (size_t)pages_capacity_steps(pages) * pages->config.shape.row_stride;
}

#endif
