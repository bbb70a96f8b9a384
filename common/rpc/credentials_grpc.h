/* Credentials as gRPC takes them. Private to common/rpc.
 * Upstream: server.c, client.c. Downstream: gRPC C core. Thread: any. */
#ifndef ACORN_COMMON_RPC_CREDENTIALS_GRPC_H
#define ACORN_COMMON_RPC_CREDENTIALS_GRPC_H

#include <grpc/grpc.h>
#include <grpc/grpc_security.h>
#include <stdbool.h>

#include "common/rpc/credentials.h"

/* A listening port with TLS. Under the credentials' lock. */
struct credentials_port {
  struct credentials *credentials;
  int fetched; /* the reading that gRPC has of them; 0: none */
};

/* Of such a port, which reads files that have changed again at its next handshake and keeps both
 * pointers. Owner: the caller releases them. */
grpc_server_credentials *credentials_server(struct credentials_port *port,
                                            struct credentials *credentials);

/* Of a channel, which keeps to the files as they are now: *reading numbers them, 0: there are none.
 * Owner: the caller releases them. */
grpc_channel_credentials *credentials_client(int *reading, struct credentials *credentials);

/* Whether the TLS files have been read again since that reading; does so if they have changed. */
bool credentials_have_changed(struct credentials *credentials, int reading);

/* What to do about a connection that failed, from gRPC's text; NULL: it has nothing to do with TLS.
 */
const char *credentials_explain(const struct credentials *credentials, const char *text);

/* NULL if the call's metadata carry a token that is accepted, or none is asked for; else why not,
 * as a sentence for the client. `credentials` may be NULL. */
const char *credentials_refuse(const struct credentials *credentials,
                               const grpc_metadata_array *metadata, bool is_of_operator);

/* The metadata that a call begins with: 0 or 1 entries, which is returned. Owner: the caller gives
 * them back. */
size_t credentials_metadata(grpc_metadata *metadata, const struct credentials *credentials);
void credentials_metadata_unref(grpc_metadata *metadata, size_t count);

#endif
