/* What server and client share of gRPC's C core: its start and end, channel arguments, and bytes
 * in and out of slices. Private to common/rpc, as everything that knows grpc.h.
 * Upstream: queue.c, stream.c, server.c, client.c. Downstream: gRPC C core. */
#ifndef ACORN_COMMON_RPC_CORE_H
#define ACORN_COMMON_RPC_CORE_H

#include <grpc/byte_buffer.h>
#include <grpc/grpc.h>
#include <grpc/slice.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/rpc/server.h"
#include "common/wire/wire.h"

enum {
  CORE_MAX_ARGS = 24,
  CORE_MAX_SPANS = 512, /* a message in more pieces is first copied into one */
  CORE_KEEPALIVE_MS = 10000,
  /* Generous: a learner that computes on its queue's thread answers pings late. */
  CORE_KEEPALIVE_TIMEOUT_MS = 30000,
  CORE_BIG_MESSAGE_BYTES = 4 << 20,
  CORE_LOG_PAUSE_US = 10000000, /* between two lines of a kind that peers cause */
};

/* Reference counted. gRPC's own log stays silent unless GRPC_VERBOSITY is set: our errors say it
 * better. */
void core_init(void);
void core_deinit(void);
/* From here on a TLS handshake that fails, and a listener of gRPC's that ends, are logged: nothing
 * else tells of them. For a server that gRPC listens for. */
void core_log_connections(void);
/* Whether the next line of that kind may be logged yet: *next is its time, 0 at first. Thread: any.
 */
bool core_may_log(_Atomic int64_t *next, int64_t pause_us);
/* deadlock_search.cc, for core_init. */
void core_end_deadlock_search(void);

/* The moment `us` from now, which may be in the past. gRPC knows absolute times only. */
gpr_timespec core_deadline_in_us(int64_t us);

/* Channel arguments, collected in place. */
struct core_args {
  grpc_arg arg[CORE_MAX_ARGS];
  size_t count;
};
void core_args_add(struct core_args *args, const char *key, int value);
/* Those that both sides need: message bound, keepalive, no compression, no proxy, large reads
 * for large messages. */
void core_args_common(struct core_args *args, size_t max_message_bytes);
grpc_channel_args core_args_view(struct core_args *args);

/* header + payload, copied into one slice. Owner: the caller destroys it, right after
 * start_batch if it likes. */
grpc_byte_buffer *core_bytes_copied(const void *header, size_t header_bytes, const void *payload,
                                    size_t payload_bytes);

/* A received message as spans, and what keeps them alive. Takes the buffer. */
struct core_message {
  grpc_byte_buffer *buffer;
  grpc_slice whole; /* of a message in very many pieces */
  bool copied;
  int num_spans;
  struct wire_span span[CORE_MAX_SPANS];
};
void core_message_init(struct core_message *message, grpc_byte_buffer *buffer);
void core_message_deinit(struct core_message *message);

/* ThreadSanitizer sees neither the order that gRPC makes nor what gRPC itself does with memory
 * (tests/tsan.supp): where memory changes hands it is told. */
#ifdef __SANITIZE_THREAD__
void __tsan_acquire(void *what);
void __tsan_read_range(void *data, long bytes);
void __tsan_write_range(void *data, long bytes);
#else
#define __tsan_acquire(what) ((void)(what))
#define __tsan_read_range(data, bytes) ((void)(data), (void)(bytes))
#define __tsan_write_range(data, bytes) ((void)(data), (void)(bytes))
#endif

/* Starts a batch; gives up if gRPC refuses it: the call could never be ended. `tag` is what the
 * completion queue will hand out. */
void core_start_batch(grpc_call *call, const grpc_op *ops, size_t count, void *tag);

/* The address of a call's peer: see rpc_stream_peer. Thread: any, while the call exists. */
void core_peer_name(char text[RPC_PEER_BYTES], grpc_call *call);

#endif
