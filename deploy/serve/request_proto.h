/* Requests and responses of the Open Inference Protocol as protobuf messages.
 *
 * The bytes are untrusted: nothing is filled before its type, shape and number are checked.
 * Upstream: rpc.c. Downstream: request.h, proto/open_inference.proto. Thread: any. */
#ifndef ACORN_DEPLOY_SERVE_REQUEST_PROTO_H
#define ACORN_DEPLOY_SERVE_REQUEST_PROTO_H

#include "deploy/serve/request.h"
#include "open_inference.pb-c.h"

/* Fills all of the request that the message says. Errors: INVALID. */
MUST_CHECK enum status request_read_proto(struct request *request,
                                          const Inference__ModelInferRequest *message,
                                          struct error *error);

/* The bytes of the response to an answered request. Owner: the caller, with free(). */
void *request_write_proto(const struct request *request, const char *model, int64_t version,
                          size_t *bytes);

#endif
