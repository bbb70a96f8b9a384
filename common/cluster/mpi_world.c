#include "common/cluster/mpi_world.h"

#include <stdlib.h>

/* False: it is no whole number. */
static bool read_number(int *out, const char *name) {
  char *end;
  const char *text = getenv(name);
  if (!text || !*text) return false;
  long value = strtol(text, &end, 10);
  *out = (int)value;
  return !*end && value >= 0 && value <= 1 << 20;
}

bool mpi_world_find(int *rank, int *size) {
  static const char *const names[][2] = {{"PMI_RANK", "PMI_SIZE"}, /* MPICH's hydra; Slurm's pmi2 */
                                         {"PMIX_RANK", "SLURM_STEP_NUM_TASKS"}, /* Slurm's pmix */
                                         {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"}};
  for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
    if (read_number(rank, names[i][0]) && read_number(size, names[i][1])) return *rank < *size;
  return false;
}
