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

void notify_send_number(enum notice notice, int number) {
  char bytes[NOTICE_BYTES + 1];
  snprintf(bytes, sizeof bytes, "%-*d%c\n", LETTER_AT, number, (char)notice);
  if (pipe_end >= 0) (void)!write(pipe_end, bytes, NOTICE_BYTES);
}

void notify_send(enum notice notice) {
  notify_send_number(notice, (int)getpid());
}

void notify_share(posix_spawn_file_actions_t *files) {
  char text[16];
  if (pipe_end < 0) return;
  snprintf(text, sizeof text, "%d", pipe_end);
  setenv(NOTIFY_VARIABLE, text, 1);
  posix_spawn_file_actions_adddup2(files, pipe_end, pipe_end); /* stays open */
}

enum notice notify_read(int *number, const char bytes[NOTICE_BYTES]) {
  static const char letters[] = {NOTICE_STEPPED, NOTICE_SAVING,        NOTICE_FINISHED,
                                 NOTICE_STARTED, NOTICE_LEARNER_ENDED, NOTICE_LEARNER_SILENT};
  char text[NOTICE_BYTES] = "", letter = bytes[LETTER_AT];
  memcpy(text, bytes, LETTER_AT);
  *number = atoi(text);
  if (*number <= 0 || bytes[LETTER_AT + 1] != '\n') return NOTICE_NONE;
  return memchr(letters, letter, sizeof letters) ? (enum notice)letter : NOTICE_NONE;
}
