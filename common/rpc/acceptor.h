/* Takes connections from the listening sockets and hands them to a gRPC server.
 *
 * gRPC could listen itself, but its listener ends for good, without an error, when the process
 * runs out of file descriptors. Here connections beyond the limit are closed at once,
 * with a reserve for files, and others are taken again as soon as some have ended.
 * Upstream: server.c. Downstream: gRPC C core. Thread: one of its own. */
#ifndef ACORN_COMMON_RPC_ACCEPTOR_H
#define ACORN_COMMON_RPC_ACCEPTOR_H

#include "common/rpc/address.h"
#include "common/rpc/core.h"

struct acceptor;

/* Starts to take connections for `server`, which has started. Takes the sockets. */
struct acceptor *acceptor_start(grpc_server *server, const struct address_sockets *sockets);

/* Closes the sockets; connections that were handed over stay. Frees it; NULL is allowed. */
void acceptor_stop(struct acceptor *acceptor);

/* How many file descriptors of this process may be connections. */
int acceptor_room(void);

#endif
