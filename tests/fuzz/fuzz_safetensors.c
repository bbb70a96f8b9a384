/* Any bytes as a safetensors file: refused with a sentence, or read without leaving the file. Then
 * any bytes as the text of a space. */
#include <stdlib.h>
#include <string.h>

#include "common/base/check.h"
#include "common/base/safetensors.h"
#include "common/base/space_json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  const struct safetensor x = {"x", 2, (const int[]){2, 3}, NULL};
  float out[6];
  struct safetensors file = {0};
  struct error error = {""};
  struct space space;
  enum status status = safetensors_parse(&file, data, size, size, &error);
  CHECK((status == STATUS_OK) == (error.text[0] == '\0'), "%d: '%s'", (int)status, error.text);
  if (status == STATUS_OK) {
    safetensors_text(&file, "space");
    if (safetensors_take(&file, out, &x, &error) == STATUS_OK)
      CHECK(file.bytes >= sizeof(out), "it has %zu bytes", file.bytes);
  }
  safetensors_close(&file);

  char *text = check_alloc(size + 1, 1);
  memcpy(text, data, size);
  if (space_json_parse(&space, text, &error) == STATUS_OK) {
    char *again = space_json_text(&space);
    struct space found;
    CHECK(space_json_parse(&found, again, &error) == STATUS_OK, "%s", error.text);
    CHECK(space_compare(&space, "here", &found, "there", &error) == STATUS_OK, "%s", error.text);
    free(again);
  }
  free(text);
  return 0;
}
