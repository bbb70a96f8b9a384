/* The blocking, alternating stream: one batch per exchange, the status in a batch of its own. */
#include <grpc/support/time.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "common/base/check.h"
#include "common/rpc/client_call.h"
#include "common/rpc/credentials_grpc.h"

enum { BY_REFERENCE_BYTES = 28 << 10, RELEASE_POLL_US = 5000 };

struct rpc_call {
  /* guards the pointer `call` against rpc_call_cancel; no gRPC work is done under it */
  pthread_mutex_t lock;
  grpc_call *call; /* NULL once the stream has ended */

  /* the stream's thread only */
  grpc_completion_queue *queue;
  struct batch exchanged, ended;
  struct ending ending;
  grpc_metadata metadata; /* (num_metadata), what the call begins with */
  size_t num_metadata;
  grpc_metadata_array initial;
  grpc_byte_buffer *received;
  bool started; /* the initial metadata has been sent */

  atomic_bool body_in_flight; /* gRPC may still read the body of the message being sent */
};

struct rpc_call *rpc_call_open(struct rpc_channel *channel, const char *path) {
  struct rpc_call *call = check_alloc(1, sizeof(*call));
  pthread_mutex_init(&call->lock, NULL);
  atomic_init(&call->body_in_flight, false);
  ending_init(&call->ending);
  grpc_metadata_array_init(&call->initial);
  call->num_metadata = credentials_metadata(&call->metadata, channel->credentials);
  call->queue = grpc_completion_queue_create_for_next(NULL);
  call->call = client_create_call(channel, call->queue, path, gpr_inf_future(GPR_CLOCK_MONOTONIC));
  grpc_op op = ending_op(&call->ending);
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

/* The first exchange also opens the call; gRPC delivers no message before the initial metadata
 * was asked for. */
static void start_exchange(struct rpc_call *call, grpc_byte_buffer *message) {
  grpc_op ops[4] = {
      {.op = GRPC_OP_SEND_MESSAGE, .data.send_message.send_message = message},
      {.op = GRPC_OP_RECV_MESSAGE, .data.recv_message.recv_message = &call->received},
      {.op = GRPC_OP_SEND_INITIAL_METADATA,
       .data.send_initial_metadata = {.count = call->num_metadata, .metadata = &call->metadata}},
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

/* gRPC drops the body as a rule before the reply comes. Where a write is stuck in a connection
 * whose peer is gone, that takes until the keepalive ends the connection; the queue is polled
 * meanwhile, because that is what moves gRPC on. */
static void wait_for_body(struct rpc_call *call) {
  while (atomic_load(&call->body_in_flight)) {
    struct batch never = {0};
    client_wait(call->queue, &never, core_deadline_in_us(RELEASE_POLL_US));
  }
}

/* The stream is over: its status always comes. */
static struct rpc_result end_of_call(struct rpc_call *call, bool *ended) {
  if (!call->exchanged.ok) grpc_call_cancel(call->call, NULL);
  client_wait(call->queue, &call->ended, gpr_inf_future(GPR_CLOCK_MONOTONIC));
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
  client_wait(call->queue, &call->exchanged, gpr_inf_future(GPR_CLOCK_MONOTONIC));
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
  client_destroy_queue(queue);
  if (call->received) grpc_byte_buffer_destroy(call->received);
  grpc_metadata_array_destroy(&call->initial);
  credentials_metadata_unref(&call->metadata, call->num_metadata);
  ending_deinit(&call->ending);
  pthread_mutex_destroy(&call->lock);
  free(call);
}
