/* How many inference requests a server of the Open Inference Protocol answers over gRPC, and how
 * long they take: one row each, from many connections, by the C core with one thread.
 *
 *   bench_serve ADDRESS MODEL INPUT NUMBERS [--connections=64] [--seconds=5] [--rate=R]
 *     [--stream=1]
 *
 * INPUT: of float32, NUMBERS of them in a row. Without a rate a connection sends the next request
 * when the one before is answered. With a rate requests are due at even intervals, and take from
 * then on. With --stream=1 a connection's requests are messages of one call, ModelStreamInfer, else
 * a call each. When each connection has had an answer, stderr says so. Prints requests/s, the
 * median and 99th percentile of their time in ms, the CPU time of this client for a request, and
 * the bytes of a response. */
#include <grpc/grpc.h>
#include <grpc/grpc_security.h>
#include <grpc/support/time.h>
#include <grpc/byte_buffer.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/check.h"
#include "common/base/clock.h"
#include "open_inference.pb-c.h"

enum { MAX_CONNECTIONS = 1024, MAX_SAMPLES = 1 << 22, WARM_UP_US = 1000 * 1000 };

struct connection {
  grpc_channel *channel;
  grpc_call *call; /* NULL: none is open */
  bool waits;      /* for an answer */
  bool answered;   /* once at least */
  grpc_metadata_array initial, trailing;
  grpc_byte_buffer *response;
  grpc_status_code code;
  grpc_slice details;
  int64_t due_us;
};

static struct connection connections[MAX_CONNECTIONS];
static grpc_completion_queue *queue;
static grpc_slice request;
static float *sample_ms;
static bool streams;
static size_t reply_bytes;
static int num_samples, num_answers;          /* answers: those of the warm-up too */
static int num_unanswered;                    /* connections */
static int64_t begin_us, end_us, interval_us; /* interval: of a connection; 0: no rate */

static void make_request(const char *model, const char *input, int numbers) {
  Inference__ModelInferRequest message = INFERENCE__MODEL_INFER_REQUEST__INIT;
  Inference__ModelInferRequest__InferInputTensor tensor =
      INFERENCE__MODEL_INFER_REQUEST__INFER_INPUT_TENSOR__INIT;
  Inference__ModelInferRequest__InferInputTensor *tensors[] = {&tensor};
  int64_t shape[] = {1, numbers};
  float *row = check_alloc((size_t)numbers, sizeof(*row));
  for (int i = 0; i < numbers; i++) row[i] = (float)i / 10;
  ProtobufCBinaryData raw = {(size_t)numbers * sizeof(*row), (uint8_t *)row};
  tensor.name = (char *)input;
  tensor.datatype = "FP32";
  tensor.n_shape = 2;
  tensor.shape = shape;
  message.model_name = (char *)model;
  message.n_inputs = message.n_raw_input_contents = 1;
  message.inputs = tensors;
  message.raw_input_contents = &raw;
  request = grpc_slice_malloc(inference__model_infer_request__get_packed_size(&message));
  inference__model_infer_request__pack(&message, GRPC_SLICE_START_PTR(request));
  free(row);
}

static void open_call(struct connection *c) {
  c->call = grpc_channel_create_call(
      c->channel, NULL, GRPC_PROPAGATE_DEFAULTS, queue,
      grpc_slice_from_static_string(streams ? "/inference.GRPCInferenceService/ModelStreamInfer"
                                            : "/inference.GRPCInferenceService/ModelInfer"),
      NULL, gpr_inf_future(GPR_CLOCK_REALTIME), NULL);
  grpc_metadata_array_init(&c->initial);
  grpc_metadata_array_init(&c->trailing);
}

static void send(struct connection *c) {
  grpc_op op[6] = {{.op = GRPC_OP_SEND_MESSAGE},           {.op = GRPC_OP_RECV_MESSAGE},
                   {.op = GRPC_OP_SEND_INITIAL_METADATA},  {.op = GRPC_OP_RECV_INITIAL_METADATA},
                   {.op = GRPC_OP_SEND_CLOSE_FROM_CLIENT}, {.op = GRPC_OP_RECV_STATUS_ON_CLIENT}};
  bool opens = !c->call;
  if (opens) open_call(c);
  grpc_byte_buffer *message = grpc_raw_byte_buffer_create(&request, 1);
  op[0].data.send_message.send_message = message;
  op[1].data.recv_message.recv_message = &c->response;
  op[3].data.recv_initial_metadata.recv_initial_metadata = &c->initial;
  op[5].data.recv_status_on_client.trailing_metadata = &c->trailing;
  op[5].data.recv_status_on_client.status = &c->code;
  op[5].data.recv_status_on_client.status_details = &c->details;
  size_t count = streams ? (opens ? 4 : 2) : 6;
  CHECK(grpc_call_start_batch(c->call, op, count, c, NULL) == GRPC_CALL_OK, "a request");
  c->waits = true;
  grpc_byte_buffer_destroy(message);
}

static void end_call(struct connection *c) {
  grpc_slice_unref(c->details);
  grpc_metadata_array_destroy(&c->initial);
  grpc_metadata_array_destroy(&c->trailing);
  grpc_call_unref(c->call);
  c->call = NULL;
}

/* The server has ended the stream: why. */
static void receive_status(struct connection *c) {
  grpc_op op = {.op = GRPC_OP_RECV_STATUS_ON_CLIENT};
  op.data.recv_status_on_client.trailing_metadata = &c->trailing;
  op.data.recv_status_on_client.status = &c->code;
  op.data.recv_status_on_client.status_details = &c->details;
  CHECK(grpc_call_start_batch(c->call, &op, 1, &op, NULL) == GRPC_CALL_OK, "a status");
  while (grpc_completion_queue_next(queue, gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL).tag != &op)
    ;
}

static void finish(struct connection *c, int64_t now_us) {
  if (streams && !c->response) receive_status(c);
  if (c->code != GRPC_STATUS_OK) {
    char *text = grpc_slice_to_c_string(c->details);
    fprintf(stderr, "bench_serve: status %d: %s\n", (int)c->code, text);
    exit(1);
  }
  num_answers++;
  if (!c->answered && --num_unanswered == 0) fprintf(stderr, "every connection has an answer\n");
  c->answered = true;
  if (now_us >= begin_us && num_samples < MAX_SAMPLES)
    sample_ms[num_samples++] = (float)(now_us - c->due_us) / 1000;
  if (c->response) {
    reply_bytes = grpc_byte_buffer_length(c->response);
    grpc_byte_buffer_destroy(c->response);
  }
  c->response = NULL;
  if (!streams) end_call(c);
  c->waits = false;
  c->due_us = interval_us ? c->due_us + interval_us : now_us;
}

/* What is due is sent; returns when the next one is. */
static int64_t send_due(int count) {
  int64_t now_us = clock_now_us(), next_us = end_us;
  for (int i = 0; i < count; i++) {
    struct connection *c = &connections[i];
    if (c->waits) continue;
    if (c->due_us <= now_us)
      send(c);
    else if (c->due_us < next_us)
      next_us = c->due_us;
  }
  return next_us;
}

static void run(int count) {
  while (clock_now_us() < end_us) {
    int64_t wait_us = send_due(count) - clock_now_us();
    gpr_timespec until =
        gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC),
                     gpr_time_from_micros(wait_us > 0 ? wait_us : 0, GPR_TIMESPAN));
    grpc_event event = grpc_completion_queue_next(queue, until, NULL);
    if (event.type == GRPC_OP_COMPLETE) finish(event.tag, clock_now_us());
  }
}

static int by_size(const void *a, const void *b) {
  float x = *(const float *)a, y = *(const float *)b;
  return (x > y) - (x < y);
}

static void open_connections(const char *address, int count, double rate) {
  grpc_channel_credentials *insecure = grpc_insecure_credentials_create();
  for (int i = 0; i < count; i++) {
    grpc_arg own = {.type = GRPC_ARG_INTEGER, .key = GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL};
    own.value.integer = 1; /* a connection for each channel */
    grpc_channel_args args = {1, &own};
    connections[i].channel = grpc_channel_create(address, insecure, &args);
    connections[i].due_us = clock_now_us();
    if (rate > 0) connections[i].due_us += (int64_t)(1e6 * i / rate);
  }
  num_unanswered = count;
  if (rate > 0) interval_us = (int64_t)(1e6 * count / rate);
  grpc_channel_credentials_release(insecure);
}

static double option(int argc, char **argv, const char *name, double fallback) {
  for (int i = 5; i < argc; i++)
    if (strncmp(argv[i], name, strlen(name)) == 0) return atof(argv[i] + strlen(name));
  return fallback;
}

int main(int argc, char **argv) {
  CHECK(argc >= 5, "bench_serve ADDRESS MODEL INPUT NUMBERS");
  int count = (int)option(argc, argv, "--connections=", 64);
  double seconds = option(argc, argv, "--seconds=", 5), rate = option(argc, argv, "--rate=", 0);
  streams = option(argc, argv, "--stream=", 0) > 0;
  CHECK(count > 0 && count <= MAX_CONNECTIONS, "%d connections", count);
  grpc_init();
  queue = grpc_completion_queue_create_for_next(NULL);
  sample_ms = check_alloc(MAX_SAMPLES, sizeof(*sample_ms));
  make_request(argv[2], argv[3], atoi(argv[4]));
  begin_us = clock_now_us() + WARM_UP_US;
  end_us = begin_us + (int64_t)(seconds * 1e6);
  open_connections(argv[1], count, rate);
  run(count);
  qsort(sample_ms, (size_t)num_samples, sizeof(*sample_ms), by_size);
  CHECK(num_samples > 0, "no answer");
  printf(
      "requests_per_second=%.0f p50_ms=%.3f p99_ms=%.3f answers=%d client_cpu_us=%.2f "
      "reply_bytes=%zu\n",
      num_samples / seconds, (double)sample_ms[num_samples / 2],
      (double)sample_ms[(int)(num_samples * 0.99)], num_answers,
      (double)clock_process_cpu_us() / num_answers, reply_bytes);
  fflush(stdout);
  _Exit(0); /* calls are open */
}
