/* A transport in memory: the functions of common/rpc/server.h, so that serve/ is tested without
 * sockets. Include it in one test; the linker then takes these instead of the library's. A test
 * opens streams, puts messages in, and finds the answers in the stream. Everything runs on the
 * calling thread; a message is delivered at once. */
#ifndef ACORN_TESTS_LOOPBACK_H
#define ACORN_TESTS_LOOPBACK_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/check.h"
#include "common/rpc/server.h"

struct rpc_stream {
  const struct rpc_method *method;
  void *user;
  bool in_hand; /* a message waits for its answer */
  bool closed;
  int references;
  void (*on_reply)(struct rpc_stream *stream); /* while it is answered (optional) */
  /* the last answer */
  int replies;
  bool finished, cancelled;
  enum rpc_code code;
  char text[1200];
  uint8_t answer[65536];
  size_t answer_bytes;
};

static inline struct rpc_stream *loopback_open(const struct rpc_method *methods, int count,
                                               const char *path) {
  for (int i = 0; i < count; i++) {
    if (strcmp(methods[i].path, path) != 0) continue;
    struct rpc_stream *stream = calloc(1, sizeof(*stream));
    stream->method = &methods[i];
    stream->references = 1;
    if (stream->method->on_open) stream->method->on_open(stream->method->context, stream);
    return stream;
  }
  CHECK(false, "no method %s", path);
}

/* The peer sends a message, in two pieces. */
static inline void loopback_send(struct rpc_stream *stream, const void *bytes, size_t size) {
  CHECK(!stream->in_hand && !stream->closed, "a message out of turn");
  size_t cut = size / 2;
  const struct wire_span spans[] = {{bytes, cut}, {(const uint8_t *)bytes + cut, size - cut}};
  stream->in_hand = true;
  stream->method->on_message(stream->method->context, stream, spans, 2);
}

/* The call ends: the peer has gone, or the answer was a finish. */
static inline void loopback_close(struct rpc_stream *stream) {
  if (stream->closed) return;
  stream->closed = true;
  if (stream->method->on_close) stream->method->on_close(stream->method->context, stream);
}

static inline void loopback_free(struct rpc_stream *stream) {
  loopback_close(stream);
  CHECK(!stream->in_hand, "a message was never answered");
  CHECK(stream->references == 1, "%d references left", stream->references - 1);
  free(stream);
}

void rpc_stream_reply(struct rpc_stream *stream, const void *header, size_t header_bytes,
                      const void *payload, size_t payload_bytes) {
  CHECK(stream->in_hand, "an answer to nothing");
  stream->in_hand = false;
  stream->replies++;
  memcpy(stream->answer, header, header_bytes);
  memcpy(stream->answer + header_bytes, payload, payload_bytes);
  stream->answer_bytes = header_bytes + payload_bytes;
  if (stream->on_reply) stream->on_reply(stream);
}

void rpc_stream_finish(struct rpc_stream *stream, enum rpc_code code, const char *text,
                       const void *payload, size_t payload_bytes) {
  CHECK(stream->in_hand, "an answer to nothing");
  stream->in_hand = false;
  stream->finished = true;
  stream->code = code;
  snprintf(stream->text, sizeof(stream->text), "%s", text);
  if (payload) memcpy(stream->answer, payload, payload_bytes);
  stream->answer_bytes = payload_bytes;
}

void rpc_stream_cancel(struct rpc_stream *stream, enum rpc_code code, const char *text) {
  stream->cancelled = true;
  stream->code = code;
  snprintf(stream->text, sizeof(stream->text), "%s", text);
}

void rpc_stream_ref(struct rpc_stream *stream) {
  stream->references++;
}

void rpc_stream_unref(struct rpc_stream *stream) {
  stream->references--;
}

void rpc_stream_set_user(struct rpc_stream *stream, void *user) {
  stream->user = user;
}

void *rpc_stream_user(const struct rpc_stream *stream) {
  return stream->user;
}

int rpc_stream_queue(const struct rpc_stream *stream) {
  (void)stream;
  return 0;
}

void rpc_stream_peer(const struct rpc_stream *stream, char text[RPC_PEER_BYTES]) {
  (void)stream;
  snprintf(text, RPC_PEER_BYTES, "this machine");
}

#endif
