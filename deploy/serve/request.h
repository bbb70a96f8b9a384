/* One inference request: rows of a model's inputs, and the outputs for them. Every protocol fills
 * the same struct, and versions know no other.
 *
 * Upstream: request_json.h, request_proto.h, served.h. Thread: a connection's; from version_submit
 * to `done` the version's.
 * Invariant: rows reach a version only after request_check: all inputs are there and finite. */
#ifndef ACORN_DEPLOY_SERVE_REQUEST_H
#define ACORN_DEPLOY_SERVE_REQUEST_H

#include "deploy/serve/signature.h"

enum { REQUEST_ID_BYTES = 64 };

struct version;

struct request {
  const struct signature *signature; /* borrowed */
  int max_rows;
  int rows;
  uint8_t *input, *output;                   /* (rows, input_bytes), (rows, output_bytes); owned */
  unsigned given;                            /* bits: inputs that were filled */
  bool chosen, wants[SIGNATURE_MAX_OUTPUTS]; /* chosen: some outputs alone */
  char id[REQUEST_ID_BYTES];                 /* the client's name for it; "": none */
  char sequence[REQUEST_ID_BYTES];           /* "": none */
  bool start, end;                           /* of the sequence */

  const char *choice; /* of its version: a number, a label, ""; until version_submit has returned */

  /* the version's */
  int slot; /* of the sequence; -1: none */
  int64_t queued_us;
  struct request *next;
  /* Called once, on the thread that computed them, when the outputs are there. */
  void (*done)(struct request *request);
  void *context;
};

void request_init(struct request *request, const struct signature *signature, int max_rows);
void request_deinit(struct request *request);

/* Sets the number of rows, which all inputs share, with room for them. `tensor`: the input that
 * says so. Errors: INVALID: none, too many, or another number than an input before had. */
MUST_CHECK enum status request_set_rows(struct request *request, int64_t rows,
                                        const struct tensor *tensor, struct error *error);
/* The input of that name, which is not filled yet. Errors: INVALID: names those that there are. */
MUST_CHECK enum status request_find_input(const struct tensor **out, struct request *request,
                                          const char *name, struct error *error);
/* What a client says of the input: its type (NULL: nothing), its shape [rows, ...]; sets the rows.
 * Errors: INVALID. */
MUST_CHECK enum status request_check_type(const struct tensor *tensor, const char *type,
                                          struct error *error);
MUST_CHECK enum status request_set_shape(struct request *request, const struct tensor *tensor,
                                         const int64_t *shape, size_t rank, struct error *error);
/* The output of that name is wanted. Errors: INVALID. */
MUST_CHECK enum status request_choose_output(struct request *request, const char *name,
                                             struct error *error);
static inline bool request_wants(const struct request *request, int output) {
  return !request->chosen || request->wants[output];
}

/* Where a row of the input is. */
static inline uint8_t *request_row(const struct request *request, const struct tensor *tensor,
                                   int row) {
  return request->input + (size_t)row * request->signature->input_bytes + tensor->offset;
}
static inline const uint8_t *request_output(const struct request *request,
                                            const struct tensor *tensor, int row) {
  return request->output + (size_t)row * request->signature->output_bytes + tensor->offset;
}
/* All rows of an input, from bytes without gaps. Errors: INVALID: their number. */
MUST_CHECK enum status request_fill(struct request *request, const struct tensor *tensor,
                                    const void *bytes, size_t count, struct error *error);

/* Errors: INVALID: an input is missing or has a number that is not finite, or the sequence is
 * missing. */
MUST_CHECK enum status request_check(struct request *request, struct error *error);

#endif
