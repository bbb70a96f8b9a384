#include "common/base/process.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

void process_init(void) {
  // open() takes the lowest number that is free.
  int fd;
  do fd = open("/dev/null", O_RDWR);
  while (fd >= 0 && fd <= STDERR_FILENO);
  if (fd > STDERR_FILENO) close(fd);
  signal(SIGPIPE, SIG_IGN);
}
