/* Between the learner and libacorn_mpi.so, the one part that is linked with MPI: a shared library
 * that exports `acorn_mpi_plugin`, a table of calls that do not block but the first and the last.
 * Upstream: mpi_library.h, mpi_plugin.c. Thread: one at a time. */
#ifndef ACORN_LEARNER_TRAIN_MPI_PLUGIN_H
#define ACORN_LEARNER_TRAIN_MPI_PLUGIN_H

#include <stddef.h>
#include <stdint.h>

#include "common/base/status.h"

/* To be raised when a struct of this file changes. */
enum { MPI_PLUGIN_VERSION = 1 };
enum { MPI_PLUGIN_REQUESTS = 512 };

enum mpi_request { REQUEST_WAITS, REQUEST_DONE, REQUEST_FAILED };

struct mpi_plugin {
  /* These two come first in every version, so that they can be compared. */
  uint32_t version; /* MPI_PLUGIN_VERSION */
  uint32_t bytes;   /* sizeof(struct mpi_plugin) */

  /* Starts MPI, once all processes of the job do; this one's rank and their number. Errors:
   * MISMATCH: the library is of another version of MPI than the plugin was built with; UNAVAILABLE:
   * it cannot start. */
  enum status (*open)(int *rank, int *size, struct error *error);
  /* Begin the request at that place, from 0, where none waits. The bytes are kept until it is done.
   * The same tag at both ends. */
  void (*send)(int place, const void *bytes, size_t count, int rank, int tag);
  void (*receive)(int place, void *bytes, size_t count, int rank, int tag);
  /* As send; the bytes are kept to the end of the process. */
  void (*tell)(const int *number, int rank, int tag);
  /* Errors: where it has failed. */
  enum mpi_request (*test)(int place, struct error *error);
  /* Ends MPI, once all processes do. Receptions that wait are cancelled. */
  void (*close)(void);
};

/* Defined by the plugin; looked up by name. */
#define MPI_PLUGIN_SYMBOL "acorn_mpi_plugin"
extern __attribute__((visibility("default"))) const struct mpi_plugin acorn_mpi_plugin;

#endif
