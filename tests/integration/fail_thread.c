/* Lets the thread number $FAIL_THREAD that a program starts fail, as under a limit of memory or of
 * processes, and reports it on stderr. For LD_PRELOAD. Upstream: limits.sh. */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static atomic_int started;

int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *),
                   void *argument) {
  union {
    void *symbol;
    int (*function)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
  } next = {dlsym(RTLD_NEXT, "pthread_create")};
  const char *failing = getenv("FAIL_THREAD");
  if (!failing || atomic_fetch_add(&started, 1) + 1 != atoi(failing))
    return next.function(thread, attributes, run, argument);
  dprintf(STDERR_FILENO, "fail_thread: thread %s\n", failing);
  return EAGAIN;
}
