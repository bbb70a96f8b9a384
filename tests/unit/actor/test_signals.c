// The signals of this process; what must end does so in a child.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "actor/signals.h"

extern char **environ;

static void they_come_in_order(void **state) {
  (void)state;
  assert_int_equal(signals_wait(0), -1);
  raise(SIGUSR1);
  raise(SIGTERM);
  assert_int_equal(signals_wait(0), SIGUSR1);
  assert_int_equal(signals_wait(0), SIGTERM);
  assert_int_equal(signals_wait(1), -1);
}

static void *send_soon(void *context) {
  usleep(20000);
  if (context)
    kill(getpid(), *(const int *)context);
  else
    signals_wake();
  return NULL;
}

static void a_wait_ends_with_them(void **state) {
  (void)state;
  static const int interrupt = SIGINT;
  const int *const cases[] = {&interrupt, NULL};
  for (int i = 0; i < 2; i++) {
    pthread_t thread;
    pthread_create(&thread, NULL, send_soon, (void *)cases[i]);
    assert_int_equal(signals_wait(10000), i == 0 ? SIGINT : 0);
    pthread_join(thread, NULL);
  }
}

/* The kernel chooses: threads of environments go on undisturbed. */
static atomic_int taken_by;
static void note_thread(int number) {
  (void)number;
  taken_by = gettid();
}
static void *send_many(void *context) {
  (void)context;
  for (int i = 0; i < 100; i++) {
    taken_by = 0;
    kill(getpid(), SIGUSR1);
    for (int tick = 0; !taken_by && tick < 10000; tick++) usleep(100);
    if (taken_by != getpid()) return "another thread took one";
  }
  return NULL;
}
static void the_main_thread_takes_them(void **state) {
  (void)state;
  /* Not blocked while it is handled: else the next could come before the handler returns, and go to
   * the other thread. */
  struct sigaction note = {.sa_handler = note_thread, .sa_flags = SA_RESTART | SA_NODEFER}, before;
  sigaction(SIGUSR1, &note, &before);
  pthread_t thread;
  void *fault;
  pthread_create(&thread, NULL, send_many, NULL);
  pthread_join(thread, &fault);
  sigaction(SIGUSR1, &before, NULL);
  assert_null(fault);
}

/* How a child ends after a SIGTERM. Where it cannot, the alarm ends it otherwise. */
static int end_of(pid_t child) {
  int status;
  assert_true(child > 0);
  kill(child, SIGTERM);
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_true(WIFSIGNALED(status));
  return WTERMSIG(status);
}

/* As an environment does it, on the thread of its worker. */
static void *start_processes(void *context) {
  pid_t *child = context;
  child[0] = fork();
  if (child[0] == 0) {
    alarm(5);
#ifdef __SANITIZE_THREAD__ // which keeps signals of such a child to itself
    signal(SIGTERM, SIG_DFL);
#endif
    for (;;) pause();
  }
  child[1] = fork();
  if (child[1] == 0) {
    alarm(5);
    execlp("sleep", "sleep", "1000", (char *)NULL);
    _exit(1);
  }
  char *words[] = {"sleep", "5", NULL};
  if (posix_spawnp(&child[2], "sleep", NULL, NULL, words, environ) != 0) child[2] = -1;
  return NULL;
}

static void processes_of_an_environment_end(void **state) {
  (void)state;
  pid_t child[3];
  pthread_t thread;
  pthread_create(&thread, NULL, start_processes, child);
  pthread_join(thread, NULL);
  for (int i = 0; i < 3; i++) assert_int_equal(end_of(child[i]), SIGTERM);
  assert_int_equal(signals_wait(0), -1); // it was theirs alone
}

static int end_of_child(void (*work)(void)) {
  int status;
  pid_t child = fork();
  if (child == 0) {
    work();
    _exit(0);
  }
  assert_int_equal(waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

static void two_untaken(void) {
  signals_start();
  raise(SIGTERM);
  raise(SIGINT);
}
static void two_taken(void) {
  signals_start();
  raise(SIGTERM);
  if (signals_wait(0) != SIGTERM) return;
  raise(SIGINT);
  _exit(7);
}
static void stopped(void) {
  signals_start();
  signals_stop();
  raise(SIGINT);
}
static void blocked_before(void) {
  sigset_t all;
  sigfillset(&all);
  sigprocmask(SIG_BLOCK, &all, NULL);
  signals_start();
  kill(getpid(), SIGTERM);
  _exit(signals_wait(1000));
}

/* As a module of an environment does it that is imported on the main thread. */
static void kept(void) {
  signals_start();
  signal(SIGTERM, note_thread);
  signal(SIGINT, SIG_IGN);
  signals_keep();
  raise(SIGTERM);
  if (signals_wait(0) != SIGTERM) return;
  raise(SIGINT);
  _exit(signals_wait(0));
}
static void ignored_before(void) {
  signal(SIGINT, SIG_IGN);
  signals_start();
  signals_keep();
  raise(SIGINT);
  _exit(signals_wait(0) == -1 ? 8 : 9);
}

static void ends_of_this_process(void **state) {
  (void)state;
  assert_int_equal(end_of_child(two_untaken), SIGNALS_EXIT + SIGINT);
  assert_int_equal(end_of_child(two_taken), 7);
  assert_int_equal(end_of_child(stopped), -SIGINT);
  assert_int_equal(end_of_child(blocked_before), SIGTERM);
  assert_int_equal(end_of_child(kept), SIGINT);
  assert_int_equal(end_of_child(ignored_before), 8);
}

int main(void) {
  signals_start();
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(they_come_in_order),
      cmocka_unit_test(a_wait_ends_with_them),
      cmocka_unit_test(the_main_thread_takes_them),
      cmocka_unit_test(processes_of_an_environment_end),
      cmocka_unit_test(ends_of_this_process),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
