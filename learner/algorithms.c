#include "learner/algorithms.h"

#include <stddef.h>
#include <string.h>

#include "common/base/check.h"
#include "learner/algorithm/algorithm.h"
#include "learner/algorithm/policy.h"

static const struct algorithm_row rows[] = {
#define ROW(name, algorithm, policy, network, pace, help) \
  {#name, help, algorithm, policy, network, pace},
    ALGORITHMS(ROW)
#undef ROW
};

const struct algorithm_row *algorithms_find(const char *name) {
  for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
    if (strcmp(rows[i].name, name) == 0) return &rows[i];
  CHECK(false, "no algorithm %s", name);
  return NULL;
}
