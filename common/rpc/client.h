/* The client's half of the gRPC wrapper: a channel to one learner, blocking unary calls, and a
 * blocking, strictly alternating stream. Each stream has its own completion queue and belongs to
 * one thread.
 * Upstream: actor/link.c, deploy/launch/task.c. Downstream: gRPC C core. */
#ifndef ACORN_COMMON_RPC_CLIENT_H
#define ACORN_COMMON_RPC_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/status.h"
#include "common/rpc/credentials.h"
#include "common/rpc/server.h" /* enum rpc_code */
#include "common/wire/wire.h"

struct rpc_channel;
struct rpc_call;

/* How a call ended, as the peer said it. */
struct rpc_result {
  enum rpc_code code;
  bool
      tls_failed; /* TLS on one side only, or a certificate that was refused; the text says which */
  char text[512];
};

/* A channel to "host:port" or "unix:/path"; nothing is sent yet. Keepalive 10 s. Borrows the
 * credentials (NULL: none). Calls must be closed before it is destroyed. Thread: may be shared. */
struct rpc_channel *rpc_channel_create(const char *address, size_t max_message_bytes,
                                       struct credentials *credentials);
void rpc_channel_destroy(struct rpc_channel *channel);

/* Connects anew if the TLS files of the credentials have changed. No call may be open. */
void rpc_channel_renew(struct rpc_channel *channel);

/* One request, one reply. Waits for the server up to timeout_ms. *reply is malloc'd, the caller
 * frees it; NULL unless RPC_OK. Thread: any. */
struct rpc_result rpc_unary(struct rpc_channel *channel, const char *path, const void *request,
                            size_t request_bytes, uint8_t **reply, size_t *reply_bytes,
                            int timeout_ms);

/* Opens a bidirectional stream. Nothing waits yet; a dead server shows at the first exchange.
 * Owner: the caller. */
struct rpc_call *rpc_call_open(struct rpc_channel *channel, const char *path);

/* Sends header + body as one message and waits for the next message from the peer, whose bytes
 * are given to `receive` as spans (borrowed until it returns). The body is sent by reference
 * when it is 28 KB or more: it must stay unchanged until rpc_exchange returns, which it does
 * only after the send is over; smaller ones are copied. Returns RPC_OK if a message came; else
 * how the stream ended; with code RPC_OK and `ended` set the server finished it in good order.
 * After the end only rpc_call_close is allowed. Thread: the stream's own. */
struct rpc_result rpc_exchange(struct rpc_call *call, const void *header, size_t header_bytes,
                               const void *body, size_t body_bytes,
                               void (*receive)(void *context, const struct wire_span *spans, int n),
                               void *context, bool *ended);

/* Makes a running rpc_exchange of this call return soon with RPC_CANCELLED; at most a keepalive
 * later (40 s) if a large body is stuck half-written in the connection of a peer that hangs.
 * Thread: any, while the call is open. */
void rpc_call_cancel(struct rpc_call *call);

/* Cancels what is open, drains and frees. */
void rpc_call_close(struct rpc_call *call);

#endif
