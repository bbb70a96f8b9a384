#include "envs/gymnasium/tensors.h"

#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* What numpy calls a dtype, and what the buffer protocol does. */
static const struct {
  const char *name;
  const char *formats; /* on this platform */
  size_t bytes;
} dtypes[] = {
    {"uint8", "B", 1},   {"bool", "?", 1},    {"int8", "b", 1},    {"int16", "h", 2},
    {"uint16", "H", 2},  {"int32", "i", 4},   {"uint32", "I", 4},  {"int64", "lq", 8},
    {"uint64", "LQ", 8}, {"float32", "f", 4}, {"float64", "d", 8},
};
enum { NUM_DTYPES = sizeof dtypes / sizeof *dtypes };

/* The name of a buffer's dtype, or "?". */
static const char *dtype_of(const Py_buffer *buffer) {
  const char *format = buffer->format ? buffer->format : "B";
  if (*format == '@' || *format == '=' || *format == '<') format++;
  for (int i = 0; i < NUM_DTYPES; i++) {
    if (format[0] && !format[1] && strchr(dtypes[i].formats, format[0]) &&
        (size_t)buffer->itemsize == dtypes[i].bytes)
      return dtypes[i].name;
  }
  return "?";
}

/* ---- descriptions */

int leaf_init(struct leaf *leaf, PyObject *description) {
  const char *name, *source;
  int dtype;
  PyObject *shape, *path;
  *leaf = (struct leaf){0};
  if (!PyArg_ParseTuple(description, "sisO!LLO!", &name, &dtype, &source, &PyTuple_Type, &shape,
                        &leaf->first, &leaf->count, &PyTuple_Type, &path))
    return -1;
  snprintf(leaf->name, sizeof leaf->name, "%s", name);
  snprintf(leaf->source, sizeof leaf->source, "%s", source);
  leaf->tensor.name = leaf->name;
  leaf->tensor.dtype = (enum acorn_dtype)dtype;
  leaf->tensor.rank = (int)PyTuple_GET_SIZE(shape);
  leaf->elements = 1;
  for (int d = 0; d < leaf->tensor.rank; d++) {
    long size = PyLong_AsLong(PyTuple_GET_ITEM(shape, d));
    leaf->tensor.shape[d] = size > INT_MAX ? INT_MAX : (int)size;
    leaf->elements *= (size_t)leaf->tensor.shape[d];
  }
  leaf->path = Py_NewRef(path);
  return PyErr_Occurred() ? -1 : 0;
}

void leaf_deinit(struct leaf *leaf) {
  Py_CLEAR(leaf->path);
}

/* ---- numbers */

static int signed_fits(int64_t x) {
  return x >= INT32_MIN && x <= INT32_MAX;
}

static int unsigned_fits(uint64_t x) {
  return x <= INT32_MAX;
}

#define CONVERT(type, fits)              \
  do {                                   \
    const type *x = from;                \
    for (size_t i = 0; i < count; i++) { \
      if (!fits(x[i])) return i;         \
      to[i] = (int32_t)x[i];             \
    }                                    \
  } while (0)

/* Returns the place of the first that does not fit, or count. */
static size_t to_int32(int32_t *to, const void *from, const char *source, size_t count) {
  if (strcmp(source, "bool") == 0) CONVERT(uint8_t, unsigned_fits);
  if (strcmp(source, "int8") == 0) CONVERT(int8_t, signed_fits);
  if (strcmp(source, "int16") == 0) CONVERT(int16_t, signed_fits);
  if (strcmp(source, "uint16") == 0) CONVERT(uint16_t, unsigned_fits);
  if (strcmp(source, "uint32") == 0) CONVERT(uint32_t, unsigned_fits);
  if (strcmp(source, "int64") == 0) CONVERT(int64_t, signed_fits);
  if (strcmp(source, "uint64") == 0) CONVERT(uint64_t, unsigned_fits);
  return count;
}

static int convert(const struct leaf *leaf, const void *from, void *out) {
  if (strcmp(leaf->source, "float64") == 0) {
    const double *x = from;
    for (size_t i = 0; i < leaf->elements; i++) ((float *)out)[i] = (float)x[i];
    return 0;
  }
  size_t bad = to_int32(out, from, leaf->source, leaf->elements);
  if (bad == leaf->elements) return 0;
  PyErr_Format(PyExc_ValueError, "the observation '%s' has a number at place %zu that no int32 is",
               leaf->name, bad);
  return -1;
}

static int needs_conversion(const struct leaf *leaf) {
  static const char *const same[] = {"", "uint8", "int32", "float32"};
  return strcmp(leaf->source, same[leaf->tensor.dtype]) != 0;
}

static int write_whole_number(const struct leaf *leaf, PyObject *value, void *out) {
  long long number = PyLong_AsLongLong(value);
  if (number == -1 && PyErr_Occurred()) return -1;
  // Unsigned: the difference of two numbers of 64 bits has 65.
  unsigned long long place = (unsigned long long)number - (unsigned long long)leaf->first;
  if (number < leaf->first || place >= (unsigned long long)leaf->count) {
    PyErr_Format(PyExc_ValueError, "the observation '%s' is %lld, the space says %lld..%lld",
                 leaf->name, number, leaf->first, leaf->first + leaf->count - 1);
    return -1;
  }
  *(int32_t *)out = (int32_t)place; // adapter.py refuses spaces with more
  return 0;
}

/* ---- arrays */

static void append(char *text, size_t bytes, const char *format, long long number) {
  size_t used = strlen(text);
  snprintf(text + used, bytes - used, format, number);
}

static int is_as_described(const struct leaf *leaf, const Py_buffer *buffer) {
  if (buffer->ndim != leaf->tensor.rank || strcmp(dtype_of(buffer), leaf->source) != 0) return 0;
  for (int d = 0; d < buffer->ndim; d++)
    if (buffer->shape[d] != leaf->tensor.shape[d]) return 0;
  return 1;
}

static void say_mismatch(const struct leaf *leaf, const Py_buffer *buffer) {
  char is[128] = "", should[128] = "";
  for (int d = 0; d < buffer->ndim; d++)
    append(is, sizeof is, d ? ",%lld" : "%lld", buffer->shape[d]);
  for (int d = 0; d < leaf->tensor.rank; d++)
    append(should, sizeof should, d ? ",%lld" : "%lld", leaf->tensor.shape[d]);
  PyErr_Format(PyExc_TypeError, "the observation '%s' is %s[%s], the space says %s[%s]", leaf->name,
               dtype_of(buffer), is, leaf->source, should);
}

static int write_contiguous(const struct leaf *leaf, const void *from, size_t bytes, void *out) {
  if (needs_conversion(leaf)) return convert(leaf, from, out);
  memcpy(out, from, bytes);
  return 0;
}

static int write_strided(const struct leaf *leaf, Py_buffer *buffer, void *out) {
  void *copy = PyMem_Malloc((size_t)buffer->len + 1);
  if (!copy) {
    PyErr_NoMemory();
    return -1;
  }
  int failed = PyBuffer_ToContiguous(copy, buffer, buffer->len, 'C') ||
               write_contiguous(leaf, copy, (size_t)buffer->len, out);
  PyMem_Free(copy);
  return failed ? -1 : 0;
}

static int write_array(const struct leaf *leaf, PyObject *value, void *out) {
  Py_buffer buffer;
  if (PyObject_GetBuffer(value, &buffer, PyBUF_FULL_RO)) {
    PyErr_Clear();
    PyErr_Format(PyExc_TypeError, "the observation '%s' is a %s, the space says an array of %s",
                 leaf->name, Py_TYPE(value)->tp_name, leaf->source);
    return -1;
  }
  int failed = !is_as_described(leaf, &buffer);
  if (failed)
    say_mismatch(leaf, &buffer);
  else if (PyBuffer_IsContiguous(&buffer, 'C'))
    failed = write_contiguous(leaf, buffer.buf, (size_t)buffer.len, out);
  else
    failed = write_strided(leaf, &buffer, out);
  PyBuffer_Release(&buffer);
  return failed ? -1 : 0;
}

int leaf_write(const struct leaf *leaf, PyObject *observation, void *out) {
  PyObject *value = Py_NewRef(observation);
  for (Py_ssize_t i = 0; value && i < PyTuple_GET_SIZE(leaf->path); i++) {
    PyObject *part = PyObject_GetItem(value, PyTuple_GET_ITEM(leaf->path, i));
    Py_SETREF(value, part);
  }
  if (!value) return -1;
  int failed =
      leaf->source[0] ? write_array(leaf, value, out) : write_whole_number(leaf, value, out);
  Py_DECREF(value);
  return failed;
}
