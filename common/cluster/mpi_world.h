/* What an MPI launcher (mpiexec, srun) has told this process, by variables: its rank, and of how
 * many processes. Known before MPI is started, which a run's options have to be read for.
 * Upstream: learner/run/options_mpi.c. Thread: start only. */
#ifndef ACORN_COMMON_CLUSTER_MPI_WORLD_H
#define ACORN_COMMON_CLUSTER_MPI_WORLD_H

#include <stdbool.h>

/* False: no launcher has started this process. */
bool mpi_world_find(int *rank, int *size);

#endif
