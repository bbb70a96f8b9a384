/* One call at the server, from its acceptance to its last event. The application's half of it is
 * in server.h.
 *
 * Two counts decide over its life:
 *   events  - gRPC batches in flight, whose events the queue's thread will run. While it is above
 *             0 the grpc_call exists; starting a batch first increments it, which fails once it
 *             was 0. Only the queue's thread decrements it; the event that brings it to 0 closes
 *             the stream: on_close, grpc_call_unref.
 *   refs    - owners of the struct: the call, the message in hand, the application's own. The
 *             last one frees it.
 * So any thread may reply at any time: if events is 0, the reply is dropped.
 *
 *   accepted --first batch--> receiving --message--> in hand --reply--> receiving ...
 *                                 |                     |
 *                                 | half-close          | finish
 *                                 v                     v
 *                             finishing (status sent) ----> closed, once both events have come
 * Upstream: server.c. Downstream: queue.c. */
#ifndef ACORN_COMMON_RPC_STREAM_H
#define ACORN_COMMON_RPC_STREAM_H

#include <stdbool.h>

#include "common/rpc/queue.h"
#include "common/rpc/server.h"

/* Where calls live: a queue, and what its thread knows of them. */
struct stream_home {
  struct queue queue;
  int index;              /* of the queue */
  atomic_int *open_calls; /* of the server */
  int64_t patience_us;    /* with a peer */
  bool anonymous;         /* the peers' names are not asked for */
  /* queue thread only */
  struct rpc_stream *first; /* of the calls */
  int64_t look_us;          /* when to look for those that have waited too long */
  int64_t polled_us;        /* the last time; */
  int64_t behind_us;        /* until then there may be events from before it; 0: there are none */
};

/* Takes a call that was just accepted on the home's queue and starts its first batches. Owner: the
 * stream frees itself. Thread: the queue's. */
void stream_open(grpc_call *call, const struct rpc_method *method, struct stream_home *home);

/* Ends the calls that have waited for their peer for too long: for a message, or for the
 * status to be read. Before every poll. Thread: the queue's. */
void stream_expire(struct stream_home *home, int64_t now_us);

#endif
