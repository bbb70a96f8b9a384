/* The models over gRPC: the Open Inference Protocol's service, by common/rpc. One thread drives its
 * completion queue; versions answer from their own.
 * Upstream: serve.c. Downstream: service.h, request_proto.h. Thread: main. */
#ifndef ACORN_DEPLOY_SERVE_RPC_H
#define ACORN_DEPLOY_SERVE_RPC_H

#include "common/rpc/credentials.h"
#include "deploy/serve/service.h"

struct rpc;

/* credentials: borrowed. Errors: rpc_server_create's. */
MUST_CHECK enum status rpc_start(struct rpc **out, struct service *service, const char *address,
                                 int port, struct credentials *credentials, struct error *error);
int rpc_port(const struct rpc *rpc);
/* While the service drains, requests are refused with UNAVAILABLE, so that clients leave before
 * this: what comes at the same moment is cancelled. After other ways in. Takes NULL. */
void rpc_stop(struct rpc *rpc);

#endif
