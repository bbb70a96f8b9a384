#include "deploy/serve/rpc.h"

#include <stdio.h>
#include <stdlib.h>

#include "common/base/check.h"
#include "common/base/clock.h"
#include "common/base/thread.h"
#include "common/base/version.h"
#include "common/rpc/server.h"
#include "common/wire/wire_cursor.h"
#include "deploy/serve/request_proto.h"

enum {
  POLL_US = 1000 * 1000,
  MAX_VERSIONS = 64,
  NUMBER_BYTES = 24,
  NUM_METHODS = 7,
  MAX_CALLS = 8192, /* open at a time, 12 KB each */
  MAX_BURST = 256,  /* events before requests that came with them begin */
  MAX_HEADER = 11,  /* a tag and 64 bits in sevens */
  FLUSH_MS = 500    /* for clients to read what was answered last */
};
enum stream_field { STREAM_ERROR = 1, STREAM_RESPONSE = 2 }; /* of ModelStreamInferResponse */

struct rpc {
  struct service *service;
  struct rpc_server *server;
  struct rpc_method methods[NUM_METHODS];
  pthread_t thread;
  atomic_int open;     /* calls of ModelInfer, until the client has its answer */
  struct model *waits; /* its thread's: requests were submitted to it; NULL: to none */
};

/* An inference, until its version has answered. */
struct call {
  struct rpc *rpc;
  struct rpc_stream *stream;
  bool streams; /* of ModelStreamInfer */
  struct model *model;
  struct version *version;
  struct request request;
};

/* ---- answers */

/* Takes the message's bytes. */
static void reply(struct rpc_stream *stream, void *bytes, size_t count) {
  rpc_stream_finish(stream, RPC_OK, "", bytes, count);
  free(bytes);
}

static void refuse(struct rpc_stream *stream, enum status status, const char *text) {
  enum rpc_code code = status == STATUS_NOT_FOUND     ? RPC_NOT_FOUND
                       : status == STATUS_EXHAUSTED   ? RPC_RESOURCE_EXHAUSTED
                       : status == STATUS_UNAVAILABLE ? RPC_UNAVAILABLE
                                                      : RPC_INVALID_ARGUMENT;
  rpc_stream_finish(stream, code, text, NULL, 0);
}

#define REPLY(stream, type, message)                  \
  do {                                                \
    size_t count_ = type##__get_packed_size(message); \
    uint8_t *bytes_ = check_alloc(count_ + 1, 1);     \
    type##__pack(message, bytes_);                    \
    reply(stream, bytes_, count_);                    \
  } while (0)

/* The pieces of a message as one. Owner: the caller. */
static uint8_t *join(const struct wire_span *spans, int num_spans, size_t *count) {
  *count = 0;
  for (int i = 0; i < num_spans; i++) *count += spans[i].bytes;
  uint8_t *bytes = check_alloc(*count + 1, 1), *to = bytes;
  for (int i = 0; i < num_spans; to += spans[i++].bytes) memcpy(to, spans[i].data, spans[i].bytes);
  return bytes;
}

/* The protocol has one word for both. */
static void set_version(struct model_choice *choice, const char *text) {
  bool is_number = !text[0] || (text[0] >= '0' && text[0] <= '9');
  *choice = (struct model_choice){.label = ""};
  snprintf(is_number ? choice->version : choice->label, MODEL_NAME_BYTES, "%s", text);
}

/* ---- inference */

static void reply_stream(struct rpc_stream *stream, enum stream_field field, const void *bytes,
                         size_t count) {
  uint8_t header[MAX_HEADER];
  uint8_t *end = wire_put_varint(wire_put_tag(header, field, WIRE_BYTES), count);
  rpc_stream_reply(stream, header, (size_t)(end - header), bytes, count);
}

/* In ASCII: what a text quotes may be cut inside a character, and a string of proto3 is UTF-8. */
static void refuse_message(struct rpc_stream *stream, struct error *error) {
  for (char *at = error->text; *at; at++)
    if (*at & 0x80) *at = '?';
  reply_stream(stream, STREAM_ERROR, error->text, strlen(error->text));
}

static void done(struct request *request) {
  struct call *call = request->context;
  atomic_int *in_hand = &call->rpc->service->in_hand;
  size_t count;
  void *bytes =
      request_write_proto(request, model_name(call->model), call->version->number, &count);
  model_give(call->model, call->version);
  if (call->streams) {
    reply_stream(call->stream, STREAM_RESPONSE, bytes, count);
    free(bytes);
  } else {
    reply(call->stream, bytes, count);
  }
  request_deinit(request);
  free(call);
  atomic_fetch_sub(in_hand, 1);
}

/* Requests that are read together are one batch: it begins once no other event is there. `next`:
 * the model of the next request; NULL: there is none. */
static void begin(struct rpc *rpc, struct model *next) {
  struct model *waits = rpc->waits;
  rpc->waits = next;
  if (waits && waits != next) model_begin(waits);
}

static enum status submit(struct call *call, const Inference__ModelInferRequest *message,
                          struct error *error) {
  struct model_choice choice;
  set_version(&choice, message->model_version);
  enum status status = service_find(&call->model, call->rpc->service, message->model_name, error);
  if (status != STATUS_OK) return status;
  request_init(&call->request, model_signature(call->model), model_max_rows(call->model));
  call->request.done = done;
  call->request.context = call;
  status = request_read_proto(&call->request, message, error);
  if (status != STATUS_OK) return status;
  begin(call->rpc, call->model);
  return model_submit(&call->version, call->model, &choice, &call->request, error);
}

/* The version may have answered, and freed the call, before submit returns. */
static void infer(struct rpc *rpc, struct rpc_stream *stream, bool streams,
                  const struct wire_span *spans, int num_spans) {
  struct error error;
  if (atomic_load(&rpc->service->draining)) {
    refuse(stream, STATUS_UNAVAILABLE, "the server is stopping: ask another one, or later");
    return;
  }
  bool whole = num_spans == 1;
  size_t count = whole ? spans->bytes : 0;
  uint8_t *joined = whole ? NULL : join(spans, num_spans, &count);
  Inference__ModelInferRequest *message =
      inference__model_infer_request__unpack(NULL, count, whole ? spans->data : joined);
  free(joined);
  if (!message) {
    refuse(stream, STATUS_INVALID, "the request is no ModelInferRequest");
    return;
  }
  struct call *call = check_alloc(1, sizeof(*call));
  *call = (struct call){.rpc = rpc, .stream = stream, .streams = streams};
  atomic_fetch_add(&rpc->service->in_hand, 1);
  enum status status = submit(call, message, &error);
  if (status != STATUS_OK) {
    if (streams)
      refuse_message(stream, &error);
    else
      refuse(stream, status, error.text);
    request_deinit(&call->request);
    free(call);
    atomic_fetch_sub(&rpc->service->in_hand, 1);
  }
  inference__model_infer_request__free_unpacked(message, NULL);
}

static void on_infer(void *context, struct rpc_stream *stream, const struct wire_span *spans,
                     int num_spans) {
  infer(context, stream, false, spans, num_spans);
}

static void on_open(void *context, struct rpc_stream *stream) {
  (void)stream;
  atomic_fetch_add(&((struct rpc *)context)->open, 1);
}

static void on_close(void *context, struct rpc_stream *stream) {
  (void)stream;
  atomic_fetch_sub(&((struct rpc *)context)->open, 1);
}

/* A request's errors do not end the stream; a stop does. */
static void on_stream(void *context, struct rpc_stream *stream, const struct wire_span *spans,
                      int num_spans) {
  infer(context, stream, true, spans, num_spans);
}

/* ---- what there is */

static void on_live(void *context, struct rpc_stream *stream, const struct wire_span *spans,
                    int num_spans) {
  (void)context, (void)spans, (void)num_spans;
  Inference__ServerLiveResponse response = INFERENCE__SERVER_LIVE_RESPONSE__INIT;
  response.live = true;
  REPLY(stream, inference__server_live_response, &response);
}

static void on_ready(void *context, struct rpc_stream *stream, const struct wire_span *spans,
                     int num_spans) {
  (void)spans, (void)num_spans;
  Inference__ServerReadyResponse response = INFERENCE__SERVER_READY_RESPONSE__INIT;
  response.ready = service_is_ready(((struct rpc *)context)->service);
  REPLY(stream, inference__server_ready_response, &response);
}

static void on_server(void *context, struct rpc_stream *stream, const struct wire_span *spans,
                      int num_spans) {
  (void)context, (void)spans, (void)num_spans;
  char *extensions[] = {"sequence"};
  Inference__ServerMetadataResponse response = INFERENCE__SERVER_METADATA_RESPONSE__INIT;
  response.name = "acorn";
  response.version = (char *)version_number;
  response.n_extensions = 1;
  response.extensions = extensions;
  REPLY(stream, inference__server_metadata_response, &response);
}

/* Both requests about a model have the same fields. */
static enum status find_model(struct model **model, struct model_choice *choice,
                              const struct rpc *rpc, const struct wire_span *spans, int num_spans,
                              struct error *error) {
  size_t count;
  uint8_t *bytes = join(spans, num_spans, &count);
  Inference__ModelReadyRequest *message =
      inference__model_ready_request__unpack(NULL, count, bytes);
  free(bytes);
  if (!message) return status_fail(error, STATUS_INVALID, "the request is no message");
  set_version(choice, message->version);
  enum status status = service_find(model, rpc->service, message->name, error);
  inference__model_ready_request__free_unpacked(message, NULL);
  return status;
}

static void on_model_ready(void *context, struct rpc_stream *stream, const struct wire_span *spans,
                           int num_spans) {
  struct model *model;
  struct model_choice choice;
  struct error error;
  enum status status = find_model(&model, &choice, context, spans, num_spans, &error);
  Inference__ModelReadyResponse response = INFERENCE__MODEL_READY_RESPONSE__INIT;
  if (status != STATUS_OK) {
    refuse(stream, status, error.text);
    return;
  }
  response.ready = model_is_ready(model, &choice, &error);
  REPLY(stream, inference__model_ready_response, &response);
}

typedef Inference__ModelMetadataResponse__TensorMetadata tensor_metadata;

struct description {
  tensor_metadata tensor[SIGNATURE_MAX_INPUTS + SIGNATURE_MAX_OUTPUTS],
      *tensors[SIGNATURE_MAX_INPUTS + SIGNATURE_MAX_OUTPUTS];
  int64_t shape[SIGNATURE_MAX_INPUTS + SIGNATURE_MAX_OUTPUTS][SPACE_MAX_RANK + 1];
  int num_tensors, num_versions;
  char number[MAX_VERSIONS][NUMBER_BYTES], *numbers[MAX_VERSIONS];
};

static void add_version(void *context, int64_t version, const char *failure) {
  struct description *d = context;
  if (failure || d->num_versions == MAX_VERSIONS) return;
  d->numbers[d->num_versions] = d->number[d->num_versions];
  snprintf(d->number[d->num_versions++], NUMBER_BYTES, "%lld", (long long)version);
}

static tensor_metadata **describe(struct description *d, const struct tensor *tensors, int count) {
  tensor_metadata **first = &d->tensors[d->num_tensors];
  for (int i = 0; i < count; i++) {
    int at = d->num_tensors++;
    d->shape[at][0] = -1;
    for (int k = 0; k < tensors[i].rank; k++) d->shape[at][k + 1] = tensors[i].shape[k];
    d->tensor[at] = (tensor_metadata)INFERENCE__MODEL_METADATA_RESPONSE__TENSOR_METADATA__INIT;
    d->tensor[at].name = (char *)tensors[i].name;
    d->tensor[at].datatype = (char *)tensor_type_name(tensors[i].type);
    d->tensor[at].n_shape = (size_t)tensors[i].rank + 1;
    d->tensor[at].shape = d->shape[at];
    d->tensors[at] = &d->tensor[at];
  }
  return first;
}

static void on_model(void *context, struct rpc_stream *stream, const struct wire_span *spans,
                     int num_spans) {
  struct model *model;
  struct model_choice choice;
  struct error error;
  struct description d = {.num_tensors = 0};
  enum status status = find_model(&model, &choice, context, spans, num_spans, &error);
  if (status == STATUS_OK && (choice.version[0] || choice.label[0]) &&
      !model_is_ready(model, &choice, &error))
    status = STATUS_NOT_FOUND;
  if (status != STATUS_OK) {
    refuse(stream, status, error.text);
    return;
  }
  const struct signature *signature = model_signature(model);
  model_each(model, &choice, add_version, &d);
  Inference__ModelMetadataResponse response = INFERENCE__MODEL_METADATA_RESPONSE__INIT;
  response.name = (char *)model_name(model);
  response.platform = "acorn";
  response.n_versions = (size_t)d.num_versions;
  response.versions = d.numbers;
  response.n_inputs = (size_t)signature->num_inputs;
  response.inputs = describe(&d, signature->input, signature->num_inputs);
  response.n_outputs = (size_t)signature->num_outputs;
  response.outputs = describe(&d, signature->output, signature->num_outputs);
  REPLY(stream, inference__model_metadata_response, &response);
}

/* ---- */

static void *drive(void *argument) {
  struct rpc *rpc = argument;
  for (unsigned handled = 0;; handled++) {
    int events = rpc_server_poll(rpc->server, 0, rpc->waits ? 0 : clock_now_us() + POLL_US);
    if (events != 1 || handled % MAX_BURST == 0) begin(rpc, NULL);
    if (events < 0) return NULL;
  }
}

static void name_methods(struct rpc *rpc) {
#define METHOD(name, answer) \
  { .path = "/inference.GRPCInferenceService/" name, .context = rpc, .on_message = answer }
  const struct rpc_method methods[NUM_METHODS] = {
      METHOD("ModelInfer", on_infer),       METHOD("ModelStreamInfer", on_stream),
      METHOD("ServerLive", on_live),        METHOD("ServerReady", on_ready),
      METHOD("ModelReady", on_model_ready), METHOD("ServerMetadata", on_server),
      METHOD("ModelMetadata", on_model)};
#undef METHOD
  memcpy(rpc->methods, methods, sizeof(methods));
  rpc->methods[0].on_open = on_open;
  rpc->methods[0].on_close = on_close;
}

enum status rpc_start(struct rpc **out, struct service *service, const char *address, int port,
                      struct credentials *credentials, struct error *error) {
  char listen[128];
  bool ipv6 = strchr(address, ':');
  struct rpc *rpc = check_alloc(1, sizeof(*rpc));
  rpc->service = service;
  name_methods(rpc);
  snprintf(listen, sizeof(listen), "%s%.100s%s:%d", ipv6 ? "[" : "", address, ipv6 ? "]" : "",
           port);
  struct rpc_server_config config = {.address = listen,
                                     .num_queues = 1,
                                     .methods = rpc->methods,
                                     .num_methods = NUM_METHODS,
                                     .max_message_bytes = service->max_bytes,
                                     .max_calls = MAX_CALLS,
                                     .anonymous = true,
                                     .credentials = credentials};
  enum status status = rpc_server_create(&rpc->server, &config, error);
  if (status != STATUS_OK) {
    free(rpc);
    return status;
  }
  thread_start(&rpc->thread, "grpc", drive, rpc);
  *out = rpc;
  return STATUS_OK;
}

int rpc_port(const struct rpc *rpc) {
  return rpc_server_port(rpc->server);
}

void rpc_stop(struct rpc *rpc) {
  if (!rpc) return;
  rpc_server_shutdown(rpc->server);
  for (int ms = 0; ms < FLUSH_MS && atomic_load(&rpc->open) > 0; ms++) clock_sleep_us(1000);
  rpc_server_cancel_all(rpc->server); /* streams, and calls without a message */
  pthread_join(rpc->thread, NULL);    /* it may take requests in hand until it ends */
  while (atomic_load(&rpc->service->in_hand) > 0) clock_sleep_us(1000);
  rpc_server_destroy(rpc->server);
  free(rpc);
}
