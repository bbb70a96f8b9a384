/* What an MPI launcher (mpiexec, srun) has passed to this process by variables: its rank, of how
 * many processes, and a connection. Known before MPI is started, which a run's options have to be
 * read for.
 * Upstream: learner/run/options_mpi.c, deploy/launch/child.c, actor/main.c,
 * envs/registry_apart.c. Thread: one, at start. */
#ifndef ACORN_COMMON_CLUSTER_MPI_WORLD_H
#define ACORN_COMMON_CLUSTER_MPI_WORLD_H

#include <stdbool.h>

/* False: no launcher has started this process. */
bool mpi_world_find(int *rank, int *size);

/* How many of the `size` processes one host has, as the launcher says: Slurm that of its first one.
 * Without a word of it: all. */
int mpi_world_of_host(int size);

/* The file of the connection to the launcher (PMI_FD), which a program that starts MPI inherits;
 * -1: none. It is moved above the file `above`, if it is not. */
int mpi_world_connection(int above);

/* For a process beside a learner, whose code may itself use MPI (mpi4py): closes the connection and
 * removes the launchers' variables, so that it does not join the job in the learner's place. */
void mpi_world_leave(void);

#endif
