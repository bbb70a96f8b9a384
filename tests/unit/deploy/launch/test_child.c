/* One child process, by shell lines: what it writes, how it ends, what goes with it. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/base/clock.h"
#include "deploy/launch/child.h"
#include "tests/unit/support/skip.h"

enum { PATIENCE_MS = 10000, POLL_US = 10000 };

struct run {
  struct child child;
  char *command[4];
  FILE *output;
  int exit_code, signum;
};

static int start(struct run *run, const char *line) {
  memset(run, 0, sizeof(*run));
  char *command[] = {"/bin/sh", "-c", (char *)line, NULL};
  memcpy(run->command, command, sizeof(command));
  run->child = (struct child){.command = run->command};
  run->output = tmpfile();
  return child_start(&run->child, fileno(run->output));
}

/* What the child has written so far. */
static const char *written(const struct run *run) {
  static char text[512];
  ssize_t bytes = pread(fileno(run->output), text, sizeof(text) - 1, 0);
  text[bytes > 0 ? bytes : 0] = '\0';
  return text;
}

static void wait_until_written(const struct run *run) {
  for (int ms = 0; !strchr(written(run), '\n'); ms += POLL_US / 1000) {
    assert_true(ms < PATIENCE_MS);
    clock_sleep_us(POLL_US);
  }
}

static void finish(struct run *run) {
  for (int ms = 0; !child_has_ended(&run->child, &run->exit_code, &run->signum);
       ms += POLL_US / 1000) {
    assert_true(ms < PATIENCE_MS);
    clock_sleep_us(POLL_US);
  }
  assert_false(run->child.alive);
  int other;
  assert_false(child_has_ended(&run->child, &other, &other)); /* that is told once */
}

static void shut(struct run *run) {
  fclose(run->output);
}

/* Dead, or a zombie that nobody has reaped yet. */
static bool is_gone(pid_t pid) {
  char path[64], state = 'X';
  snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
  FILE *file = fopen(path, "r");
  if (!file) return true;
  if (fscanf(file, "%*d %*s %c", &state) != 1) state = 'X';
  fclose(file);
  return state == 'X' || state == 'Z';
}

static void expect_gone(pid_t pid) {
  assert_true(pid > 0);
  for (int ms = 0; !is_gone(pid); ms += POLL_US / 1000) {
    assert_true(ms < PATIENCE_MS);
    clock_sleep_us(POLL_US);
  }
}

/* ---- tests */

/* The child of the process in between says its number, and what it was told, in a file that both
 * share with us. */
static void it_is_told_when_its_parent_is_killed(void **state) {
  (void)state;
  struct run run = {.output = tmpfile()};
  pid_t between = fork();
  if (between == 0) {
    char line[160];
    snprintf(line, sizeof(line),
             "exec >>/proc/%d/fd/%d; trap 'echo told; exit' TERM; echo $$; "
             "while :; do sleep 0.05; done",
             (int)getppid(), fileno(run.output));
    _exit(start(&run, line) == 0 ? pause() : 1);
  }
  wait_until_written(&run);
  int child = atoi(written(&run));
  kill(between, SIGKILL);
  assert_int_equal(waitpid(between, NULL, 0), between);
  expect_gone(child);
  assert_non_null(strstr(written(&run), "\ntold\n"));
  shut(&run);
}

/* Which file the launcher of MPI has left is a variable's. */
static void the_connection_to_mpi_stays_open(void **state) {
  (void)state;
  struct run run;
  int other = fcntl(STDERR_FILENO, F_DUPFD, 20), mpi = fcntl(STDERR_FILENO, F_DUPFD, 30);
  int last = fcntl(STDERR_FILENO, F_DUPFD, 40);
  char number[16];
  snprintf(number, sizeof(number), "%d", mpi);
  setenv("PMI_FD", number, 1);
  assert_int_equal(start(&run, "cd /proc/self/fd && echo *"), 0);
  finish(&run);
  unsetenv("PMI_FD");
  snprintf(number, sizeof(number), " %d\n", mpi);
  assert_non_null(strstr(written(&run), number)); /* the last one */
  snprintf(number, sizeof(number), " %d ", other);
  assert_null(strstr(written(&run), number));
  shut(&run);
  close(other), close(mpi), close(last);
}

static void output_goes_to_the_file_and_the_exit_code_comes_back(void **state) {
  (void)state;
  struct run run;
  assert_int_equal(start(&run, "echo out; echo err >&2; exit 7"), 0);
  assert_true(run.child.alive);
  finish(&run);
  assert_string_equal(written(&run), "out\nerr\n");
  assert_int_equal(run.exit_code, 7);
  assert_int_equal(run.signum, 0);
  shut(&run);
}

static void a_signal_is_told_from_an_exit_code(void **state) {
  (void)state;
  struct run run;
  assert_int_equal(start(&run, "kill -ABRT $$"), 0);
  finish(&run);
  assert_int_equal(run.exit_code, 0);
  assert_int_equal(run.signum, SIGABRT);
  shut(&run);
}

static void what_it_started_goes_with_it(void **state) {
  (void)state;
  struct run run;
  assert_int_equal(start(&run, "trap '' TERM; sleep 100 & echo $!; exit 3"), 0);
  finish(&run);
  assert_int_equal(run.exit_code, 3);
  expect_gone(atoi(written(&run)));
  shut(&run);
}

static void a_signal_goes_to_the_whole_group(void **state) {
  (void)state;
  struct run run;
  const char *line =
      "exec 2>/dev/null; trap 'wait; echo outer; exit 4' TERM; "
      "(trap 'echo inner; exit' TERM; echo on; while :; do sleep 0.05; done) & wait";
  assert_int_equal(start(&run, line), 0);
  wait_until_written(&run);
  assert_int_equal(getpgid(run.child.pid), run.child.pid);
  assert_int_equal(getsid(run.child.pid), getsid(0));
  child_signal(&run.child, SIGTERM);
  finish(&run);
  assert_string_equal(written(&run), "on\ninner\nouter\n");
  assert_int_equal(run.exit_code, 4);
  child_signal(&run.child, SIGTERM); /* it has ended: nobody gets this */
  shut(&run);
}

/* The reason comes back at once, and the same child can be started with another program. */
static void a_program_that_cannot_run_is_an_error(void **state) {
  (void)state;
#ifdef __SANITIZE_THREAD__
  SKIP("TSan's vfork is a fork, from which the reason does not come back");
#endif
  struct run run;
  memset(&run, 0, sizeof(run));
  run.output = tmpfile();
  run.child = (struct child){.command = run.command};
  run.command[0] = "/nowhere/program";
  assert_int_equal(child_start(&run.child, fileno(run.output)), ENOENT);
  assert_false(run.child.alive);
  run.command[0] = "/";
  assert_int_equal(child_start(&run.child, fileno(run.output)), EACCES);
  assert_int_equal(waitpid(-1, NULL, WNOHANG), -1); /* no zombie is left */
  run.command[0] = "/bin/true";
  assert_int_equal(child_start(&run.child, fileno(run.output)), 0);
  finish(&run);
  assert_int_equal(run.exit_code, 0);
  shut(&run);
}

/* An empty stdin, no file but the three, no signal ignored or blocked. */
static void it_inherits_nothing(void **state) {
  (void)state;
  struct run run;
  int own = open("/dev/null", O_RDONLY);
  assert_int_equal(dup2(own, 57), 57);
  signal(SIGPIPE, SIG_IGN);
  sigset_t blocked, before;
  sigemptyset(&blocked);
  sigaddset(&blocked, SIGUSR1);
  sigprocmask(SIG_BLOCK, &blocked, &before);
  // The shell reads by itself: while it starts a program, it has signals blocked.
  assert_int_equal(start(&run,
                         "cat; [ -e /proc/$$/fd/57 ] && echo open; while read -r line; do "
                         "case $line in SigBlk*|SigIgn*) echo \"$line\"; esac; "
                         "done </proc/$$/status; kill -PIPE $$"),
                   0);
  finish(&run);
  sigset_t now;
  sigprocmask(SIG_SETMASK, &before, &now);
  assert_true(sigismember(&now, SIGUSR1)); /* ours is as it was */
  assert_false(sigismember(&now, SIGCHLD));
  signal(SIGPIPE, SIG_DFL);
  unsigned long blocked_there, ignored_there;
  const unsigned long libc_own = 3UL << 31; /* 32 and 33: make 4.3 starts us with those ignored */
  assert_int_equal(sscanf(written(&run), "SigBlk: %lx SigIgn: %lx", &blocked_there, &ignored_there),
                   2);
  assert_int_equal(blocked_there, 0);
  assert_int_equal(ignored_there & ~libc_own, 0);
  assert_int_equal(run.signum, SIGPIPE);
  close(57);
  close(own);
  shut(&run);
}

static void it_gets_one_file_to_say_a_word(void **state) {
  (void)state;
  struct run run = {.output = tmpfile()};
  int words[2];
  char word[8] = "";
  assert_int_equal(pipe2(words, O_CLOEXEC), 0);
  char line[] = "echo word >&3; for fd in /proc/$$/fd/[4-9]; do [ -e $fd ] && exit 1; done; exit 0";
  char *command[] = {"/bin/sh", "-c", line, NULL};
  run.child = (struct child){.command = command, .word = words[1]};
  assert_int_equal(child_start(&run.child, -1), 0);
  finish(&run);
  assert_int_equal(run.exit_code, 0);
  assert_int_equal(read(words[0], word, sizeof(word) - 1), 5);
  assert_string_equal(word, "word\n");
  close(words[0]);
  close(words[1]);
  shut(&run);
}

static void an_end_is_described(void **state) {
  (void)state;
  char text[64];
  child_describe_end(text, sizeof(text), 0, SIGSEGV);
  assert_string_equal(text, "was killed by signal 11 (Segmentation fault)");
  child_describe_end(text, sizeof(text), 1, 0);
  assert_string_equal(text, "ended with exit code 1");
  child_describe_end(text, sizeof(text), 128 + SIGTERM, 0);
  assert_string_equal(text, "was stopped by SIGTERM");
  child_describe_end(text, sizeof(text), 255, 0);
  assert_string_equal(text, "ended with exit code 255");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(it_is_told_when_its_parent_is_killed),
      cmocka_unit_test(the_connection_to_mpi_stays_open),
      cmocka_unit_test(output_goes_to_the_file_and_the_exit_code_comes_back),
      cmocka_unit_test(a_signal_is_told_from_an_exit_code),
      cmocka_unit_test(what_it_started_goes_with_it),
      cmocka_unit_test(a_signal_goes_to_the_whole_group),
      cmocka_unit_test(a_program_that_cannot_run_is_an_error),
      cmocka_unit_test(it_inherits_nothing),
      cmocka_unit_test(it_gets_one_file_to_say_a_word),
      cmocka_unit_test(an_end_is_described),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
