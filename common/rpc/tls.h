/* TLS by gRPC's own credentials, from the files of --tls_cert, --tls_key and --tls_ca.
 *
 * The learner reads files that have changed again, at its next handshake; a client reads them when
 * its channel is made. A Unix socket stays plain.
 * Upstream: credentials.c. Downstream: gRPC C core. Thread: any. */
#ifndef ACORN_COMMON_RPC_TLS_H
#define ACORN_COMMON_RPC_TLS_H

#include <grpc/grpc_security.h>

#include "common/base/status.h"
#include "common/rpc/credentials.h"

struct tls;

/* *out is NULL where the options ask for no TLS. Errors: INVALID: an option is missing beside
 * another, or a file is not what it should be. */
MUST_CHECK enum status tls_open(struct tls **out, const struct credentials_options *options,
                                enum credentials_side side, struct error *error);

/* Frees it; NULL is allowed. */
void tls_close(struct tls *tls);

/* Owner: the caller releases them. tls_server keeps a pointer to `tls`. */
grpc_server_credentials *tls_server(struct tls *tls);
grpc_channel_credentials *tls_client(struct tls *tls);

#endif
