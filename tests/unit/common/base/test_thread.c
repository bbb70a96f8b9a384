#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "common/base/thread.h"

struct scene {
  atomic_bool named; /* the name has been looked at: the thread may end */
  int policy;
};

static void *compute(void *argument) {
  struct scene *scene = argument;
  struct sched_param param;
  thread_computes();
  pthread_getschedparam(pthread_self(), &scene->policy, &param);
  while (!atomic_load(&scene->named)) sched_yield();
  return argument;
}

static void test_name_and_policy(void **state) {
  (void)state;
  struct scene scene = {.policy = -1};
  pthread_t thread;
  char name[64];
  void *result;
  thread_start(&thread, "a-name-of-more-than-15", compute, &scene);
  assert_int_equal(pthread_getname_np(thread, name, sizeof(name)), 0);
  assert_string_equal(name, "a-name-of-more-");
  atomic_store(&scene.named, true);
  pthread_join(thread, &result);
  assert_ptr_equal(result, &scene);
  assert_int_equal(scene.policy, SCHED_BATCH);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_name_and_policy)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
