/* Any bytes as a JoinRequest: refused with a sentence, or read into what fits the limits of wire.h;
 * packed again it reads the same. The mutator puts whole requests between the mutations. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/check.h"
#include "common/wire/wire.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed);
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max_size);

static void check_limits(const struct wire_join_request *request) {
  const struct space *space = &request->space;
  CHECK(request->num_environments >= 1 && request->num_environments <= WIRE_MAX_ENVIRONMENTS,
        "%d environments", request->num_environments);
  CHECK(memchr(request->name, 0, sizeof(request->name)), "a name without an end");
  CHECK(space->num_tensors >= 1 && space->num_tensors <= SPACE_MAX_TENSORS, "%d tensors",
        space->num_tensors);
  CHECK((space->discrete > 0) != (space->box > 0), "%d actions and a box of %d", space->discrete,
        space->box);
  struct wire_layout layout;
  wire_layout_of_space(&layout, space, request->num_environments);
  CHECK(layout.row_stride >= layout.wire_bytes, "a row of %zu bytes for %zu", layout.row_stride,
        layout.wire_bytes);
}

static void check_again(const struct wire_join_request *request) {
  struct wire_join_request again;
  struct error error = {""};
  size_t size;
  uint8_t *bytes = wire_pack_join_request(request, &size);
  CHECK(wire_unpack_join_request(&again, bytes, size, &error) == STATUS_OK, "%s", error.text);
  CHECK(space_compare(&request->space, "before", &again.space, "after", &error) == STATUS_OK, "%s",
        error.text);
  CHECK(strcmp(request->name, again.name) == 0 && request->role == again.role &&
            request->shared_rows == again.shared_rows &&
            request->num_environments == again.num_environments,
        "%s is %s", request->name, again.name);
  free(bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct wire_join_request request;
  struct error error = {""};
  if (wire_unpack_join_request(&request, data, size, &error) != STATUS_OK) {
    CHECK(error.text[0], "no sentence");
    return 0;
  }
  check_limits(&request);
  check_again(&request);
  return 0;
}

static void add_choices(struct space *space, unsigned seed) {
  space->choices.count = 2 + (int)(seed >> 14) % (SPACE_MAX_CHOICES - 1);
  for (int c = 0; c < space->choices.count; c++) {
    space->choices.among[c] = 1 + (int)(seed >> c % 20 & 15);
    space->discrete += space->choices.among[c];
  }
}

/* A whole request; the size it had before if it does not fit. */
static size_t replace(uint8_t *data, size_t size, size_t max_size, unsigned seed) {
  struct wire_join_request request = {.protocol = WIRE_PROTOCOL,
                                      .name = "actor/0/1",
                                      .environment = "tmaze(length=20)",
                                      .num_environments = 1 + (int)(seed >> 4) % 100,
                                      .role = (enum wire_role)(seed >> 3 & 1),
                                      .shared_rows = seed >> 5 & 1};
  struct space *space = &request.space;
  space->num_tensors = 1 + (int)(seed >> 8) % SPACE_MAX_TENSORS;
  for (int i = 0; i < space->num_tensors; i++)
    space->tensor[i] = (struct space_tensor){{(char)('a' + i)}, DTYPE_FLOAT32, 2, {3, 1 + i}};
  if (seed >> 12 & 1)
    space->discrete = 4;
  else if (seed >> 13 & 1)
    space->box = 3;
  else
    add_choices(space, seed);
  size_t bytes;
  uint8_t *packed = wire_pack_join_request(&request, &bytes);
  if (bytes <= max_size) memcpy(data, packed, bytes);
  free(packed);
  return bytes <= max_size ? bytes : size;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed) {
  if (seed % 8 == 0) size = replace(data, size, max_size, seed);
  return seed % 16 == 0 ? size : LLVMFuzzerMutate(data, size, max_size);
}
