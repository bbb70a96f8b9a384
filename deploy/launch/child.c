#include "deploy/launch/child.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/cluster/mpi_world.h"

/* Plus its number: how a program ends that a signal has stopped in good order. */
enum { EXIT_SIGNAL = 128 };

// Signals as a shell passes them to its children: none ignored, except SIGTTOU, which stops a
// background process that writes to a terminal with `stty tostop`.
static void reset_signals(void) {
  for (int signum = 1; signum < NSIG; signum++)
    if (signum != SIGTTOU) signal(signum, SIG_DFL);
}

// The file `word` becomes CHILD_WORD, and stays open in the new program. Returns the last file that
// does.
static int keep_word(int word) {
  if (word == CHILD_WORD) return fcntl(word, F_SETFD, 0) == 0 ? CHILD_WORD : -1;
  return word ? dup2(word, CHILD_WORD) : STDERR_FILENO;
}

// stdin is empty, stdout and stderr are `output` unless it is negative; all else but MPI is closed.
static bool set_files(int output, int word) {
  int empty = open("/dev/null", O_RDONLY);
  if (empty < 0 || dup2(empty, STDIN_FILENO) < 0) return false;
  if (output >= 0 && (dup2(output, STDOUT_FILENO) < 0 || dup2(output, STDERR_FILENO) < 0))
    return false;
  int last = keep_word(word), mpi = mpi_world_connection(-1);
  if (last > 0 && mpi > last) close_range((unsigned)last + 1, (unsigned)mpi - 1, 0), last = mpi;
  return last > 0 && (close_range((unsigned)last + 1, ~0U, 0) == 0 || errno == ENOSYS);
}

// The new process, up to its program. It asks for a SIGTERM at its parent's end before anything
// else can happen to it; if the parent has ended before that, so does it. Returns only on failure.
//
// A process group, not a session: the kernel shares the cores between sessions first (autogroup),
// so that a learner in a session of its own would get the share of one actor.
static void become(const struct child *child, int output, pid_t parent) {
  sigset_t none;
  sigemptyset(&none);
  reset_signals();
  if (prctl(PR_SET_PDEATHSIG, SIGTERM) != 0) return;
  if (getppid() != parent) _exit(EXIT_FAILURE);
  if (setpgid(0, 0) != 0 || !set_files(output, child->word)) return;
  sigprocmask(SIG_SETMASK, &none, NULL);
  execv(child->command[0], child->command);
}

// vfork: the parent waits until the program has been started, and sees what went wrong. Returns 0
// or errno. Signals are blocked.
static int spawn(struct child *child, int output) {
  pid_t parent = getpid();
  volatile int reason = 0;
  child->pid = vfork();
  if (child->pid == 0) {
    become(child, output, parent);
    reason = errno;
    _exit(EXIT_FAILURE);
  }
  if (child->pid < 0) return errno;
  if (reason) waitpid(child->pid, NULL, 0);
  return reason;
}

// No handler of ours runs in the child.
int child_start(struct child *child, int output) {
  sigset_t all, before;
  mpi_world_connection(CHILD_WORD);
  sigfillset(&all);
  sigprocmask(SIG_SETMASK, &all, &before);
  int reason = spawn(child, output);
  child->alive = reason == 0;
  sigprocmask(SIG_SETMASK, &before, NULL);
  return reason;
}

bool child_has_ended(struct child *child, int *exit_code, int *signum) {
  int status = 0;
  if (!child->alive) return false;
  pid_t ended = waitpid(child->pid, &status, WNOHANG);
  if (ended == 0 || (ended < 0 && errno == EINTR)) return false;
  child->alive = false;
  // What it had started goes with it.
  kill(-child->pid, SIGKILL);
  *exit_code = ended > 0 && WIFEXITED(status) ? WEXITSTATUS(status) : 0;
  *signum = ended > 0 && WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  return true;
}

void child_signal(const struct child *child, int signum) {
  if (child->alive) kill(-child->pid, signum);
}

void child_describe_end(char *text, size_t bytes, int exit_code, int signum) {
  if (signum)
    snprintf(text, bytes, "was killed by signal %d (%s)", signum, strsignal(signum));
  else if (exit_code > EXIT_SIGNAL && sigabbrev_np(exit_code - EXIT_SIGNAL))
    snprintf(text, bytes, "was stopped by SIG%s", sigabbrev_np(exit_code - EXIT_SIGNAL));
  else
    snprintf(text, bytes, "ended with exit code %d", exit_code);
}
