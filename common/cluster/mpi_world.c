#include "common/cluster/mpi_world.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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

int mpi_world_of_host(int size) {
  static const char *const names[] = {"MPI_LOCALNRANKS", "OMPI_COMM_WORLD_LOCAL_SIZE"};
  int count;
  for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
    if (read_number(&count, names[i]) && count > 0) return count;
  const char *nodes = getenv("SLURM_STEP_TASKS_PER_NODE"); /* "2(x3),1": of each node */
  count = nodes ? atoi(nodes) : 0;
  return count > 0 ? count : size;
}

int mpi_world_connection(int above) {
  int file, moved;
  char text[16];
  if (!read_number(&file, "PMI_FD")) return -1;
  if (file > above || (moved = fcntl(file, F_DUPFD, above + 1)) < 0) return file;
  close(file);
  snprintf(text, sizeof(text), "%d", moved);
  setenv("PMI_FD", text, 1);
  return moved;
}

void mpi_world_leave(void) {
  int connection = mpi_world_connection(-1);
  if (connection > STDERR_FILENO) close(connection);
  /* Each removal moves the others up. */
  for (char **at = environ; *at;) {
    char name[256];
    snprintf(name, sizeof(name), "%.*s", (int)strcspn(*at, "="), *at);
    bool is_of_mpi = strncmp(name, "PMI", 3) == 0 || strncmp(name, "OMPI_", 5) == 0;
    if (!is_of_mpi || unsetenv(name) != 0) at++;
  }
}
