#include "common/rpc/core.h"

#include <grpc/byte_buffer_reader.h>
#include <grpc/impl/codegen/compression_types.h>
#include <grpc/support/alloc.h>
#include <grpc/support/log.h>
#include <grpc/support/time.h>
#include <limits.h>
#include <protobuf-c/protobuf-c.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/base/check.h"
#include "common/base/clock.h"
#include "common/base/files.h"
#include "common/base/log.h"
#include "common/rpc/address.h"

static atomic_bool logs_connections;
enum { HUNG_UP_PAUSE_US = 600000000 };

/* gRPC tells of a connection that fails before its first call in its own log alone. */
static const char *explain(const char *message) {
  if (strstr(message, "wrong version number") || strstr(message, "http request"))
    return "a client without TLS: it needs --tls_ca";
  if (strstr(message, "peer did not return a certificate"))
    return "a client without a certificate: it needs --tls_cert and --tls_key";
  if (strstr(message, "certificate verify failed"))
    return "a client whose certificate is not signed by the one in --tls_ca, or is not valid by "
           "this machine's clock";
  if (strstr(message, "No match found for server name"))
    return "a client calls this learner by a name that is not in its certificate";
  if (strstr(message, "Handshake failed with fatal error")) return "its TLS handshake failed";
  return NULL;
}

bool core_may_log(_Atomic int64_t *next, int64_t pause_us) {
  int64_t now_us = clock_now_us(), next_us = atomic_load(next);
  return now_us >= next_us && atomic_compare_exchange_strong(next, &next_us, now_us + pause_us);
}

static void on_log_line(gpr_log_func_args *args) {
  if (!atomic_load(&logs_connections)) return;
  if (strstr(args->message, "Failed accept4"))
    log_error(
        "no further connections are accepted (%s): raise the limit of open files (ulimit -n) "
        "and restart with --resume",
        args->message);
  const char *why = explain(args->message);
  static _Atomic int64_t next_us, next_hung_up_us, hung_up_us;
  if (why && core_may_log(&next_us, CORE_LOG_PAUSE_US))
    log_warn("a connection was refused: %s", why);
  /* Each is logged twice by gRPC, first as "Security handshake failed". */
  if (!strstr(args->message, "Handshaking failed") ||
      !strstr(args->message, "Handshake read failed"))
    return;
  /* A probe that connects and hangs up looks the same: the supervisor sends one. A client that is
   * refused tries again soon. */
  int64_t now_us = clock_now_us(), before_us = atomic_exchange(&hung_up_us, now_us);
  bool again = before_us && now_us - before_us < CORE_LOG_PAUSE_US;
  if (again && core_may_log(&next_hung_up_us, HUNG_UP_PAUSE_US))
    log_warn(
        "a connection was refused: a client hung up in the TLS handshake: perhaps its --tls_ca has "
        "not signed this learner's certificate, or that is not valid by its clock");
}

void core_log_connections(void) {
  if (getenv("GRPC_VERBOSITY")) return;
  gpr_set_log_verbosity(GPR_LOG_SEVERITY_DEBUG); /* some of it is said there alone */
  atomic_store(&logs_connections, true);
}

void core_init(void) {
  files_limit(); /* raised: a connection is a file descriptor */
  if (!getenv("GRPC_VERBOSITY")) gpr_set_log_function(on_log_line);
  core_end_deadlock_search();
  grpc_init();
}

void core_deinit(void) {
  grpc_shutdown();
}

const char *rpc_grpc_version(void) {
  return grpc_version_string();
}

const char *rpc_protobuf_version(void) {
  return protobuf_c_version();
}

gpr_timespec core_deadline_in_us(int64_t us) {
  if (us <= 0) return gpr_inf_past(GPR_CLOCK_MONOTONIC);
  return gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC), gpr_time_from_micros(us, GPR_TIMESPAN));
}

void core_args_add(struct core_args *args, const char *key, int value) {
  CHECK(args->count < CORE_MAX_ARGS, "no room for %s", key);
  args->arg[args->count++] =
      (grpc_arg){.type = GRPC_ARG_INTEGER, .key = (char *)key, .value.integer = value};
}

void core_args_common(struct core_args *args, size_t max_message_bytes) {
  int bound = max_message_bytes < INT_MAX ? (int)max_message_bytes : INT_MAX;
  core_args_add(args, GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH, bound);
  core_args_add(args, GRPC_ARG_KEEPALIVE_TIME_MS, CORE_KEEPALIVE_MS);
  core_args_add(args, GRPC_ARG_KEEPALIVE_TIMEOUT_MS, CORE_KEEPALIVE_TIMEOUT_MS);
  core_args_add(args, GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  core_args_add(args, GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0); /* no limit */
  core_args_add(args, GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  /* Only "identity": a peer that compresses is refused, and nothing small can unpack to
   * something large. */
  core_args_add(args, GRPC_COMPRESSION_CHANNEL_ENABLED_ALGORITHMS_BITSET, 1 << GRPC_COMPRESS_NONE);
  if (bound < CORE_BIG_MESSAGE_BYTES) {
    /* What is read at once is parsed at once: thousands of calls, from a peer that resets them. */
    core_args_add(args, GRPC_ARG_TCP_MAX_READ_CHUNK_SIZE, 64 << 10);
    return;
  }
  core_args_add(args, GRPC_ARG_TCP_READ_CHUNK_SIZE, 1 << 20);
  core_args_add(args, GRPC_ARG_TCP_MAX_READ_CHUNK_SIZE, 8 << 20);
  core_args_add(args, GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, 4 << 20);
}

grpc_channel_args core_args_view(struct core_args *args) {
  return (grpc_channel_args){.num_args = args->count, .args = args->arg};
}

grpc_byte_buffer *core_bytes_copied(const void *header, size_t header_bytes, const void *payload,
                                    size_t payload_bytes) {
  grpc_slice slice = grpc_slice_malloc(header_bytes + payload_bytes);
  uint8_t *to = GRPC_SLICE_START_PTR(slice);
  if (header_bytes > 0) memcpy(to, header, header_bytes);
  if (payload_bytes > 0) memcpy(to + header_bytes, payload, payload_bytes);
  grpc_byte_buffer *buffer = grpc_raw_byte_buffer_create(&slice, 1);
  grpc_slice_unref(slice);
  return buffer;
}

void core_message_init(struct core_message *message, grpc_byte_buffer *buffer) {
  message->buffer = buffer;
  message->copied = false;
  const grpc_slice_buffer *slices = &buffer->data.raw.slice_buffer;
  if (slices->count <= CORE_MAX_SPANS) {
    message->num_spans = (int)slices->count;
    for (size_t i = 0; i < slices->count; i++)
      message->span[i] = (struct wire_span){GRPC_SLICE_START_PTR(slices->slices[i]),
                                            GRPC_SLICE_LENGTH(slices->slices[i])};
    return;
  }
  grpc_byte_buffer_reader reader;
  CHECK(grpc_byte_buffer_reader_init(&reader, buffer), "a message that cannot be read");
  message->whole = grpc_byte_buffer_reader_readall(&reader);
  grpc_byte_buffer_reader_destroy(&reader);
  message->copied = true;
  message->num_spans = 1;
  message->span[0] =
      (struct wire_span){GRPC_SLICE_START_PTR(message->whole), GRPC_SLICE_LENGTH(message->whole)};
}

void core_message_deinit(struct core_message *message) {
  /* gRPC may write there again: what still reads it is too late. */
  for (int i = 0; i < message->num_spans; i++)
    __tsan_write_range((void *)message->span[i].data, (long)message->span[i].bytes);
  if (message->copied) grpc_slice_unref(message->whole);
  grpc_byte_buffer_destroy(message->buffer);
}

void core_start_batch(grpc_call *call, const grpc_op *ops, size_t count, void *tag) {
  grpc_call_error result = grpc_call_start_batch(call, ops, count, tag, NULL);
  if (result != GRPC_CALL_OK)
    check_give_up("gRPC refused an operation: %s", grpc_call_error_to_string(result));
}

/* ---- the peer of a call */

/* "fd:N": of a connection that acceptor.c took. */
static bool name_descriptor(char text[RPC_PEER_BYTES], int fd) {
  char peer[ADDRESS_NUMERIC_BYTES];
  bool is_known = address_of_peer(peer, fd);
  if (is_known) snprintf(text, RPC_PEER_BYTES, "%.*s", RPC_PEER_BYTES - 1, peer);
  return is_known;
}

/* "ipv4:10.0.0.7:4711", "ipv6:%5B::1%5D:4711": of a connection that gRPC took. */
static void name_uri(char text[RPC_PEER_BYTES], const char *uri) {
  size_t length = 0;
  for (const char *from = strchr(uri, ':') + 1; *from && length + 1 < RPC_PEER_BYTES; from++) {
    bool opens = strncasecmp(from, "%5B", 3) == 0, closes = strncasecmp(from, "%5D", 3) == 0;
    text[length++] = opens ? '[' : closes ? ']' : *from;
    if (opens || closes) from += 2;
  }
  text[length] = '\0';
}

void core_peer_name(char text[RPC_PEER_BYTES], grpc_call *call) {
  char *uri = grpc_call_get_peer(call);
  int fd;
  if (strncmp(uri, "ipv4:", 5) == 0 || strncmp(uri, "ipv6:", 5) == 0)
    name_uri(text, uri);
  else if (sscanf(uri, "fd:%d", &fd) != 1 || !name_descriptor(text, fd))
    snprintf(text, RPC_PEER_BYTES, "this machine");
  gpr_free(uri);
}
