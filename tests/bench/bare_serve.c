/* The shortest server that the C core allows: what a request costs before anything is inferred. It
 * answers ModelInfer and ModelStreamInfer with so many bytes, whatever the request holds, by one
 * queue and one thread, until it is killed.
 *
 *   bare_serve PORT REPLY_BYTES
 *
 * What comes together is answered together, once no other event is there, as serve does it. A unary
 * request comes with the call's acceptance, and one batch answers: fewer events than a
 * server can do with that refuses a call before it is read. */
#include <grpc/grpc.h>
#include <grpc/grpc_security.h>
#include <grpc/support/time.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/base/check.h"
#include "common/rpc/core.h"

struct call {
  grpc_call *call;
  grpc_metadata_array metadata;
  gpr_timespec deadline;
  grpc_byte_buffer *request;
  int cancelled;
  bool streams, accepted;
  struct call *next; /* of those that came together */
};

static grpc_server *server;
static grpc_completion_queue *queue;
static void *methods[2]; /* unary, stream */
static grpc_slice reply;

static void expect_call(bool streams) {
  struct call *call = check_alloc(1, sizeof(*call));
  call->streams = streams;
  grpc_metadata_array_init(&call->metadata);
  CHECK(grpc_server_request_registered_call(server, methods[streams], &call->call, &call->deadline,
                                            &call->metadata, streams ? NULL : &call->request, queue,
                                            queue, call) == GRPC_CALL_OK,
        "a call");
}

static void answer(struct call *call) {
  grpc_slice none = grpc_empty_slice();
  grpc_op op[4] = {{.op = GRPC_OP_SEND_INITIAL_METADATA},
                   {.op = GRPC_OP_SEND_MESSAGE},
                   {.op = GRPC_OP_SEND_STATUS_FROM_SERVER},
                   {.op = GRPC_OP_RECV_CLOSE_ON_SERVER}};
  op[1].data.send_message.send_message = grpc_raw_byte_buffer_create(&reply, 1);
  op[2].data.send_status_from_server.status_details = &none;
  op[3].data.recv_close_on_server.cancelled = &call->cancelled;
  CHECK(grpc_call_start_batch(call->call, op, 4, call, NULL) == GRPC_CALL_OK, "an answer");
  grpc_byte_buffer_destroy(op[1].data.send_message.send_message);
}

/* The stream's next message; the one before is answered, if there is one. */
static void go_on(struct call *call) {
  grpc_op op[2] = {{.op = GRPC_OP_RECV_MESSAGE}, {.op = GRPC_OP_SEND_INITIAL_METADATA}};
  grpc_byte_buffer *message = NULL;
  if (call->request) {
    grpc_byte_buffer_destroy(call->request);
    message = grpc_raw_byte_buffer_create(&reply, 1);
    op[1] = (grpc_op){.op = GRPC_OP_SEND_MESSAGE, .data.send_message.send_message = message};
  }
  op[0].data.recv_message.recv_message = &call->request;
  CHECK(grpc_call_start_batch(call->call, op, 2, call, NULL) == GRPC_CALL_OK, "an answer");
  if (message) grpc_byte_buffer_destroy(message);
}

static void end(struct call *call) {
  if (call->request) grpc_byte_buffer_destroy(call->request);
  grpc_metadata_array_destroy(&call->metadata);
  grpc_call_unref(call->call);
  free(call);
}

static void answer_all(struct call *calls) {
  while (calls) {
    struct call *call = calls;
    calls = call->next;
    if (call->streams)
      go_on(call);
    else
      answer(call);
  }
}

static void run(void) {
  struct call *calls = NULL;
  for (;;) {
    gpr_timespec until =
        calls ? gpr_inf_past(GPR_CLOCK_MONOTONIC) : gpr_inf_future(GPR_CLOCK_MONOTONIC);
    grpc_event event = grpc_completion_queue_next(queue, until, NULL);
    struct call *call = event.tag;
    if (event.type == GRPC_QUEUE_TIMEOUT) {
      answer_all(calls);
      calls = NULL;
      continue;
    }
    bool ends = call->accepted && !(call->streams && call->request);
    if (!call->accepted) expect_call(call->streams);
    call->accepted = true;
    if (ends) {
      end(call);
      continue;
    }
    call->next = calls;
    calls = call;
  }
}

int main(int argc, char **argv) {
  char address[32];
  CHECK(argc == 3, "bare_serve PORT REPLY_BYTES");
  core_init(); /* with the switches that serve has */
  reply = grpc_slice_malloc((size_t)atoi(argv[2]));
  queue = grpc_completion_queue_create_for_next(NULL);
  server = grpc_server_create(NULL, NULL);
  grpc_server_register_completion_queue(server, queue, NULL);
  methods[0] = grpc_server_register_method(server, "/inference.GRPCInferenceService/ModelInfer",
                                           NULL, GRPC_SRM_PAYLOAD_READ_INITIAL_BYTE_BUFFER, 0);
  methods[1] = grpc_server_register_method(
      server, "/inference.GRPCInferenceService/ModelStreamInfer", NULL, GRPC_SRM_PAYLOAD_NONE, 0);
  snprintf(address, sizeof(address), "127.0.0.1:%d", atoi(argv[1]));
  grpc_server_credentials *insecure = grpc_insecure_server_credentials_create();
  CHECK(grpc_server_add_http2_port(server, address, insecure), "%s is taken", address);
  grpc_server_start(server);
  expect_call(false);
  expect_call(true);
  run();
}
