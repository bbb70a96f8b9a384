#include "common/rpc/client.h"

#include <grpc/grpc_security.h>
#include <grpc/support/alloc.h>
#include <grpc/support/time.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/check.h"
#include "common/rpc/core.h"

enum { BY_REFERENCE_BYTES = 28 << 10, RELEASE_POLL_US = 5000 };

struct rpc_channel {
  grpc_channel *channel;
};

/* A batch in flight: its address is the tag. */
struct batch {
  bool done;
  bool ok;
};

/* What gRPC fills when the call ends. */
struct ending {
  grpc_status_code code;
  grpc_slice details;
  grpc_metadata_array trailing;
};

struct rpc_call {
  pthread_mutex_t
      lock;        /* guards the pointer `call` against rpc_call_cancel; no gRPC work under it */
  grpc_call *call; /* NULL once the stream has ended */
  /* the stream's thread only */
  grpc_completion_queue *queue;
  struct batch exchanged, ended;
  struct ending ending;
  grpc_metadata_array initial;
  grpc_byte_buffer *received;
  bool started;               /* the initial metadata has been sent */
  atomic_bool body_in_flight; /* gRPC may still read the body of the message being sent */
};

/* ---- channel */

struct rpc_channel *rpc_channel_create(const char *address, size_t max_message_bytes) {
  core_init();
  struct core_args args = {.count = 0};
  core_args_common(&args, max_message_bytes);
  core_args_add(&args, GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1); /* a connection of its own */
  core_args_add(&args, GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  core_args_add(&args, GRPC_ARG_MIN_RECONNECT_BACKOFF_MS,
                1000); /* also the time a connect may take */
  core_args_add(&args, GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 2000);
  core_args_add(&args, GRPC_ARG_ENABLE_RETRIES, 0); /* a retry would have to keep the body */
  core_args_add(&args, GRPC_ARG_SERVICE_CONFIG_DISABLE_RESOLUTION, 1);
  grpc_channel_args view = core_args_view(&args);
  grpc_channel_credentials *plain = grpc_insecure_credentials_create();
  struct rpc_channel *channel = check_alloc(1, sizeof(*channel));
  channel->channel = grpc_channel_create(address, plain, &view);
  grpc_channel_credentials_release(plain);
  return channel;
}

void rpc_channel_destroy(struct rpc_channel *channel) {
  if (!channel) return;
  grpc_channel_destroy(channel->channel);
  free(channel);
  core_deinit();
}

/* ---- what both kinds of call share */

static grpc_call *create_call(struct rpc_channel *channel, grpc_completion_queue *queue,
                              const char *path, gpr_timespec deadline) {
  grpc_slice method = grpc_slice_from_copied_string(path);
  grpc_call *call = grpc_channel_create_call(channel->channel, NULL, GRPC_PROPAGATE_DEFAULTS, queue,
                                             method, NULL, deadline, NULL);
  grpc_slice_unref(method);
  return call;
}

/* Handles events until `batch` is done or the deadline has passed. */
static void wait_for(grpc_completion_queue *queue, const struct batch *batch,
                     gpr_timespec deadline) {
  while (!batch->done) {
    grpc_event event = grpc_completion_queue_next(queue, deadline, NULL);
    if (event.type != GRPC_OP_COMPLETE) return;
    struct batch *finished = event.tag;
    finished->ok = event.success != 0;
    finished->done = true;
  }
}

static void drain_and_destroy(grpc_completion_queue *queue) {
  grpc_completion_queue_shutdown(queue);
  while (grpc_completion_queue_next(queue, gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL).type !=
         GRPC_QUEUE_SHUTDOWN)
    ;
  grpc_completion_queue_destroy(queue);
}

static void ending_init(struct ending *ending) {
  ending->code = GRPC_STATUS_UNKNOWN;
  ending->details = grpc_empty_slice();
  grpc_metadata_array_init(&ending->trailing);
}

static void ending_deinit(struct ending *ending) {
  grpc_slice_unref(ending->details);
  grpc_metadata_array_destroy(&ending->trailing);
}

static struct rpc_result ending_result(const struct ending *ending) {
  struct rpc_result result = {.code = (enum rpc_code)ending->code};
  snprintf(result.text, sizeof(result.text), "%.*s", (int)GRPC_SLICE_LENGTH(ending->details),
           (const char *)GRPC_SLICE_START_PTR(ending->details));
  return result;
}

static grpc_op status_op(struct ending *ending) {
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

struct rpc_result rpc_unary(struct rpc_channel *channel, const char *path, const void *request,
                            size_t request_bytes, uint8_t **reply, size_t *reply_bytes,
                            int timeout_ms) {
  grpc_completion_queue *queue = grpc_completion_queue_create_for_next(NULL);
  grpc_call *call =
      create_call(channel, queue, path, core_deadline_in_us((int64_t)timeout_ms * 1000));
  grpc_byte_buffer *message = core_bytes_copied(NULL, 0, request, request_bytes), *received = NULL;
  grpc_metadata_array initial;
  grpc_metadata_array_init(&initial);
  struct ending ending;
  ending_init(&ending);

  struct batch batch = {0};
  grpc_op ops[6] = {
      {.op = GRPC_OP_SEND_INITIAL_METADATA, .flags = GRPC_INITIAL_METADATA_WAIT_FOR_READY},
      {.op = GRPC_OP_SEND_MESSAGE, .data.send_message.send_message = message},
      {.op = GRPC_OP_SEND_CLOSE_FROM_CLIENT},
      {.op = GRPC_OP_RECV_INITIAL_METADATA,
       .data.recv_initial_metadata.recv_initial_metadata = &initial},
      {.op = GRPC_OP_RECV_MESSAGE, .data.recv_message.recv_message = &received},
      status_op(&ending),
  };
  core_start_batch(call, ops, 6, &batch);
  wait_for(queue, &batch, gpr_inf_future(GPR_CLOCK_MONOTONIC)); /* the call has the deadline */

  struct rpc_result result = ending_result(&ending);
  *reply = NULL;
  *reply_bytes = 0;
  if (result.code == RPC_OK && received) {
    copy_out(received, reply, reply_bytes);
    received = NULL;
  } else if (result.code == RPC_OK) {
    result = (struct rpc_result){RPC_INTERNAL, "the server said OK without a reply"};
  }
  if (received) grpc_byte_buffer_destroy(received);
  grpc_byte_buffer_destroy(message);
  grpc_metadata_array_destroy(&initial);
  ending_deinit(&ending);
  grpc_call_unref(call);
  drain_and_destroy(queue);
  return result;
}

/* ---- stream */

struct rpc_call *rpc_call_open(struct rpc_channel *channel, const char *path) {
  struct rpc_call *call = check_alloc(1, sizeof(*call));
  pthread_mutex_init(&call->lock, NULL);
  atomic_init(&call->body_in_flight, false);
  ending_init(&call->ending);
  grpc_metadata_array_init(&call->initial);
  call->queue = grpc_completion_queue_create_for_next(NULL);
  call->call = create_call(channel, call->queue, path, gpr_inf_future(GPR_CLOCK_MONOTONIC));
  grpc_op op = status_op(&call->ending);
  core_start_batch(call->call, &op, 1, &call->ended);
  return call;
}

static void body_released(void *call) {
  atomic_store(&((struct rpc_call *)call)->body_in_flight, false);
}

/* Small messages are one slice; a large body is referred to, behind its header. */
static grpc_byte_buffer *make_message(struct rpc_call *call, const void *header,
                                      size_t header_bytes, const void *body, size_t body_bytes) {
  if (body_bytes < BY_REFERENCE_BYTES)
    return core_bytes_copied(header, header_bytes, body, body_bytes);
  atomic_store(&call->body_in_flight, true);
  grpc_slice slices[2] = {
      grpc_slice_from_copied_buffer(header, header_bytes),
      grpc_slice_new_with_user_data((void *)body, body_bytes, body_released, call)};
  grpc_byte_buffer *message = grpc_raw_byte_buffer_create(slices, 2);
  grpc_slice_unref(slices[0]);
  grpc_slice_unref(slices[1]);
  return message;
}

/* The first exchange also opens the call; gRPC delivers no message before the initial metadata was asked for. */
static void start_exchange(struct rpc_call *call, grpc_byte_buffer *message) {
  grpc_op ops[4] = {
      {.op = GRPC_OP_SEND_MESSAGE, .data.send_message.send_message = message},
      {.op = GRPC_OP_RECV_MESSAGE, .data.recv_message.recv_message = &call->received},
      {.op = GRPC_OP_SEND_INITIAL_METADATA},
      {.op = GRPC_OP_RECV_INITIAL_METADATA,
       .data.recv_initial_metadata.recv_initial_metadata = &call->initial},
  };
  call->exchanged = (struct batch){0};
  core_start_batch(call->call, ops, call->started ? 2 : 4, &call->exchanged);
  call->started = true;
}

static void drop_call(struct rpc_call *call) {
  pthread_mutex_lock(&call->lock);
  grpc_call *handle = call->call;
  call->call = NULL;
  pthread_mutex_unlock(&call->lock);
  if (handle) grpc_call_unref(handle);
}

/* gRPC drops the body as a rule before the reply comes. Where a write is stuck in a connection whose peer is gone, that
 * takes until the keepalive ends the connection; the queue is polled meanwhile, because that is what moves gRPC on. */
static void wait_for_body(struct rpc_call *call) {
  while (atomic_load(&call->body_in_flight)) {
    struct batch never = {0};
    wait_for(call->queue, &never, core_deadline_in_us(RELEASE_POLL_US));
  }
}

/* The stream is over: its status always comes. */
static struct rpc_result end_of_call(struct rpc_call *call, bool *ended) {
  if (!call->exchanged.ok) grpc_call_cancel(call->call, NULL);
  wait_for(call->queue, &call->ended, gpr_inf_future(GPR_CLOCK_MONOTONIC));
  struct rpc_result result = ending_result(&call->ending);
  *ended = true;
  drop_call(call);
  wait_for_body(call);
  return result;
}

struct rpc_result rpc_exchange(struct rpc_call *call, const void *header, size_t header_bytes,
                               const void *body, size_t body_bytes,
                               void (*receive)(void *context, const struct wire_span *spans, int n),
                               void *context, bool *ended) {
  CHECK(call->call, "an exchange on a stream that has ended");
  *ended = false;
  grpc_byte_buffer *message = make_message(call, header, header_bytes, body, body_bytes);
  start_exchange(call, message);
  grpc_byte_buffer_destroy(message);
  wait_for(call->queue, &call->exchanged, gpr_inf_future(GPR_CLOCK_MONOTONIC));
  grpc_byte_buffer *received = call->received;
  call->received = NULL;
  if (!received) return end_of_call(call, ended);

  struct core_message view;
  core_message_init(&view, received);
  receive(context, view.span, view.num_spans);
  core_message_deinit(&view);
  wait_for_body(call);
  return (struct rpc_result){.code = RPC_OK};
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
  grpc_completion_queue *queue = call->queue;
  drop_call(call);
  drain_and_destroy(queue);
  if (call->received) grpc_byte_buffer_destroy(call->received);
  grpc_metadata_array_destroy(&call->initial);
  ending_deinit(&call->ending);
  pthread_mutex_destroy(&call->lock);
  free(call);
}
