#include "actor/check_apart.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "actor/signals.h"

/* Ends as the child does. */
__attribute__((noreturn)) static void wait_for_check(pid_t child, const volatile bool *complete,
                                                     const char *env) {
  int how = 0;
  signals_stop();
  while (waitpid(child, &how, 0) < 0 && errno == EINTR) continue;
  int exit_code = WIFSIGNALED(how) ? SIGNALS_EXIT + WTERMSIG(how) : WEXITSTATUS(how);
  if (exit_code == EXIT_SUCCESS && !*complete) {
    fprintf(stderr, "actor: error: environment %s ended the process (_exit)\n", env);
    exit_code = EXIT_FAILURE;
  }
  _exit(exit_code);
}

volatile bool *check_apart(const char *env) {
  static bool alone;
  volatile bool *complete =
      mmap(NULL, sizeof *complete, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (complete == MAP_FAILED) return &alone;
  pid_t parent = getpid(), child = fork();
  if (child > 0) wait_for_check(child, complete, env);
  if (child == 0) prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (child == 0 && getppid() != parent) _exit(EXIT_FAILURE);
  return complete;
}
