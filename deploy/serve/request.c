#include "deploy/serve/request.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/check.h"

void request_init(struct request *request, const struct signature *signature, int max_rows) {
  *request =
      (struct request){.signature = signature, .max_rows = max_rows, .choice = "", .slot = -1};
}

void request_deinit(struct request *request) {
  free(request->input); /* and the output */
  request->input = request->output = NULL;
}

enum status request_set_rows(struct request *request, int64_t rows, const struct tensor *tensor,
                             struct error *error) {
  if (request->rows && request->rows != rows)
    return status_fail(error, STATUS_INVALID,
                       "input '%s' has %lld rows, an input before it %d: give as many of each",
                       tensor->name, (long long)rows, request->rows);
  if (rows < 1 || rows > request->max_rows)
    return status_fail(error, STATUS_INVALID,
                       "input '%s' has %lld rows: a request has 1 to %d (--max_batch_size)",
                       tensor->name, (long long)rows, request->max_rows);
  if (request->rows) return STATUS_OK;
  request->rows = (int)rows;
  size_t input_bytes = (size_t)rows * request->signature->input_bytes;
  request->input = check_alloc(input_bytes + (size_t)rows * request->signature->output_bytes, 1);
  request->output = request->input + input_bytes;
  return STATUS_OK;
}

/* "state, action_mask". */
static void list(char text[512], const struct tensor *tensors, int count) {
  text[0] = '\0';
  for (int i = 0, n = 0; i < count; i++)
    n += snprintf(text + n, 512 - (size_t)n, "%s%s", i ? ", " : "", tensors[i].name);
}

enum status request_find_input(const struct tensor **out, struct request *request, const char *name,
                               struct error *error) {
  const struct signature *signature = request->signature;
  for (int i = 0; i < signature->num_inputs; i++) {
    *out = &signature->input[i];
    if (strcmp(name, (*out)->name) != 0) continue;
    if (request->given & 1u << i)
      return status_fail(error, STATUS_INVALID, "input '%s' is given twice", name);
    request->given |= 1u << i;
    return STATUS_OK;
  }
  char names[512];
  list(names, signature->input, signature->num_inputs);
  return status_fail(error, STATUS_INVALID, "there is no input '%.64s': the model takes %s", name,
                     names);
}

enum status request_check_type(const struct tensor *tensor, const char *type, struct error *error) {
  if (type && strcmp(type, tensor_type_name(tensor->type)) == 0) return STATUS_OK;
  return status_fail(error, STATUS_INVALID, "input '%s' is %s, the request has %.32s", tensor->name,
                     tensor_type_name(tensor->type), type ? type : "no datatype");
}

enum status request_set_shape(struct request *request, const struct tensor *tensor,
                              const int64_t *shape, size_t rank, struct error *error) {
  char own[64] = "", theirs[128] = "";
  bool fits = rank == (size_t)tensor->rank + 1;
  for (int d = 0, n = 0; d < tensor->rank; d++) {
    fits = fits && shape[d + 1] == tensor->shape[d];
    n += snprintf(own + n, sizeof(own) - (size_t)n, ",%d", tensor->shape[d]);
  }
  if (fits) return request_set_rows(request, shape[0], tensor, error);
  for (size_t d = 0, n = 0; d < rank && d < SPACE_MAX_RANK + 2; d++)
    n += (size_t)snprintf(theirs + n, sizeof(theirs) - n, "%s%lld", d ? "," : "",
                          (long long)shape[d]);
  return status_fail(error, STATUS_INVALID, "input '%s' has the shape [rows%s], the request [%s]",
                     tensor->name, own, theirs);
}

enum status request_choose_output(struct request *request, const char *name, struct error *error) {
  const struct signature *signature = request->signature;
  for (int i = 0; i < signature->num_outputs; i++) {
    if (strcmp(name, signature->output[i].name) != 0) continue;
    request->chosen = request->wants[i] = true;
    return STATUS_OK;
  }
  char names[512];
  list(names, signature->output, signature->num_outputs);
  return status_fail(error, STATUS_INVALID, "there is no output '%.64s': the model gives %s", name,
                     names);
}

enum status request_fill(struct request *request, const struct tensor *tensor, const void *bytes,
                         size_t count, struct error *error) {
  if (count != (size_t)request->rows * tensor->bytes)
    return status_fail(error, STATUS_INVALID,
                       "input '%s' has %zu bytes: %d rows of %zu %s have %zu", tensor->name, count,
                       request->rows, tensor->count, tensor_type_name(tensor->type),
                       (size_t)request->rows * tensor->bytes);
  for (int row = 0; row < request->rows; row++)
    memcpy(request_row(request, tensor, row), (const char *)bytes + (size_t)row * tensor->bytes,
           tensor->bytes);
  return STATUS_OK;
}

/* ---- checked */

static enum status check_finite(const struct request *request, const struct tensor *tensor,
                                struct error *error) {
  if (tensor->type != TENSOR_FLOAT32) return STATUS_OK;
  for (int row = 0; row < request->rows; row++) {
    const float *x = (const float *)request_row(request, tensor, row);
    for (size_t i = 0; i < tensor->count; i++)
      if (!isfinite(x[i]))
        return status_fail(error, STATUS_INVALID,
                           "input '%s': number %zu of row %d is not finite (NaN or infinity)",
                           tensor->name, i, row);
  }
  return STATUS_OK;
}

static enum status check_sequence(const struct request *request, struct error *error) {
  if (!request->signature->remembers) return STATUS_OK;
  if (!request->sequence[0])
    return status_fail(error, STATUS_INVALID,
                       "the policy has a memory, so a request says which sequence it belongs to: "
                       "give the parameter sequence_id, and sequence_start with its first step");
  if (request->rows == 1) return STATUS_OK;
  return status_fail(error, STATUS_INVALID,
                     "%d rows for sequence %s: a request has one step of one sequence",
                     request->rows, request->sequence);
}

enum status request_check(struct request *request, struct error *error) {
  const struct signature *signature = request->signature;
  enum status status = STATUS_OK;
  for (int i = 0; status == STATUS_OK && i < signature->num_inputs; i++) {
    const struct tensor *tensor = &signature->input[i];
    if (request->given & 1u << i) {
      status = check_finite(request, tensor, error);
    } else if (i == signature->mask && request->rows) {
      for (int row = 0; row < request->rows; row++)
        memset(request_row(request, tensor, row), 1, tensor->bytes);
    } else {
      status = status_fail(error, STATUS_INVALID, "input '%s' is missing", tensor->name);
    }
  }
  return status == STATUS_OK ? check_sequence(request, error) : status;
}
