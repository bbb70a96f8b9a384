/* Per-stream statistics for Status: name, rate, the times that actor and learner wait.
 *
 * Rates and means are over the last interval that
 * players_tick has closed; what is counted on the hot path are sums in the batcher's clients, which
 * this compares. Thread: the one that polls the control queue. Upstream: ingress.c; the main
 * loop, which closes intervals. Downstream: leases.h, batcher.h. */
#ifndef ACORN_LEARNER_SERVE_PLAYERS_H
#define ACORN_LEARNER_SERVE_PLAYERS_H

#include "common/wire/wire.h"
#include "learner/serve/batcher.h"
#include "learner/serve/leases.h"

struct players;

/* Borrows both for its life. */
struct players *players_create(struct leases *leases, struct batcher *batcher);
void players_destroy(struct players *players);

/* Closes the interval and begins the next. */
void players_tick(struct players *players, int64_t now_us);

/* All players that are there, *count of them, in the order of their leases. Owner: the caller frees
 * it. A rate or mean that there is none of yet is NaN. */
struct wire_player *players_list(struct players *players, int *count, int64_t now_us);

#endif
