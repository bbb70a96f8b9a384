#include "deploy/serve/request_proto.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/check.h"

typedef Inference__InferParameter parameter;
typedef Inference__ModelInferRequest__InferInputTensor input_tensor;

/* ---- parameters */

static enum status read_sequence(struct request *request, const parameter *value,
                                 struct error *error) {
  int length = -1;
  char *to = request->sequence;
  switch (value->parameter_choice_case) {
    case INFERENCE__INFER_PARAMETER__PARAMETER_CHOICE_INT64_PARAM:
      length = snprintf(to, REQUEST_ID_BYTES, "%lld", (long long)value->int64_param);
      break;
    case INFERENCE__INFER_PARAMETER__PARAMETER_CHOICE_UINT64_PARAM:
      length = snprintf(to, REQUEST_ID_BYTES, "%llu", (unsigned long long)value->uint64_param);
      break;
    case INFERENCE__INFER_PARAMETER__PARAMETER_CHOICE_STRING_PARAM:
      length = snprintf(to, REQUEST_ID_BYTES, "%s", value->string_param);
      break;
    default:
      break;
  }
  if (strcmp(to, "0") == 0) to[0] = '\0'; /* Triton's: none */
  if (length >= 0 && length < REQUEST_ID_BYTES) return STATUS_OK;
  return status_fail(error, STATUS_INVALID,
                     "sequence_id: give an integer, or text of at most %d characters",
                     REQUEST_ID_BYTES - 1);
}

static enum status read_flag(bool *flag, const char *name, const parameter *value,
                             struct error *error) {
  *flag = value->bool_param;
  if (value->parameter_choice_case == INFERENCE__INFER_PARAMETER__PARAMETER_CHOICE_BOOL_PARAM)
    return STATUS_OK;
  return status_fail(error, STATUS_INVALID, "%s: give a bool_param", name);
}

static enum status read_parameters(struct request *request,
                                   const Inference__ModelInferRequest *message,
                                   struct error *error) {
  enum status status = STATUS_OK;
  for (size_t i = 0; status == STATUS_OK && i < message->n_parameters; i++) {
    const char *name = message->parameters[i]->key;
    const parameter *value = message->parameters[i]->value;
    if (!value) continue;
    if (strcmp(name, "sequence_id") == 0)
      status = read_sequence(request, value, error);
    else if (strcmp(name, "sequence_start") == 0)
      status = read_flag(&request->start, name, value, error);
    else if (strcmp(name, "sequence_end") == 0)
      status = read_flag(&request->end, name, value, error);
  }
  return status;
}

/* ---- inputs */

static enum status put_bytes(struct request *request, const struct tensor *tensor,
                             const uint32_t *numbers, size_t count, struct error *error) {
  uint8_t *bytes = check_alloc(count + 1, 1);
  enum status status = STATUS_OK;
  for (size_t i = 0; status == STATUS_OK && i < count; i++) {
    bytes[i] = (uint8_t)numbers[i];
    if (numbers[i] > UINT8_MAX)
      status = status_fail(error, STATUS_INVALID, "input '%s': %u is no UINT8", tensor->name,
                           (unsigned)numbers[i]);
  }
  if (status == STATUS_OK) status = request_fill(request, tensor, bytes, count, error);
  free(bytes);
  return status;
}

static enum status put_contents(struct request *request, const struct tensor *tensor,
                                const Inference__InferTensorContents *from, struct error *error) {
  if (!from)
    return status_fail(error, STATUS_INVALID, "input '%s' has neither contents nor raw contents",
                       tensor->name);
  if (tensor->type == TENSOR_UINT8)
    return put_bytes(request, tensor, from->uint_contents, from->n_uint_contents, error);
  if (tensor->type == TENSOR_INT32)
    return request_fill(request, tensor, from->int_contents,
                        from->n_int_contents * sizeof(*from->int_contents), error);
  return request_fill(request, tensor, from->fp32_contents,
                      from->n_fp32_contents * sizeof(*from->fp32_contents), error);
}

/* raw: NULL: the numbers are in the message. */
static enum status read_input(struct request *request, const input_tensor *input,
                              const ProtobufCBinaryData *raw, struct error *error) {
  const struct tensor *tensor;
  enum status status = request_find_input(&tensor, request, input->name, error);
  if (status == STATUS_OK) status = request_check_type(tensor, input->datatype, error);
  if (status == STATUS_OK)
    status = request_set_shape(request, tensor, input->shape, input->n_shape, error);
  if (status != STATUS_OK) return status;
  return raw ? request_fill(request, tensor, raw->data, raw->len, error)
             : put_contents(request, tensor, input->contents, error);
}

enum status request_read_proto(struct request *request, const Inference__ModelInferRequest *message,
                               struct error *error) {
  size_t num_raw = message->n_raw_input_contents;
  enum status status = read_parameters(request, message, error);
  if (strlen(message->id) >= sizeof(request->id))
    return status_fail(error, STATUS_INVALID, "the id has %zu bytes: at most %d",
                       strlen(message->id), REQUEST_ID_BYTES - 1);
  strcpy(request->id, message->id);
  if (num_raw && num_raw != message->n_inputs)
    return status_fail(error, STATUS_INVALID,
                       "%zu raw_input_contents for %zu inputs: give one for each, or none", num_raw,
                       message->n_inputs);
  for (size_t i = 0; status == STATUS_OK && i < message->n_inputs; i++)
    status = read_input(request, message->inputs[i],
                        num_raw ? &message->raw_input_contents[i] : NULL, error);
  for (size_t i = 0; status == STATUS_OK && i < message->n_outputs; i++)
    status = request_choose_output(request, message->outputs[i]->name, error);
  return status == STATUS_OK ? request_check(request, error) : status;
}

/* ---- responses */

void *request_write_proto(const struct request *request, const char *model, int64_t version,
                          size_t *bytes) {
  typedef Inference__ModelInferResponse__InferOutputTensor output_tensor;
  const struct signature *signature = request->signature;
  Inference__ModelInferResponse response = INFERENCE__MODEL_INFER_RESPONSE__INIT;
  output_tensor output[SIGNATURE_MAX_OUTPUTS], *outputs[SIGNATURE_MAX_OUTPUTS];
  ProtobufCBinaryData raw[SIGNATURE_MAX_OUTPUTS];
  int64_t shape[SIGNATURE_MAX_OUTPUTS][SPACE_MAX_RANK + 1];
  char number[24];
  size_t count = 0, used = 0;
  bool one = request->rows == 1; /* then a row's numbers are the columns */
  uint8_t *columns = one ? NULL : check_alloc((size_t)request->rows, signature->output_bytes);
  for (int k = 0; k < signature->num_outputs; k++) {
    const struct tensor *tensor = &signature->output[k];
    if (!request_wants(request, k)) continue;
    raw[count] =
        (ProtobufCBinaryData){(size_t)request->rows * tensor->bytes,
                              one ? (uint8_t *)request_output(request, tensor, 0) : columns + used};
    for (int row = 0; row < request->rows && !one; row++, used += tensor->bytes)
      memcpy(columns + used, request_output(request, tensor, row), tensor->bytes);
    shape[count][0] = request->rows;
    for (int d = 0; d < tensor->rank; d++) shape[count][d + 1] = tensor->shape[d];
    output[count] = (output_tensor)INFERENCE__MODEL_INFER_RESPONSE__INFER_OUTPUT_TENSOR__INIT;
    output[count].name = (char *)tensor->name;
    output[count].datatype = (char *)tensor_type_name(tensor->type);
    output[count].shape = shape[count];
    output[count].n_shape = (size_t)tensor->rank + 1;
    outputs[count] = &output[count];
    count++;
  }
  snprintf(number, sizeof(number), "%lld", (long long)version);
  response.model_name = (char *)model;
  response.model_version = number;
  response.id = (char *)request->id;
  response.n_outputs = response.n_raw_output_contents = count;
  response.outputs = outputs;
  response.raw_output_contents = raw;
  *bytes = inference__model_infer_response__get_packed_size(&response);
  uint8_t *packed = check_alloc(*bytes + 1, 1);
  inference__model_infer_response__pack(&response, packed);
  free(columns);
  return packed;
}
