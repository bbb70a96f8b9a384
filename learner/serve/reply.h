/* Sends the replies to the streams of a batch. Upstream: inference.c, ingress.c. Thread: the
 * batch's owner: inference, and at the end of the run main. */
#ifndef ACORN_LEARNER_SERVE_REPLY_H
#define ACORN_LEARNER_SERVE_REPLY_H

#include "common/rpc/server.h"
#include "learner/serve/row_batch.h"

/* Sends each segment its actions and asks for its next message. Shapes: action (rows,
 * action_bytes). */
void reply_actions(struct row_batch *batch, const void *action, size_t action_bytes);

/* Ends each segment's stream instead, with a code and a sentence. */
void reply_finish(struct row_batch *batch, enum rpc_code code, const char *text);

#endif
