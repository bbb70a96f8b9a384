/* Holds one thread of a process, as a computation without end would, until this program ends.
 * Usage: hold_thread PID NAME, where NAME is the thread's. Prints "held" once it is. Exit code 77
 * if this machine does not allow it.
 * Upstream: status.sh. */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

enum { NOT_ALLOWED = 77 };

static int is_named(const char *tasks, const char *tid, const char *name) {
  char path[128], comm[32] = "";
  snprintf(path, sizeof(path), "%s/%.20s/comm", tasks, tid);
  FILE *file = fopen(path, "r");
  if (!file) return 0;
  if (fgets(comm, sizeof(comm), file)) comm[strcspn(comm, "\n")] = 0;
  fclose(file);
  return strcmp(comm, name) == 0;
}

static pid_t find_thread(const char *pid, const char *name) {
  char tasks[64];
  pid_t found = 0;
  snprintf(tasks, sizeof(tasks), "/proc/%.20s/task", pid);
  DIR *folder = opendir(tasks);
  if (!folder) return 0;
  for (struct dirent *entry; !found && (entry = readdir(folder));)
    if (is_named(tasks, entry->d_name, name)) found = (pid_t)atol(entry->d_name);
  closedir(folder);
  return found;
}

int main(int argc, char **argv) {
  if (argc != 3) return 2;
  pid_t thread = find_thread(argv[1], argv[2]);
  if (thread == 0) {
    fprintf(stderr, "hold_thread: process %s has no thread '%s'\n", argv[1], argv[2]);
    return 1;
  }
  if (ptrace(PTRACE_SEIZE, thread, NULL, NULL) != 0) return errno == EPERM ? NOT_ALLOWED : 1;
  int status;
  if (ptrace(PTRACE_INTERRUPT, thread, NULL, NULL) != 0 || waitpid(thread, &status, __WALL) < 0)
    return 1;
  puts("held");
  fflush(stdout);
  pause();
  return 0;
}
