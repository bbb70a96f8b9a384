/* Handles the learner's RPC methods: Join, Play, Status, health. Rows are checked against the lease
 * and decoded straight into the filling batch. A bad message ends its own stream with an error;
 * other streams are not affected. Threads: Play: the queue threads; the others, which may not wait
 * until inference has time: the thread that polls the control queue. All state that they
 * share is in leases and batcher.
 * Upstream: serve.c. Downstream: leases.h, batcher.h, players.h, episodes/progress.h. */
#ifndef ACORN_LEARNER_SERVE_INGRESS_H
#define ACORN_LEARNER_SERVE_INGRESS_H

#include "common/rpc/server.h"
#include "common/wire/wire.h"
#include "learner/episodes/progress.h"
#include "learner/serve/batcher.h"
#include "learner/serve/leases.h"
#include "learner/serve/players.h"
#include "learner/serve/refusals.h"

struct ingress_config {
  const char *environment; /* the identity that actors must state: "tmaze(length=20)" */
  struct space space;      /* what actors must have */
  int num_train_slots;     /* evaluation slots follow */
  int num_queues;
  bool evaluate; /* nothing is trained: evaluators are waited for like trainers */
  bool deterministic;
};

struct ingress;

struct ingress *ingress_create(const struct ingress_config *config, struct leases *leases,
                               struct batcher *batcher, struct progress *progress);
void ingress_destroy(struct ingress *ingress);

/* The service's methods, for rpc_server_create. */
const struct rpc_method *ingress_methods(struct ingress *ingress, int *count);

/* From now on every message and Join is answered with this code and sentence. RPC_OK: "training
 * done". Thread: any. */
void ingress_stop(struct ingress *ingress, enum rpc_code code, const char *text);

/* Ends the streams of a batch that will not run, with ingress_stop's code and text. Thread:
 * any, after that. */
void ingress_end_batch(struct ingress *ingress, struct row_batch *batch);

/* What Status says of the run; the players and the number of environments, which it counts itself,
 * are added to it. Kept, not copied, and read only while the control queue is polled. Before the
 * server starts. */
void ingress_set_status(struct ingress *ingress, const struct wire_status *status,
                        struct players *players);

/* How many were refused so far. Thread: any. */
int64_t ingress_refused(const struct ingress *ingress, enum refusal kind);

/* Largest message that a stream may send. Units: bytes. */
size_t ingress_max_message_bytes(const struct space *space, int max_environments);

#endif
