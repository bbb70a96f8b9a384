/* Lets somebody see what gRPC reads from a connection.
 *
 * gRPC's C core tells nobody what has arrived before a message is whole, and has no place for a
 * transport of one's own. But it reads its connections by recvmsg(), through the dynamic linker; so
 * a program that is linked with this has a recvmsg() of its own, in front of the C library's, which
 * shows the bytes before gRPC has them.
 * Upstream: intake.c. Thread: any. */
#ifndef ACORN_COMMON_RPC_TAP_H
#define ACORN_COMMON_RPC_TAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Files with higher numbers cannot be watched. */
enum { TAP_MAX_FILES = 65536 };

/* Kept from tap_begin to tap_end. */
struct tap {
  /* Bytes that were just read, by the thread that reads; short, and without a call to gRPC. False:
   * gRPC shall not have them, the connection ends for it here. */
  bool (*see)(struct tap *tap, const uint8_t *data, size_t bytes);
};

/* From now on `tap` sees what is read from that file; before the first read. */
void tap_begin(int fd, struct tap *tap);

/* Once this has returned, it sees nothing more, if it still did. */
void tap_end(int fd, const struct tap *tap);

#endif
