/* What the device tests share: random arrays, arrays on a device, comparison, and the kernel
 * sets of this machine. */
#ifndef ACORN_TESTS_UNIT_LEARNER_DEVICE_TESTING_H
#define ACORN_TESTS_UNIT_LEARNER_DEVICE_TESTING_H

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/base/check.h"
#include "learner/device/cpu/cpu.h"
#include "learner/device/create.h"
#include "learner/device/device.h"
#include "tests/devices/guarded.h"
#include "tests/unit/support/emulated_cuda.h"
#include "tests/unit/support/races.h"
#include "tests/unit/support/skip.h"

/* ---- random numbers, the same in every run */

static inline uint64_t testing_bits(uint64_t *state) {
  *state ^= *state << 13;
  *state ^= *state >> 7;
  *state ^= *state << 17;
  return *state;
}

/* Uniform in [0, 1). */
static inline float testing_uniform(uint64_t *state) {
  return (float)(testing_bits(state) >> 40) * 0x1p-24f;
}

static inline int testing_below(uint64_t *state, int n) {
  return (int)(testing_bits(state) >> 33) % n;
}

/* n numbers in +-scale. Owner: the caller, with free. */
static inline float *testing_floats(uint64_t *state, size_t n, float scale) {
  float *x = check_alloc(n, sizeof *x);
  for (size_t i = 0; i < n; i++) x[i] = scale * (2 * testing_uniform(state) - 1);
  return x;
}

/* ---- how much */

/* Of so many random cases those that are tried. */
static inline int testing_cases(int n) {
  int share = TESTING_FOR_RACES ? 10 : TESTING_FOR_MEMORY ? 3 : 1;
  return (n + share - 1) / share;
}

/* Whether a product of so many multiplications is left out. */
static inline bool testing_too_large(size_t multiplications) {
  return (TESTING_FOR_RACES && multiplications > 1000000) ||
         (TESTING_FOR_MEMORY && multiplications > 6000000);
}

/* ---- arrays on a device: freed with all others by testing_release */

struct testing {
  struct device *device;
  bool
      low; /* what is uploaded as pixels is rounded to bf16 first: where one of two devices has such
               pixels, so that both get the same numbers */
  void *memory[64];
  int count;
};

/* n numbers, each a NaN until it is written, so that one that is not is found. */
static inline real *testing_room(struct testing *t, size_t n) {
  const struct device_ops *ops = t->device->ops;
  assert_in_range(t->count, 0, 63);
  void *memory = ops->alloc(t->device, n * ops->real_bytes);
  void *poison = check_alloc(n, ops->real_bytes);
  memset(poison, 0xff, n * ops->real_bytes);
  ops->upload_bytes(t->device, memory, poison, n * ops->real_bytes);
  device_finish(t->device);
  free(poison);
  t->memory[t->count++] = memory;
  return memory;
}

static inline real *testing_zeros(struct testing *t, size_t n) {
  real *x = testing_room(t, n);
  device_fill(t->device, x, 0, n);
  return x;
}

/* y += x. */
static inline void testing_add(struct device *d, real *y, const real *x, size_t n) {
  struct sum_rule rule = {.run = {.rows = n}, .a = y, .b = x, .y = y};
  d->ops->run_rule(d, RULE_sum, &rule.run);
}

static inline real *testing_upload(struct testing *t, const float *host, size_t n) {
  real *x = testing_room(t, n);
  t->device->ops->upload(t->device, x, host, n);
  return x;
}

static inline pixel *testing_pixel_room(struct testing *t, size_t n) {
  return (pixel *)testing_room(t, n); /* a pixel is never larger than a real */
}

/* The nearest number of 8 bits, of two the even one. */
static inline float testing_rounded(float x) {
  uint32_t bits;
  if (isnan(x)) return x;
  memcpy(&bits, &x, sizeof bits);
  bits = (bits + 0x7fffu + (bits >> 16 & 1)) & 0xffff0000u;
  memcpy(&x, &bits, sizeof x);
  return x;
}

/* y (n) = host, as pixels are. */
static inline void testing_put_pixels(struct device *d, pixel *y, const float *host, size_t n) {
  if (d->ops->pixel_bytes != sizeof(uint16_t)) {
    d->ops->upload(d, (real *)y, host, n);
    return;
  }
  uint16_t *low = check_alloc(n + 1, sizeof *low);
  for (size_t i = 0; i < n; i++) {
    float rounded = testing_rounded(host[i]);
    memcpy(&low[i], (const char *)&rounded + sizeof *low, sizeof *low); /* the upper half */
  }
  d->ops->upload_bytes(d, y, low, n * sizeof *low);
  device_finish(d);
  free(low);
}

static inline pixel *testing_upload_pixels(struct testing *t, const float *host, size_t n) {
  pixel *x = testing_pixel_room(t, n);
  float *rounded = check_alloc(n + 1, sizeof *rounded);
  for (size_t i = 0; i < n; i++) rounded[i] = t->low ? testing_rounded(host[i]) : host[i];
  testing_put_pixels(t->device, x, rounded, n);
  free(rounded);
  return x;
}

/* On the host. Owner: the caller, with free. */
static inline float *testing_back(struct testing *t, const real *x, size_t n) {
  float *host = check_alloc(n + 1, sizeof *host);
  t->device->ops->download(t->device, host, x, n);
  return host;
}

static inline float *testing_pixels_back(struct testing *t, const pixel *x, size_t n) {
  float *host = check_alloc(n + 1, sizeof *host);
  device_download_pixels(t->device, host, x, n);
  return host;
}

/* Room for bytes, and bytes as a device array. */
static inline void *testing_bytes_room(struct testing *t, size_t bytes) {
  return testing_room(t, bytes / t->device->ops->real_bytes + 1);
}

static inline void *testing_bytes_zeros(struct testing *t, size_t bytes) {
  return testing_zeros(t, bytes / t->device->ops->real_bytes + 1);
}

static inline void *testing_bytes(struct testing *t, const void *host, size_t bytes) {
  void *y = testing_bytes_room(t, bytes);
  t->device->ops->upload_bytes(t->device, y, host, bytes);
  device_finish(t->device);
  return y;
}

/* Owner: the caller, with free. */
static inline void *testing_bytes_back(struct testing *t, const void *x, size_t bytes) {
  void *host = check_alloc(bytes, 1);
  t->device->ops->download_bytes(t->device, host, x, bytes);
  device_finish(t->device);
  return host;
}

static inline void testing_release(struct testing *t) {
  while (t->count > 0) t->device->ops->release(t->device, t->memory[--t->count]);
}

/* ---- comparison */

/* Every number of `got` within tolerance * (1 + |expected|) of the expected ones; what neither
 * device has written is NaN. Frees both. */
static inline void testing_compare_floats(const char *what, struct testing *t, float *got,
                                          float *expected, size_t n, double tolerance) {
  for (size_t i = 0; i < n; i++) {
    double error = fabs((double)got[i] - (double)expected[i]);
    if (isnan(got[i]) && isnan(expected[i])) continue;
    if (!(error <= tolerance * (1 + fabs((double)expected[i]))))
      fail_msg("%s, %s: element %zu of %zu is %.9g, expected %.9g", t->device->description, what, i,
               n, (double)got[i], (double)expected[i]);
  }
  free(got);
  free(expected);
}

static inline void testing_compare(const char *what, struct testing *got, const real *x,
                                   struct testing *expected, const real *y, size_t n,
                                   double tolerance) {
  testing_compare_floats(what, got, testing_back(got, x, n), testing_back(expected, y, n), n,
                         tolerance);
}

/* Of sums of rounded products, whose errors do not depend on their own size: the norm of all errors
 * together, at most so much of that of the expected numbers. */
static inline void testing_compare_norm(const char *what, struct testing *got_, const real *x,
                                        struct testing *expected_, const real *y, size_t n,
                                        double share) {
  float *got = testing_back(got_, x, n), *expected = testing_back(expected_, y, n);
  double errors = 0, numbers = 0;
  for (size_t i = 0; i < n; i++) {
    double error = (double)got[i] - (double)expected[i];
    errors += error * error;
    numbers += (double)expected[i] * (double)expected[i];
  }
  if (!(sqrt(errors) <= share * sqrt(numbers)))
    fail_msg("%s, %s: errors of norm %.3g, numbers of %.3g", got_->device->description, what,
             sqrt(errors), sqrt(numbers));
  free(got);
  free(expected);
}

static inline void testing_compare_pixels(const char *what, struct testing *got, const pixel *x,
                                          struct testing *expected, const pixel *y, size_t n,
                                          double tolerance) {
  testing_compare_floats(what, got, testing_pixels_back(got, x, n),
                         testing_pixels_back(expected, y, n), n, tolerance);
}

/* For pixels that an operation computes in float from equal ones: where they are bf16, of 8 bits,
 * the result is off by at most 2^-8 of itself more. */
static inline double testing_pixel_tolerance(const struct testing *t, double tolerance) {
  return t->low ? tolerance + 0x1p-8 : tolerance;
}

/* ---- kernel sets */

/* Runs a test body for the CPU device with every kernel set that this machine runs, and for the
 * CUDA device, beside a reference device. */
static inline void testing_each_set(void (*body)(struct testing *t, struct testing *ref)) {
  static const char *const sets[] = {"v2", "v3", "v4"};
  int ran = 0;
  for (int i = 0; i < (TESTING_FOR_RACES ? 1 : 3); i++) {
    struct testing cpu = {0}, ref = {.device = device_ref_float_create()};
    struct error error;
    if (cpu_create(&cpu.device, sets[i], &error) == STATUS_OK) {
      body(&cpu, &ref);
      device_destroy(cpu.device);
      ran++;
    } else {
      print_message("SKIP %s: %s\n", sets[i], error.text);
    }
    device_destroy(ref.device);
  }
  assert_true(ran > 0);
  struct testing cuda = {.device = emulated_cuda_create("float32")},
                 ref = {.device = device_ref_float_create()};
  body(&cuda, &ref);
  device_destroy(cuda.device);
  device_destroy(ref.device);
}

/* Runs a test body for the CPU device in bf16, beside a reference device. */
static inline void testing_cpu_in_bf16(void (*body)(struct testing *t, struct testing *ref)) {
  struct testing cpu = {0}, ref = {.device = device_ref_float_create()};
  struct error error;
  enum status status = device_create_by(
      &cpu.device, &(struct device_options){.name = "cpu", .precision = "bf16"}, &error);
  if (status == STATUS_OK) body(&cpu, &ref);
  device_destroy(cpu.device);
  device_destroy(ref.device);
  if (status != STATUS_OK) SKIP(error.text);
}

/* Runs a test body on every device: cuda, cpu with every kernel set that this machine runs, ref,
 * ref_double, guarded; for races on the first two. Releases the arrays that the body left. */
static inline void testing_each_device(void (*body)(struct testing *t)) {
  static const char *const sets[] = {"v2", "v3", "v4"};
  struct device *devices[7] = {emulated_cuda_create("float32")};
  int count = 1;
  if (!TESTING_FOR_RACES) {
    devices[count++] = device_ref_float_create();
    devices[count++] = device_ref_double_create();
    devices[count++] = device_guarded_create();
  }
  for (int i = 0; i < (TESTING_FOR_RACES ? 1 : 3); i++) {
    struct error error;
    if (cpu_create(&devices[count], sets[i], &error) == STATUS_OK)
      count++;
    else
      print_message("SKIP %s: %s\n", sets[i], error.text);
  }
  for (int i = 0; i < count; i++) {
    struct testing t = {.device = devices[i]};
    body(&t);
    testing_release(&t);
    device_destroy(t.device);
  }
}

static const int TESTING_SIZES[] = {1, 3, 7, 17, 64, 100, 257};

static inline int testing_size(uint64_t *state) {
  return TESTING_SIZES[testing_below(state, (int)(sizeof TESTING_SIZES / sizeof *TESTING_SIZES))];
}

#endif
