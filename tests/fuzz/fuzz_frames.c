// Any bytes are a connection; whatever pieces they come in, as much is counted as by a walk over
// the whole.
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/check.h"
#include "common/rpc/frames.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { DATA = 0, HEADERS = 1, CONTINUATION = 9 };

// What a reader that has all the bytes counts.
struct oracle {
  uint64_t data_bytes, calls;
};

static struct oracle walk(const uint8_t *data, size_t size) {
  struct oracle oracle = {0};
  uint32_t newest = 0;
  uint64_t block = 0;
  for (size_t at = FRAMES_PREFACE_BYTES; at + FRAMES_HEAD_BYTES <= size;) {
    const uint8_t *head = data + at;
    size_t length = (size_t)head[0] << 16 | (size_t)head[1] << 8 | head[2];
    uint32_t stream =
        ((uint32_t)head[5] << 24 | (uint32_t)head[6] << 16 | (uint32_t)head[7] << 8 | head[8]) &
        0x7fffffff;
    at += FRAMES_HEAD_BYTES;
    size_t there = length < size - at ? length : size - at;
    if (head[3] != CONTINUATION) block = 0;
    if (head[3] == HEADERS && stream > newest) {
      newest = stream;
      oracle.calls++;
    }
    for (size_t i = 0; i < there; i++)
      oracle.data_bytes += head[3] == DATA || ++block > FRAMES_FREE_BYTES;
    at += there;
  }
  return oracle;
}

// In memory of its exact size, so that the sanitizer sees a read past the end.
static void read_piece(struct frames *frames, const uint8_t *data, size_t bytes) {
  uint8_t *piece = malloc(bytes ? bytes : 1);
  CHECK(piece, "no memory");
  memcpy(piece, data, bytes);
  frames_read(frames, piece, bytes);
  free(piece);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct oracle oracle = walk(data, size);
  static const size_t pieces[] = {1, 7, 9, 1000, SIZE_MAX};
  for (size_t i = 0; i < sizeof(pieces) / sizeof(*pieces); i++) {
    struct frames frames;
    frames_init(&frames);
    for (size_t at = 0; at < size;) {
      size_t now = pieces[i] < size - at ? pieces[i] : size - at;
      read_piece(&frames, data + at, now);
      at += now;
    }
    CHECK(frames.data_bytes == oracle.data_bytes && frames.calls == oracle.calls,
          "in pieces of %zu: %llu bytes of %llu calls, not %llu of %llu", pieces[i],
          (unsigned long long)frames.data_bytes, (unsigned long long)frames.calls,
          (unsigned long long)oracle.data_bytes, (unsigned long long)oracle.calls);
  }
  return 0;
}
