/* Loaded into a program (LD_PRELOAD): sends it SIGTERM in its calls of STOP_AT. listen: the first
 * moment at which a supervisor would stop a learner; mkdtemp: before what it makes is known.
 * Upstream: stop.sh. */
#include <dlfcn.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static void stop_at(const char *call) {
  const char *chosen = getenv("STOP_AT");
  if (chosen && strcmp(chosen, call) == 0) kill(getpid(), SIGTERM);
}

int listen(int fd, int backlog) {
  stop_at("listen");
  return (int)syscall(SYS_listen, fd, backlog);
}

char *mkdtemp(char *path) {
  char *(*next)(char *);
  *(void **)&next = dlsym(RTLD_NEXT, "mkdtemp");
  char *made = next(path);
  stop_at("mkdtemp");
  return made;
}
