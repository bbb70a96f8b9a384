/* One stream between an actor and the learner: Join for a lease, then Play: rows out, actions back.
 *
 * How a call ends says what to do; link_verdict is the table. An actor outlives its learner: while
 * the learner is away, link_join tries again with a back-off of 0.1 to 2 s for reconnect_us.
 * Upstream: actor/worker.c. Downstream: common/rpc/client.h. Thread: the worker's own; link_cancel
 * any.
 * Invariant: an exchange allocates nothing here. */
#ifndef ACORN_ACTOR_LINK_H
#define ACORN_ACTOR_LINK_H

#include <stdint.h>

#include "actor/env_pool.h"
#include "common/base/status.h"
#include "common/rpc/client.h"
#include "common/wire/wire.h"

struct link;

struct link_config {
  const char *address;                     /* copied */
  struct credentials *credentials;         /* borrowed; NULL: none */
  const struct wire_join_request *request; /* copied */
  const struct wire_layout *layout;        /* copied */
  int64_t reconnect_us;                    /* how long to try without hearing from a learner */
  bool shared_rows;                        /* asks for shared memory, where the address is local */
};

/* What the end of a call means to an actor. */
enum link_verdict {
  LINK_DONE,   /* the run is over: exit 0 */
  LINK_RETRY,  /* the learner is away or restarts: join again */
  LINK_REFUSE, /* trying again would not help: exit 1 with the learner's words */
};
enum link_verdict link_verdict(enum rpc_code code, int at_join);

struct link *link_create(const struct link_config *config);
void link_destroy(struct link *link);

/* Joins and opens the stream, after closing the one before: from then on the lease lasts as long as
 * the stream. The reply is *lease, valid until the next link_join. Waits and tries again while the
 * learner is away.
 * Errors: DONE: the run is over, or link_cancel; MISMATCH: refused; UNAVAILABLE: no learner for
 * reconnect_us. */
MUST_CHECK enum status link_join(struct link *link, const struct wire_join_reply **lease,
                                 struct error *error);

/* Where the observations of this lease are best written: memory that the learner reads, (K, wire
 * bytes), valid until the next link_join. NULL: there is none, they go into messages. */
uint8_t *link_shared_rows(struct link *link);

/* Sends the rows and waits for the actions.
 * Shapes: actions: (K, action bytes). Errors: as link_join, but UNAVAILABLE: the learner is gone,
 * join again. */
MUST_CHECK enum status link_exchange(struct link *link, void *actions,
                                     const struct env_pool_rows *rows, struct error *error);

/* Makes the call that runs and all later ones return soon with DONE. Thread: any, until
 * link_destroy. */
void link_cancel(struct link *link);

#endif
