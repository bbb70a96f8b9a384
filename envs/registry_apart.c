/* Queries an environment in a child process, so that a crash of its code is an error here. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/cluster/mpi_world.h"
#include "envs/registry.h"

enum { LONGEST_S = 1000 * 1000 }; /* that poll can wait for */

/* In memory that both processes share. */
struct shared {
  volatile bool given;     /* last: an environment may end its process with any exit code */
  const char *volatile in; /* what runs the environment's code: a literal, the same in both */
  enum status status;
  struct error error;
  struct registry_answer answer;
};

static enum status ask(struct shared *shared, const struct registry_question *question,
                       struct error *error) {
  const struct acorn_env *env;
  struct acorn_config config; /* it ends with the process */
  struct registry_answer *out = &shared->answer;
  enum status status = registry_find(&env, question->word, error);
  if (status != STATUS_OK) return status;
  snprintf(out->name, sizeof out->name, "%s", env->name);
  if (!question->env_args) return STATUS_OK;
  status = registry_config(&config, env, question->env_args, error);
  if (status != STATUS_OK || !question->asks_space) return status;
  registry_identity(out->identity, sizeof out->identity, env, &config);
  shared->in = "space";
  return registry_space(&out->space, env, &config, error);
}

/* An environment that calls exit is not to run the handlers of the parent, whose threads are not
 * here. */
static void leave(int code, void *unused) {
  (void)unused;
  _exit(code);
}

/* The child. It gets a copy of what its parent has not written yet, and leaves that to it. */
static void answer(struct shared *shared, const struct registry_question *question, pid_t parent) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(1);
  on_exit(leave, NULL);
  mpi_world_leave();
  shared->status = ask(shared, question, &shared->error);
  shared->given = true;
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

/* Why there is no answer. */
static enum status fail(const struct shared *shared, const char *word, bool ended, int how,
                        unsigned limit_s, struct error *error) {
  const char *name = shared->answer.name[0] ? shared->answer.name : word;
  if (!ended)
    return status_fail(error, STATUS_IO, "environment %s hangs in %s for more than %u s (--hang_s)",
                       name, shared->in, limit_s);
  if (WIFSIGNALED(how))
    return status_fail(error, STATUS_IO, "environment %s crashed in %s (SIG%s)", name, shared->in,
                       sigabbrev_np(WTERMSIG(how)));
  return status_fail(error, STATUS_IO, "environment %s ended the process in %s (exit code %d)",
                     name, shared->in, WEXITSTATUS(how));
}

/* The parent's part, up to the child's end. */
static enum status await(const struct shared *shared, const struct registry_question *question,
                         pid_t child, struct error *error) {
  int how = 0;
  bool ended = wait_for_end(child, question->limit_s);
  // One that has answered and does not end has threads or handlers of its own; that harms nobody.
  if (!ended) kill(child, SIGKILL);
  while (waitpid(child, &how, 0) < 0 && errno == EINTR) {
  }
  if (!shared->given) return fail(shared, question->word, ended, how, question->limit_s, error);
  if (shared->status == STATUS_OK) return STATUS_OK;
  return status_fail(error, shared->status, "%s", shared->error.text);
}

enum status registry_ask_apart(struct registry_answer *out,
                               const struct registry_question *question, struct error *error) {
  struct shared *shared =
      mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED)
    return status_fail(error, STATUS_EXHAUSTED, "environment %s: no memory: %s", question->word,
                       strerror(errno));
  shared->in = "dlopen";
  fflush(NULL); // what is not written yet would be written twice
  pid_t parent = getpid(), child = fork();
  if (child == 0) answer(shared, question, parent);
  enum status status =
      child > 0 ? await(shared, question, child, error)
                : status_fail(error, STATUS_EXHAUSTED, "environment %s: no process for it: %s",
                              question->word, strerror(errno));
  *out = shared->answer;
  munmap(shared, sizeof *shared);
  return status;
}
