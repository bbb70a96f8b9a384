#include "learner/run/folder.h"

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

#include "common/base/files.h"
#include "common/base/json_file.h"
#include "common/base/log.h"
#include "common/base/pinned_folder.h"
#include "common/base/space_json.h"
#include "common/base/version.h"

static enum status too_long(const char *path, struct error *error) {
  return status_fail(error, STATUS_INVALID, "--logdir=%s: the path is too long", path);
}

static enum status set_path(struct folder *folder, const char *path, struct error *error) {
  int n = snprintf(folder->path, sizeof(folder->path), "%s", path);
  if (n >= (int)sizeof(folder->path)) return too_long(path, error);
  snprintf(folder->checkpoints, sizeof(folder->checkpoints), "%s/checkpoints", folder->path);
  return STATUS_OK;
}

static enum status set_name(struct folder *folder, const char *name, struct error *error) {
  folder->lock = folder->pin = -1;
  folder->name[0] = '\0';
  enum status status = set_path(folder, name, error);
  if (status == STATUS_OK) snprintf(folder->name, sizeof(folder->name), "%s", name);
  return status;
}

/* From here on its files are those of the folder that has this name now. */
static enum status pin(struct folder *folder, struct error *error) {
  char path[PATH_MAX];
  folder->pin = pinned_folder_open(path, folder->name);
  if (folder->pin >= 0) return set_path(folder, path, error);
  return status_fail(error, STATUS_IO, "cannot open the folder %s: %s", folder->name,
                     strerror(errno));
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
    return status_fail(error, STATUS_IO, "cannot open %s/lock: %s", folder->name, strerror(errno));
  if (flock(folder->lock, LOCK_EX | LOCK_NB) == 0) return STATUS_OK;
  int reason = errno;
  close(folder->lock);
  folder->lock = -1;
  if (reason != EWOULDBLOCK)
    return status_fail(
        error, STATUS_IO,
        "cannot lock %s/lock: %s; a run folder needs a file system with locks (flock)",
        folder->name, strerror(reason));
  return status_fail(
      error, STATUS_EXISTS,
      "the run folder %s is in use by another learner: stop that one, or choose another --logdir",
      folder->name);
}

/* A run would be trained to its end before it learned that it can keep nothing. */
static enum status check_writable(const struct folder *folder, struct error *error) {
  bool is_writable = faccessat(AT_FDCWD, folder->path, W_OK, AT_EACCESS) == 0 &&
                     faccessat(AT_FDCWD, folder->checkpoints, W_OK, AT_EACCESS) == 0;
  if (is_writable) return STATUS_OK;
  return status_fail(error, STATUS_IO,
                     "the run folder %s, or checkpoints/ in it, cannot be written: %s; nothing of "
                     "a run could be kept there",
                     folder->name, strerror(errno));
}

enum status folder_open(struct folder *folder, const char *path, const char *env, const char *agent,
                        bool resume, struct error *error) {
  char fresh[512];
  if (!path[0]) {
    char when[32];
    time_t now = time(NULL);
    struct tm utc;
    strftime(when, sizeof(when), "%Y%m%d-%H%M%SZ", gmtime_r(&now, &utc));
    snprintf(fresh, sizeof(fresh), "runs/%s-%s-%s", env, agent, when);
    path = fresh;
  }
  enum status status = set_name(folder, path, error);
  folder->is_made = access(path, F_OK) != 0;
  if (status == STATUS_OK) status = files_make_folders(folder->checkpoints, error);
  if (status == STATUS_OK) status = pin(folder, error);
  if (status == STATUS_OK) status = take_lock(folder, error);
  folder->held_run = status == STATUS_EXISTS || exists_in(folder, "config.txt");
  if (status == STATUS_OK && folder->held_run && !resume)
    status =
        status_fail(error, STATUS_EXISTS,
                    "the run folder %s holds a run already: continue it with --resume, or choose "
                    "another --logdir",
                    folder->name);
  else if (status == STATUS_OK)
    status = check_writable(folder, error);
  if (status != STATUS_OK && folder->held_run) folder_close(folder);
  return status;
}

enum status folder_open_read_only(struct folder *folder, const char *path, struct error *error) {
  folder->held_run = true;
  enum status status = set_name(folder, path, error);
  if (status != STATUS_OK) return status;
  if (!exists_in(folder, "config.txt"))
    return status_fail(error, STATUS_NOT_FOUND, "%s holds no run: there is no config.txt in it",
                       path);
  return pin(folder, error);
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
  print_file(file, "operator_token_file", access->operator_token_file);
  print_file(file, "tls_ca", access->tls_cert);
  if (!access->tls_ca[0]) return;
  print_file(file, "tls_cert", access->tls_cert);
  print_file(file, "tls_key", access->tls_key);
}

enum status folder_write_address(const struct folder *folder, const char *listen, int port,
                                 const struct credentials_options *access, struct error *error) {
  char path[1024];
  snprintf(path, sizeof(path), "%s/address", folder->path);
  FILE *file = files_create(path);
  if (file) print_address(file, listen, port);
  if (file) print_access(file, access);
  if (!file || fclose(file) != 0)
    return status_fail(error, STATUS_IO, "cannot write %s: %s", path, strerror(errno));
  return STATUS_OK;
}

static void environment_path(char path[1024], const struct folder *folder) {
  snprintf(path, 1024, "%s/environment.txt", folder->path);
}

enum status folder_write_environment(const struct folder *folder, const char *name,
                                     const char *action, struct error *error) {
  char path[1024];
  environment_path(path, folder);
  FILE *file = files_begin(path);
  if (file) fprintf(file, "%s\n%s%s", name, action, action[0] ? "\n" : "");
  return files_replace(file, path, error);
}

void folder_read_environment(const struct folder *folder, int line, char *text, size_t bytes) {
  char path[1024];
  const char *why;
  environment_path(path, folder);
  FILE *file = files_read(path, &why);
  char *read = NULL;
  size_t room = 0;
  bool found = file != NULL;
  for (int i = 0; i <= line && found; i++) found = getline(&read, &room, file) >= 0;
  snprintf(text, bytes, "%s", found ? read : "");
  text[strcspn(text, "\n")] = '\0';
  free(read);
  if (file) fclose(file);
}

enum status folder_write_space(const struct folder *folder, const struct space *space,
                               struct error *error) {
  char path[1024], *text = space_json_text(space);
  snprintf(path, sizeof(path), "%s/space.json", folder->path);
  FILE *file = files_begin(path);
  if (file) fprintf(file, "%s\n", text);
  free(text);
  return files_replace(file, path, error);
}

enum status folder_read_space(struct space *out, const char *folder, struct error *error) {
  enum { MAX_BYTES = 1 << 16 };
  char path[PATH_MAX], text[MAX_BYTES] = "";
  const char *why;
  struct error reason;
  snprintf(path, sizeof(path), "%s/space.json", folder);
  FILE *file = files_read(path, &why);
  if (!file) return status_fail(error, STATUS_NOT_FOUND, "%.300s cannot be read: %s", path, why);
  size_t bytes = fread(text, 1, sizeof(text) - 1, file);
  text[bytes] = '\0';
  fclose(file);
  enum status status = space_json_parse(out, text, &reason);
  return status == STATUS_OK ? status : status_fail(error, status, "%.300s: %s", path, reason.text);
}

/* A lock that is no more, or another one, may be held by another learner. What cannot be seen is
 * believed to be as it was. */
enum status folder_check(const struct folder *folder, struct error *error) {
  char path[1024];
  struct stat there = {0}, held;
  snprintf(path, sizeof(path), "%s/lock", folder->path);
  if (folder->lock < 0 || fstat(folder->lock, &held) != 0) return STATUS_OK;
  bool is_there = stat(path, &there) == 0;
  if (!is_there && errno != ENOENT && errno != ENOTDIR && errno != ESTALE) return STATUS_OK;
  if (is_there && there.st_ino == held.st_ino && there.st_dev == held.st_dev) return STATUS_OK;
  return status_fail(error, STATUS_NOT_FOUND,
                     "the run folder %s, or the lock in it, was removed while this learner was at "
                     "work there: nothing can be saved, and the run ends",
                     folder->name);
}

bool folder_moved(struct folder *folder) {
  return folder->pin >= 0 && pinned_folder_moved(folder->name, folder->pin, folder->path);
}

void folder_stamp(json_t *object) {
  json_object_set_new(object, "version", json_string(version_number));
  json_object_set_new(object, "commit", json_string(version_commit));
  json_object_set_new(object, "ended", json_time_now());
}

json_t *folder_result(const char *reason, int exit_code, const char *why) {
  static const char *const members[] = {
      "env",        "environment", "agent",    "seed",        "logdir",     "steps",
      "seconds",    "sps",         "episodes", "return_mean", "return_std", "return_min",
      "return_max", "over",        "reason",   "exit_code",   "error",      "not_learning"};
  json_t *object = json_object();
  for (size_t i = 0; i < sizeof(members) / sizeof(members[0]); i++)
    json_object_set_new(object, members[i], json_null());
  json_object_set_new(object, "reason", json_string(reason));
  json_object_set_new(object, "exit_code", json_integer(exit_code));
  if (why[0]) json_object_set_new(object, "error", json_string(why));
  folder_stamp(object);
  return object;
}

void folder_close(struct folder *folder) {
  if (folder->lock >= 0) close(folder->lock);
  if (folder->pin >= 0) {
    close(folder->pin);
    (void)!set_path(folder, folder->name, NULL);
  }
  folder->lock = folder->pin = -1;
}

void folder_abandon(struct folder *folder) {
  bool is_new = folder->lock >= 0 && !folder->held_run;
  bool is_there = folder->pin >= 0 && pinned_folder_is(folder->name, folder->pin);
  char lock[1024];
  snprintf(lock, sizeof(lock), "%s/lock", folder->path);
  if (is_new) unlink(lock);
  if (is_new) rmdir(folder->checkpoints);
  folder_close(folder);
  if (is_new && is_there && folder->is_made) rmdir(folder->name);
}
