#include "actor/signals.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#include "common/base/check.h"
#include "common/base/process.h"

static const int numbers[] = {SIGTERM, SIGINT, SIGUSR1};
enum { NUM_NUMBERS = sizeof numbers / sizeof *numbers };

/* A handler has no other way to know. */
static pid_t owner;
static int read_end, write_end; /* of a pipe: a byte for each signal, 0 for a wake */
static atomic_int ends_untaken;
static bool ignored[NUM_NUMBERS]; /* at the start: an environment's own SIG_IGN does not count */

static bool is_end(int number) {
  return number == SIGTERM || number == SIGINT;
}

/* Never blocks: a pipe that is full wakes its reader as well. */
static void put(uint8_t byte) {
  (void)!write(write_end, &byte, 1);
}

static void on_signal(int number) {
  // A fork of ours has this handler and this pipe, but they are not its own. The signal that is
  // raised comes when this function has returned.
  if (getpid() != owner) {
    signal(number, SIG_DFL);
    raise(number);
    return;
  }
  if (is_end(number) && atomic_fetch_add(&ends_untaken, 1) > 0) _exit(SIGNALS_EXIT + number);
  int before = errno;
  put((uint8_t)number);
  errno = before;
}

/* Whoever started this process may have had them blocked. */
static void handle_all(void (*handler)(int)) {
  sigset_t all;
  sigemptyset(&all);
  // A thread of an environment may have a small stack of its own kind, as Go's have.
  struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART | SA_ONSTACK};
  for (int i = 0; i < NUM_NUMBERS; i++) {
    if (ignored[i]) continue;
    sigaction(numbers[i], &action, NULL);
    sigaddset(&all, numbers[i]);
  }
  pthread_sigmask(SIG_UNBLOCK, &all, NULL);
}

void signals_start(void) {
  int ends[2];
  CHECK(pipe2(ends, O_CLOEXEC | O_NONBLOCK) == 0, "no pipe for signals: errno %d", errno);
  read_end = ends[0];
  write_end = ends[1];
  owner = getpid();
  for (int i = 0; i < NUM_NUMBERS; i++) ignored[i] = process_ignores(numbers[i]);
  handle_all(on_signal);
}

void signals_keep(void) {
  handle_all(on_signal);
}

void signals_stop(void) {
  handle_all(SIG_DFL);
}

int signals_wait(int ms) {
  struct pollfd end = {.fd = read_end, .events = POLLIN};
  int ready;
  // What interrupts it has put a byte there, or is none of ours.
  do ready = poll(&end, 1, ms);
  while (ready < 0 && errno == EINTR);
  uint8_t byte;
  if (ready <= 0 || read(read_end, &byte, 1) != 1) return -1;
  if (is_end(byte)) atomic_fetch_sub(&ends_untaken, 1);
  return byte;
}

void signals_wake(void) {
  put(0);
}
