/* One batch for each exchange, the status in a batch of its own. A unary call is a stream of one
 * exchange. */
#include "common/rpc/client.h"

#include <grpc/grpc_security.h>
#include <grpc/support/time.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/check.h"
#include "common/cluster/host_port.h"
#include "common/rpc/core.h"
#include "common/rpc/credentials_grpc.h"

enum { BY_REFERENCE_BYTES = 28 << 10, RELEASE_POLL_US = 5000, REASON_MS = 500 };

struct rpc_channel {
  grpc_channel *channel;
  char *address;
  size_t max_message_bytes;
  struct credentials *credentials; /* borrowed; NULL: none */
  int reading; /* of the TLS files that `channel` was made with; 0: it is plain */
};

/* A batch in flight: its address is the tag. */
struct batch {
  bool done;
  bool ok;
};

struct rpc_call {
  /* guards the pointer `call` against rpc_call_cancel; no gRPC work is done under it */
  pthread_mutex_t lock;
  grpc_call *call; /* NULL once the stream has ended */

  /* the stream's thread only */
  grpc_completion_queue *queue;
  struct batch exchanged, ended;
  grpc_metadata metadata; /* (num_metadata), what the call begins with */
  size_t num_metadata;
  bool unary;            /* nothing follows the first message */
  uint32_t how;          /* flags of the initial metadata: whether it waits for a connection */
  bool started;          /* the initial metadata has been sent */
  grpc_status_code code; /* this and the next four are filled by gRPC */
  grpc_slice details;
  grpc_metadata_array initial, trailing;
  grpc_byte_buffer *received;

  atomic_bool body_in_flight; /* gRPC may still read the body of the message being sent: */
  const void *body;
  size_t body_bytes;
};

/* ---- channel */

/* The address as gRPC takes one: a URI, of which each byte has its own meaning. */
static char *target_of(const char *address) {
  enum { ESCAPED_BYTES = 3 };
  bool is_unix = host_port_path(address);
  const char *scheme = is_unix ? "" : "dns:///";
  char *target = check_alloc(strlen(scheme) + ESCAPED_BYTES * strlen(address) + 1, 1);
  size_t length = strlen(strcpy(target, scheme));
  for (; *address; address++)
    length += (size_t)snprintf(target + length, ESCAPED_BYTES + 1,
                               strchr("%#?", *address) ? "%%%02X" : "%c", *address);
  return target;
}

static void open_channel(struct rpc_channel *channel) {
  struct core_args args = {.count = 0};
  core_args_common(&args, channel->max_message_bytes);
  core_args_add(&args, GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1); /* a connection of its own */
  core_args_add(&args, GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  core_args_add(&args, GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 5000); /* what a connect may take */
  core_args_add(&args, GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 2000);
  core_args_add(&args, GRPC_ARG_ENABLE_RETRIES, 0); /* a retry would have to keep the body */
  core_args_add(&args, GRPC_ARG_SERVICE_CONFIG_DISABLE_RESOLUTION, 1);
  grpc_channel_args view = core_args_view(&args);
  /* A Unix socket stays plain. */
  grpc_channel_credentials *security = credentials_client(
      &channel->reading, host_port_path(channel->address) ? NULL : channel->credentials);
  char *target = target_of(channel->address);
  channel->channel = grpc_channel_create(target, security, &view);
  free(target);
  grpc_channel_credentials_release(security);
}

struct rpc_channel *rpc_channel_create(const char *address, size_t max_message_bytes,
                                       struct credentials *credentials) {
  core_init();
  struct rpc_channel *channel = check_alloc(1, sizeof(*channel));
  channel->address = check_copy(address);
  channel->max_message_bytes = max_message_bytes;
  channel->credentials = credentials;
  open_channel(channel);
  return channel;
}

void rpc_channel_renew(struct rpc_channel *channel) {
  if (!credentials_have_changed(channel->credentials, channel->reading)) return;
  grpc_channel_destroy(channel->channel);
  open_channel(channel);
}

void rpc_channel_destroy(struct rpc_channel *channel) {
  if (!channel) return;
  grpc_channel_destroy(channel->channel);
  free(channel->address);
  free(channel);
  core_deinit();
}

/* ---- waiting */

/* Handles events until `batch` is done or the deadline has passed. */
static void wait_until(struct rpc_call *call, const struct batch *batch, gpr_timespec deadline) {
  while (!batch->done) {
    grpc_event event = grpc_completion_queue_next(call->queue, deadline, NULL);
    if (event.type != GRPC_OP_COMPLETE) return;
    struct batch *finished = event.tag;
    finished->ok = event.success != 0;
    finished->done = true;
  }
}

static void wait_for(struct rpc_call *call, const struct batch *batch) {
  wait_until(call, batch, gpr_inf_future(GPR_CLOCK_MONOTONIC));
}

/* gRPC drops the body as a rule before the reply comes. Where a write is stuck in a connection
 * whose peer is gone, that takes until the keepalive ends the connection; the queue is polled
 * meanwhile, because that is what moves gRPC on. */
static void wait_for_body(struct rpc_call *call) {
  while (atomic_load(&call->body_in_flight)) {
    struct batch never = {0};
    wait_until(call, &never, core_deadline_in_us(RELEASE_POLL_US));
  }
}

/* ---- a call's life */

static struct rpc_call *open_call(struct rpc_channel *channel, const char *path,
                                  gpr_timespec deadline) {
  struct rpc_call *call = check_alloc(1, sizeof(*call));
  pthread_mutex_init(&call->lock, NULL);
  atomic_init(&call->body_in_flight, false);
  call->code = GRPC_STATUS_UNKNOWN;
  call->details = grpc_empty_slice();
  grpc_metadata_array_init(&call->initial);
  grpc_metadata_array_init(&call->trailing);
  call->num_metadata = credentials_metadata(&call->metadata, channel->credentials);
  call->queue = grpc_completion_queue_create_for_next(NULL);
  grpc_slice method = grpc_slice_from_copied_string(path);
  call->call = grpc_channel_create_call(channel->channel, NULL, GRPC_PROPAGATE_DEFAULTS,
                                        call->queue, method, NULL, deadline, NULL);
  grpc_slice_unref(method);
  grpc_op op = {.op = GRPC_OP_RECV_STATUS_ON_CLIENT};
  op.data.recv_status_on_client.trailing_metadata = &call->trailing;
  op.data.recv_status_on_client.status = &call->code;
  op.data.recv_status_on_client.status_details = &call->details;
  core_start_batch(call->call, &op, 1, &call->ended);
  return call;
}

struct rpc_call *rpc_call_open(struct rpc_channel *channel, const char *path) {
  return open_call(channel, path, gpr_inf_future(GPR_CLOCK_MONOTONIC));
}

static void drop_call(struct rpc_call *call) {
  pthread_mutex_lock(&call->lock);
  grpc_call *handle = call->call;
  call->call = NULL;
  pthread_mutex_unlock(&call->lock);
  if (handle) grpc_call_unref(handle);
}

void rpc_call_cancel(struct rpc_call *call) {
  pthread_mutex_lock(&call->lock);
  grpc_call *handle = call->call;
  if (handle) grpc_call_ref(handle);
  pthread_mutex_unlock(&call->lock);
  if (!handle) return;
  grpc_call_cancel(handle, NULL);
  grpc_call_unref(handle);
}

void rpc_call_close(struct rpc_call *call) {
  if (!call) return;
  rpc_call_cancel(call);
  drop_call(call);
  grpc_completion_queue_shutdown(call->queue);
  while (grpc_completion_queue_next(call->queue, gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL).type !=
         GRPC_QUEUE_SHUTDOWN)
    ;
  grpc_completion_queue_destroy(call->queue);
  if (call->received) grpc_byte_buffer_destroy(call->received);
  grpc_metadata_array_destroy(&call->initial);
  grpc_metadata_array_destroy(&call->trailing);
  grpc_slice_unref(call->details);
  credentials_metadata_unref(&call->metadata, call->num_metadata);
  pthread_mutex_destroy(&call->lock);
  free(call);
}

/* ---- exchanges */

/* Thread: one of gRPC's, or any that polls. */
static void body_released(void *user_data) {
  struct rpc_call *call = user_data;
  __tsan_acquire(&call->body_in_flight); /* gRPC lets go of what it was given before */
  __tsan_read_range((void *)call->body, (long)call->body_bytes);
  atomic_store(&call->body_in_flight, false);
}

/* Small messages are one slice; a large body is referred to, behind its header. */
static grpc_byte_buffer *make_message(struct rpc_call *call, const void *header,
                                      size_t header_bytes, const void *body, size_t body_bytes) {
  if (body_bytes < BY_REFERENCE_BYTES)
    return core_bytes_copied(header, header_bytes, body, body_bytes);
  call->body = body;
  call->body_bytes = body_bytes;
  atomic_store(&call->body_in_flight, true);
  grpc_slice slices[2] = {
      grpc_slice_from_copied_buffer(header, header_bytes),
      grpc_slice_new_with_user_data((void *)body, body_bytes, body_released, call)};
  grpc_byte_buffer *message = grpc_raw_byte_buffer_create(slices, 2);
  grpc_slice_unref(slices[0]);
  grpc_slice_unref(slices[1]);
  return message;
}

/* The first exchange also opens the call; gRPC delivers no message before the initial metadata
 * was asked for. */
static void start_exchange(struct rpc_call *call, grpc_byte_buffer *message) {
  grpc_op ops[5] = {
      {.op = GRPC_OP_SEND_MESSAGE, .data.send_message.send_message = message},
      {.op = GRPC_OP_RECV_MESSAGE, .data.recv_message.recv_message = &call->received},
      {.op = GRPC_OP_SEND_INITIAL_METADATA,
       .flags = call->how,
       .data.send_initial_metadata = {.count = call->num_metadata, .metadata = &call->metadata}},
      {.op = GRPC_OP_RECV_INITIAL_METADATA,
       .data.recv_initial_metadata.recv_initial_metadata = &call->initial},
      {.op = GRPC_OP_SEND_CLOSE_FROM_CLIENT},
  };
  call->exchanged = (struct batch){0};
  core_start_batch(call->call, ops, call->started ? 2 : call->unary ? 5 : 4, &call->exchanged);
  call->started = true;
  grpc_byte_buffer_destroy(message);
}

/* The stream is over: its status always comes. */
static struct rpc_result end_of_call(struct rpc_call *call) {
  if (!call->exchanged.ok) grpc_call_cancel(call->call, NULL);
  wait_for(call, &call->ended);
  struct rpc_result result = {.code = (enum rpc_code)call->code};
  snprintf(result.text, sizeof(result.text), "%.*s", (int)GRPC_SLICE_LENGTH(call->details),
           (const char *)GRPC_SLICE_START_PTR(call->details));
  drop_call(call);
  wait_for_body(call);
  return result;
}

struct rpc_result rpc_exchange(struct rpc_call *call, const void *header, size_t header_bytes,
                               const void *body, size_t body_bytes,
                               void (*receive)(void *context, const struct wire_span *spans, int n),
                               void *context, bool *ended) {
  CHECK(call->call, "an exchange on a stream that has ended");
  start_exchange(call, make_message(call, header, header_bytes, body, body_bytes));
  wait_for(call, &call->exchanged);
  grpc_byte_buffer *received = call->received;
  call->received = NULL;
  *ended = !received;
  if (*ended) return end_of_call(call);

  struct core_message view;
  core_message_init(&view, received);
  receive(context, view.span, view.num_spans);
  core_message_deinit(&view);
  wait_for_body(call);
  return (struct rpc_result){.code = RPC_OK};
}

/* ---- unary */

static void take_reply(struct rpc_call *call, uint8_t **reply, size_t *bytes) {
  struct core_message message;
  core_message_init(&message, call->received);
  call->received = NULL;
  *reply = wire_gather(message.span, message.num_spans, bytes);
  core_message_deinit(&message);
}

/* `how`: whether it waits for a connection. */
static struct rpc_result ask(struct rpc_channel *channel, const char *path, const void *request,
                             size_t request_bytes, uint8_t **reply, size_t *reply_bytes,
                             int timeout_ms, uint32_t how) {
  gpr_timespec deadline = core_deadline_in_us((int64_t)timeout_ms * 1000);
  struct rpc_call *call = open_call(channel, path, deadline);
  call->unary = true;
  call->how = how;
  start_exchange(call, core_bytes_copied(NULL, 0, request, request_bytes));
  /* gRPC's own timers (the call's deadline, its pauses between connection attempts) come late when
   * the wall clock is set back, so neither is relied on. */
  grpc_channel_reset_connect_backoff(channel->channel);
  wait_until(call, &call->ended, deadline);
  if (!call->ended.done)
    grpc_call_cancel_with_status(call->call, GRPC_STATUS_DEADLINE_EXCEEDED, "Deadline Exceeded",
                                 NULL);
  wait_for(call, &call->exchanged);
  struct rpc_result result = end_of_call(call);
  *reply = NULL;
  *reply_bytes = 0;
  if (result.code == RPC_OK && call->received)
    take_reply(call, reply, reply_bytes);
  else if (result.code == RPC_OK)
    result =
        (struct rpc_result){.code = RPC_INTERNAL, .text = "the server returned OK without a reply"};
  rpc_call_close(call);
  return result;
}

struct rpc_result rpc_unary(struct rpc_channel *channel, const char *path, const void *request,
                            size_t request_bytes, uint8_t **reply, size_t *reply_bytes,
                            int timeout_ms) {
  struct rpc_result result = ask(channel, path, request, request_bytes, reply, reply_bytes,
                                 timeout_ms, GRPC_INITIAL_METADATA_WAIT_FOR_READY);
  if (result.code != RPC_DEADLINE_EXCEEDED ||
      grpc_channel_check_connectivity_state(channel->channel, 0) != GRPC_CHANNEL_TRANSIENT_FAILURE)
    return result;
  /* There is no connection. A call that does not wait for one ends with the reason. */
  result = ask(channel, path, request, request_bytes, reply, reply_bytes, REASON_MS, 0);
  if (result.code != RPC_UNAVAILABLE) return result;
  result.code = RPC_DEADLINE_EXCEEDED;
  const char *why = credentials_explain(channel->credentials, result.text);
  result.tls_failed = why != NULL;
  if (why) snprintf(result.text, sizeof(result.text), "%s", why);
  return result;
}
