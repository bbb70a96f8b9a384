#include "common/rpc/steady.h"

#include <dlfcn.h>
#include <linux/futex.h>
#include <stdarg.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "common/base/check.h"

enum { NS = 1000000000 };

typedef long (*system_call)(long number, ...);

/* The C library's. Looked up again where a wait comes first: all threads find the same. */
static system_call next_syscall(void) {
  static _Atomic uintptr_t found;
  union {
    void *symbol;
    uintptr_t bits;
    system_call function;
  } next = {.bits = found};
  if (next.bits) return next.function;
  next.symbol = dlsym(RTLD_NEXT, "syscall");
  CHECK(next.symbol, "there is no syscall() in the C library");
  found = next.bits;
  return next.function;
}

void steady_init(void) {
  next_syscall();
}

/* When `until`, a time of day, will have come by the monotonic clock, unless somebody sets the
 * other. */
static struct timespec to_monotonic(const struct timespec *until) {
  struct timespec wall, steady;
  clock_gettime(CLOCK_REALTIME, &wall);
  clock_gettime(CLOCK_MONOTONIC, &steady);
  int64_t ns = (int64_t)(steady.tv_sec - wall.tv_sec + until->tv_sec) * NS + steady.tv_nsec -
               wall.tv_nsec + until->tv_nsec;
  if (ns < 0) ns = 0;
  return (struct timespec){ns / NS, ns % NS};
}

// The gRPC core must meet it: everything else is hidden from libraries.
__attribute__((visibility("default"))) long syscall(long number, ...) {
  long a[6];
  va_list arguments;
  va_start(arguments, number);
  for (int i = 0; i < 6; i++) a[i] = va_arg(arguments, long);
  va_end(arguments);

  const int by_wall_clock = FUTEX_WAIT_BITSET | FUTEX_CLOCK_REALTIME;
  struct timespec until;
  if (number == SYS_futex && (a[1] & ~FUTEX_PRIVATE_FLAG) == by_wall_clock && a[3]) {
    until = to_monotonic((const struct timespec *)a[3]);
    a[1] &= ~(long)FUTEX_CLOCK_REALTIME;
    a[3] = (long)&until;
  }
  return next_syscall()(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}
