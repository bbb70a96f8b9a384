#include "common/base/append.h"

#include <errno.h>
#include <unistd.h>

// A write that is cut short gives no reason; the next one does.
bool append_whole(int fd, const void *bytes, size_t count, off_t end) {
  size_t done = 0;
  while (done < count) {
    ssize_t written = write(fd, (const char *)bytes + done, count - done);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) break;
    done += (size_t)written;
  }
  if (done == count) return true;
  int reason = errno;
  if (ftruncate(fd, end) != 0 && done > 0) reason = errno;
  errno = reason;
  return false;
}
