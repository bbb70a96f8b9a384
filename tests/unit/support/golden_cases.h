/* Reads the golden files of algorithms: cases of named arrays. The layout is described in
 * tests/golden/algorithms/gae.py. Tests run from the root of the repository. */
#ifndef ACORN_TESTS_UNIT_SUPPORT_GOLDEN_CASES_H
#define ACORN_TESTS_UNIT_SUPPORT_GOLDEN_CASES_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "common/base/check.h"

enum { GOLDEN_MAX_ARRAYS = 32, GOLDEN_MAX_NUMBERS = 4096, GOLDEN_NAME_BYTES = 32 };

struct golden_array {
  char name[GOLDEN_NAME_BYTES];
  size_t count,
      at; /* its numbers are number[at] .. number[at + count - 1], float_number likewise */
};

/* One case. What the members hold is that of golden_next's last call. */
struct golden_cases {
  FILE *file;
  const char *path;
  char name[GOLDEN_NAME_BYTES];
  struct golden_array array[GOLDEN_MAX_ARRAYS];
  int num_arrays;
  double number[GOLDEN_MAX_NUMBERS];
  float float_number[GOLDEN_MAX_NUMBERS];
};

static inline void golden_open(struct golden_cases *golden, const char *path) {
  *golden = (struct golden_cases){.file = fopen(path, "r"), .path = path};
  if (!golden->file) fail_msg("%s is missing; tests run from the root of the repository", path);
  char word[8];
  assert_int_equal(fscanf(golden->file, "%7s", word), 1);
  assert_string_equal(word, "case");
}

/* Reads the next case; false behind the last one, with the file closed. */
static inline bool golden_next(struct golden_cases *golden) {
  golden->num_arrays = 0;
  if (fscanf(golden->file, "%31s", golden->name) != 1) {
    fclose(golden->file);
    return false;
  }
  struct golden_array *array = golden->array;
  size_t at = 0;
  for (; fscanf(golden->file, "%31s", array->name) == 1; array++) {
    if (strcmp(array->name, "case") == 0) break;
    assert_true(fscanf(golden->file, "%zu", &array->count) == 1);
    assert_true(++golden->num_arrays < GOLDEN_MAX_ARRAYS);
    assert_true(at + array->count <= GOLDEN_MAX_NUMBERS);
    array->at = at;
    for (size_t end = at + array->count; at < end; at++) {
      assert_int_equal(fscanf(golden->file, "%lf", &golden->number[at]), 1);
      golden->float_number[at] = (float)golden->number[at];
    }
  }
  return true;
}

static inline size_t golden_find(const struct golden_cases *golden, const char *name,
                                 size_t count) {
  for (const struct golden_array *array = golden->array; array < golden->array + golden->num_arrays;
       array++)
    if (strcmp(array->name, name) == 0 && array->count == count) return array->at;
  fail_msg("%s, case %s: there is no array %s of %zu numbers", golden->path, golden->name, name,
           count);
  return 0;
}

/* The array of that name, which has `count` numbers. */
static inline const double *golden_numbers(const struct golden_cases *golden, const char *name,
                                           size_t count) {
  return golden->number + golden_find(golden, name, count);
}

static inline const float *golden_floats(const struct golden_cases *golden, const char *name,
                                         size_t count) {
  return golden->float_number + golden_find(golden, name, count);
}

static inline float golden_scalar(const struct golden_cases *golden, const char *name) {
  return *golden_floats(golden, name, 1);
}

/* Owner: the caller, with free. */
static inline uint8_t *golden_bytes(const struct golden_cases *golden, const char *name,
                                    size_t count) {
  const double *x = golden_numbers(golden, name, count);
  uint8_t *bytes = check_alloc(count, sizeof(*bytes));
  for (size_t i = 0; i < count; i++) bytes[i] = (uint8_t)x[i];
  return bytes;
}

static inline int32_t *golden_integers(const struct golden_cases *golden, const char *name,
                                       size_t count) {
  const double *x = golden_numbers(golden, name, count);
  int32_t *integers = check_alloc(count, sizeof(*integers));
  for (size_t i = 0; i < count; i++) integers[i] = (int32_t)x[i];
  return integers;
}

#endif
