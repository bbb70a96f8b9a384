/* Queries the space of an environment in a child process, so that a crash of its code is an error
 * here. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "envs/registry.h"

enum { LONGEST_S = 1000 * 1000 }; /* that poll can wait for */

/* In memory that both processes share. */
struct answer {
  volatile bool given; /* last: an environment may end its process with any exit code */
  enum status status;
  struct error error;
  struct space space;
};

/* The child. It gets a copy of what its parent has not written yet, and leaves that to it. */
static void answer(struct answer *out, const struct acorn_env *env,
                   const struct acorn_config *config, pid_t parent) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(1);
  out->status = registry_space(&out->space, env, config, &out->error);
  out->given = true;
  fflush(stdout);
  _exit(0);
}

/* Whether the child has ended by itself. What it has started may live on and keep its files open,
 * so that only the process itself tells. */
static bool wait_for_end(pid_t child, unsigned limit_s) {
  int end = pidfd_open(child, 0);
  if (end < 0) return true; // it is waited for without a limit
  int64_t limit_us = (int64_t)(limit_s < LONGEST_S ? limit_s : LONGEST_S) * 1000000;
  int64_t start_us = clock_now_us(), waited_us = 0;
  struct pollfd poll_end = {.fd = end, .events = POLLIN};
  int ready = 0;
  while (ready == 0 && (limit_s == 0 || waited_us < limit_us)) {
    ready = poll(&poll_end, 1, limit_s == 0 ? -1 : (int)((limit_us - waited_us) / 1000) + 1);
    if (ready < 0 && errno == EINTR) ready = 0;
    waited_us = clock_now_us() - start_us;
  }
  close(end);
  return ready != 0;
}

static enum status fail_early_end(const struct acorn_env *env, int how, struct error *error) {
  if (WIFSIGNALED(how))
    return status_fail(error, STATUS_IO, "environment %s crashed in space (SIG%s)", env->name,
                       sigabbrev_np(WTERMSIG(how)));
  return status_fail(error, STATUS_IO, "environment %s ended the process in space (exit code %d)",
                     env->name, WEXITSTATUS(how));
}

/* The parent's part, up to the child's end. */
static enum status await(const struct answer *answer, const struct acorn_env *env, pid_t child,
                         unsigned limit_s, struct error *error) {
  int how = 0;
  bool ended = wait_for_end(child, limit_s);
  // One that has answered and does not end has threads or handlers of its own; that harms nobody.
  if (!ended) kill(child, SIGKILL);
  while (waitpid(child, &how, 0) < 0 && errno == EINTR) {
  }
  if (answer->given) return STATUS_OK;
  if (ended) return fail_early_end(env, how, error);
  return status_fail(error, STATUS_IO,
                     "environment %s hangs in space for more than %u s (--hang_s)", env->name,
                     limit_s);
}

enum status registry_space_apart(struct space *out, const struct acorn_env *env,
                                 const struct acorn_config *config, unsigned limit_s,
                                 struct error *error) {
  struct answer *shared =
      mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED)
    return status_fail(error, STATUS_EXHAUSTED, "environment %s: no memory: %s", env->name,
                       strerror(errno));
  fflush(NULL); // what is not written yet would be written twice
  pid_t parent = getpid(), child = fork();
  if (child == 0) answer(shared, env, config, parent);
  enum status status =
      child > 0 ? await(shared, env, child, limit_s, error)
                : status_fail(error, STATUS_EXHAUSTED, "environment %s: no process for it: %s",
                              env->name, strerror(errno));
  if (status == STATUS_OK) {
    status = shared->status;
    *out = shared->space;
    if (status != STATUS_OK) (void)!status_fail(error, status, "%s", shared->error.text);
  }
  munmap(shared, sizeof *shared);
  return status;
}
