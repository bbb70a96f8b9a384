#include "learner/folder.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "common/base/log.h"

static enum status too_long(const char *path, struct error *error) {
  return status_fail(error, STATUS_INVALID, "--logdir=%s: the path is too long", path);
}

/* mkdir -p. */
static enum status make_folders(const char *path, struct error *error) {
  char part[sizeof(((struct folder *)0)->checkpoints)];
  snprintf(part, sizeof(part), "%s", path);
  for (char *p = part + 1;; p++) {
    if (*p != '/' && *p != '\0') continue;
    char end = *p;
    *p = '\0';
    if (mkdir(part, 0777) != 0 && errno != EEXIST)
      return status_fail(error, STATUS_IO, "cannot create the folder %s: %s", part,
                         strerror(errno));
    if (end == '\0') return STATUS_OK;
    *p = end;
  }
}

static enum status set_paths(struct folder *folder, const char *path, struct error *error) {
  int n = snprintf(folder->path, sizeof(folder->path), "%s", path);
  if (n >= (int)sizeof(folder->path)) return too_long(path, error);
  snprintf(folder->checkpoints, sizeof(folder->checkpoints), "%s/checkpoints", folder->path);
  return STATUS_OK;
}

static bool exists_in(const struct folder *folder, const char *name) {
  char path[1024];
  snprintf(path, sizeof(path), "%s/%s", folder->path, name);
  return access(path, F_OK) == 0;
}

static enum status take_lock(struct folder *folder, struct error *error) {
  char path[1024];
  snprintf(path, sizeof(path), "%s/lock", folder->path);
  folder->lock = open(path, O_CREAT | O_RDWR | O_CLOEXEC, 0666);
  if (folder->lock < 0)
    return status_fail(error, STATUS_IO, "cannot open %s: %s", path, strerror(errno));
  if (flock(folder->lock, LOCK_EX | LOCK_NB) == 0) return STATUS_OK;
  close(folder->lock);
  folder->lock = -1;
  return status_fail(
      error, STATUS_EXISTS,
      "the run folder %s is in use by another learner: stop that one, or choose another --logdir",
      folder->path);
}

enum status folder_open(struct folder *folder, const char *path, const char *env, const char *agent,
                        bool resume, struct error *error) {
  char fresh[512];
  folder->lock = -1;
  if (!path[0]) {
    char when[32];
    time_t now = time(NULL);
    struct tm utc;
    strftime(when, sizeof(when), "%Y%m%d-%H%M%SZ", gmtime_r(&now, &utc));
    snprintf(fresh, sizeof(fresh), "runs/%s-%s-%s", env, agent, when);
    path = fresh;
  }
  enum status status = set_paths(folder, path, error);
  if (status == STATUS_OK) status = make_folders(folder->checkpoints, error);
  if (status == STATUS_OK) status = take_lock(folder, error);
  folder->held_run = status == STATUS_EXISTS || exists_in(folder, "config.txt");
  if (status != STATUS_OK) return status;
  if (!folder->held_run || resume) return STATUS_OK;
  folder_close(folder);
  return status_fail(error, STATUS_EXISTS,
                     "the run folder %s holds a run already: continue it with --resume, or choose "
                     "another --logdir",
                     folder->path);
}

enum status folder_open_read_only(struct folder *folder, const char *path, struct error *error) {
  folder->lock = -1;
  folder->held_run = true;
  enum status status = set_paths(folder, path, error);
  if (status != STATUS_OK) return status;
  if (!exists_in(folder, "config.txt"))
    return status_fail(error, STATUS_NOT_FOUND, "%s holds no run: there is no config.txt in it",
                       path);
  return STATUS_OK;
}

/* So that it is good from any folder and where the port was left open: "unix:/absolute/path",
 * "HOST:PORT". */
static void print_address(FILE *file, const char *listen, int port) {
  char path[PATH_MAX];
  if (port)
    fprintf(file, "%.*s:%d\n", (int)(strrchr(listen, ':') - listen), listen, port);
  else
    fprintf(file, "unix:%s\n", realpath(listen + 5, path) ? path : listen + 5);
}

/* Not realpath: a file may be a link that is pointed elsewhere when it is replaced. */
static void print_file(FILE *file, const char *name, const char *path) {
  char folder[PATH_MAX];
  if (!path[0]) return;
  if (path[0] == '/' || !getcwd(folder, sizeof(folder)))
    fprintf(file, "%s=%s\n", name, path);
  else
    fprintf(file, "%s=%s/%s\n", name, folder, path);
}

/* What a client of the same user may call with. It trusts the learner's certificate itself, and
 * shows that one where the learner asks for one. */
static void print_access(FILE *file, const struct credentials_options *access) {
  print_file(file, "token_file", access->token_file);
  print_file(file, "tls_ca", access->tls_cert);
  if (!access->tls_ca[0]) return;
  print_file(file, "tls_cert", access->tls_cert);
  print_file(file, "tls_key", access->tls_key);
}

enum status folder_write_address(const struct folder *folder, const char *listen, int port,
                                 const struct credentials_options *access, struct error *error) {
  char path[1024];
  snprintf(path, sizeof(path), "%s/address", folder->path);
  FILE *file = fopen(path, "w");
  if (file) print_address(file, listen, port);
  if (file) print_access(file, access);
  if (!file || fclose(file) != 0)
    return status_fail(error, STATUS_IO, "cannot write %s: %s", path, strerror(errno));
  return STATUS_OK;
}

static FILE *open_environment(const struct folder *folder, const char *mode) {
  char path[1024];
  snprintf(path, sizeof(path), "%s/environment.txt", folder->path);
  return fopen(path, mode);
}

void folder_write_environment(const struct folder *folder, const char *text) {
  FILE *file = open_environment(folder, "w");
  if (file) fprintf(file, "%s\n", text);
  if (!file || fclose(file) != 0)
    log_warn("cannot write %s/environment.txt: %s", folder->path, strerror(errno));
}

void folder_read_environment(const struct folder *folder, char *text, size_t bytes) {
  FILE *file = open_environment(folder, "r");
  if (!file || !fgets(text, (int)bytes, file)) text[0] = '\0';
  if (file) fclose(file);
  text[strcspn(text, "\n")] = '\0';
}

void folder_close(struct folder *folder) {
  if (folder->lock >= 0) close(folder->lock);
  folder->lock = -1;
}

void folder_abandon(struct folder *folder) {
  bool owned = folder->lock >= 0;
  folder_close(folder);
  if (!owned || folder->held_run) return;
  char lock[1024];
  snprintf(lock, sizeof(lock), "%s/lock", folder->path);
  unlink(lock);
  rmdir(folder->checkpoints);
  rmdir(folder->path);
}
