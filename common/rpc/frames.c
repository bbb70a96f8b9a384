#include "common/rpc/frames.h"

#include <string.h>

enum { DATA = 0, HEADERS = 1, CONTINUATION = 9 };

void frames_init(struct frames *frames) {
  memset(frames, 0, sizeof(*frames));
  frames->preface_left = FRAMES_PREFACE_BYTES;
}

static uint8_t kind_of(const struct frames *frames) {
  return frames->head[3];
}

/* A head is whole. */
static void begin_frame(struct frames *frames) {
  const uint8_t *head = frames->head;
  frames->left = (uint32_t)head[0] << 16 | (uint32_t)head[1] << 8 | head[2];
  uint32_t stream =
      (uint32_t)(head[5] & 127) << 24 | (uint32_t)head[6] << 16 | (uint32_t)head[7] << 8 | head[8];
  if (kind_of(frames) != CONTINUATION) frames->free_bytes = 0;
  if (kind_of(frames) == HEADERS && stream > frames->newest) {
    frames->newest = stream;
    frames->calls++;
  }
}

static void count(struct frames *frames, size_t bytes) {
  if (kind_of(frames) == DATA) {
    frames->data_bytes += bytes;
    return;
  }
  uint64_t before = frames->free_bytes, after = before + bytes;
  if (before < FRAMES_FREE_BYTES) before = FRAMES_FREE_BYTES;
  if (after > before) frames->data_bytes += after - before;
  frames->free_bytes += bytes;
}

void frames_read(struct frames *frames, const uint8_t *data, size_t bytes) {
  while (bytes > 0) {
    size_t now;
    if (frames->preface_left > 0) {
      now = bytes < (size_t)frames->preface_left ? bytes : (size_t)frames->preface_left;
      frames->preface_left -= (int)now;
    } else if (frames->left > 0) {
      now = bytes < frames->left ? bytes : frames->left;
      count(frames, now);
      frames->left -= (uint32_t)now;
    } else {
      size_t missing = FRAMES_HEAD_BYTES - (size_t)frames->head_bytes;
      now = bytes < missing ? bytes : missing;
      memcpy(frames->head + frames->head_bytes, data, now);
      frames->head_bytes = (frames->head_bytes + (int)now) % FRAMES_HEAD_BYTES;
      if (frames->head_bytes == 0) begin_frame(frames);
    }
    data += now;
    bytes -= now;
  }
}
