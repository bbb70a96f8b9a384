#include "deploy/tail.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

enum { TAIL_BYTES = 16 * 1024 };

// Reads the end of the file; -1 with errno if that fails.
static ssize_t read_end(char *bytes, const char *path) {
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return -1;
  off_t size = lseek(fd, 0, SEEK_END);
  ssize_t count = pread(fd, bytes, TAIL_BYTES, size > TAIL_BYTES ? size - TAIL_BYTES : 0);
  close(fd);
  return count;
}

void tail_print(FILE *out, const char *path, int lines) {
  char bytes[TAIL_BYTES];
  ssize_t count = read_end(bytes, path);
  if (count < 0) {
    fprintf(out, "(cannot read %s: %s)\n", path, strerror(errno));
    return;
  }
  // Walks back over `lines` line ends, the one of the last line aside.
  ssize_t start = count;
  if (start > 0 && bytes[start - 1] == '\n') start--;
  for (; start > 0; start--)
    if (bytes[start - 1] == '\n' && --lines == 0) break;
  fwrite(bytes + start, 1, (size_t)(count - start), out);
  if (count > start && bytes[count - 1] != '\n') fputc('\n', out);
}
