/* What goes into the golden files of whole updates, by the hash of tests/golden/networks/make.py:
 * number i of a stream; and how their arrays are compared. */
#ifndef ACORN_TESTS_UNIT_SUPPORT_GOLDEN_NUMBERS_H
#define ACORN_TESTS_UNIT_SUPPORT_GOLDEN_NUMBERS_H

#include <math.h>

#include "learner/device/device.h"
#include "tests/unit/support/emulated_cuda.h"
#include "tests/unit/support/golden_cases.h"

static inline uint32_t golden_hash(int stream, size_t index) {
  uint32_t x = (uint32_t)index + (uint32_t)stream * 0x10000000u;
  x ^= x >> 16;
  x *= 0x7FEB352Du;
  x ^= x >> 15;
  x *= 0x846CA68Bu;
  return x ^ x >> 16;
}

/* In [-1, 1). */
static inline float golden_value(int stream, size_t index) {
  return (float)(golden_hash(stream, index) >> 8) * 0x1p-23f - 1;
}

/* The next `count` numbers of a parameter of so many inputs, or 0: their deviation falls with
 * these, in powers of two. Moves the index on. */
static inline void golden_parameter(float *data, size_t count, int inputs, int stream,
                                    size_t *index) {
  int power = inputs ? 1 - (31 - __builtin_clz((unsigned)inputs)) / 2 : -4;
  for (size_t i = 0; i < count; i++) data[i] = ldexpf(golden_value(stream, (*index)++), power);
}

/* Of rows from the second one of N on: an eighth of the episodes end, an eighth are cut. */
static inline void golden_flags(uint8_t *flags, size_t rows, size_t N, int stream) {
  for (size_t i = N; i < rows; i++) {
    uint32_t draw = golden_hash(stream, i) % 8;
    flags[i] = flags[i - N] & STEP_TRUNCATED ? STEP_FIRST
               : draw == 0                   ? STEP_FIRST | STEP_TERMINATED
               : draw == 1                   ? STEP_TRUNCATED
                                             : 0;
  }
}

/* Each number to a part of its array's largest. */
static inline void golden_compare(const struct golden_cases *golden, const struct device *d,
                                  const char *name, const double *got, size_t n, double tolerance) {
  const double *expected = golden_numbers(golden, name, n);
  double largest = 0;
  for (size_t i = 0; i < n; i++) largest = fmax(largest, fabs(expected[i]));
  for (size_t i = 0; i < n; i++)
    if (!(fabs(got[i] - expected[i]) <= tolerance * largest))
      fail_msg("%s, %s: element %zu of %s is %.15g, expected %.15g", golden->name, d->description,
               i, name, got[i], expected[i]);
}

/* check(case, device, tolerance) for each case of the file, of which there are so many, and each
 * kind of device. exact: on the reference in double alone, whose parameters are saved as floats. */
static inline void golden_each(const char *path, int cases, bool exact,
                               void (*check)(const struct golden_cases *golden, const char *device,
                                             double tolerance)) {
  static struct golden_cases golden;
  static const char *const devices[] = {"cpu", "ref", "guarded", "cuda"};
  emulated_cuda_use();
  for (int i = 0; i < (exact ? 1 : 4); i++) {
    int count = 0;
    golden_open(&golden, path);
    for (; golden_next(&golden); count++)
      check(&golden, exact ? "ref_double" : devices[i], exact ? 1e-6 : 1e-4);
    assert_int_equal(count, cases);
  }
}

#endif
