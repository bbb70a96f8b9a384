/* Loads the plugin with MPI, build/libacorn_mpi.so, or the one that ACORN_MPI_PLUGIN names.
 * Upstream: peers_mpi.c. Thread: main, at start. */
#ifndef ACORN_LEARNER_TRAIN_MPI_LIBRARY_H
#define ACORN_LEARNER_TRAIN_MPI_LIBRARY_H

#include "learner/train/mpi_plugin.h"

/* It stays loaded. Errors: UNAVAILABLE: it is not there, or what it needs; MISMATCH: it is of
 * another version. */
MUST_CHECK enum status mpi_library_load(const struct mpi_plugin **out, struct error *error);

#endif
