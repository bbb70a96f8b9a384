#include "learner/serve/reply.h"

#include "common/wire/wire.h"

/* A segment is answered once: its stream is taken out of it. A cancelled one has none. */
static struct rpc_stream *take_stream(struct batch_segment *segment) {
  struct rpc_stream *stream = segment->stream;
  segment->stream = NULL;
  return stream;
}

void reply_actions(struct row_batch *batch, const void *action, size_t action_bytes) {
  for (int i = 0; i < batch->num_segments; i++) {
    struct batch_segment *segment = &batch->segment[i];
    struct rpc_stream *stream = take_stream(segment);
    if (!stream) continue;
    uint8_t header[16];
    size_t bytes = (size_t)segment->num_rows * action_bytes;
    size_t header_bytes = wire_encode_actions_header(header, bytes);
    const uint8_t *first = (const uint8_t *)action + (size_t)segment->first_row * action_bytes;
    rpc_stream_reply(stream, header, header_bytes, first, bytes);
  }
}

void reply_finish(struct row_batch *batch, enum rpc_code code, const char *text) {
  for (int i = 0; i < batch->num_segments; i++) {
    struct rpc_stream *stream = take_stream(&batch->segment[i]);
    if (stream) rpc_stream_finish(stream, code, text, NULL, 0);
  }
}
