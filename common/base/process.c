#include "common/base/process.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <uv.h>

#include "common/base/group_memory.h"

void process_init(void) {
  // open() takes the lowest number that is free.
  int fd;
  do fd = open("/dev/null", O_RDWR);
  while (fd >= 0 && fd <= STDERR_FILENO);
  if (fd > STDERR_FILENO) close(fd);
  signal(SIGPIPE, SIG_IGN);
  process_ignore_file_limit();
}

void process_ignore_file_limit(void) {
  signal(SIGXFSZ, SIG_IGN);
}

static char late_line[128];
static volatile sig_atomic_t late_exit_code;

static void on_late(int signal_number) {
  (void)signal_number;
  (void)!write(STDERR_FILENO, late_line, strlen(late_line));
  _exit(late_exit_code);
}

void process_end_within(int seconds, int exit_code) {
  snprintf(late_line, sizeof(late_line), "%s: %d s after its work it has not ended: ending it\n",
           program_invocation_short_name, seconds);
  late_exit_code = exit_code;
  signal(SIGALRM, on_late);
  alarm((unsigned)seconds);
}

void process_end_interrupted(void) {
  sigset_t interrupt;
  sigemptyset(&interrupt);
  sigaddset(&interrupt, SIGINT);
  fflush(NULL);
  signal(SIGINT, SIG_DFL);
  sigprocmask(SIG_UNBLOCK, &interrupt, NULL);
  raise(SIGINT);
  _exit(PROCESS_INTERRUPTED);
}

enum status process_flush(struct error *error) {
  if (fflush(stdout) == 0 && !ferror(stdout)) return STATUS_OK;
  return status_fail(error, STATUS_IO, "cannot write to stdout: %s", strerror(errno));
}

bool process_ignores(int signal_number) {
  struct sigaction action;
  bool may_be = signal_number == SIGINT || signal_number == SIGHUP;
  return may_be && sigaction(signal_number, NULL, &action) == 0 && action.sa_handler == SIG_IGN;
}

int process_cores(void) {
  return (int)uv_available_parallelism();
}

double process_memory(void) {
  return fmin((double)uv_get_total_memory(), group_memory("/sys/fs/cgroup", "/proc/self/cgroup"));
}
