/* The address of a call's peer, as text for log lines.
 * Upstream: stream.c. Thread: any, while the call exists. */
#ifndef ACORN_COMMON_RPC_PEER_H
#define ACORN_COMMON_RPC_PEER_H

#include "common/rpc/core.h"
#include "common/rpc/server.h"

/* "10.0.0.7:4711", or "this machine" on a Unix socket and where the connection is gone. */
void peer_name(char text[RPC_PEER_BYTES], grpc_call *call);

#endif
