/* Any bytes as a ParametersPiece, and its data as a file of parameters: refused with a sentence, or
 * read without leaving what there is room for; packed again it reads the same. The mutator puts
 * whole files between the mutations. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/check.h"
#include "common/wire/wire.h"
#include "learner/params/named.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed);
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max_size);

enum { P = 8, ROOM = 4096 };
static float numbers[P] = {1, -2, 3, -4, 5, -6, 7, -8};

static void make(struct named *named) {
  const struct checkpoint_item items[] = {
      {"params/x", CHECKPOINT_FLOAT32, 2, {2, 3}, numbers, false},
      {"own/y", CHECKPOINT_FLOAT32, 1, {2}, numbers + 6, false},
  };
  named_init(named, items, 2);
}

static void check_again(const struct named *named, const float *values) {
  float found[P];
  bool given[NAMED_MAX];
  struct error error = {""};
  size_t size;
  uint8_t *bytes = named_pack(named, &size, values, 7);
  CHECK(named_unpack(named, found, given, bytes, size, &error) == STATUS_OK, "%s", error.text);
  CHECK(given[0] && given[1] && memcmp(found, values, sizeof(found)) == 0, "it has changed");
  free(bytes);
}

static void unpack(const uint8_t *bytes, size_t size) {
  struct named named;
  float values[P] = {0};
  bool given[NAMED_MAX];
  struct error error = {""};
  make(&named);
  if (named_unpack(&named, values, given, bytes, size, &error) != STATUS_OK) {
    CHECK(error.text[0], "no sentence");
    return;
  }
  CHECK(given[0] || given[1], "nothing is given");
  for (int i = 0; i < P; i++)
    CHECK(fabsf(values[i]) <= 1e9f, "number %d is %f", i, (double)values[i]);
  check_again(&named, values);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static uint8_t room[ROOM];
  struct wire_piece piece;
  struct error error = {""};
  const struct wire_span spans[2] = {{data, size / 3}, {data + size / 3, size - size / 3}};
  unpack(data, size);
  if (wire_decode_piece(&piece, room, sizeof(room), spans, 2, &error) != STATUS_OK) {
    CHECK(error.text[0], "no sentence");
    return 0;
  }
  CHECK(piece.bytes <= size && piece.bytes <= sizeof(room), "%zu bytes", piece.bytes);
  unpack(room, piece.bytes);
  return 0;
}

/* A whole file, or one in a piece; the size it had before if it does not fit. */
static size_t replace(uint8_t *data, size_t size, size_t max_size, unsigned seed) {
  struct named named;
  uint8_t header[WIRE_PIECE_HEADER_BYTES];
  struct wire_piece piece = {.version = seed};
  make(&named);
  uint8_t *bytes = named_pack(&named, &piece.bytes, numbers, seed);
  size_t header_bytes = seed & 64 ? wire_encode_piece_header(header, &piece) : 0;
  bool fits = header_bytes + piece.bytes <= max_size;
  if (fits) {
    memcpy(data, header, header_bytes);
    memcpy(data + header_bytes, bytes, piece.bytes);
    size = header_bytes + piece.bytes;
  }
  free(bytes);
  return size;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed) {
  if (seed % 8 == 0) size = replace(data, size, max_size, seed);
  return seed % 16 == 0 ? size : LLVMFuzzerMutate(data, size, max_size);
}
