#include "learner/run/run_parameters.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/check.h"
#include "common/base/log.h"
#include "common/rpc/address.h"
#include "learner/params/named.h"

/* Each holds the parameters twice at most. */
enum { MAX_TRANSFERS = 4 };

struct run_parameters {
  struct trainer *trainer;
  const char *refusal; /* why there is nothing to get or set; NULL: there is */
  enum rpc_code refusal_code;
  struct named named;
  atomic_int transfers;
  struct rpc_method method[RUN_PARAMETERS_METHODS];
};

/* One call. With a message in hand it belongs to the thread that has to answer it. */
struct transfer {
  struct access_request request; /* first */
  struct run_parameters *home;
  struct rpc_stream *stream;
  atomic_int refs; /* the stream's, and that of a request that waits */
  uint8_t *file;   /* heap; NULL before it is known */
  size_t size, at; /* of it; how much has come, or has been sent */
  bool given[NAMED_MAX];
  char peer[RPC_PEER_BYTES];
};

/* ---- life */

static void release(struct transfer *transfer) {
  if (atomic_fetch_sub(&transfer->refs, 1) > 1) return;
  atomic_fetch_sub(&transfer->home->transfers, 1);
  free(transfer->request.values);
  free(transfer->file);
  free(transfer);
}

static void on_close(void *context, struct rpc_stream *stream) {
  (void)context;
  struct transfer *transfer = rpc_stream_user(stream);
  if (transfer) release(transfer);
}

/* Of the call's first message. NULL: it was refused. */
static struct transfer *begin(struct run_parameters *home, struct rpc_stream *stream, bool sets) {
  if (home->refusal) {
    rpc_stream_finish(stream, home->refusal_code, home->refusal, NULL, 0);
    return NULL;
  }
  if (atomic_fetch_add(&home->transfers, 1) >= MAX_TRANSFERS) {
    atomic_fetch_sub(&home->transfers, 1);
    rpc_stream_finish(stream, RPC_RESOURCE_EXHAUSTED,
                      "other clients get or set parameters: try again", NULL, 0);
    return NULL;
  }
  struct transfer *transfer = check_alloc(1, sizeof(*transfer));
  *transfer = (struct transfer){
      .request = {.sets = sets,
                  .given = transfer->given,
                  .expected_version = ACCESS_ANY_VERSION,
                  .values = check_alloc(home->named.numbers, sizeof(*transfer->request.values))},
      .home = home,
      .stream = stream};
  atomic_init(&transfer->refs, 1);
  rpc_stream_hurry(stream); /* a silent one would hold its place for ever */
  rpc_stream_peer(stream, transfer->peer);
  rpc_stream_set_user(stream, transfer);
  return transfer;
}

static void ask(struct transfer *transfer, void (*done)(struct access_request *request)) {
  atomic_fetch_add(&transfer->refs, 1);
  transfer->request.done = done;
  trainer_access(transfer->home->trainer, &transfer->request);
}

static void answer_error(struct transfer *transfer) {
  const struct access_request *request = &transfer->request;
  enum rpc_code code = request->status == STATUS_MISMATCH  ? RPC_FAILED_PRECONDITION
                       : request->status == STATUS_INVALID ? RPC_INVALID_ARGUMENT
                                                           : RPC_UNAVAILABLE;
  rpc_stream_finish(transfer->stream, code, request->error.text, NULL, 0);
}

/* ---- GetParameters */

static void send_piece(struct transfer *transfer) {
  uint8_t header[WIRE_PIECE_HEADER_BYTES];
  size_t left = transfer->size - transfer->at, at = transfer->at;
  struct wire_piece piece = {.bytes = left < WIRE_PIECE_BYTES ? left : WIRE_PIECE_BYTES,
                             .version = (uint64_t)transfer->request.version};
  if (at == 0) piece.total_bytes = transfer->size;
  transfer->at += piece.bytes;
  size_t header_bytes = wire_encode_piece_header(header, &piece);
  rpc_stream_reply(transfer->stream, header, header_bytes, transfer->file + at, piece.bytes);
}

static void got(struct access_request *request) {
  struct transfer *transfer = (struct transfer *)request;
  if (request->status == STATUS_OK) {
    transfer->file =
        named_pack(&transfer->home->named, &transfer->size, request->values, request->version);
    log_info("parameters of update %lld are sent to %s", (long long)request->version,
             transfer->peer);
    send_piece(transfer);
  } else {
    answer_error(transfer);
  }
  release(transfer);
}

static void get_message(void *context, struct rpc_stream *stream, const struct wire_span *spans,
                        int num_spans) {
  struct transfer *transfer = rpc_stream_user(stream);
  (void)spans, (void)num_spans;
  if (transfer && transfer->at == transfer->size)
    rpc_stream_finish(stream, RPC_OK, "", NULL, 0);
  else if (transfer)
    send_piece(transfer);
  else if ((transfer = begin(context, stream, false)))
    ask(transfer, got);
}

/* ---- SetParameters */

static void set(struct access_request *request) {
  struct transfer *transfer = (struct transfer *)request;
  if (request->status == STATUS_OK) {
    const struct named *named = &transfer->home->named;
    int count = 0;
    for (int i = 0; i < named->count; i++) count += transfer->given[i];
    log_info("%s has set %d of %d parameter arrays at update %lld", transfer->peer, count,
             named->count, (long long)request->version);
    uint8_t header[WIRE_PIECE_HEADER_BYTES];
    struct wire_piece piece = {.version = (uint64_t)request->version};
    rpc_stream_reply(transfer->stream, header, wire_encode_piece_header(header, &piece), "", 0);
  } else {
    answer_error(transfer);
  }
  release(transfer);
}

/* Of the first piece, whose data comes behind. */
static enum status begin_file(struct transfer *transfer, const struct wire_piece *piece,
                              struct error *error) {
  size_t most = named_max_bytes(&transfer->home->named);
  if (piece->total_bytes == 0 || piece->total_bytes > most)
    return status_fail(error, STATUS_INVALID,
                       "a file of %llu bytes: the run's parameters need 1 to %zu (total_bytes of "
                       "the first piece)",
                       (unsigned long long)piece->total_bytes, most);
  if (piece->expects_version && piece->version > INT64_MAX)
    return status_fail(error, STATUS_INVALID,
                       "no run is at update %llu (version of the first piece)",
                       (unsigned long long)piece->version);
  if (piece->expects_version) transfer->request.expected_version = (int64_t)piece->version;
  transfer->size = (size_t)piece->total_bytes;
  transfer->file = check_alloc(transfer->size, 1);
  return STATUS_OK;
}

static enum status take_piece(struct transfer *transfer, const struct wire_span *spans,
                              int num_spans, struct error *error) {
  struct wire_piece piece;
  enum status status = STATUS_OK;
  if (!transfer->file) {
    status = wire_decode_piece(&piece, NULL, 0, spans, num_spans, error);
    if (status == STATUS_OK) status = begin_file(transfer, &piece, error);
  }
  if (status == STATUS_OK)
    status = wire_decode_piece(&piece, transfer->file + transfer->at, transfer->size - transfer->at,
                               spans, num_spans, error);
  if (status == STATUS_OK && piece.bytes == 0)
    status = status_fail(error, STATUS_INVALID, "a piece without data");
  if (status == STATUS_OK) transfer->at += piece.bytes;
  return status;
}

static void set_message(void *context, struct rpc_stream *stream, const struct wire_span *spans,
                        int num_spans) {
  struct transfer *transfer = rpc_stream_user(stream);
  if (!transfer && !(transfer = begin(context, stream, true))) return;
  struct access_request *request = &transfer->request;
  request->status = take_piece(transfer, spans, num_spans, &request->error);
  bool whole = transfer->at == transfer->size;
  if (request->status == STATUS_OK && !whole) {
    rpc_stream_reply(stream, "", 0, "", 0);
    return;
  }
  if (request->status == STATUS_OK)
    request->status = named_unpack(&transfer->home->named, request->values, transfer->given,
                                   transfer->file, transfer->size, &request->error);
  if (request->status == STATUS_OK) {
    ask(transfer, set);
    return;
  }
  log_warn("parameters of %s were refused: %s", transfer->peer, request->error.text);
  answer_error(transfer);
}

/* ---- */

/* Who reaches a port without a token may play; to read or replace what was learned is more. */
static void find_refusal(struct run_parameters *self, const struct run *run) {
  const struct credentials_options *access = &run->options->access;
  self->refusal_code = RPC_FAILED_PRECONDITION;
  if (!run->trains) {
    self->refusal = "nothing is trained here: this learner has no parameters to get or set";
  } else if (run->peers) {
    self->refusal = "parameters of several learners (--learners) are neither got nor set";
  } else if (!access->token_file[0] && !access->operator_token_file[0] &&
             !address_is_local(run->options->listen)) {
    self->refusal_code = RPC_UNAUTHENTICATED;
    self->refusal =
        "a learner that listens beyond its machine gives and takes parameters with a token only: "
        "start it with --operator_token_file or --token_file";
  }
}

struct run_parameters *run_parameters_create(const struct run *run) {
  struct run_parameters *self = check_alloc(1, sizeof(*self));
  self->trainer = run->trainer;
  find_refusal(self, run);
  if (!self->refusal) {
    struct checkpoint_item items[CHECKPOINT_MAX_ITEMS];
    named_init(&self->named, items, trainer_items(run->trainer, items));
  }
  self->method[0] = (struct rpc_method){
      "/acorn.Acorn/GetParameters", self, NULL, get_message, on_close, true, true};
  self->method[1] = (struct rpc_method){
      "/acorn.Acorn/SetParameters", self, NULL, set_message, on_close, true, true};
  return self;
}

void run_parameters_destroy(struct run_parameters *self) {
  free(self);
}

const struct rpc_method *run_parameters_methods(const struct run_parameters *self) {
  return self->method;
}
