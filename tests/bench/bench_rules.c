/* What it costs to look for NaN, infinite and huge numbers: nanoseconds per row of an inference
 * batch, for CartPole's rows and for rows of 28 KB. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/check.h"
#include "common/base/clock.h"
#include "learner/serve/rules.h"

enum { K = 64, MEASURE_US = 300000 };

static void measure(int floats) {
  struct space space = {
      .num_tensors = 1, .tensor = {{"state", DTYPE_FLOAT32, 1, {floats}}}, .discrete = 2};
  struct wire_layout layout;
  wire_layout_of_space(&layout, &space, K);
  uint8_t *rows = check_alloc(K, layout.row_stride);
  const uint8_t flags[K] = {0};
  const float reward[K] = {0};
  struct error error;
  int64_t messages = 0, start_us = clock_now_us(), now_us;
  while ((now_us = clock_now_us()) - start_us < MEASURE_US) {
    enum status status = rules_check_finite(flags, reward, rows, &layout, &space, &error);
    CHECK(status == STATUS_OK, "%s", error.text);
    messages++;
  }
  printf("bench rules floats=%d ns_per_row=%.2f\n", floats,
         (double)(now_us - start_us) * 1e3 / (double)(messages * K));
  free(rows);
}

int main(void) {
  measure(4);
  measure(16);
  measure(7168);
  return 0;
}
