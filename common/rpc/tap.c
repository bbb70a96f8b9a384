#include "common/rpc/tap.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "common/base/check.h"

typedef ssize_t (*receive_function)(int fd, struct msghdr *message, int flags);

static struct tap *_Atomic watched[TAP_MAX_FILES]; /* by file; NULL: nobody looks */

/* Held for reading while a tap sees something, for writing while one ends. */
static pthread_rwlock_t seeing = PTHREAD_RWLOCK_INITIALIZER;

/* The C library's. Looked up again where two threads come first: both find the same. */
static receive_function next_recvmsg(void) {
  static _Atomic uintptr_t found;
  union {
    void *symbol;
    uintptr_t bits;
    receive_function function;
  } next = {.bits = found};
  if (next.bits) return next.function;
  next.symbol = dlsym(RTLD_NEXT, "recvmsg");
  CHECK(next.symbol, "there is no recvmsg() in the C library");
  found = next.bits;
  return next.function;
}

void tap_begin(int fd, struct tap *tap) {
  CHECK(fd >= 0 && fd < TAP_MAX_FILES, "file %d", fd);
  next_recvmsg();
  atomic_store(&watched[fd], tap);
}

void tap_end(int fd, const struct tap *tap) {
  pthread_rwlock_wrlock(&seeing);
  if (atomic_load(&watched[fd]) == tap) atomic_store(&watched[fd], NULL);
  pthread_rwlock_unlock(&seeing);
}

/* Whether the reader shall have it. */
static bool show(int fd, const struct msghdr *message, size_t bytes) {
  bool passes = true;
  pthread_rwlock_rdlock(&seeing);
  struct tap *tap = atomic_load(&watched[fd]);
  for (size_t i = 0; tap && passes && i < message->msg_iovlen && bytes > 0; i++) {
    const struct iovec *piece = &message->msg_iov[i];
    size_t now = piece->iov_len < bytes ? piece->iov_len : bytes;
    passes = tap->see(tap, piece->iov_base, now);
    bytes -= now;
  }
  pthread_rwlock_unlock(&seeing);
  return passes;
}

// The gRPC core must meet it: everything else is hidden from libraries.
__attribute__((visibility("default"))) ssize_t recvmsg(int fd, struct msghdr *message, int flags) {
  ssize_t bytes = next_recvmsg()(fd, message, flags);
  bool taken = bytes > 0 && !(flags & (MSG_PEEK | MSG_ERRQUEUE));
  if (!taken || fd >= TAP_MAX_FILES) return bytes;
  if (!atomic_load_explicit(&watched[fd], memory_order_relaxed)) return bytes;
  return show(fd, message, (size_t)bytes) ? bytes : 0;
}
