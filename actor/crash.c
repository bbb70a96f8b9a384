#include "actor/crash.h"

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LINE_BYTES = 256 };

static const struct {
  int number;
  const char *name;
} crashes[] = {{SIGSEGV, "SIGSEGV"}, {SIGBUS, "SIGBUS"},   {SIGFPE, "SIGFPE"},
               {SIGILL, "SIGILL"},   {SIGABRT, "SIGABRT"}, {SIGALRM, NULL}};
enum { NUM_CRASHES = sizeof crashes / sizeof *crashes };

/* A signal handler has no other way to know. */
static const char *env_name;
static struct sigaction before[NUM_CRASHES];
static _Thread_local const char *doing;
static pid_t process; /* what an environment forks may end as it wants */
/* Of the one thread with a limit; the alarm may meet another one. */
static _Thread_local unsigned limit_s;
/* Written last: it publishes limit_words. */
static const char *_Atomic limited;
static char limit_words[48];

void crash_limit(unsigned seconds) {
  limit_s = seconds;
  snprintf(limit_words, sizeof limit_words, " for more than %u s (--hang_s)", seconds);
}

void crash_in(const char *what) {
  doing = what;
  if (limit_s == 0) return;
  if (what) limited = what;
  alarm(what ? limit_s : 0);
}

/* Nothing but write is safe in a handler. */
static void append(char *line, const char *text) {
  size_t used = strlen(line), bytes = strlen(text);
  if (used + bytes < LINE_BYTES) memcpy(line + used, text, bytes + 1);
}

static void say(const char *const words[], int num_words) {
  char line[LINE_BYTES] = "actor: error: environment ";
  append(line, env_name);
  for (int i = 0; i < num_words; i++) append(line, words[i]);
  append(line, "\n");
  (void)!write(STDERR_FILENO, line, strlen(line));
}

static void say_crash(const char *signal_name) {
  say((const char *const[]){" crashed in ", doing, " (", signal_name, ")"}, 5);
}

static void say_hang(void) {
  say((const char *const[]){" hangs in ", limited, limit_words}, 3);
}

/* Returns into what failed, which then fails again and ends the process as it would have; a signal
 * that was sent would not come again by itself. */
static void on_crash(int number, siginfo_t *info, void *context) {
  (void)context;
  for (int i = 0; i < NUM_CRASHES; i++) {
    if (crashes[i].number != number) continue;
    if (number == SIGALRM) {
      if (limited) say_hang();
      _exit(EXIT_FAILURE);
    }
    if (doing) say_crash(crashes[i].name);
    sigaction(number, &before[i], NULL);
    if (info->si_code <= 0) raise(number);
  }
}

/* On the thread that ends the process by `how`. */
static void refuse_end(const char *how) {
  if (!doing || getpid() != process) return;
  say((const char *const[]){" ended the process in ", doing, " (", how, ")"}, 5);
  _exit(EXIT_FAILURE);
}

static void on_exit_called(void) {
  refuse_end("exit");
}

static void on_quick_exit_called(void) {
  refuse_end("quick_exit");
}

void crash_install(const char *name) {
  bool installed = env_name != NULL;
  env_name = name;
  process = getpid();
  if (installed) return;
  struct sigaction action = {.sa_sigaction = on_crash, .sa_flags = SA_ONSTACK | SA_SIGINFO};
  for (int i = 0; i < NUM_CRASHES; i++) sigaction(crashes[i].number, &action, &before[i]);
  atexit(on_exit_called);
  at_quick_exit(on_quick_exit_called);
}

void crash_watch_thread(void *stack) {
  stack_t present, ours = {.ss_sp = stack, .ss_size = CRASH_STACK_BYTES};
  // A sanitizer may have given the thread one, which it counts on.
  if (sigaltstack(NULL, &present) == 0 && (present.ss_flags & SS_DISABLE)) sigaltstack(&ours, NULL);
}
