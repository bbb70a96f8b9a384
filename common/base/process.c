#include "common/base/process.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

void process_init(void) {
  // open() takes the lowest number that is free.
  int fd;
  do fd = open("/dev/null", O_RDWR);
  while (fd >= 0 && fd <= STDERR_FILENO);
  if (fd > STDERR_FILENO) close(fd);
  signal(SIGPIPE, SIG_IGN);
  process_ignore_file_limit();
}

void process_ignore_file_limit(void) {
  signal(SIGXFSZ, SIG_IGN);
}

enum status process_flush(struct error *error) {
  if (fflush(stdout) == 0 && !ferror(stdout)) return STATUS_OK;
  return status_fail(error, STATUS_IO, "cannot write to stdout: %s", strerror(errno));
}

bool process_ignores(int signal_number) {
  struct sigaction action;
  bool may_be = signal_number == SIGINT || signal_number == SIGHUP;
  return may_be && sigaction(signal_number, NULL, &action) == 0 && action.sa_handler == SIG_IGN;
}
