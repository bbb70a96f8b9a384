/* Resolves the learner's host name, for an error where a gRPC call would only time out.
 * Upstream: actor/link.c. Thread: any. */
#ifndef ACORN_ACTOR_RESOLVE_H
#define ACORN_ACTOR_RESOLVE_H

#include "common/base/status.h"

/* Looks the host of "HOST:PORT" up; anything else (unix:PATH) is OK. Blocks as long as the system's
 * resolver does. Errors: UNAVAILABLE, with the resolver's words. */
MUST_CHECK enum status resolve_check(const char *address, struct error *error);

#endif
