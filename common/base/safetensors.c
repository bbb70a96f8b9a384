#include "common/base/safetensors.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/check.h"
#include "common/base/files.h"

enum { LENGTH_BYTES = 8, ALIGNMENT = 8, SHAPE_BYTES = 64 };
static size_t bytes_of(const struct safetensor *tensor) {
  size_t bytes = sizeof(float);
  for (int i = 0; i < tensor->rank; i++) bytes *= (size_t)tensor->shape[i];
  return bytes;
}

/* ---- written */

/* Owner: the caller, with free(). */
static char *header_text(const struct safetensor *tensors, int count, json_t *metadata) {
  json_t *header = json_object();
  json_object_set(header, SAFETENSORS_METADATA, metadata);
  json_int_t at = 0;
  for (int i = 0; i < count; i++) {
    json_int_t end = at + (json_int_t)bytes_of(&tensors[i]);
    json_t *shape = json_array();
    for (int k = 0; k < tensors[i].rank; k++)
      json_array_append_new(shape, json_integer(tensors[i].shape[k]));
    json_object_set_new(
        header, tensors[i].name,
        json_pack("{s:s, s:o, s:[I,I]}", "dtype", "F32", "shape", shape, "data_offsets", at, end));
    at = end;
  }
  char *text = json_dumps(header, JSON_COMPACT);
  json_decref(header);
  CHECK(text, "no memory for a header");
  return text;
}

/* Blanks behind the header align the arrays. */
uint8_t *safetensors_pack(size_t *size, const struct safetensor *tensors, int count,
                          json_t *metadata) {
  char *header = header_text(tensors, count, metadata);
  size_t text = strlen(header), length = text + (ALIGNMENT - text % ALIGNMENT) % ALIGNMENT;
  *size = LENGTH_BYTES + length;
  for (int i = 0; i < count; i++) *size += bytes_of(&tensors[i]);
  uint8_t *bytes = check_alloc(*size, 1), *out = bytes + LENGTH_BYTES + length;
  for (int i = 0; i < LENGTH_BYTES; i++) bytes[i] = (uint8_t)(length >> 8 * i);
  memset(bytes + LENGTH_BYTES, ' ', length);
  memcpy(bytes + LENGTH_BYTES, header, text);
  for (int i = 0; i < count; out += bytes_of(&tensors[i++]))
    memcpy(out, tensors[i].data, bytes_of(&tensors[i]));
  free(header);
  return bytes;
}

enum status safetensors_write_bytes(const char *path, const uint8_t *bytes, size_t size,
                                    struct error *error) {
  FILE *file = files_begin(path);
  if (file) (void)fwrite(bytes, 1, size, file); /* an error stays with the file */
  return files_replace(file, path, error);
}

enum status safetensors_write(const char *path, const struct safetensor *tensors, int count,
                              json_t *metadata, struct error *error) {
  size_t size;
  uint8_t *bytes = safetensors_pack(&size, tensors, count, metadata);
  enum status status = safetensors_write_bytes(path, bytes, size, error);
  free(bytes);
  return status;
}

/* ---- read */

/* The parser's own sentence is left out: it quotes the header, which may be a stranger's. */
enum status safetensors_parse(struct safetensors *out, const uint8_t *bytes, size_t size,
                              size_t max_header, struct error *error) {
  uint64_t length = 0;
  json_error_t wrong = {0};
  if (size < LENGTH_BYTES)
    return status_fail(error, STATUS_INVALID, "it is no safetensors file: it has %zu bytes", size);
  for (int i = 0; i < LENGTH_BYTES; i++) length |= (uint64_t)bytes[i] << 8 * i;
  if (length > max_header || length > size - LENGTH_BYTES)
    return status_fail(
        error, STATUS_INVALID,
        "it is no safetensors file, or it is cut: its header would have %llu bytes, of "
        "%zu at most",
        (unsigned long long)length, max_header);
  out->header = json_loadb((const char *)bytes + LENGTH_BYTES, (size_t)length,
                           JSON_REJECT_DUPLICATES, &wrong);
  if (!json_is_object(out->header))
    return status_fail(
        error, STATUS_INVALID, "it is no safetensors file: its header is no JSON object%s",
        json_error_code(&wrong) == json_error_duplicate_key ? ": a name is in it twice" : "");
  out->data = bytes + LENGTH_BYTES + length;
  out->bytes = size - LENGTH_BYTES - (size_t)length;
  return STATUS_OK;
}

enum status safetensors_open(struct safetensors *out, const char *path, struct error *error) {
  const char *why;
  struct stat about;
  *out = (struct safetensors){0};
  FILE *stream = files_read(path, &why);
  if (!stream) return status_fail(error, STATUS_NOT_FOUND, "%.300s cannot be read: %s", path, why);
  bool read = fstat(fileno(stream), &about) == 0;
  if (read) {
    out->file = check_alloc((size_t)about.st_size + 1, 1);
    read = fread(out->file, 1, (size_t)about.st_size, stream) == (size_t)about.st_size;
  }
  fclose(stream);
  if (!read) return status_fail(error, STATUS_IO, "%.300s cannot be read to its end", path);
  struct error reason;
  enum status status = safetensors_parse(out, out->file, (size_t)about.st_size,
                                         SAFETENSORS_MAX_HEADER_BYTES, &reason);
  return status == STATUS_OK ? status : status_fail(error, status, "%.300s: %s", path, reason.text);
}

void safetensors_close(struct safetensors *file) {
  json_decref(file->header);
  free(file->file);
  *file = (struct safetensors){0};
}

const char *safetensors_text(const struct safetensors *file, const char *key) {
  return json_string_value(
      json_object_get(json_object_get(file->header, SAFETENSORS_METADATA), key));
}

static bool has_shape(const json_t *shape, const struct safetensor *tensor) {
  if (json_array_size(shape) != (size_t)tensor->rank) return false;
  for (int i = 0; i < tensor->rank; i++)
    if (json_integer_value(json_array_get(shape, (size_t)i)) != tensor->shape[i]) return false;
  return true;
}

/* "(4, 64)"; at most four numbers. */
static const char *shape_text(char text[SHAPE_BYTES], const struct safetensor *tensor) {
  int at = snprintf(text, SHAPE_BYTES, "(");
  for (int i = 0; i < tensor->rank; i++)
    at += snprintf(text + at, SHAPE_BYTES - (size_t)at, i ? ", %d" : "%d", tensor->shape[i]);
  snprintf(text + at, SHAPE_BYTES - (size_t)at, ")");
  return text;
}

enum status safetensors_take(const struct safetensors *file, float *out,
                             const struct safetensor *tensor, struct error *error) {
  char text[SHAPE_BYTES];
  const json_t *entry = json_object_get(file->header, tensor->name);
  const json_t *places = json_object_get(entry, "data_offsets");
  const char *dtype = json_string_value(json_object_get(entry, "dtype"));
  if (!dtype)
    return status_fail(error, STATUS_INVALID, "there is no array %.60s in it", tensor->name);
  if (strcmp(dtype, "F32") != 0 || !has_shape(json_object_get(entry, "shape"), tensor))
    return status_fail(error, STATUS_INVALID,
                       "array %.60s has another shape than the network, %s, or is not of F32",
                       tensor->name, shape_text(text, tensor));
  json_int_t begin = json_integer_value(json_array_get(places, 0));
  json_int_t end = json_integer_value(json_array_get(places, 1));
  if (begin < 0 || end < begin || (uint64_t)end > file->bytes ||
      (uint64_t)(end - begin) != bytes_of(tensor))
    return status_fail(error, STATUS_INVALID, "array %.60s does not lie within the file",
                       tensor->name);
  memcpy(out, file->data + begin, bytes_of(tensor));
  return STATUS_OK;
}
