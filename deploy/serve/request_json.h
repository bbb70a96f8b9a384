/* Requests and responses as JSON: the Open Inference Protocol's (version 2, with the binary data
 * extension for inputs), and TensorFlow Serving's `predict` in row and column form.
 *
 * The bytes are untrusted: nothing is filled before its type, shape and range are checked, and the
 * parser bounds the depth. Upstream: http.c. Downstream: request.h, jansson. Thread: any. */
#ifndef ACORN_DEPLOY_SERVE_REQUEST_JSON_H
#define ACORN_DEPLOY_SERVE_REQUEST_JSON_H

#include <jansson.h>

#include "deploy/serve/request.h"

/* The form of a response is that of its request. */
enum json_form { JSON_INFER, JSON_PREDICT_ROWS, JSON_PREDICT_COLUMNS };

/* body: `header` bytes of JSON, then the binary data of inputs, of which the Open Inference
 * Protocol alone has any. Fills all of the request that a client says. Errors: INVALID. */
MUST_CHECK enum status request_read_infer(struct request *request, const char *body, size_t header,
                                          size_t bytes, struct error *error);
MUST_CHECK enum status request_read_predict(struct request *request, enum json_form *form,
                                            const char *body, size_t bytes, struct error *error);

/* The response to an answered request. Owner: the caller, with json_decref. */
json_t *request_write(const struct request *request, enum json_form form, const char *model,
                      int64_t version);

#endif
