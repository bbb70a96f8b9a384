#include "deploy/serve/request_json.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/check.h"
#include "common/base/json_file.h"

/* ---- numbers */

static const char *kind_of(const json_t *value) {
  static const char *const names[] = {"an object", "an array", "text",  "a number",
                                      "a number",  "true",     "false", "null"};
  return value ? names[json_typeof(value)] : "nothing";
}

static enum status put_number(const struct tensor *tensor, uint8_t *to, const json_t *value,
                              struct error *error) {
  static const double low[TENSOR_TYPES] = {0, INT32_MIN, -9007199254740992.0, 0};
  static const double high[TENSOR_TYPES] = {UINT8_MAX, INT32_MAX, 9007199254740992.0, 0};
  if (!json_is_number(value))
    return status_fail(error, STATUS_INVALID, "input '%s': %s stands where a number is expected",
                       tensor->name, kind_of(value));
  double number = json_number_value(value);
  float real = (float)number;
  if (tensor->type == TENSOR_FLOAT32) {
    memcpy(to, &real, sizeof(real)); /* request_check refuses one that is too large */
    return STATUS_OK;
  }
  if (number < low[tensor->type] || number > high[tensor->type] || number != floor(number))
    return status_fail(error, STATUS_INVALID, "input '%s': %g is no %s", tensor->name, number,
                       tensor_type_name(tensor->type));
  int64_t integer = (int64_t)number;
  memcpy(to, &integer, tensor_type_bytes(tensor->type)); /* little-endian */
  return STATUS_OK;
}

static int base64_digit(char c) {
  static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  const char *at = c ? strchr(digits, c) : NULL;
  return at ? (int)(at - digits) : -1;
}

/* The bytes of a row: {"b64": "..."}. */
static enum status put_base64(const struct tensor *tensor, uint8_t *to, const char *text,
                              struct error *error) {
  size_t length = strlen(text), padding = 0, at = 0;
  while (padding < 2 && padding < length && text[length - 1 - padding] == '=') padding++;
  size_t bytes = length / 4 * 3 - (length >= 4 ? padding : 0);
  if (length % 4 == 0 && bytes != tensor->bytes)
    return status_fail(error, STATUS_INVALID, "input '%s': b64 of %zu bytes, a row has %zu",
                       tensor->name, bytes, tensor->bytes);
  unsigned group = 0;
  for (size_t i = 0; i < length; i++) {
    int digit = i >= length - padding ? 0 : base64_digit(text[i]);
    if (digit < 0 || length % 4 != 0)
      return status_fail(error, STATUS_INVALID, "input '%s': the text of b64 is no base64",
                         tensor->name);
    group = group << 6 | (unsigned)digit;
    for (int k = 16; i % 4 == 3 && k >= 0; k -= 8)
      if (at < bytes) to[at++] = (uint8_t)(group >> k);
  }
  return STATUS_OK;
}

/* A value of the tensor's shape from dimension `dim` on; *to moves on. */
static enum status put_nested(const struct tensor *tensor, uint8_t **to, const json_t *value,
                              int dim, struct error *error) {
  const char *base64 = dim == 0 ? json_string_value(json_object_get(value, "b64")) : NULL;
  if (base64) return put_base64(tensor, *to, base64, error);
  if (dim == tensor->rank) {
    enum status status = put_number(tensor, *to, value, error);
    *to += tensor_type_bytes(tensor->type);
    return status;
  }
  if (!json_is_array(value))
    return status_fail(error, STATUS_INVALID,
                       "input '%s': %s stands where an array of %d is expected (dimension %d of a "
                       "row); each row is an array in the array of rows",
                       tensor->name, kind_of(value), tensor->shape[dim], dim);
  if (json_array_size(value) != (size_t)tensor->shape[dim])
    return status_fail(error, STATUS_INVALID,
                       "input '%s': %s of %zu stands where an array of %d is expected "
                       "(dimension %d of a row)",
                       tensor->name, kind_of(value), json_array_size(value), tensor->shape[dim],
                       dim);
  enum status status = STATUS_OK;
  for (size_t i = 0; status == STATUS_OK && i < json_array_size(value); i++)
    status = put_nested(tensor, to, json_array_get(value, i), dim + 1, error);
  return status;
}

/* A value for each row. */
static enum status put_rows(struct request *request, const struct tensor *tensor,
                            const json_t *values, struct error *error) {
  if (!json_is_array(values))
    return status_fail(error, STATUS_INVALID, "input '%s': %s stands where an array is expected",
                       tensor->name, kind_of(values));
  enum status status = request_set_rows(request, (int64_t)json_array_size(values), tensor, error);
  for (int row = 0; status == STATUS_OK && row < request->rows; row++) {
    uint8_t *to = request_row(request, tensor, row);
    status = put_nested(tensor, &to, json_array_get(values, (size_t)row), 0, error);
  }
  return status;
}

/* All numbers of all rows, one after the other. */
static enum status put_flat(struct request *request, const struct tensor *tensor,
                            const json_t *values, struct error *error) {
  size_t count = json_array_size(values), size = tensor_type_bytes(tensor->type);
  if (count != (size_t)request->rows * tensor->count)
    return status_fail(error, STATUS_INVALID, "input '%s': %zu numbers, its shape has %zu",
                       tensor->name, count, (size_t)request->rows * tensor->count);
  enum status status = STATUS_OK;
  for (size_t i = 0; status == STATUS_OK && i < count; i++)
    status = put_number(
        tensor, request_row(request, tensor, (int)(i / tensor->count)) + i % tensor->count * size,
        json_array_get(values, i), error);
  return status;
}

/* ---- parameters */

static enum status copy_id(char to[REQUEST_ID_BYTES], const json_t *value, const char *what,
                           struct error *error) {
  const char *text = json_string_value(value);
  int length = -1;
  if (json_is_integer(value))
    length = snprintf(to, REQUEST_ID_BYTES, "%lld", (long long)json_integer_value(value));
  else if (text)
    length = snprintf(to, REQUEST_ID_BYTES, "%s", text);
  if (length >= 0 && length < REQUEST_ID_BYTES) return STATUS_OK;
  return status_fail(error, STATUS_INVALID,
                     "%s is %s: give an integer, or text of at most %d characters", what,
                     kind_of(value), REQUEST_ID_BYTES - 1);
}

/* Triton's, by their names: sequence_id 0 is none. */
static enum status read_parameters(struct request *request, const json_t *body,
                                   struct error *error) {
  const json_t *parameters = json_object_get(body, "parameters");
  const json_t *id = json_object_get(parameters, "sequence_id");
  enum status status = STATUS_OK;
  if (parameters && !json_is_object(parameters))
    return status_fail(error, STATUS_INVALID, "parameters is %s: give an object",
                       kind_of(parameters));
  if (id) status = copy_id(request->sequence, id, "sequence_id", error);
  if (strcmp(request->sequence, "0") == 0) request->sequence[0] = '\0';
  const char *const names[] = {"sequence_start", "sequence_end"};
  bool *const flags[] = {&request->start, &request->end};
  for (int i = 0; status == STATUS_OK && i < 2; i++) {
    const json_t *value = json_object_get(parameters, names[i]);
    if (value && !json_is_boolean(value))
      status = status_fail(error, STATUS_INVALID, "%s is %s: give true or false", names[i],
                           kind_of(value));
    *flags[i] = json_is_true(value);
  }
  return status;
}

/* Owner: the caller; NULL after an error. */
static enum status parse(json_t **out, const char *body, size_t bytes, struct error *error) {
  json_error_t reason;
  json_t *json = *out = json_loadb(body, bytes, JSON_REJECT_DUPLICATES, &reason);
  if (!json)
    return status_fail(error, STATUS_INVALID, "the body is no JSON: line %d, column %d: %s",
                       reason.line, reason.column, reason.text);
  if (json_is_object(json)) return STATUS_OK;
  enum status status =
      status_fail(error, STATUS_INVALID, "the body is %s: give a JSON object", kind_of(json));
  json_decref(json);
  *out = NULL;
  return status;
}

/* ---- the Open Inference Protocol */

static enum status read_shape(struct request *request, const struct tensor *tensor,
                              const json_t *input, struct error *error) {
  int64_t shape[SPACE_MAX_RANK + 2] = {0};
  const json_t *given = json_object_get(input, "shape");
  size_t rank = json_array_size(given);
  for (size_t d = 0; d < rank && d < SPACE_MAX_RANK + 2; d++)
    shape[d] = json_integer_value(json_array_get(given, d));
  return request_set_shape(request, tensor, shape, rank, error);
}

/* *binary: what is left of the binary data. */
static enum status read_input(struct request *request, const json_t *input, const char **binary,
                              size_t *left, struct error *error) {
  const struct tensor *tensor;
  const char *name = json_string_value(json_object_get(input, "name"));
  const json_t *data = json_object_get(input, "data");
  const json_t *size = json_object_get(json_object_get(input, "parameters"), "binary_data_size");
  if (!name) return status_fail(error, STATUS_INVALID, "an input has no name");
  enum status status = request_find_input(&tensor, request, name, error);
  if (status == STATUS_OK)
    status =
        request_check_type(tensor, json_string_value(json_object_get(input, "datatype")), error);
  if (status == STATUS_OK) status = read_shape(request, tensor, input, error);
  if (status != STATUS_OK) return status;
  if (size) {
    json_int_t bytes = json_integer_value(size);
    if (bytes < 0 || (size_t)bytes > *left)
      return status_fail(error, STATUS_INVALID,
                         "input '%s': binary_data_size is %lld, %zu bytes are left", name,
                         (long long)bytes, *left);
    status = request_fill(request, tensor, *binary, (size_t)bytes, error);
    *binary += bytes;
    *left -= (size_t)bytes;
    return status;
  }
  bool is_flat = json_is_array(data) && !json_is_array(json_array_get(data, 0));
  return is_flat ? put_flat(request, tensor, data, error) : put_rows(request, tensor, data, error);
}

static enum status read_infer(struct request *request, const json_t *body, const char *binary,
                              size_t left, struct error *error) {
  const json_t *id = json_object_get(body, "id"), *inputs = json_object_get(body, "inputs");
  const json_t *outputs = json_object_get(body, "outputs");
  enum status status = id ? copy_id(request->id, id, "id", error) : STATUS_OK;
  if (status == STATUS_OK) status = read_parameters(request, body, error);
  for (size_t i = 0; status == STATUS_OK && i < json_array_size(inputs); i++)
    status = read_input(request, json_array_get(inputs, i), &binary, &left, error);
  for (size_t i = 0; status == STATUS_OK && i < json_array_size(outputs); i++) {
    const char *name = json_string_value(json_object_get(json_array_get(outputs, i), "name"));
    status = request_choose_output(request, name ? name : "", error);
  }
  return status == STATUS_OK ? request_check(request, error) : status;
}

enum status request_read_infer(struct request *request, const char *body, size_t header,
                               size_t bytes, struct error *error) {
  CHECK(header <= bytes, "%zu of %zu bytes", header, bytes);
  json_t *json;
  enum status status = parse(&json, body, header, error);
  if (status == STATUS_OK) status = read_infer(request, json, body + header, bytes - header, error);
  json_decref(json);
  return status;
}

/* ---- TensorFlow Serving's predict */

/* Every input of an object; the values that were bare are those of the only input. */
static enum status read_columns(struct request *request, const json_t *inputs,
                                struct error *error) {
  const struct tensor *tensor;
  const char *name;
  json_t *values;
  enum status status = STATUS_OK;
  if (!json_is_object(inputs)) {
    int only = request->signature->mask == 0; /* which may be left out */
    status = request_find_input(&tensor, request, request->signature->input[only].name, error);
    return status == STATUS_OK ? put_rows(request, tensor, inputs, error) : status;
  }
  json_object_foreach((json_t *)inputs, name, values) {
    status = request_find_input(&tensor, request, name, error);
    if (status == STATUS_OK) status = put_rows(request, tensor, values, error);
    if (status != STATUS_OK) return status;
  }
  return status;
}

static bool is_named(const json_t *instance) {
  return json_is_object(instance) && !json_object_get(instance, "b64");
}

/* Instances as columns: [{"a": 1}, {"a": 2}] is {"a": [1, 2]}. Each has the names of the first. */
static enum status read_instances(struct request *request, json_t *instances, struct error *error) {
  if (!is_named(json_array_get(instances, 0))) return read_columns(request, instances, error);
  json_t *columns = json_object(), *instance, *value;
  const char *name;
  size_t i;
  enum status status = STATUS_OK;
  json_array_foreach(instances, i, instance) {
    json_object_foreach(instance, name, value) {
      json_t *column = json_object_get(columns, name);
      if (!column && i == 0) json_object_set_new(columns, name, column = json_array());
      if (column) json_array_append(column, value);
    }
    if (!is_named(instance) ||
        json_object_size(instance) != json_object_size(json_array_get(instances, 0)))
      status =
          status_fail(error, STATUS_INVALID, "instance %zu has other inputs than instance 0", i);
    if (status != STATUS_OK) break;
  }
  if (status == STATUS_OK) status = read_columns(request, columns, error);
  json_decref(columns);
  return status;
}

static enum status read_predict(struct request *request, enum json_form *form, const json_t *body,
                                struct error *error) {
  json_t *instances = json_object_get(body, "instances"), *inputs = json_object_get(body, "inputs");
  const json_t *signature = json_object_get(body, "signature_name");
  const char *name = json_string_value(signature);
  if (!instances == !inputs || (instances && !json_is_array(instances)))
    return status_fail(error, STATUS_INVALID,
                       "give either instances, an array with the rows, or inputs, an object with "
                       "the columns");
  if (signature && (!name || strcmp(name, "serving_default") != 0))
    return status_fail(error, STATUS_INVALID,
                       "signature_name: the model has one signature, serving_default");
  *form = instances ? JSON_PREDICT_ROWS : JSON_PREDICT_COLUMNS;
  enum status status = read_parameters(request, body, error);
  if (status == STATUS_OK)
    status = instances ? read_instances(request, instances, error)
                       : read_columns(request, inputs, error);
  return status == STATUS_OK ? request_check(request, error) : status;
}

enum status request_read_predict(struct request *request, enum json_form *form, const char *body,
                                 size_t bytes, struct error *error) {
  json_t *json;
  enum status status = parse(&json, body, bytes, error);
  if (status == STATUS_OK) status = read_predict(request, form, json, error);
  json_decref(json);
  return status;
}

/* ---- responses */

static json_t *number_of(const struct tensor *tensor, const uint8_t *from) {
  int64_t integer;
  float real;
  if (tensor->type == TENSOR_INT64) {
    memcpy(&integer, from, sizeof(integer));
    return json_integer(integer);
  }
  memcpy(&real, from, sizeof(real));
  return json_number(real);
}

static void add_numbers(json_t *list, const struct request *request, const struct tensor *tensor,
                        int row) {
  const uint8_t *from = request_output(request, tensor, row);
  for (size_t i = 0; i < tensor->count; i++)
    json_array_append_new(list, number_of(tensor, from + i * tensor_type_bytes(tensor->type)));
}

/* A number, or an array of them. */
static json_t *value_of(const struct request *request, const struct tensor *tensor, int row) {
  if (tensor->rank == 0) return number_of(tensor, request_output(request, tensor, row));
  json_t *list = json_array();
  add_numbers(list, request, tensor, row);
  return list;
}

static json_t *infer_response(const struct request *request, const char *model, int64_t version) {
  char number[24];
  json_t *outputs = json_array();
  for (int k = 0; k < request->signature->num_outputs; k++) {
    const struct tensor *tensor = &request->signature->output[k];
    if (!request_wants(request, k)) continue;
    json_t *shape = json_pack("[i]", request->rows), *data = json_array();
    for (int d = 0; d < tensor->rank; d++)
      json_array_append_new(shape, json_integer(tensor->shape[d]));
    for (int row = 0; row < request->rows; row++) add_numbers(data, request, tensor, row);
    json_array_append_new(outputs,
                          json_pack("{s:s,s:s,s:o,s:o}", "name", tensor->name, "datatype",
                                    tensor_type_name(tensor->type), "shape", shape, "data", data));
  }
  snprintf(number, sizeof(number), "%lld", (long long)version);
  return json_pack("{s:s,s:s,s:s*,s:o}", "model_name", model, "model_version", number, "id",
                   request->id[0] ? request->id : NULL, "outputs", outputs);
}

static json_t *rows_response(const struct request *request) {
  json_t *rows = json_array();
  for (int row = 0; row < request->rows; row++) {
    json_t *object = json_object();
    for (int k = 0; k < request->signature->num_outputs; k++) {
      const struct tensor *tensor = &request->signature->output[k];
      json_object_set_new(object, tensor->name, value_of(request, tensor, row));
    }
    json_array_append_new(rows, object);
  }
  return json_pack("{s:o}", "predictions", rows);
}

static json_t *columns_response(const struct request *request) {
  json_t *columns = json_object();
  for (int k = 0; k < request->signature->num_outputs; k++) {
    const struct tensor *tensor = &request->signature->output[k];
    json_t *column = json_array();
    for (int row = 0; row < request->rows; row++)
      json_array_append_new(column, value_of(request, tensor, row));
    json_object_set_new(columns, tensor->name, column);
  }
  return json_pack("{s:o}", "outputs", columns);
}

json_t *request_write(const struct request *request, enum json_form form, const char *model,
                      int64_t version) {
  return form == JSON_INFER          ? infer_response(request, model, version)
         : form == JSON_PREDICT_ROWS ? rows_response(request)
                                     : columns_response(request);
}
