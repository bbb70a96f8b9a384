/* Loaded into a learner (LD_PRELOAD): sends it SIGTERM as it begins to listen, which is the first
 * moment at which a supervisor would.
 * Upstream: stop.sh. */
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

int listen(int fd, int backlog) {
  kill(getpid(), SIGTERM);
  return (int)syscall(SYS_listen, fd, backlog);
}
