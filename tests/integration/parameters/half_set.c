/* A client that dies in the middle of a set: sends half of a file, prints "half" and waits to be
 * killed. Words: address, file, token's file, and an update that the run is to be at, if any. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/base/check.h"
#include "common/base/safetensors.h"
#include "common/rpc/client.h"

static void ignore(void *context, const struct wire_span *spans, int num_spans) {
  (void)context, (void)spans, (void)num_spans;
}

int main(int argc, char **argv) {
  CHECK(argc == 4 || argc == 5, "%d words", argc);
  struct error error;
  struct safetensors file;
  struct credentials *credentials;
  struct credentials_options access = {argv[3], "", "", "", NULL};
  CHECK(safetensors_open(&file, argv[2], &error) == STATUS_OK, "%s", error.text);
  CHECK(credentials_open(&credentials, &access, CREDENTIALS_CLIENT, &error) == STATUS_OK, "%s",
        error.text);
  struct rpc_channel *channel = rpc_channel_create(argv[1], WIRE_PIECE_BYTES, credentials);
  struct rpc_call *call = rpc_call_open(channel, "/acorn.Acorn/SetParameters");
  uint8_t header[WIRE_PIECE_HEADER_BYTES];
  size_t size = (size_t)(file.data - file.file) + file.bytes;
  struct wire_piece piece = {.bytes = size / 2 < WIRE_PIECE_BYTES ? size / 2 : WIRE_PIECE_BYTES,
                             .total_bytes = size,
                             .version = argc == 5 ? strtoull(argv[4], NULL, 10) : 0,
                             .expects_version = argc == 5};
  bool ended;
  size_t header_bytes = wire_encode_piece_header(header, &piece);
  struct rpc_result result =
      rpc_exchange(call, header, header_bytes, file.file, piece.bytes, ignore, NULL, &ended);
  if (ended) return fprintf(stderr, "%s\n", result.text), 1;
  puts("half");
  fflush(stdout);
  pause();
  return 0;
}
