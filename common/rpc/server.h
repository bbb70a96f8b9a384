/* The server's half of the gRPC wrapper. Together with client.h the only headers behind which
 * grpc.h is known.
 *
 * A server has one or more queues. Each is driven by one thread, which calls rpc_server_poll in
 * a loop; all callbacks of a stream run on the thread of the queue that accepted it, so they
 * need no lock among themselves.
 *
 * A stream is strictly alternating: one message comes in (on_message), exactly one answer goes
 * out: rpc_stream_reply (which also asks for the next message, in one gRPC batch) or
 * rpc_stream_finish. The answer may come from any thread, at any later time, also after
 * on_close. Unary methods are the same with a single message, answered by rpc_stream_finish with
 * a payload.
 *
 * Lifetime: a stream lives until it has been closed AND the message in hand has been answered
 * AND its last reference is given back. So a thread that holds a message may always answer it;
 * if the peer is gone the answer goes nowhere.
 * Upstream: learner/serve. Downstream: gRPC C core. */
#ifndef ACORN_COMMON_RPC_SERVER_H
#define ACORN_COMMON_RPC_SERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/status.h"
#include "common/rpc/credentials.h"
#include "common/wire/wire.h"

/* gRPC status codes, by their numbers. */
enum rpc_code {
  RPC_OK = 0,
  RPC_CANCELLED = 1,
  RPC_UNKNOWN = 2,
  RPC_INVALID_ARGUMENT = 3,
  RPC_DEADLINE_EXCEEDED = 4,
  RPC_NOT_FOUND = 5,
  RPC_ALREADY_EXISTS = 6,
  RPC_RESOURCE_EXHAUSTED = 8,
  RPC_FAILED_PRECONDITION = 9,
  RPC_ABORTED = 10,
  RPC_UNIMPLEMENTED = 12,
  RPC_INTERNAL = 13,
  RPC_UNAVAILABLE = 14,
  RPC_UNAUTHENTICATED = 16,
};

/* Versions of the libraries: "29.0.0" (the gRPC core's own number) and "1.4.1"; constant. */
const char *rpc_grpc_version(void);
const char *rpc_protobuf_version(void);

struct rpc_server;
struct rpc_stream;

/* The application's half. The four callbacks run on the stream's queue thread; a method may
 * leave on_open and on_close NULL. `context` is the member below. */
struct rpc_method {
  const char *path; /* "/acorn.Acorn/Play" */
  void *context;
  void (*on_open)(void *context, struct rpc_stream *stream);
  /* One message; the spans are borrowed until on_message returns. It must be answered once, now
   * or later. */
  void (*on_message)(void *context, struct rpc_stream *stream, const struct wire_span *spans,
                     int num_spans);
  /* The call is over: peer gone, finished or cancelled; called once, whether or not a message is
   * in hand. */
  void (*on_close)(void *context, struct rpc_stream *stream);
  /* Its calls go to the control queue only, the one behind the others (number num_queues), which a
   * server has if it has such a method. Nobody need wait at it: whoever polls it now and then also
   * moves the bytes of all connections while the other queues' threads are busy. */
  bool control;
  bool of_operator; /* its calls ask for the operator's token, where the credentials have one */
};

struct rpc_server_config {
  const char *address; /* "127.0.0.1:8686", "[::]:8686", "0.0.0.0:0", "unix:/path" */
  int num_queues;      /* >= 1 */
  /* Borrowed for the server's life; other paths get UNIMPLEMENTED. */
  const struct rpc_method *methods;
  int num_methods;
  size_t max_message_bytes; /* larger messages end their own stream with RESOURCE_EXHAUSTED */
  int max_calls;            /* open at a time, more are refused with UNAVAILABLE; 0: no limit */
  int max_connection_calls; /* HTTP/2's limit on concurrent streams; 0: no limit */
  struct credentials *credentials; /* borrowed; asked of every call. NULL: none */
  int patience_ms; /* for the peer's first message, each after rpc_stream_hurry, and to read its
                    * status; 0: 30 s */
  bool anonymous;  /* the peers' names are not asked for: a system call fewer for each call */
};

/* Binds and starts to listen. A call that sends no message or does not read its status for
 * patience_ms, and a connection without a call for a minute, are ended; connections beyond
 * rpc_server_max_connections are closed at once. A call without the credentials that are asked for
 * ends with UNAUTHENTICATED; nothing of it is received. Errors: INVALID (address), EXISTS (port or
 * socket in use: two servers on one port must fail; a stale socket file, without a listener, is
 * removed first). */
MUST_CHECK enum status rpc_server_create(struct rpc_server **out,
                                         const struct rpc_server_config *config,
                                         struct error *error);

/* How many connections this process has file descriptors for, beside `files` that it keeps open. */
int rpc_server_max_connections(int files);

/* The port bound (for ":0"), or 0 on a Unix socket. */
int rpc_server_port(const struct rpc_server *server);

/* Handles one event of queue `queue`, waiting for it until `deadline_us` (clock_now_us). One at a
 * time, so that the caller can act on each: to look for more would be a system call whenever there
 * is none, and those that are there are found by the next call without one. A deadline of 0: it
 * does not wait, and may find none although bytes have come. Returns the number
 * handled, or -1 once the queue is shut down and drained.
 * Thread: one thread per queue, always the same. */
int rpc_server_poll(struct rpc_server *server, int queue, int64_t deadline_us);

/* Refuses new calls and, once all is answered or cancelled, lets every rpc_server_poll return
 * -1. Thread: any, once. */
void rpc_server_shutdown(struct rpc_server *server);

/* Ends every call that is still open, as if each peer had gone. After shutdown. Thread: any. */
void rpc_server_cancel_all(struct rpc_server *server);

/* Frees it. Every queue must have returned -1. */
void rpc_server_destroy(struct rpc_server *server);

/* Answers the message in hand with header + payload (copied into one gRPC slice, no allocation
 * of our own) and asks for the next one, as one gRPC batch. Thread: any. */
void rpc_stream_reply(struct rpc_stream *stream, const void *header, size_t header_bytes,
                      const void *payload, size_t payload_bytes);

/* Answers the message in hand by ending the stream with a code and a sentence; `payload` (may be
 * NULL) is a unary method's reply message. Thread: any. */
void rpc_stream_finish(struct rpc_stream *stream, enum rpc_code code, const char *text,
                       const void *payload, size_t payload_bytes);

/* Ends a stream that has no message in hand, or from outside the flow. If a message is in hand
 * it must still be answered (the answer goes nowhere). Thread: any, with a reference held. */
void rpc_stream_cancel(struct rpc_stream *stream, enum rpc_code code, const char *text);

/* References: for threads other than the stream's own that keep its pointer across callbacks. */
void rpc_stream_ref(struct rpc_stream *stream);
void rpc_stream_unref(struct rpc_stream *stream);

/* A pointer for the application, NULL at on_open. Thread: queue thread. */
void rpc_stream_set_user(struct rpc_stream *stream, void *user);
void *rpc_stream_user(const struct rpc_stream *stream);

/* From its next answer on it is ended if its peer sends no message for patience_ms. Thread: queue
 * thread, with a message in hand. */
void rpc_stream_hurry(struct rpc_stream *stream);

/* The queue that owns it. */
int rpc_stream_queue(const struct rpc_stream *stream);

/* Who is at the other end, for people: "10.0.0.7:4711", or "this machine" on a Unix socket and
 * where the connection is gone; "" of an anonymous server. Thread: any, with a message in hand. */
enum { RPC_PEER_BYTES = 80 };
void rpc_stream_peer(const struct rpc_stream *stream, char text[RPC_PEER_BYTES]);

#endif
