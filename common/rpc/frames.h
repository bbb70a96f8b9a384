/* HTTP/2 frames, read by their heads alone: how many bytes of messages a peer has sent, and how
 * many calls it has opened. What is inside is gRPC's business.
 *
 * A message's bytes come in DATA frames and nowhere else; frame heads, pings, window updates and
 * header blocks of a usual size hold no memory, so they do not count, however many there are.
 * Upstream: intake.c. Thread: any, one at a time. Errors: none; whatever is no HTTP/2 is counted as
 * something, and gRPC ends the connection. */
#ifndef ACORN_COMMON_RPC_FRAMES_H
#define ACORN_COMMON_RPC_FRAMES_H

#include <stddef.h>
#include <stdint.h>

enum { FRAMES_PREFACE_BYTES = 24, FRAMES_HEAD_BYTES = 9 };

/* gRPC refuses metadata above 8 KB, but may collect it first: what a header block, or any other
 * frame, has beyond this counts as if it were a message. */
enum { FRAMES_FREE_BYTES = 16 << 10 };

struct frames {
  /* since the connection began */
  uint64_t data_bytes; /* in DATA frames; and of other frames beyond FRAMES_FREE_BYTES */
  uint64_t calls;      /* that were opened */

  /* private: where the reader stands */
  int preface_left;
  uint8_t head[FRAMES_HEAD_BYTES];
  int head_bytes;      /* that are there */
  uint32_t left;       /* of the frame behind it */
  uint64_t free_bytes; /* of the header block or frame so far */
  uint32_t newest;     /* stream; later calls have higher numbers */
};

void frames_init(struct frames *frames);

/* The next bytes of the connection, however it was cut into pieces. */
void frames_read(struct frames *frames, const uint8_t *data, size_t bytes);

#endif
