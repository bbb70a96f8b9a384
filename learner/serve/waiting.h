/* Joins that wait for the others (deterministic mode): kept as they come, handed out in the order
 * of their names.
 * Upstream: leases.c, under whose lock all of this runs. Streams are borrowed: the caller that
 * adds one here answers it in the end. */
#ifndef ACORN_LEARNER_SERVE_WAITING_H
#define ACORN_LEARNER_SERVE_WAITING_H

#include <stdbool.h>

#include "common/rpc/server.h"
#include "common/wire/wire.h"

struct waiting_join {
  struct wire_join_request request;
  struct rpc_stream *stream;
};

struct waiting {
  struct waiting_join *join; /* (room) */
  int count, next;           /* next: to be handed out */
};

/* Each Join has an environment or more, so `room` is the number of environments. */
void waiting_init(struct waiting *waiting, int room);
void waiting_deinit(struct waiting *waiting);

/* The environments of those that wait, of one role; without those of one name (NULL: of all). */
int waiting_environments(const struct waiting *waiting, enum wire_role role, const char *without);

/* Keeps a Join; returns the stream of an older one of the same name, which it replaces, or NULL. */
struct rpc_stream *waiting_keep(struct waiting *waiting, const struct wire_join_request *request,
                                struct rpc_stream *stream);

/* False: the stream does not wait. */
bool waiting_forget(struct waiting *waiting, const struct rpc_stream *stream);

/* Names like "actor/10/1" in the order of their numbers. */
void waiting_sort(struct waiting *waiting);

/* The next one; false: there are no more. */
bool waiting_next(struct waiting *waiting, struct wire_join_request *request,
                  struct rpc_stream **stream);

#endif
