/* What a run has of each part. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "learner/run/run_parts.h"

static void threads_receive_by_cores_where_a_gpu_computes(void **state) {
  (void)state;
  static const struct {
    bool asynchronous, deterministic;
    int64_t queues;
    int cores, threads;
  } cases[] = {{true, false, -1, 2, 0},  {true, false, -1, 7, 0},   {true, false, -1, 8, 2},
               {true, false, -1, 12, 3}, {true, false, -1, 16, 4},  {true, false, -1, 64, 4},
               {true, true, -1, 64, 0},  {false, false, -1, 64, 0}, {true, false, 0, 64, 0},
               {false, true, 3, 2, 3}};
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
    struct learner_options options = {.queues = cases[i].queues,
                                      .deterministic = cases[i].deterministic};
    const struct device_ops ops = {.asynchronous = cases[i].asynchronous};
    struct device device = {.ops = &ops};
    const struct run run = {.options = &options, .inference_device = &device};
    assert_int_equal(run_num_queues(&run, cases[i].cores), cases[i].threads);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(threads_receive_by_cores_where_a_gpu_computes),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
