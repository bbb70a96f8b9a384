/* wire_decode_steps against protobuf-c: accept or refuse, and every value. The first two bytes
 * of an input choose the layout and the split into pieces, the rest is the message. A mutator of
 * our own puts whole messages between the mutations, because lengths that agree with each other
 * are hard to find by chance. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/unit/common/wire/steps_oracle.h"

enum { HEADER_BYTES = 2 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed);
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max_size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size < HEADER_BYTES || size > ORACLE_ROOM) return 0;
  struct wire_layout layout = oracle_layout(data[0]);
  uint64_t random = data[1];
  bool accepted;
  const char *difference =
      oracle_check(data + HEADER_BYTES, size - HEADER_BYTES, &layout, &random, &accepted);
  if (!difference) return 0;
  fprintf(stderr, "difference: %s\n", difference);
  abort();
}

/* A whole message for a random layout; the size it had before if it does not fit. */
static size_t replace(uint8_t *data, size_t size, size_t max_size, uint64_t *random) {
  static uint8_t message[ORACLE_ROOM];
  uint8_t choice = (uint8_t)oracle_random(random);
  struct wire_layout layout = oracle_layout(choice);
  size_t bytes = oracle_make(message, &layout, random);
  if (HEADER_BYTES + bytes > max_size) return size;
  data[0] = choice;
  data[1] = (uint8_t)oracle_random(random);
  memcpy(data + HEADER_BYTES, message, bytes);
  return HEADER_BYTES + bytes;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed) {
  uint64_t random = seed;
  if (oracle_below(&random, 4) > 0) return LLVMFuzzerMutate(data, size, max_size);
  size = replace(data, size, max_size, &random);
  return oracle_below(&random, 2) ? size : LLVMFuzzerMutate(data, size, max_size);
}
