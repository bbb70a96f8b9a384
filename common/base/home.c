#include "common/base/home.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int pipe_end = -1;

void home_init(void) {
  const char *text = getenv(HOME_VARIABLE);
  struct stat what;
  int fd = text ? atoi(text) : -1;
  // Nobody else's file is written to where the variable has come from farther away.
  if (fd > STDERR_FILENO && fstat(fd, &what) == 0 && S_ISFIFO(what.st_mode)) {
    pipe_end = fd;
    fcntl(fd, F_SETFD, FD_CLOEXEC);
  }
  unsetenv(HOME_VARIABLE);
}

void home_say(void) {
  char word[HOME_WORD_BYTES + 1];
  snprintf(word, sizeof word, "%-*d\n", HOME_WORD_BYTES - 1, (int)getpid());
  if (pipe_end >= 0) (void)!write(pipe_end, word, HOME_WORD_BYTES);
}

int home_read(const char word[HOME_WORD_BYTES]) {
  char text[HOME_WORD_BYTES] = "";
  if (word[HOME_WORD_BYTES - 1] != '\n') return 0;
  memcpy(text, word, HOME_WORD_BYTES - 1);
  int pid = atoi(text);
  return pid > 0 ? pid : 0;
}
