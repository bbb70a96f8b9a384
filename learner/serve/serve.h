/* Serving: the gRPC server, its queue threads and the inference thread, wired to ingress, batcher
 * and inference. With queues = 0 one queue thread runs inference itself: on a CPU that saves a
 * hand-off for every batch. Upstream: learner/run/run.c. */
#ifndef ACORN_LEARNER_SERVE_SERVE_H
#define ACORN_LEARNER_SERVE_SERVE_H

#include <signal.h>

#include "common/base/status.h"
#include "learner/serve/inference.h"
#include "learner/serve/ingress.h"

struct serve_config {
  const char *listen;
  struct credentials *credentials; /* asked of every call; NULL: none */
  int queues; /* 0: one, with inference inline; n: n queue threads and one inference thread */
  size_t max_message_bytes;
  const struct rpc_method *methods; /* besides the ingress's; copied */
  int num_methods;
};

struct serve;

/* Binds and starts the threads. Borrows the rest for its life. Errors: as rpc_server_create. */
MUST_CHECK enum status serve_start(struct serve **out, const struct serve_config *config,
                                   struct ingress *ingress, struct leases *leases,
                                   struct batcher *batcher, struct inference *inference,
                                   struct error *error);

/* Answers the calls of the control queue: Join, Status, health, and the config's that are of it.
 * While inference waits for the trainer on the only queue's thread, it also moves the bytes of all
 * connections: without that, who wants to join then would be told nothing until the update is over.
 * Returns the milliseconds until it has to be called again. Thread: main. */
int serve_poll(struct serve *serve);

/* Each call takes some of the connections' work from the thread that serves, and makes it dearer:
 * where that one has had its turn, and no call came for two seconds, they are rare. Times of
 * clock_now_us: now, the last call of the control queue, a queue thread's last turn. */
enum { SERVE_POLL_MS = 20, SERVE_CALM_MS = 100 };
int serve_poll_ms(int64_t now_us, int64_t called_us, int64_t turned_us);

/* The port that was bound; 0 on a Unix socket. */
int serve_port(const struct serve *serve);

/* Ends the stream of every message with the code and text of ingress_stop (call that first), while
 * players are connected but for at most grace_us; then cancels the remaining calls, drains the
 * queues and joins the threads.
 * linger_us: how long to go on answering Joins while players that have lost their connection are
 * not back. *hurry: stop lingering. */
void serve_stop(struct serve *serve, int64_t grace_us, int64_t linger_us,
                const volatile sig_atomic_t *hurry);
void serve_destroy(struct serve *serve);

#endif
