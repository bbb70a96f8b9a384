#include "envs/gymnasium/tensors.h"

#include <limits.h>
#include <stdbool.h>
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

/* The name of a buffer's dtype, or "?": none of those that are read. */
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

static int is_one_hot(const struct leaf *leaf) {
  return leaf->num_choices && leaf->tensor.dtype == ACORN_UINT8;
}

static int read_shape(struct leaf *leaf, PyObject *shape) {
  leaf->rank = (int)PyTuple_GET_SIZE(shape);
  leaf->elements = 1;
  for (int d = 0; d < leaf->rank; d++) {
    long size = PyLong_AsLong(PyTuple_GET_ITEM(shape, d));
    leaf->shape[d] = size > INT_MAX ? INT_MAX : (int)size;
    leaf->elements *= (size_t)leaf->shape[d];
  }
  return PyErr_Occurred() ? -1 : 0;
}

static int read_choices(struct leaf *leaf, PyObject *choices) {
  int count = (int)PyTuple_GET_SIZE(choices);
  leaf->choice = PyMem_Calloc((size_t)count + 1, sizeof *leaf->choice);
  if (!leaf->choice) {
    PyErr_NoMemory();
    return -1;
  }
  for (int i = 0; i < count; i++) {
    struct choice *choice = &leaf->choice[i];
    if (!PyArg_ParseTuple(PyTuple_GET_ITEM(choices, i), "LL", &choice->first, &choice->count))
      return -1;
  }
  leaf->num_choices = count;
  return 0;
}

/* What it is here: as there, or one-hot, a place for each value of each choice. */
static void describe_tensor(struct leaf *leaf, int dtype) {
  struct acorn_tensor *tensor = &leaf->tensor;
  tensor->name = leaf->name;
  tensor->dtype = (enum acorn_dtype)dtype;
  tensor->rank = is_one_hot(leaf) ? 1 : leaf->rank;
  if (!is_one_hot(leaf)) memcpy(tensor->shape, leaf->shape, sizeof leaf->shape);
  for (int i = 0; is_one_hot(leaf) && i < leaf->num_choices; i++)
    tensor->shape[0] += (int)leaf->choice[i].count;
}

int leaf_init(struct leaf *leaf, PyObject *description) {
  const char *name, *source;
  int dtype;
  PyObject *shape, *choices, *path;
  *leaf = (struct leaf){0};
  if (!PyArg_ParseTuple(description, "sisO!O!O!(dd)p", &name, &dtype, &source, &PyTuple_Type,
                        &shape, &PyTuple_Type, &choices, &PyTuple_Type, &path, &leaf->low,
                        &leaf->high, &leaf->is_mask))
    return -1;
  snprintf(leaf->name, sizeof leaf->name, "%s", name);
  snprintf(leaf->source, sizeof leaf->source, "%s", source);
  leaf->path = Py_NewRef(path);
  if (read_shape(leaf, shape) || read_choices(leaf, choices)) return -1;
  describe_tensor(leaf, dtype);
  return 0;
}

void leaf_deinit(struct leaf *leaf) {
  Py_CLEAR(leaf->path);
  PyMem_Free(leaf->choice);
  leaf->choice = NULL;
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
  if (strcmp(source, "uint8") == 0) CONVERT(uint8_t, unsigned_fits);
  if (strcmp(source, "int32") == 0) CONVERT(int32_t, signed_fits);
  if (strcmp(source, "int8") == 0) CONVERT(int8_t, signed_fits);
  if (strcmp(source, "int16") == 0) CONVERT(int16_t, signed_fits);
  if (strcmp(source, "uint16") == 0) CONVERT(uint16_t, unsigned_fits);
  if (strcmp(source, "uint32") == 0) CONVERT(uint32_t, unsigned_fits);
  if (strcmp(source, "int64") == 0) CONVERT(int64_t, signed_fits);
  if (strcmp(source, "uint64") == 0) CONVERT(uint64_t, unsigned_fits);
  return count;
}

#define SCALE(type)                                                                             \
  do {                                                                                          \
    const type *x = from;                                                                       \
    for (size_t i = 0; i < leaf->elements; i++) out[i] = (float)(((double)x[i] - low) * scale); \
  } while (0)

/* An image, or bytes: low..high becomes 0..1. */
static void scale_to_unit(const struct leaf *leaf, const char *dtype, const void *from,
                          float *out) {
  double low = leaf->low, scale = 1 / (leaf->high - leaf->low);
  if (strcmp(dtype, "float32") == 0) SCALE(float);
  if (strcmp(dtype, "float64") == 0) SCALE(double);
  if (strcmp(dtype, "bool") == 0 || strcmp(dtype, "uint8") == 0) SCALE(uint8_t);
  if (strcmp(dtype, "int8") == 0) SCALE(int8_t);
  if (strcmp(dtype, "int16") == 0) SCALE(int16_t);
  if (strcmp(dtype, "uint16") == 0) SCALE(uint16_t);
  if (strcmp(dtype, "int32") == 0) SCALE(int32_t);
  if (strcmp(dtype, "uint32") == 0) SCALE(uint32_t);
  if (strcmp(dtype, "int64") == 0) SCALE(int64_t);
  if (strcmp(dtype, "uint64") == 0) SCALE(uint64_t);
}

/* An image of bytes: low..high becomes 0..255, which the learner reads as 0..1. */
static int stretch_bytes(const struct leaf *leaf, const uint8_t *from, uint8_t *out) {
  double scale = UINT8_MAX / (leaf->high - leaf->low);
  for (size_t i = 0; i < leaf->elements; i++) {
    if (from[i] < leaf->low || from[i] > leaf->high) {
      PyErr_Format(PyExc_ValueError,
                   "the observation '%s' is %d at place %zu, the space says %d..%d", leaf->name,
                   from[i], i, (int)leaf->low, (int)leaf->high);
      return -1;
    }
    out[i] = (uint8_t)((from[i] - leaf->low) * scale + 0.5);
  }
  return 0;
}

static int is_scaled(const struct leaf *leaf) {
  return leaf->low < leaf->high;
}

static int convert(const struct leaf *leaf, const char *dtype, const void *from, void *out) {
  if (is_scaled(leaf) && leaf->tensor.dtype == ACORN_UINT8) return stretch_bytes(leaf, from, out);
  if (is_scaled(leaf)) {
    scale_to_unit(leaf, dtype, from, out);
    return 0;
  }
  if (strcmp(dtype, "float64") == 0) {
    const double *x = from;
    for (size_t i = 0; i < leaf->elements; i++) ((float *)out)[i] = (float)x[i];
    return 0;
  }
  size_t bad = to_int32(out, from, dtype, leaf->elements);
  if (bad == leaf->elements) return 0;
  PyErr_Format(PyExc_ValueError, "the observation '%s' has a number at place %zu that no int32 is",
               leaf->name, bad);
  return -1;
}

static int needs_conversion(const struct leaf *leaf, const char *dtype) {
  static const char *const same[] = {"", "uint8", "int32", "float32"};
  return is_scaled(leaf) || strcmp(dtype, same[leaf->tensor.dtype]) != 0;
}

/* ---- choices: numbers that name something */

/* The place of a number among its values; -1 with an exception set. */
static long long place_of(const struct leaf *leaf, int i, long long number) {
  const struct choice *choice = &leaf->choice[i];
  // Unsigned: the difference of two numbers of 64 bits has 65.
  unsigned long long place = (unsigned long long)number - (unsigned long long)choice->first;
  if (number >= choice->first && place < (unsigned long long)choice->count) return (long long)place;
  char where[32] = "";
  if (leaf->num_choices > 1) snprintf(where, sizeof where, " at place %d", i);
  PyErr_Format(PyExc_ValueError, "the observation '%s' is %lld%s, the space says %lld..%lld",
               leaf->name, number, where, choice->first, choice->first + choice->count - 1);
  return -1;
}

/* 255, which a network reads as 1, at the value's place of each choice. */
static int write_one_hot(const struct leaf *leaf, const int32_t *number, uint8_t *out) {
  memset(out, 0, (size_t)leaf->tensor.shape[0]);
  for (int i = 0; i < leaf->num_choices; out += leaf->choice[i++].count) {
    long long place = place_of(leaf, i, number[i]);
    if (place < 0) return -1;
    out[place] = UINT8_MAX;
  }
  return 0;
}

/* Of a Discrete space: one-hot, or its place where there are too many values. */
static int write_whole_number(const struct leaf *leaf, PyObject *value, void *out) {
  long long number = PyLong_AsLongLong(value);
  if (number == -1 && PyErr_Occurred()) {
    PyErr_Clear();
    PyErr_Format(PyExc_TypeError, "the observation '%s' is %R, the space says a whole number",
                 leaf->name, value);
    return -1;
  }
  long long place = place_of(leaf, 0, number);
  if (place < 0) return -1;
  if (!is_one_hot(leaf)) {
    *(int32_t *)out = (int32_t)place; // spaces.py refuses spaces with more
    return 0;
  }
  memset(out, 0, (size_t)leaf->tensor.shape[0]);
  ((uint8_t *)out)[place] = UINT8_MAX;
  return 0;
}

/* Of a MultiDiscrete space. */
static int write_numbers(const struct leaf *leaf, const void *from, void *out) {
  int32_t *number = PyMem_Malloc((leaf->elements + 1) * sizeof *number);
  if (!number) {
    PyErr_NoMemory();
    return -1;
  }
  int failed = convert(leaf, leaf->source, from, number) || write_one_hot(leaf, number, out);
  PyMem_Free(number);
  return failed ? -1 : 0;
}

/* ---- arrays */

static void append(char *text, size_t bytes, const char *format, long long number) {
  size_t used = strlen(text);
  snprintf(text + used, bytes - used, format, number);
}

/* numpy's numbers are float64 where nothing else is said. */
static int is_wider_float(const struct leaf *leaf, const Py_buffer *buffer) {
  return strcmp(leaf->source, "float32") == 0 && strcmp(dtype_of(buffer), "float64") == 0;
}

static int is_as_described(const struct leaf *leaf, const Py_buffer *buffer) {
  bool fits = strcmp(dtype_of(buffer), leaf->source) == 0 || is_wider_float(leaf, buffer);
  if (buffer->ndim != leaf->rank || !fits) return 0;
  for (int d = 0; d < buffer->ndim; d++)
    if (buffer->shape[d] != leaf->shape[d]) return 0;
  return 1;
}

/* value: what has that buffer, an array of numpy most often, whose word for its dtype is known. */
static void say_mismatch(const struct leaf *leaf, PyObject *value, const Py_buffer *buffer) {
  char is[128] = "", should[128] = "";
  PyObject *dtype = PyObject_GetAttrString(value, "dtype");
  if (!dtype) {
    PyErr_Clear();
    dtype = PyUnicode_FromString(dtype_of(buffer));
  }
  if (!dtype) return;
  for (int d = 0; d < buffer->ndim; d++)
    append(is, sizeof is, d ? ",%lld" : "%lld", buffer->shape[d]);
  for (int d = 0; d < leaf->rank; d++)
    append(should, sizeof should, d ? ",%lld" : "%lld", leaf->shape[d]);
  PyErr_Format(PyExc_TypeError, "the observation '%s' is %S[%s], the space says %s[%s]", leaf->name,
               dtype, is, leaf->source, should);
  Py_DECREF(dtype);
}

/* Of any numbers, which are little-endian: 1 where they are not 0, nor -0. */
static void write_mask(const struct leaf *leaf, const uint8_t *from, size_t bytes, uint8_t *out) {
  size_t of_each = bytes / leaf->elements;
  const uint8_t last = leaf->source[0] == 'f' ? 0x7f : 0xff;
  memset(out, 0, leaf->elements);
  for (size_t i = 0; i < bytes; i++)
    if (from[i] & (i % of_each == of_each - 1 ? last : 0xff)) out[i / of_each] = 1;
}

static int write_contiguous(const struct leaf *leaf, const char *dtype, const void *from,
                            size_t bytes, void *out) {
  if (is_one_hot(leaf)) return write_numbers(leaf, from, out);
  if (leaf->is_mask) {
    write_mask(leaf, from, bytes, out);
    return 0;
  }
  if (needs_conversion(leaf, dtype)) return convert(leaf, dtype, from, out);
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
               write_contiguous(leaf, dtype_of(buffer), copy, (size_t)buffer->len, out);
  PyMem_Free(copy);
  return failed ? -1 : 0;
}

/* Of the first one of a process; Python's lock is held. */
static int tell_of_cast(const struct leaf *leaf, const Py_buffer *buffer) {
  static bool told;
  if (told || !is_wider_float(leaf, buffer)) return 0;
  told = true;
  PyObject *done = PyObject_CallFunction(
      interpreter_adapter("tell"), "N",
      PyUnicode_FromFormat("the observation '%s' is float64, the space says float32: it is cast",
                           leaf->name));
  Py_XDECREF(done);
  return done ? 0 : -1;
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
    say_mismatch(leaf, value, &buffer);
  else if (tell_of_cast(leaf, &buffer))
    failed = 1;
  else if (PyBuffer_IsContiguous(&buffer, 'C'))
    failed = write_contiguous(leaf, dtype_of(&buffer), buffer.buf, (size_t)buffer.len, out);
  else
    failed = write_strided(leaf, &buffer, out);
  PyBuffer_Release(&buffer);
  return failed ? -1 : 0;
}

/* Its place in what reset or step returned; from the end, where it is of the info. */
static Py_ssize_t place_in(const struct leaf *leaf) {
  return PyLong_AsSsize_t(PyTuple_GET_ITEM(leaf->path, 0));
}

/* NULL with an exception set. */
static PyObject *part_of(const struct leaf *leaf, PyObject *result) {
  PyObject *value = PySequence_GetItem(result, place_in(leaf));
  for (Py_ssize_t i = 1; value && i < PyTuple_GET_SIZE(leaf->path); i++) {
    PyObject *part = PyObject_GetItem(value, PyTuple_GET_ITEM(leaf->path, i));
    Py_SETREF(value, part);
  }
  return value;
}

/* Instead of the KeyError of the Dict, or whatever there was in its place. */
static int say_missing(const struct leaf *leaf) {
  Py_ssize_t size = PyTuple_GET_SIZE(leaf->path);
  if (size < 2 || place_in(leaf) < 0) return -1;
  PyErr_Clear();
  PyErr_Format(
      PyExc_TypeError,
      "the observation has no part %R, which stands for '%s' in the space: return a Dict or "
      "Tuple as it is",
      PyTuple_GET_ITEM(leaf->path, size - 1), leaf->name);
  return -1;
}

int leaf_write(const struct leaf *leaf, PyObject *result, void *out) {
  PyObject *value = part_of(leaf, result);
  if (!value && place_in(leaf) < 0 && PyErr_ExceptionMatches(PyExc_KeyError)) {
    PyErr_Clear();
    memset(out, 1, leaf->elements); /* the mask: an info that says nothing forbids nothing */
    return 0;
  }
  if (!value) return say_missing(leaf);
  int failed =
      leaf->source[0] ? write_array(leaf, value, out) : write_whole_number(leaf, value, out);
  Py_DECREF(value);
  return failed;
}
