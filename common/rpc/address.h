/* Addresses to listen on: their form, stale socket files, and why a bind failed. gRPC says none
 * of this clearly.
 * Upstream: server.c. Thread: any. */
#ifndef ACORN_COMMON_RPC_ADDRESS_H
#define ACORN_COMMON_RPC_ADDRESS_H

#include <stdbool.h>

#include "common/base/status.h"

bool address_is_unix(const char *address);

/* Checks "HOST:PORT", "[IPV6]:PORT" or "unix:PATH", and clears a stale socket file away.
 * Errors: INVALID; EXISTS if somebody listens on that socket. */
MUST_CHECK enum status address_prepare(const char *address, struct error *error);

/* The sentence for a bind that gRPC refused. Never STATUS_OK. */
MUST_CHECK enum status address_explain(const char *address, struct error *error);

#endif
