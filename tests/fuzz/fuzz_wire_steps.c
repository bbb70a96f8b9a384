/* wire_decode_steps against protobuf-c: accept or refuse, and every value; the same bytes also as
 * the first message of a stream and as the answer to an actor. The first two bytes of an input
 * choose the layout and the split into pieces, the rest is the message. A mutator of our own puts
 * whole messages between the mutations, because lengths that agree with each other are hard to find
 * by chance. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/unit/common/wire/steps_oracle.h"

enum { HEADER_BYTES = 2 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed);
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max_size);

/* wire_peek_run_id, which looks at less than a decoder. */
static const char *check_peek(const struct oracle_pieces *pieces, const uint8_t *data,
                              size_t size) {
  uint64_t run_id;
  bool alone;
  struct error error;
  bool we = wire_peek_run_id(&run_id, &alone, pieces->span, pieces->count, &error) == STATUS_OK;
  Acorn__Steps *steps = acorn__steps__unpack(NULL, size, data);
  bool they = steps && !oracle_number_zero(&steps->base);
  bool differs = they && (!we || run_id != steps->run_id);
  if (steps) acorn__steps__free_unpacked(steps, NULL);
  return differs ? "the run id of the first message" : NULL;
}

static const char *check_actions(const struct oracle_pieces *pieces, const uint8_t *data,
                                 size_t size, size_t action_bytes) {
  uint8_t *ours = malloc(action_bytes);
  struct error error;
  bool we =
      wire_decode_actions(ours, action_bytes, pieces->span, pieces->count, &error) == STATUS_OK;
  Acorn__Actions *actions = acorn__actions__unpack(NULL, size, data);
  bool they = actions && !oracle_number_zero(&actions->base) && actions->action.len == action_bytes;
  bool differs =
      we != they || (we && action_bytes && memcmp(ours, actions->action.data, action_bytes) != 0);
  if (actions) acorn__actions__free_unpacked(actions, NULL);
  free(ours);
  return differs ? "actions" : NULL;
}

static const char *check_others(const uint8_t *data, size_t size, size_t action_bytes,
                                uint64_t *random) {
  struct oracle_pieces pieces;
  oracle_split(&pieces, data, size, random);
  const char *difference = check_peek(&pieces, data, size);
  if (!difference) difference = check_actions(&pieces, data, size, action_bytes);
  oracle_join(&pieces);
  return difference;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size < HEADER_BYTES || size > ORACLE_ROOM) return 0;
  struct wire_layout layout = oracle_layout(data[0]);
  uint64_t random = data[1];
  bool accepted;
  const char *difference =
      oracle_check(data + HEADER_BYTES, size - HEADER_BYTES, &layout, &random, &accepted);
  if (!difference && data[1] % 4 == 0) /* it takes as long as the rest */
    difference = check_others(data + HEADER_BYTES, size - HEADER_BYTES, data[0] % 64, &random);
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
