/* Any bytes as metrics.jsonl: a curve whose x grows strictly and whose numbers are finite, or a
 * sentence. The first byte chooses the axes. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "deploy/inspect/run_log.h"
#include "tests/fuzz/fuzz_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size == 0) return 0;
  const char *folder = fuzz_folder("metrics.jsonl", fuzz_file(data + 1, size - 1));
  struct run_axes axes = {.seconds = data[0] & 1, .y = data[0] & 2 ? "r" : "seconds"};
  struct run_log run;
  struct error error = {""};
  enum status status = run_log_read(&run, folder, &axes, &error);
  CHECK((status == STATUS_OK) == (error.text[0] == '\0'), "%d: '%s'", (int)status, error.text);
  for (int i = 0; i < run.count; i++) {
    CHECK(isfinite(run.point[i].x) && isfinite(run.point[i].y), "point %d", i);
    CHECK(i == 0 || run.point[i].x > run.point[i - 1].x, "x goes back at point %d", i);
  }
  run_log_deinit(&run);
  return 0;
}
