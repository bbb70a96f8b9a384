#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "common/cluster/mpi_world.h"

static void launchers_name_it_by_their_variables(void **state) {
  (void)state;
  static const struct {
    const char *variables[4];
    int rank, size; /* -1: no launcher */
  } table[] = {{{"PMI_RANK", "1", "PMI_SIZE", "3"}, 1, 3},
               {{"PMIX_RANK", "0", "SLURM_STEP_NUM_TASKS", "2"}, 0, 2},
               {{"OMPI_COMM_WORLD_RANK", "4", "OMPI_COMM_WORLD_SIZE", "5"}, 4, 5},
               {{"PMI_RANK", "0", "PMI_SIZE", "1"}, 0, 1},
               {{"PMI_RANK", "3", "PMI_SIZE", "3"}, -1, 0},
               {{"PMI_RANK", "1", "OMPI_COMM_WORLD_SIZE", "3"}, -1, 0},
               {{"PMI_RANK", "-1", "PMI_SIZE", "3"}, -1, 0},
               {{"PMI_RANK", "1x", "PMI_SIZE", "3"}, -1, 0},
               {{"PMI_RANK", "", "PMI_SIZE", "3"}, -1, 0},
               {{"PMI_RANK", "1", "PMI_SIZE", "99999999999"}, -1, 0},
               {{"SLURM_PROCID", "1", "SLURM_STEP_NUM_TASKS", "2"}, -1, 0}};
  for (size_t i = 0; i < sizeof(table) / sizeof(*table); i++) {
    const char *const *variables = table[i].variables;
    int rank = -1, size = -1;
    clearenv();
    for (int k = 0; k < 4; k += 2) setenv(variables[k], variables[k + 1], 1);
    bool found = mpi_world_find(&rank, &size);
    if (found != (table[i].rank >= 0)) fail_msg("%s=%s", variables[0], variables[1]);
    if (!found) continue;
    assert_int_equal(rank, table[i].rank);
    assert_int_equal(size, table[i].size);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(launchers_name_it_by_their_variables)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
