// A wait until a time of day, as Abseil makes it. The wall clock of this program is an hour ahead
// of the kernel's: such a wait only ends in time if it is not the kernel's wall clock that ends it.
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/base/clock.h"
#include "common/rpc/steady.h"

int clock_gettime(clockid_t id, struct timespec *now) {
  int result = (int)syscall(SYS_clock_gettime, id, now);
  if (id == CLOCK_REALTIME) now->tv_sec += 3600;
  return result;
}

static int word;

// Waits until so long after now; returns how long it took.
static int64_t wait_us(int operation, int value, int64_t us, int expected) {
  struct timespec until;
  clock_gettime(CLOCK_REALTIME, &until);
  int64_t ns = until.tv_nsec + us * 1000;
  until.tv_sec += ns / 1000000000 - (ns < 0);
  until.tv_nsec = (ns % 1000000000 + 1000000000) % 1000000000;
  int64_t start_us = clock_now_us();
  alarm(10); // an hour is not waited for
  assert_int_equal(
      syscall(SYS_futex, &word, operation, value, &until, NULL, FUTEX_BITSET_MATCH_ANY), -1);
  assert_int_equal(errno, expected);
  alarm(0);
  return clock_now_us() - start_us;
}

static void a_wait_by_the_wall_clock_ends_by_the_monotonic_one(void **state) {
  (void)state;
  static const int flags[] = {0, FUTEX_PRIVATE_FLAG};
  for (int i = 0; i < 2; i++) {
    int operation = FUTEX_WAIT_BITSET | FUTEX_CLOCK_REALTIME | flags[i];
    int64_t us = wait_us(operation, 0, 50000, ETIMEDOUT);
    assert_in_range(us, 49000, 5000000);
    assert_in_range(wait_us(operation, 0, -50000, ETIMEDOUT), 0, 5000000);
    assert_in_range(wait_us(operation, 1, 50000, EAGAIN), 0, 5000000);
  }
}

static void other_calls_are_as_they_were(void **state) {
  (void)state;
  assert_int_equal(syscall(SYS_getpid), getpid());
  assert_int_equal(syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0), 0);
  assert_int_equal(syscall(SYS_close, -1), -1);
  assert_int_equal(errno, EBADF);
}

int main(void) {
  steady_init();
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_wait_by_the_wall_clock_ends_by_the_monotonic_one),
      cmocka_unit_test(other_calls_are_as_they_were),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
