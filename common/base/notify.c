#include "common/base/notify.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LETTER_AT = NOTICE_BYTES - 2 };

static int pipe_end = -1;

void notify_init(void) {
  const char *text = getenv(NOTIFY_VARIABLE);
  struct stat what;
  int fd = text ? atoi(text) : -1;
  // Only to a pipe: the variable may have been inherited from farther away.
  if (fd > STDERR_FILENO && fstat(fd, &what) == 0 && S_ISFIFO(what.st_mode)) {
    pipe_end = fd;
    fcntl(fd, F_SETFD, FD_CLOEXEC);
  }
  unsetenv(NOTIFY_VARIABLE);
}

void notify_send(enum notice notice) {
  char bytes[NOTICE_BYTES + 1];
  snprintf(bytes, sizeof bytes, "%-*d%c\n", LETTER_AT, (int)getpid(), (char)notice);
  if (pipe_end >= 0) (void)!write(pipe_end, bytes, NOTICE_BYTES);
}

enum notice notify_read(int *pid, const char bytes[NOTICE_BYTES]) {
  char number[NOTICE_BYTES] = "", letter = bytes[LETTER_AT];
  memcpy(number, bytes, LETTER_AT);
  *pid = atoi(number);
  if (*pid <= 0 || bytes[LETTER_AT + 1] != '\n') return NOTICE_NONE;
  bool is_notice = letter == NOTICE_STEPPED || letter == NOTICE_SAVING || letter == NOTICE_FINISHED;
  return is_notice ? (enum notice)letter : NOTICE_NONE;
}
