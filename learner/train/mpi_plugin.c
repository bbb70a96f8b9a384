/* The plugin: the learner's messages as calls of MPI. Compiled by mpicc, and by nothing else. */
#include "learner/train/mpi_plugin.h"

#include <mpi.h>

static MPI_Request request[MPI_PLUGIN_REQUESTS]; /* MPI_REQUEST_NULL: none waits */
static int result[MPI_PLUGIN_REQUESTS];          /* of its beginning */

static enum status check_version(struct error *error) {
  int version, subversion;
  MPI_Get_version(&version, &subversion);
  if (version == MPI_VERSION) return STATUS_OK;
  return status_fail(error, STATUS_MISMATCH,
                     "MPI's library is of version %d.%d of the standard, and libacorn_mpi.so was "
                     "built with %d.%d: run make again where this library's headers are",
                     version, subversion, MPI_VERSION, MPI_SUBVERSION);
}

static enum status open_mpi(int *rank, int *size, struct error *error) {
  int threads;
  enum status status = check_version(error);
  if (status != STATUS_OK) return status;
  /* Main opens and closes, the trainer's thread does all else. */
  if (MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &threads) != MPI_SUCCESS)
    return status_fail(error, STATUS_UNAVAILABLE, "MPI cannot start; what it printed tells why");
  if (threads < MPI_THREAD_SERIALIZED)
    return status_fail(error, STATUS_UNAVAILABLE,
                       "this MPI cannot be called by several threads in turn "
                       "(MPI_THREAD_SERIALIZED): take one that is built for it, as MPICH is");
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm_rank(MPI_COMM_WORLD, rank);
  MPI_Comm_size(MPI_COMM_WORLD, size);
  for (int i = 0; i < MPI_PLUGIN_REQUESTS; i++) request[i] = MPI_REQUEST_NULL;
  return STATUS_OK;
}

static void send_bytes(int place, const void *bytes, size_t count, int rank, int tag) {
  result[place] =
      MPI_Isend(bytes, (int)count, MPI_BYTE, rank, tag, MPI_COMM_WORLD, &request[place]);
}

static void receive(int place, void *bytes, size_t count, int rank, int tag) {
  result[place] =
      MPI_Irecv(bytes, (int)count, MPI_BYTE, rank, tag, MPI_COMM_WORLD, &request[place]);
}

static void tell(const int *number, int rank, int tag) {
  MPI_Request sent;
  if (MPI_Isend(number, sizeof(*number), MPI_BYTE, rank, tag, MPI_COMM_WORLD, &sent) == MPI_SUCCESS)
    MPI_Request_free(&sent);
}

static enum mpi_request test(int place, struct error *error) {
  char text[MPI_MAX_ERROR_STRING] = "";
  int done = 0, length;
  if (result[place] == MPI_SUCCESS)
    result[place] = MPI_Test(&request[place], &done, MPI_STATUS_IGNORE);
  if (result[place] == MPI_SUCCESS) return done ? REQUEST_DONE : REQUEST_WAITS;
  MPI_Error_string(result[place], text, &length);
  (void)!status_fail(error, STATUS_UNAVAILABLE, "%s", text);
  return REQUEST_FAILED;
}

static void close_mpi(void) {
  for (int i = 0; i < MPI_PLUGIN_REQUESTS; i++)
    if (request[i] != MPI_REQUEST_NULL) {
      MPI_Cancel(&request[i]);
      MPI_Request_free(&request[i]);
    }
  MPI_Finalize();
}

const struct mpi_plugin acorn_mpi_plugin = {.version = MPI_PLUGIN_VERSION,
                                            .bytes = sizeof(struct mpi_plugin),
                                            .open = open_mpi,
                                            .send = send_bytes,
                                            .receive = receive,
                                            .tell = tell,
                                            .test = test,
                                            .close = close_mpi};
