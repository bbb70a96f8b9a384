/* What the client's two kinds of call share: a blocking wait on a completion queue, and how a
 * call ends.
 * Upstream: client.c, client_stream.c. Downstream: gRPC C core. */
#ifndef ACORN_COMMON_RPC_CLIENT_CALL_H
#define ACORN_COMMON_RPC_CLIENT_CALL_H

#include "common/rpc/client.h"
#include "common/rpc/core.h"

struct rpc_channel {
  grpc_channel *channel;
  char *address;
  size_t max_message_bytes;
  const struct credentials *credentials; /* borrowed; NULL: none */
  int reading; /* of the TLS files that `channel` was made with; 0: it is plain */
};

/* A batch in flight: its address is the tag. */
struct batch {
  bool done;
  bool ok;
};

/* What gRPC fills when the call ends. */
struct ending {
  grpc_status_code code;
  grpc_slice details;
  grpc_metadata_array trailing;
};

grpc_call *client_create_call(struct rpc_channel *channel, grpc_completion_queue *queue,
                              const char *path, gpr_timespec deadline);

/* Handles events until `batch` is done or the deadline has passed. */
void client_wait(grpc_completion_queue *queue, const struct batch *batch, gpr_timespec deadline);

/* Shuts a queue down, drains it and frees it. */
void client_destroy_queue(grpc_completion_queue *queue);

void ending_init(struct ending *ending);
void ending_deinit(struct ending *ending);
struct rpc_result ending_result(const struct ending *ending);

/* The operation that fills it; completes only at the end of the call. */
grpc_op ending_op(struct ending *ending);

#endif
