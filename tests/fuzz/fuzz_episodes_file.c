/* Any bytes as episodes.csv of a run that is resumed: what stays is the file's beginning, in whole
 * rows, and is taken up again as it is; or a sentence. The first byte is the step. */
#include <string.h>

#include "learner/report/episodes_file.h"
#include "tests/fuzz/fuzz_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static enum status take_up(struct episodes_file *file, const char *folder, int64_t step) {
  struct error error = {""};
  enum status status = episodes_file_open(file, folder, step, 0, 0, &error);
  CHECK((status == STATUS_OK) == (error.text[0] == '\0'), "%d: '%s'", (int)status, error.text);
  if (status == STATUS_OK) CHECK(lseek(file->fd, 0, SEEK_END) == file->end, "not cut");
  episodes_file_close(file);
  return status;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static struct episodes_file file, again;
  if (size == 0) return 0;
  const char *folder = fuzz_folder("episodes.csv", fuzz_file(data + 1, size - 1));
  if (take_up(&file, folder, data[0]) != STATUS_OK) return 0;
  size_t end = (size_t)file.end;
  CHECK(end < size && (end == 0 || data[end] == '\n'), "%zu bytes of %zu stay", end, size - 1);
  CHECK(take_up(&again, folder, data[0]) == STATUS_OK && again.end == file.end, "cut again");
  CHECK(again.num_numbers == file.num_numbers, "another header");
  return 0;
}
