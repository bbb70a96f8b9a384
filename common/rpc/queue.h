/* A completion queue with its tags, and the rule for when it may end.
 *
 * Every tag is a `struct op` embedded in what it belongs to; the queue's thread runs it when its
 * event comes.
 * Invariant: gRPC aborts on a batch that is started on a queue that is shut down. So every object
 * that may still start a batch holds the queue (the server until its shutdown is complete, each
 * armed accept, each call until its last event), and the queue shuts down when the last hold is
 * given back.
 * Upstream: server.c, stream.c. Downstream: gRPC C core. */
#ifndef ACORN_COMMON_RPC_QUEUE_H
#define ACORN_COMMON_RPC_QUEUE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/rpc/core.h"

/* A tag. Lives until its event has run. */
struct op {
  void (*run)(void *owner, bool ok);
  void *owner;
};

struct queue {
  grpc_completion_queue *cq; /* read-only after init */
  atomic_int holds;
};

/* Makes a queue with one hold, the caller's. `listens`: new connections are accepted by the thread
 * that polls it. */
void queue_init(struct queue *queue, bool listens);

/* Frees it; shuts it down and drains it first if it never ran. Nothing may hold it. Thread: any,
 * after its own ended. */
void queue_deinit(struct queue *queue);

/* Takes a hold; false once the last one has been given back. Thread: any. */
bool queue_hold(struct queue *queue);
void queue_release(struct queue *queue);

/* See rpc_server_poll. */
int queue_poll(struct queue *queue, int64_t deadline_us);

#endif
