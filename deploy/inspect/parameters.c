/* Gets and sets the parameters of a running learner, as a safetensors file. What
 * scripts/parameters.sh starts. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/check.h"
#include "common/base/option_rows.h"
#include "common/base/process.h"
#include "common/base/safetensors.h"
#include "common/rpc/client.h"
#include "deploy/inspect/learner_place.h"

enum { EXIT_FAILED = 1, EXIT_USAGE = 2, NUM_WORDS = 3 };
static const uint64_t max_file_bytes = (uint64_t)4 << 30;

struct settings {
  struct options_given given;
  int64_t expected_version;
  double timeout_s;
  struct credentials_options access;
};

#define AT(member) offsetof(struct settings, member)
static const struct option rows[] = {
    INT("expected_version", expected_version, "-1", -1, INT64_MAX, NULL,
        "set: refused unless the run has made so many updates; -1: however many"),
    FLOAT("timeout_s", timeout_s, "5", 0.1, 3600, NULL, "seconds to wait for a connection"),
    CREDENTIALS_CLIENT_ROWS(access, NULL),
};

static const struct option_exit exits[] = {
    {"0", "done"},
    {"1", "no learner answers, it refuses the call, or the file cannot be read or written"},
    {"2", "wrong options, or a file that does not fit the run"},
    {NULL, NULL},
};

static const struct option_table table = {
    .program = "parameters",
    .words = "get|set ADDRESS FILE",
    .about =
        "What scripts/parameters.sh starts: writes the parameters of a running learner to a "
        "safetensors file, or sets those that are in one, all or some, between two updates. "
        "ADDRESS is HOST:PORT, unix:PATH or a run folder of this machine, of which the files below "
        "need not be given.",
    .exits = exits,
    .options = rows,
    .count = sizeof(rows) / sizeof(rows[0]),
};

struct app {
  struct settings settings;
  struct learner_place place;
  struct credentials *credentials;
  struct rpc_channel *channel;

  /* of the call */
  uint8_t *file; /* what has come */
  size_t size, at;
  int64_t version;
  enum status status;
  struct error error;
};

static int timeout_ms(const struct app *app) {
  return (int)(app->settings.timeout_s * 1000);
}

static int count_arrays(const struct safetensors *file) {
  return (int)json_object_size(file->header) -
         (json_object_get(file->header, SAFETENSORS_METADATA) != NULL);
}

/* ---- the call */

/* An answer: a piece of the file, or none. */
static void receive(void *context, const struct wire_span *spans, int num_spans) {
  struct app *app = context;
  struct wire_piece piece;
  app->status = wire_decode_piece(&piece, NULL, 0, spans, num_spans, &app->error);
  if (app->status != STATUS_OK) return;
  app->version = (int64_t)piece.version;
  if (!app->file && piece.bytes && piece.total_bytes && piece.total_bytes <= max_file_bytes) {
    app->size = (size_t)piece.total_bytes;
    app->file = check_alloc(app->size, 1);
  }
  if (!app->file) return;
  app->status = wire_decode_piece(&piece, app->file + app->at, app->size - app->at, spans,
                                  num_spans, &app->error);
  app->at += app->status == STATUS_OK ? piece.bytes : 0;
}

static enum status exchange(struct app *app, struct rpc_call *call, const struct wire_piece *piece,
                            const uint8_t *data, struct error *error) {
  uint8_t header[WIRE_PIECE_HEADER_BYTES];
  bool ended;
  size_t header_bytes = wire_encode_piece_header(header, piece);
  struct rpc_result result =
      rpc_exchange(call, header, header_bytes, data, piece->bytes, receive, app, &ended);
  if (ended && result.code == RPC_OK)
    return status_fail(error, STATUS_UNAVAILABLE, "%.400s has ended the call early",
                       app->place.address);
  if (ended) return learner_place_explain(&app->place, &result, timeout_ms(app), error);
  if (app->status != STATUS_OK)
    return status_fail(error, app->status, "%.400s: %.300s", app->place.address, app->error.text);
  return STATUS_OK;
}

/* ---- get */

static enum status get_file(struct app *app, struct rpc_call *call, struct error *error) {
  const struct wire_piece none = {0};
  enum status status = STATUS_OK;
  do {
    size_t before = app->at;
    status = exchange(app, call, &none, (const uint8_t *)"", error);
    if (status == STATUS_OK && app->at == before)
      status = status_fail(error, STATUS_MISMATCH, "%.400s sends no file: is it a learner?",
                           app->place.address);
  } while (status == STATUS_OK && app->at < app->size);
  return status;
}

static enum status get(struct app *app, struct rpc_call *call, const char *path,
                       struct error *error) {
  struct safetensors file = {0};
  enum status status = get_file(app, call, error);
  if (status == STATUS_OK)
    status = safetensors_parse(&file, app->file, app->size, SAFETENSORS_MAX_HEADER_BYTES, error);
  if (status == STATUS_OK) status = safetensors_write_bytes(path, app->file, app->size, error);
  if (status == STATUS_OK)
    printf("got: %s, %d arrays of update %lld\n", path, count_arrays(&file),
           (long long)app->version);
  safetensors_close(&file);
  return status;
}

/* ---- set */

static enum status set_file(struct app *app, struct rpc_call *call, const uint8_t *bytes,
                            size_t size, struct error *error) {
  int64_t expected = app->settings.expected_version;
  struct wire_piece piece = {.total_bytes = size,
                             .version = expected >= 0 ? (uint64_t)expected : 0,
                             .expects_version = expected >= 0};
  enum status status = STATUS_OK;
  for (size_t at = 0; status == STATUS_OK && at < size; at += piece.bytes) {
    if (at > 0) piece = (struct wire_piece){0};
    piece.bytes = size - at < WIRE_PIECE_BYTES ? size - at : WIRE_PIECE_BYTES;
    status = exchange(app, call, &piece, bytes + at, error);
  }
  return status;
}

static enum status set(struct app *app, struct rpc_call *call, const char *path,
                       struct error *error) {
  struct safetensors file;
  enum status status = safetensors_open(&file, path, error);
  size_t header_bytes = status == STATUS_OK ? (size_t)(file.data - file.file) : 0;
  if (status == STATUS_OK)
    status = set_file(app, call, file.file, header_bytes + file.bytes, error);
  if (status == STATUS_OK)
    printf("set: %s, %d arrays at update %lld\n", path, count_arrays(&file),
           (long long)app->version);
  safetensors_close(&file);
  return status;
}

/* ---- */

static enum status start(struct app *app, int argc, char **argv, struct error *error) {
  int num_words = 0;
  options_init(&table, &app->settings);
  enum status status = options_parse(&table, &app->settings, argc, argv, argv, &num_words, error);
  if (status != STATUS_OK) return status;
  if (num_words != NUM_WORDS || (strcmp(argv[0], "get") != 0 && strcmp(argv[0], "set") != 0))
    return status_fail(error, STATUS_INVALID,
                       "expected three words: get or set, the learner's ADDRESS or run folder, the "
                       "file");
  status = learner_place_find(&app->place, argv[1], "runs", error);
  if (app->place.operator_token_file[0])
    memcpy(app->place.token_file, app->place.operator_token_file, PATH_MAX);
  if (status == STATUS_OK)
    status =
        learner_place_credentials(&app->credentials, &app->place, &app->settings.access, error);
  return status;
}

static enum status call_learner(struct app *app, char **words, struct error *error) {
  bool gets = strcmp(words[0], "get") == 0;
  app->channel = rpc_channel_create(app->place.address, 2 * WIRE_PIECE_BYTES, app->credentials);
  struct rpc_call *call = rpc_call_open(
      app->channel, gets ? "/acorn.Acorn/GetParameters" : "/acorn.Acorn/SetParameters");
  enum status status = (gets ? get : set)(app, call, words[2], error);
  rpc_call_close(call);
  rpc_channel_destroy(app->channel);
  return status == STATUS_OK ? process_flush(error) : status;
}

int main(int argc, char **argv) {
  static struct app app;
  struct error error = {""};
  process_init();
  enum status status = start(&app, argc, argv, &error);
  if (status == STATUS_DONE) return 0;
  if (status == STATUS_OK && !credentials_have_tls(app.credentials))
    status = learner_place_listens(&app.place, timeout_ms(&app), &error);
  if (status == STATUS_OK) status = call_learner(&app, argv, &error);
  credentials_close(app.credentials);
  free(app.file);
  options_deinit(&table, &app.settings);
  if (status == STATUS_OK) return 0;
  fprintf(stderr, "parameters: %s\n", error.text);
  return status == STATUS_INVALID ? EXIT_USAGE : EXIT_FAILED;
}
