#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <signal.h>
#include <sys/time.h>

#include "common/base/clock.h"

static volatile sig_atomic_t num_signals;

static void count_signal(int number) {
  (void)number;
  num_signals++;
}

static void test_time_never_goes_back(void **state) {
  (void)state;
  int64_t last = clock_now_us();
  for (int i = 0; i < 10000; i++) {
    int64_t now = clock_now_us();
    assert_true(now >= last);
    last = now;
  }
}

static void test_sleep_takes_its_time(void **state) {
  (void)state;
  static const int64_t sleeps_us[] = {-5, 0, 1, 1500, 20000};
  for (size_t i = 0; i < sizeof sleeps_us / sizeof sleeps_us[0]; i++) {
    int64_t start = clock_now_us();
    clock_sleep_us(sleeps_us[i]);
    assert_true(clock_now_us() - start >= sleeps_us[i]);
  }
}

static void test_signals_do_not_shorten_a_sleep(void **state) {
  (void)state;
  struct sigaction action = {.sa_handler = count_signal};
  sigaction(SIGALRM, &action, NULL);
  struct itimerval every_2_ms = {.it_value.tv_usec = 2000, .it_interval.tv_usec = 2000};
  setitimer(ITIMER_REAL, &every_2_ms, NULL);
  int64_t start = clock_now_us();
  clock_sleep_us(30000);
  int64_t slept_us = clock_now_us() - start;
  setitimer(ITIMER_REAL, &(struct itimerval){{0, 0}, {0, 0}}, NULL);
  assert_true(slept_us >= 30000);
  assert_true(num_signals > 0);
}

static void test_cpu_time_is_that_of_work(void **state) {
  (void)state;
  // Work is counted, by the process and by its one thread.
  int64_t process = clock_process_cpu_us(), thread = clock_thread_cpu_us();
  int64_t start = clock_now_us();
  while (clock_thread_cpu_us() - thread < 5000 && clock_now_us() - start < 5000000) {
  }
  assert_true(clock_thread_cpu_us() - thread >= 5000);
  assert_true(clock_process_cpu_us() - process >= 4000);

  // Sleep is not.
  thread = clock_thread_cpu_us();
  clock_sleep_us(50000);
  assert_true(clock_thread_cpu_us() - thread < 25000);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_time_never_goes_back),
      cmocka_unit_test(test_sleep_takes_its_time),
      cmocka_unit_test(test_signals_do_not_shorten_a_sleep),
      cmocka_unit_test(test_cpu_time_is_that_of_work),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
