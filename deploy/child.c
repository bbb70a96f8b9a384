#include "deploy/child.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static void on_exit_of_process(uv_process_t *process, int64_t exit_code, int signum) {
  struct child *child = process->data;
  child->alive = false;
  uv_close((uv_handle_t *)process, NULL);
  // What it had started goes with it.
  kill(-process->pid, SIGKILL);
  child->on_end(child, exit_code, signum);
}

int child_start(struct child *child, uv_loop_t *loop, int output) {
  uv_stdio_container_t stdio[3] = {{.flags = UV_IGNORE},
                                   {.flags = UV_INHERIT_FD, .data.fd = STDOUT_FILENO},
                                   {.flags = UV_INHERIT_FD, .data.fd = STDERR_FILENO}};
  if (output >= 0) stdio[1].data.fd = stdio[2].data.fd = output;
  uv_process_options_t options = {.exit_cb = on_exit_of_process,
                                  .file = child->command[0],
                                  .args = (char **)child->command,
                                  .flags = UV_PROCESS_DETACHED,
                                  .stdio_count = 3,
                                  .stdio = stdio};
  child->process.data = child;
  int result = uv_spawn(loop, &child->process, &options);
  child->alive = result == 0;
  // A process that did not start still has an open handle.
  if (result != 0) uv_close((uv_handle_t *)&child->process, NULL);
  return result;
}

void child_signal(const struct child *child, int signum) {
  if (child->alive) kill(-child->process.pid, signum);
}

void child_describe_end(char *text, size_t bytes, int64_t exit_code, int signum) {
  if (signum)
    snprintf(text, bytes, "was killed by signal %d (%s)", signum, strsignal(signum));
  else
    snprintf(text, bytes, "ended with exit code %lld", (long long)exit_code);
}
