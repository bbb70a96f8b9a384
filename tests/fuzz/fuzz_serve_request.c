// Requests to a served policy: any bytes are a request that fits the model, or an error with a
// sentence. The first byte chooses the form, and what the model is like.
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/check.h"
#include "deploy/serve/request_json.h"
#include "deploy/serve/request_proto.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MAX_ROWS = 8, REMEMBERS = 4, MASKED = 8 };

static void make_signature(struct signature *signature, uint8_t kind) {
  const int state[] = {2, 2}, one[] = {3};
  memset(signature, 0, sizeof(*signature));
  struct tensor *input = signature->input, *output = signature->output;
  size_t *in = &signature->input_bytes, *out = &signature->output_bytes;
  signature_add(&input[signature->num_inputs++], in, "state", TENSOR_FLOAT32, 2, state);
  signature->mask = -1;
  if (kind & MASKED) {
    signature_add(&input[signature->num_inputs++], in, "counts", TENSOR_INT32, 0, NULL);
    signature->mask = signature->num_inputs;
    signature_add(&input[signature->num_inputs++], in, "action_mask", TENSOR_UINT8, 1, one);
  }
  signature->remembers = kind & REMEMBERS;
  signature_add(&output[signature->num_outputs++], out, "action", TENSOR_INT64, 0, NULL);
  signature_add(&output[signature->num_outputs++], out, "logits", TENSOR_FLOAT32, 1, one);
  *in = (*in + 7) / 8 * 8;
  *out = (*out + 7) / 8 * 8;
}

static enum status read_proto(struct request *request, const uint8_t *data, size_t size,
                              struct error *error) {
  Inference__ModelInferRequest *message = inference__model_infer_request__unpack(NULL, size, data);
  if (!message) return status_fail(error, STATUS_INVALID, "no message");
  enum status status = request_read_proto(request, message, error);
  inference__model_infer_request__free_unpacked(message, NULL);
  return status;
}

/* What a version relies on. */
static void check_request(const struct request *request, enum json_form form, bool is_proto) {
  const struct signature *signature = request->signature;
  CHECK(request->rows >= 1 && request->rows <= MAX_ROWS, "%d rows", request->rows);
  CHECK(!signature->remembers || (request->sequence[0] && request->rows == 1), "no sequence");
  for (int row = 0; row < request->rows; row++) {
    const float *state = (const float *)request_row(request, &signature->input[0], row);
    for (int i = 0; i < 4; i++) CHECK(isfinite(state[i]), "not finite");
  }
  if (is_proto) {
    size_t bytes;
    free(request_write_proto(request, "m", 1, &bytes));
    CHECK(bytes > 0, "no response");
  } else {
    json_t *json = request_write(request, form, "m", 1);
    CHECK(json_object_size(json) > 0, "no response");
    json_decref(json);
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  enum { INFER, PREDICT, PROTO, BINARY };
  if (size < 2) return 0;
  struct signature signature;
  struct request request;
  struct error error = {""};
  enum json_form form = JSON_INFER;
  uint8_t kind = data[0];
  size_t bytes = size - 2, header = kind % 4 == BINARY && data[1] < bytes ? data[1] : bytes;
  char *body = malloc(bytes + 1); /* of its size, so that the sanitizer sees a read past the end */
  memcpy(body, data + 2, bytes);
  make_signature(&signature, kind);
  request_init(&request, &signature, MAX_ROWS);
  enum status status = kind % 4 == PROTO ? read_proto(&request, (uint8_t *)body, bytes, &error)
                       : kind % 4 == PREDICT
                           ? request_read_predict(&request, &form, body, bytes, &error)
                           : request_read_infer(&request, body, header, bytes, &error);
  if (status == STATUS_OK)
    check_request(&request, form, kind % 4 == PROTO);
  else
    CHECK(error.text[0], "an error without a sentence");
  request_deinit(&request);
  free(body);
  return 0;
}
