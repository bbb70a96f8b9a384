#include "common/rpc/stream.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/check.h"
#include "common/base/clock.h"
#include "common/rpc/core.h"

enum { LOOK_US = 250000 };

struct rpc_stream {
  /* read-only after open */
  const struct rpc_method *method;
  struct stream_home *home;
  grpc_call *call; /* valid while events > 0 */
  char peer[RPC_PEER_BYTES];

  atomic_int events;
  atomic_int refs;
  atomic_bool in_hand;      /* a message waits for its answer */
  atomic_bool headed;       /* the initial metadata is sent */
  _Atomic int64_t waits_us; /* since when it waits for its peer; 0: it does not */

  /* queue thread only */
  void *user;
  bool spoke;                       /* a message has come */
  bool hurries;                     /* it waits for its peer's other messages, too */
  bool expired;                     /* and cancelled */
  struct rpc_stream *next, *before; /* in the home's list */
  grpc_byte_buffer *received;       /* written by gRPC until the batch's event */
  int cancelled;                    /* likewise */
  struct op opened;                 /* the first batch */
  struct op replied;                /* a reply and the next message */
  struct op finished;               /* the status is out */
  struct op closed;                 /* the call is over for gRPC */
  struct op released;               /* an empty batch: brings `events` down on the queue's thread */
};

/* ---- the home's list; thread: the queue's */

static void list_add(struct rpc_stream *stream) {
  struct stream_home *home = stream->home;
  stream->next = home->first;
  if (stream->next) stream->next->before = stream;
  home->first = stream;
}

static void list_remove(struct rpc_stream *stream) {
  struct rpc_stream *before = stream->before, *next = stream->next;
  *(before ? &before->next : &stream->home->first) = next;
  if (next) next->before = before;
}

/* ---- calls that wait for their peer: for its first message, for each if they hurry, or until it
 * has read its status */

static void wait_begin(struct rpc_stream *stream) {
  int64_t none = 0;
  atomic_compare_exchange_strong(&stream->waits_us, &none, clock_now_us());
}

static void wait_end(struct rpc_stream *stream) {
  atomic_store(&stream->waits_us, 0);
}

static void expire(struct rpc_stream *stream) {
  stream->expired = true;
  rpc_stream_cancel(stream, RPC_DEADLINE_EXCEEDED,
                    stream->spoke
                        ? "an answer was not read, or the next message did not come, in time"
                        : "no message came in time");
}

void stream_expire(struct stream_home *home, int64_t now_us) {
  /* After a long pause of this thread what has come meanwhile is taken first. */
  if (now_us - home->polled_us > LOOK_US) home->behind_us = now_us + LOOK_US;
  home->polled_us = now_us;
  if (now_us < home->look_us || now_us < home->behind_us) return;
  home->look_us = now_us + LOOK_US;
  for (struct rpc_stream *stream = home->first; stream; stream = stream->next) {
    int64_t waits_us = atomic_load(&stream->waits_us);
    if (waits_us && now_us - waits_us > home->patience_us && !stream->expired) expire(stream);
  }
}

/* ---- the two counts */

void rpc_stream_ref(struct rpc_stream *stream) {
  atomic_fetch_add(&stream->refs, 1);
}

void rpc_stream_unref(struct rpc_stream *stream) {
  if (atomic_fetch_sub(&stream->refs, 1) > 1) return;
  free(stream);
}

/* Announces one more batch. False: the call is over. */
static bool raise_events(struct rpc_stream *stream) {
  int events = atomic_load(&stream->events);
  while (events > 0)
    if (atomic_compare_exchange_weak(&stream->events, &events, events + 1)) return true;
  return false;
}

/* Thread: the queue's. */
static void lower_events(struct rpc_stream *stream) {
  if (atomic_fetch_sub(&stream->events, 1) > 1) return;
  const struct rpc_method *method = stream->method;
  if (method->on_close) method->on_close(method->context, stream);
  struct stream_home *home = stream->home;
  list_remove(stream);
  atomic_fetch_sub(home->open_calls, 1);
  grpc_call_unref(stream->call);
  rpc_stream_unref(stream);
  queue_release(&home->queue);
}

/* ---- sending */

static grpc_op receive_op(struct rpc_stream *stream) {
  return (grpc_op){.op = GRPC_OP_RECV_MESSAGE, .data.recv_message.recv_message = &stream->received};
}

/* The initial metadata goes with the first answer, in one system call. */
static size_t head_op(grpc_op *op, struct rpc_stream *stream) {
  if (atomic_exchange(&stream->headed, true)) return 0;
  *op = (grpc_op){.op = GRPC_OP_SEND_INITIAL_METADATA};
  return 1;
}

/* Sends the status, with a last message if there is one. The caller has raised `events`. */
static void send_status(struct rpc_stream *stream, enum rpc_code code, const char *text,
                        grpc_byte_buffer *message) {
  grpc_slice details = grpc_slice_from_copied_string(text ? text : "");
  grpc_op ops[3];
  size_t count = head_op(ops, stream);
  if (message)
    ops[count++] = (grpc_op){.op = GRPC_OP_SEND_MESSAGE, .data.send_message.send_message = message};
  grpc_op status = {.op = GRPC_OP_SEND_STATUS_FROM_SERVER};
  status.data.send_status_from_server.status = (grpc_status_code)code;
  status.data.send_status_from_server.status_details = &details;
  ops[count++] = status;
  wait_begin(stream);
  core_start_batch(stream->call, ops, count, &stream->finished);
  grpc_slice_unref(details);
}

/* Every answer begins here: the message in hand is answered, whatever becomes of the answer. */
static void take_message_in_hand(struct rpc_stream *stream) {
  CHECK(atomic_exchange(&stream->in_hand, false), "an answer without a message in hand");
}

void rpc_stream_reply(struct rpc_stream *stream, const void *header, size_t header_bytes,
                      const void *payload, size_t payload_bytes) {
  take_message_in_hand(stream);
  if (raise_events(stream)) {
    grpc_byte_buffer *message = core_bytes_copied(header, header_bytes, payload, payload_bytes);
    grpc_op ops[3] = {{.op = GRPC_OP_SEND_MESSAGE, .data.send_message.send_message = message},
                      receive_op(stream)};
    size_t count = 2 + head_op(&ops[2], stream);
    if (stream->hurries) wait_begin(stream);
    core_start_batch(stream->call, ops, count, &stream->replied);
    grpc_byte_buffer_destroy(message);
  }
  rpc_stream_unref(stream);
}

void rpc_stream_finish(struct rpc_stream *stream, enum rpc_code code, const char *text,
                       const void *payload, size_t payload_bytes) {
  take_message_in_hand(stream);
  if (raise_events(stream)) {
    grpc_byte_buffer *message = payload ? core_bytes_copied(NULL, 0, payload, payload_bytes) : NULL;
    send_status(stream, code, text, message);
    if (message) grpc_byte_buffer_destroy(message);
  }
  rpc_stream_unref(stream);
}

void rpc_stream_cancel(struct rpc_stream *stream, enum rpc_code code, const char *text) {
  if (!raise_events(stream)) return;
  grpc_call_cancel_with_status(stream->call, (grpc_status_code)code, text ? text : "", NULL);
  core_start_batch(stream->call, NULL, 0, &stream->released);
}

/* ---- events; thread: the queue's */

/* The message is handed over with a reference of its own, which its answer gives back. */
static void deliver(struct rpc_stream *stream) {
  struct core_message message;
  core_message_init(&message, stream->received);
  stream->received = NULL;
  stream->spoke = true;
  wait_end(stream);
  rpc_stream_ref(stream);
  atomic_store(&stream->in_hand, true);
  const struct rpc_method *method = stream->method;
  method->on_message(method->context, stream, message.span, message.num_spans);
  core_message_deinit(&message);
}

/* A receive has ended: with a message, with the peer's half-close, or because the call is
 * broken. */
static void received(void *owner, bool ok) {
  struct rpc_stream *stream = owner;
  /* The read pairs with raise_events: what the answering thread did before its answer has
   * happened before this. */
  CHECK(atomic_load(&stream->events) > 0, "an event of a call that is over");
  if (ok && stream->received) {
    deliver(stream);
  } else if (ok && raise_events(stream)) {
    /* The peer's half-close: a regular end, unless it sent no message. */
    if (stream->spoke)
      send_status(stream, RPC_OK, "", NULL);
    else
      send_status(stream, RPC_INVALID_ARGUMENT, "the call ended without a whole message", NULL);
  } else {
    if (stream->received) grpc_byte_buffer_destroy(stream->received);
    stream->received = NULL;
    grpc_call_cancel(stream->call, NULL);
  }
  lower_events(stream);
}

static void finished(void *owner, bool ok) {
  struct rpc_stream *stream = owner;
  if (!ok) grpc_call_cancel(stream->call, NULL);
  lower_events(stream);
}

static void over(void *owner, bool ok) {
  (void)ok;
  lower_events(owner);
}

/* ---- opening */

void stream_open(grpc_call *call, const struct rpc_method *method, struct stream_home *home) {
  struct rpc_stream *stream = check_alloc(1, sizeof(*stream));
  stream->home = home;
  stream->call = call;
  stream->method = method;
  if (!home->anonymous) core_peer_name(stream->peer, call);
  atomic_init(&stream->events, 2); /* the first batch and the close */
  atomic_init(&stream->refs, 1);   /* the call's */
  atomic_init(&stream->in_hand, false);
  atomic_init(&stream->headed, false);
  atomic_init(&stream->waits_us, 0);
  stream->opened = stream->replied = (struct op){received, stream};
  stream->finished = (struct op){finished, stream};
  stream->closed = stream->released = (struct op){over, stream};
  CHECK(queue_hold(&home->queue), "a call on a queue that has ended");
  list_add(stream);
  atomic_fetch_add(home->open_calls, 1);
  if (method->on_open) method->on_open(method->context, stream);

  grpc_op close = {.op = GRPC_OP_RECV_CLOSE_ON_SERVER,
                   .data.recv_close_on_server.cancelled = &stream->cancelled};
  core_start_batch(call, &close, 1, &stream->closed);
  wait_begin(stream);
  grpc_op receive = receive_op(stream);
  core_start_batch(call, &receive, 1, &stream->opened);
}

/* ---- what the application may ask */

void rpc_stream_hurry(struct rpc_stream *stream) {
  stream->hurries = true;
}

void rpc_stream_set_user(struct rpc_stream *stream, void *user) {
  stream->user = user;
}

void *rpc_stream_user(const struct rpc_stream *stream) {
  return stream->user;
}

int rpc_stream_queue(const struct rpc_stream *stream) {
  return stream->home->index;
}

void rpc_stream_peer(const struct rpc_stream *stream, char text[RPC_PEER_BYTES]) {
  memcpy(text, stream->peer, RPC_PEER_BYTES);
}
