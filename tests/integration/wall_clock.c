/* A preload library that moves a process's wall clock while it runs, and only that: what asks for
 * the time of day gets it with an offset, and what waits until a time of day (Abseil's futexes,
 * inside gRPC) waits by that clock, as if the system's had been set. The offset, in seconds, stands
 * as text in the file $WALL_CLOCK.
 * Upstream: faults_clock.sh. Thread: any. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

enum { NS = 1000000000, SLICE_NS = 10 * 1000 * 1000, FILE_BYTES = 16 };

static const char *text = "0";

__attribute__((constructor)) static void map_offset(void) {
  const char *path = getenv("WALL_CLOCK");
  int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
  void *map = fd < 0 ? MAP_FAILED : mmap(NULL, FILE_BYTES, PROT_READ, MAP_SHARED, fd, 0);
  if (map == MAP_FAILED) abort();
  text = map;
}

static long real(long number, long a, long b, long c, long d, long e, long f) {
  static long (*next)(long, ...);
  if (!next) *(void **)&next = dlsym(RTLD_NEXT, "syscall");
  return next(number, a, b, c, d, e, f);
}

int clock_gettime(clockid_t id, struct timespec *now) {
  int result = (int)real(SYS_clock_gettime, id, (long)now, 0, 0, 0, 0);
  if (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE) now->tv_sec += atol(text);
  return result;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
  (void)zone;
  struct timespec moment;
  clock_gettime(CLOCK_REALTIME, &moment);
  *now = (struct timeval){moment.tv_sec, moment.tv_nsec / 1000};
  return 0;
}

time_t time(time_t *out) {
  struct timespec moment;
  clock_gettime(CLOCK_REALTIME, &moment);
  if (out) *out = moment.tv_sec;
  return moment.tv_sec;
}

/* In slices, so that a clock that is set meanwhile counts. */
static long wait_until(long word, long value, const struct timespec *until, long bits) {
  for (;;) {
    struct timespec now, slice;
    clock_gettime(CLOCK_REALTIME, &now);
    long long left = (until->tv_sec - now.tv_sec) * (long long)NS + until->tv_nsec - now.tv_nsec;
    if (left > SLICE_NS) left = SLICE_NS;
    if (left < 0) left = 0;
    real(SYS_clock_gettime, CLOCK_MONOTONIC, (long)&slice, 0, 0, 0, 0);
    slice.tv_nsec += left;
    if (slice.tv_nsec >= NS) slice = (struct timespec){slice.tv_sec + 1, slice.tv_nsec - NS};
    int operation = FUTEX_WAIT_BITSET | FUTEX_PRIVATE_FLAG; /* until a time on the steady clock */
    long result = real(SYS_futex, word, operation, value, (long)&slice, 0, bits);
    if (result == 0 || errno != ETIMEDOUT || left == 0) return result;
  }
}

long syscall(long number, ...) {
  long a[6];
  va_list arguments;
  va_start(arguments, number);
  for (int i = 0; i < 6; i++) a[i] = va_arg(arguments, long);
  va_end(arguments);
  if (number == SYS_futex && (a[1] & FUTEX_CLOCK_REALTIME) && a[3])
    return wait_until(a[0], a[2], (const struct timespec *)a[3], a[5]);
  return real(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}
