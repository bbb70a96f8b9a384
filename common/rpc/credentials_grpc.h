/* Credentials as gRPC takes them. Private to common/rpc.
 * Upstream: server.c, client.c. Downstream: gRPC C core. Thread: any. */
#ifndef ACORN_COMMON_RPC_CREDENTIALS_GRPC_H
#define ACORN_COMMON_RPC_CREDENTIALS_GRPC_H

#include <grpc/grpc.h>
#include <stdbool.h>

#include "common/rpc/credentials.h"

/* NULL if the call's metadata carry a token that is accepted, or none is asked for; else why not,
 * as a sentence for the client. `credentials` may be NULL. */
const char *credentials_refuse(const struct credentials *credentials,
                               const grpc_metadata_array *metadata);

/* The metadata that a call begins with: 0 or 1 entries, which is returned. Owner: the caller gives
 * them back. */
size_t credentials_metadata(grpc_metadata *metadata, const struct credentials *credentials);
void credentials_metadata_unref(grpc_metadata *metadata, size_t count);

#endif
