#include "actor/crash.h"

#include <signal.h>
#include <stddef.h>
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

void crash_in(const char *what) {
  doing = what;
}

/* Nothing but write is safe in a handler. */
static void append(char *line, const char *text) {
  size_t used = strlen(line), bytes = strlen(text);
  if (used + bytes < LINE_BYTES) memcpy(line + used, text, bytes + 1);
}

/* `how`: by what means; NULL: there is none. */
static void say(const char *what_it_did, const char *how) {
  char line[LINE_BYTES] = "actor: error: environment ";
  append(line, env_name);
  append(line, what_it_did);
  append(line, doing);
  if (how) append(line, " (");
  if (how) append(line, how);
  append(line, how ? ")\n" : "\n");
  (void)!write(STDERR_FILENO, line, strlen(line));
}

/* Returns into what failed, which then fails again and ends the process as it would have; a signal
 * that was sent would not come again by itself. */
static void on_crash(int number, siginfo_t *info, void *context) {
  (void)context;
  for (int i = 0; i < NUM_CRASHES; i++) {
    if (crashes[i].number != number) continue;
    if (doing) say(crashes[i].name ? " crashed in " : " hangs in ", crashes[i].name);
    if (number == SIGALRM) _exit(1);
    sigaction(number, &before[i], NULL);
    if (info->si_code <= 0) raise(number);
  }
}

/* Runs on the thread that has called exit. */
static void on_exit_called(void) {
  if (!doing) return;
  say(" ended the process in ", "exit");
  _exit(EXIT_FAILURE);
}

void crash_install(const char *name) {
  env_name = name;
  struct sigaction action = {.sa_sigaction = on_crash, .sa_flags = SA_ONSTACK | SA_SIGINFO};
  for (int i = 0; i < NUM_CRASHES; i++) sigaction(crashes[i].number, &action, &before[i]);
  atexit(on_exit_called);
}

void crash_watch_thread(void *stack) {
  stack_t present, ours = {.ss_sp = stack, .ss_size = CRASH_STACK_BYTES};
  // A sanitizer may have given the thread one, which it counts on.
  if (sigaltstack(NULL, &present) == 0 && (present.ss_flags & SS_DISABLE)) sigaltstack(&ours, NULL);
}
