#include "common/rpc/client.h"

#include <grpc/grpc_security.h>
#include <grpc/support/time.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/check.h"
#include "common/rpc/address.h"
#include "common/rpc/client_call.h"
#include "common/rpc/core.h"
#include "common/rpc/credentials_grpc.h"

enum { REASON_MS = 500 };

/* ---- channel */

struct rpc_channel *rpc_channel_create(const char *address, size_t max_message_bytes,
                                       const struct credentials *credentials) {
  core_init();
  struct core_args args = {.count = 0};
  core_args_common(&args, max_message_bytes);
  core_args_add(&args, GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1); /* a connection of its own */
  core_args_add(&args, GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  core_args_add(&args, GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 5000); /* what a connect may take */
  core_args_add(&args, GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 2000);
  core_args_add(&args, GRPC_ARG_ENABLE_RETRIES, 0); /* a retry would have to keep the body */
  core_args_add(&args, GRPC_ARG_SERVICE_CONFIG_DISABLE_RESOLUTION, 1);
  grpc_channel_args view = core_args_view(&args);
  /* A Unix socket stays plain. */
  grpc_channel_credentials *security =
      credentials_client(address_is_unix(address) ? NULL : credentials);
  struct rpc_channel *channel = check_alloc(1, sizeof(*channel));
  channel->credentials = credentials;
  channel->channel = grpc_channel_create(address, security, &view);
  grpc_channel_credentials_release(security);
  return channel;
}

void rpc_channel_destroy(struct rpc_channel *channel) {
  if (!channel) return;
  grpc_channel_destroy(channel->channel);
  free(channel);
  core_deinit();
}

/* ---- what both kinds of call share */

grpc_call *client_create_call(struct rpc_channel *channel, grpc_completion_queue *queue,
                              const char *path, gpr_timespec deadline) {
  grpc_slice method = grpc_slice_from_copied_string(path);
  grpc_call *call = grpc_channel_create_call(channel->channel, NULL, GRPC_PROPAGATE_DEFAULTS, queue,
                                             method, NULL, deadline, NULL);
  grpc_slice_unref(method);
  return call;
}

void client_wait(grpc_completion_queue *queue, const struct batch *batch, gpr_timespec deadline) {
  while (!batch->done) {
    grpc_event event = grpc_completion_queue_next(queue, deadline, NULL);
    if (event.type != GRPC_OP_COMPLETE) return;
    struct batch *finished = event.tag;
    finished->ok = event.success != 0;
    finished->done = true;
  }
}

void client_destroy_queue(grpc_completion_queue *queue) {
  grpc_completion_queue_shutdown(queue);
  while (grpc_completion_queue_next(queue, gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL).type !=
         GRPC_QUEUE_SHUTDOWN)
    ;
  grpc_completion_queue_destroy(queue);
}

void ending_init(struct ending *ending) {
  ending->code = GRPC_STATUS_UNKNOWN;
  ending->details = grpc_empty_slice();
  grpc_metadata_array_init(&ending->trailing);
}

void ending_deinit(struct ending *ending) {
  grpc_slice_unref(ending->details);
  grpc_metadata_array_destroy(&ending->trailing);
}

struct rpc_result ending_result(const struct ending *ending) {
  struct rpc_result result = {.code = (enum rpc_code)ending->code};
  snprintf(result.text, sizeof(result.text), "%.*s", (int)GRPC_SLICE_LENGTH(ending->details),
           (const char *)GRPC_SLICE_START_PTR(ending->details));
  return result;
}

grpc_op ending_op(struct ending *ending) {
  grpc_op op = {.op = GRPC_OP_RECV_STATUS_ON_CLIENT};
  op.data.recv_status_on_client.trailing_metadata = &ending->trailing;
  op.data.recv_status_on_client.status = &ending->code;
  op.data.recv_status_on_client.status_details = &ending->details;
  return op;
}

/* ---- unary */

static void copy_out(grpc_byte_buffer *buffer, uint8_t **out, size_t *bytes) {
  struct core_message message;
  core_message_init(&message, buffer);
  *bytes = grpc_byte_buffer_length(buffer);
  *out = check_alloc(*bytes + 1, 1);
  uint8_t *to = *out;
  for (int i = 0; i < message.num_spans; i++) {
    memcpy(to, message.span[i].data, message.span[i].bytes);
    to += message.span[i].bytes;
  }
  core_message_deinit(&message);
}

/* `flags`: whether it waits for a connection. */
static struct rpc_result ask(struct rpc_channel *channel, const char *path, const void *request,
                             size_t request_bytes, uint8_t **reply, size_t *reply_bytes,
                             int timeout_ms, uint32_t flags) {
  grpc_completion_queue *queue = grpc_completion_queue_create_for_next(NULL);
  gpr_timespec deadline = core_deadline_in_us((int64_t)timeout_ms * 1000);
  grpc_call *call = client_create_call(channel, queue, path, deadline);
  grpc_byte_buffer *message = core_bytes_copied(NULL, 0, request, request_bytes), *received = NULL;
  grpc_metadata_array initial;
  grpc_metadata_array_init(&initial);
  struct ending ending;
  ending_init(&ending);

  grpc_metadata metadata;
  size_t num_metadata = credentials_metadata(&metadata, channel->credentials);
  struct batch batch = {0};
  grpc_op ops[6] = {
      {.op = GRPC_OP_SEND_INITIAL_METADATA,
       .flags = flags,
       .data.send_initial_metadata = {.count = num_metadata, .metadata = &metadata}},
      {.op = GRPC_OP_SEND_MESSAGE, .data.send_message.send_message = message},
      {.op = GRPC_OP_SEND_CLOSE_FROM_CLIENT},
      {.op = GRPC_OP_RECV_INITIAL_METADATA,
       .data.recv_initial_metadata.recv_initial_metadata = &initial},
      {.op = GRPC_OP_RECV_MESSAGE, .data.recv_message.recv_message = &received},
      ending_op(&ending),
  };
  core_start_batch(call, ops, 6, &batch);
  /* gRPC's own timers (the call's deadline, its pauses between connection attempts) come late when
   * the wall clock is set back, so neither is relied on. */
  grpc_channel_reset_connect_backoff(channel->channel);
  client_wait(queue, &batch, deadline);
  if (!batch.done)
    grpc_call_cancel_with_status(call, GRPC_STATUS_DEADLINE_EXCEEDED, "Deadline Exceeded", NULL);
  client_wait(queue, &batch, gpr_inf_future(GPR_CLOCK_MONOTONIC));

  struct rpc_result result = ending_result(&ending);
  *reply = NULL;
  *reply_bytes = 0;
  if (result.code == RPC_OK && received) {
    copy_out(received, reply, reply_bytes);
    received = NULL;
  } else if (result.code == RPC_OK) {
    result =
        (struct rpc_result){.code = RPC_INTERNAL, .text = "the server returned OK without a reply"};
  }
  if (received) grpc_byte_buffer_destroy(received);
  grpc_byte_buffer_destroy(message);
  grpc_metadata_array_destroy(&initial);
  credentials_metadata_unref(&metadata, num_metadata);
  ending_deinit(&ending);
  grpc_call_unref(call);
  client_destroy_queue(queue);
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
