/* What gpu_trace.h makes of CUPTI's records, with a CUPTI that does nothing. */
#include "tests/bench/gpu_trace.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static int do_nothing(int kind) {
  (void)kind;
  return 0;
}

static int flush_nothing(uint32_t flags) {
  (void)flags;
  return 0;
}

/* A record as CUPTI lays it out; bytes: of a copy; name: of a kernel. */
static void add_named(uint32_t kind, uint8_t copy_kind, uint64_t bytes, uint64_t begin,
                      uint64_t end, const char *name) {
  uint8_t record[TRACE_NAME_OFFSET + sizeof(name)] = {0};
  memcpy(record, &kind, sizeof(kind));
  record[4] = copy_kind;
  memcpy(record + 8, &bytes, sizeof(bytes));
  memcpy(record + 16, &begin, sizeof(begin));
  memcpy(record + 24, &end, sizeof(end));
  memcpy(record + TRACE_NAME_OFFSET, &name, sizeof(name));
  gpu_trace_add(record);
}

static void add(uint32_t kind, uint8_t copy_kind, uint64_t bytes, uint64_t begin, uint64_t end) {
  add_named(kind, copy_kind, bytes, begin, end, NULL);
}

/* Kernels that overlap count once; copies count as busy, and their bytes if they go to the
 * device. */
static void test_spans(void **state) {
  (void)state;
  add(TRACE_KERNEL, 0, 0, 3000, 5000);
  add(TRACE_KERNEL, 0, 0, 1000, 4000);
  add(TRACE_MEMCPY, TRACE_TO_DEVICE, 100, 6000, 7000);
  add(TRACE_MEMCPY, TRACE_TO_DEVICE + 1, 50, 10000, 11000);
  struct gpu_trace_result result = gpu_trace_end();
  assert_int_equal(result.kernels, 2);
  assert_true(result.wall_us == 10 && result.kernel_us == 4 && result.busy_us == 6);
  assert_true(result.to_device == 100);
  assert_int_equal(result.lost, 0);
}

/* CUPTI gives records without times where it could not take any: as 0, or an end before the
 * begin. */
static void test_no_times(void **state) {
  (void)state;
  add(TRACE_KERNEL, 0, 0, 1000, 2000);
  add(TRACE_KERNEL, 0, 0, 0, 0);
  add(TRACE_KERNEL, 0, 0, 5000, 4000);
  struct gpu_trace_result result = gpu_trace_end();
  assert_int_equal(result.kernels, 1);
  assert_int_equal(result.lost, 2);
  assert_true(result.wall_us == 1 && result.kernel_us == 1 && result.busy_us == 1);
}

/* Times are counted by name. */
static void test_kernels(void **state) {
  (void)state;
  char again[] = "second";
  add_named(TRACE_KERNEL, 0, 0, 1000, 2000, "first");
  add_named(TRACE_KERNEL, 0, 0, 2000, 4000, "second");
  add_named(TRACE_KERNEL, 0, 0, 5000, 8000, again);
  assert_int_equal(gpu_trace.num_kernels, 2);
  assert_string_equal(gpu_trace.kernel[1].name, "second");
  assert_true(gpu_trace.kernel[1].us == 5 && gpu_trace.kernel[1].launches == 2);
  gpu_trace_end();
  assert_int_equal(gpu_trace.num_kernels, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_spans), cmocka_unit_test(test_no_times),
                                     cmocka_unit_test(test_kernels)};
  gpu_trace.disable = gpu_trace.enable = do_nothing;
  gpu_trace.flush = flush_nothing;
  return cmocka_run_group_tests(tests, NULL, NULL);
}
