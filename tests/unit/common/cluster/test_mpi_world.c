#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>
#include <fcntl.h>
#include <unistd.h>

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

static void one_host_has_some_of_the_processes(void **state) {
  (void)state;
  static const struct {
    const char *name, *value;
    int of_host;
  } table[] = {{"MPI_LOCALNRANKS", "2", 2},
               {"OMPI_COMM_WORLD_LOCAL_SIZE", "4", 4},
               {"SLURM_STEP_TASKS_PER_NODE", "3(x2),1", 3},
               {"SLURM_STEP_TASKS_PER_NODE", "", 8},
               {"MPI_LOCALNRANKS", "0", 8},
               {"SLURM_NTASKS", "5", 8}};
  for (size_t i = 0; i < sizeof(table) / sizeof(*table); i++) {
    clearenv();
    setenv(table[i].name, table[i].value, 1);
    assert_int_equal(mpi_world_of_host(8), table[i].of_host);
  }
}

static void the_connection_moves_above_a_file(void **state) {
  (void)state;
  int pair[2];
  char text[16];
  clearenv();
  assert_int_equal(mpi_world_connection(3), -1);
  assert_int_equal(pipe(pair), 0);
  snprintf(text, sizeof(text), "%d", pair[1]);
  setenv("PMI_FD", text, 1);
  assert_int_equal(mpi_world_connection(pair[1] - 1), pair[1]);
  int moved = mpi_world_connection(pair[1] + 2);
  assert_in_range(moved, pair[1] + 3, 1023);
  assert_int_equal(atoi(getenv("PMI_FD")), moved);
  assert_int_equal(fcntl(pair[1], F_GETFD), -1);
  assert_int_equal(write(moved, "a", 1), 1);
  mpi_world_leave();
  assert_int_equal(fcntl(moved, F_GETFD), -1);
  assert_int_equal(read(pair[0], text, 1), 1);
  assert_int_equal(read(pair[0], text, 1), 0);
  close(pair[0]);
}

static void one_that_leaves_has_no_variables_of_it(void **state) {
  (void)state;
  static const char *const names[] = {"PMI_RANK", "PMI_SIZE", "PMIX_RANK", "OMPI_COMM_WORLD_RANK",
                                      "PMI_KVS"};
  clearenv();
  setenv("PMO", "1", 1);
  for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) setenv(names[i], "0", 1);
  setenv("OTHER", "2", 1);
  mpi_world_leave();
  for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) assert_null(getenv(names[i]));
  assert_string_equal(getenv("PMO"), "1");
  assert_string_equal(getenv("OTHER"), "2");
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(launchers_name_it_by_their_variables),
                                     cmocka_unit_test(one_host_has_some_of_the_processes),
                                     cmocka_unit_test(the_connection_moves_above_a_file),
                                     cmocka_unit_test(one_that_leaves_has_no_variables_of_it)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
