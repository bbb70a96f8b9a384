#include "deploy/inspect/learner_place.h"

#include <dirent.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/files.h"
#include "common/cluster/probe.h"

enum { LEVELS = 3 }; /* SWEEP/VALUES/SEED */

/* ---- run folders */

static bool is_run(const char *folder) {
  char path[PATH_MAX + 16];
  snprintf(path, sizeof(path), "%s/config.txt", folder);
  return access(path, F_OK) == 0;
}

/* Its learner holds the lock as long as it lives. */
static bool goes_on(const char *folder) {
  char path[PATH_MAX + 16];
  snprintf(path, sizeof(path), "%s/lock", folder);
  const char *why;
  int fd = files_open_regular(path, &why);
  if (fd < 0) return false;
  bool held = flock(fd, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  close(fd);
  return held;
}

/* A line NAME=PATH. */
static void take_file(struct learner_place *place, const char *line) {
  const struct {
    const char *name;
    char *path;
  } files[] = {
      {"token_file=", place->token_file}, {"operator_token_file=", place->operator_token_file},
      {"tls_ca=", place->tls_ca},         {"tls_cert=", place->tls_cert},
      {"tls_key=", place->tls_key},
  };
  for (size_t i = 0; i < sizeof(files) / sizeof(*files); i++) {
    size_t length = strlen(files[i].name);
    if (strncmp(line, files[i].name, length) != 0) continue;
    snprintf(files[i].path, PATH_MAX, "%.*s", PATH_MAX - 1, line + length);
  }
}

/* A learner that listens on all interfaces is called on the loopback one, which certificates of
 * deploy/credentials.sh name. */
static void take_address(struct learner_place *place, const char *line) {
  static const char v4[] = "0.0.0.0:", v6[] = "[::]:";
  if (strncmp(line, v4, strlen(v4)) == 0)
    snprintf(place->address, sizeof(place->address), "127.0.0.1:%.8s", line + strlen(v4));
  else if (strncmp(line, v6, strlen(v6)) == 0)
    snprintf(place->address, sizeof(place->address), "[::1]:%.8s", line + strlen(v6));
  else
    snprintf(place->address, sizeof(place->address), "%s", line);
}

/* Else whoever can write the folder would be sent a secret of the caller. */
static bool is_trusted(FILE *file) {
  struct stat info;
  return fstat(fileno(file), &info) == 0 && (info.st_uid == geteuid() || info.st_uid == 0);
}

static bool read_address(struct learner_place *place, const char *folder) {
  char path[PATH_MAX + 16], line[PATH_MAX + 16];
  snprintf(path, sizeof(path), "%s/address", folder);
  const char *why;
  FILE *file = files_read(path, &why);
  if (!file) return false;
  bool trusted = is_trusted(file);
  for (int i = 0; fgets(line, sizeof(line), file); i++) {
    line[strcspn(line, "\n")] = '\0';
    if (i == 0)
      take_address(place, line);
    else if (trusted)
      take_file(place, line);
  }
  fclose(file);
  return place->address[0];
}

static enum status find_newest(struct learner_place *place, const char *runs, struct error *error);

static enum status find_in_folder(struct learner_place *place, const char *folder,
                                  struct error *error) {
  if (!is_run(folder)) {
    if (find_newest(place, folder, error) == STATUS_OK) return STATUS_OK;
    return status_fail(error, STATUS_NOT_FOUND,
                       "%.400s holds no run: there is no config.txt in it, nor a run that goes on",
                       folder);
  }
  snprintf(place->run_folder, sizeof(place->run_folder), "%s", folder);
  if (!goes_on(folder))
    return status_fail(error, STATUS_NOT_FOUND,
                       "the run in %.400s is over: no learner is at work in it", folder);
  if (read_address(place, folder)) return STATUS_OK;
  return status_fail(error, STATUS_NOT_FOUND,
                     "a learner is at work in %.400s, but has not written its address there yet",
                     folder);
}

/* When a run was last started; 0: it is none that goes on. */
static struct timespec started(const char *folder) {
  char path[PATH_MAX + 16];
  struct stat info;
  snprintf(path, sizeof(path), "%s/address", folder);
  if (stat(path, &info) != 0 || !goes_on(folder)) return (struct timespec){0};
  return info.st_mtim;
}

static bool is_later(struct timespec a, struct timespec b) {
  return a.tv_sec != b.tv_sec ? a.tv_sec > b.tv_sec : a.tv_nsec > b.tv_nsec;
}

struct newest {
  char folder[PATH_MAX]; /* "": none */
  struct timespec at;
};

/* Those of a sweep lie in folders of its own: `levels` deep. */
static void look(struct newest *newest, const char *runs, int levels) {
  DIR *folder = opendir(runs);
  for (struct dirent *entry; folder && (entry = readdir(folder));) {
    char path[PATH_MAX];
    if (entry->d_name[0] == '.') continue;
    if (snprintf(path, sizeof(path), "%s/%s", runs, entry->d_name) >= PATH_MAX) continue;
    struct timespec at = started(path);
    if (is_later(at, newest->at)) {
      newest->at = at;
      memcpy(newest->folder, path, sizeof(path));
    } else if (levels > 1 && !is_run(path)) {
      look(newest, path, levels - 1);
    }
  }
  if (folder) closedir(folder);
}

static enum status find_newest(struct learner_place *place, const char *runs, struct error *error) {
  struct newest newest = {.folder = ""};
  look(&newest, runs, LEVELS);
  if (newest.folder[0]) return find_in_folder(place, newest.folder, error);
  return status_fail(error, STATUS_NOT_FOUND,
                     "no run goes on in the folder %s: give the learner's ADDRESS (HOST:PORT or "
                     "unix:PATH) or its run folder",
                     runs);
}

enum status learner_place_find(struct learner_place *place, const char *word, const char *runs,
                               struct error *error) {
  struct stat info;
  *place = (struct learner_place){.address = ""};
  if (!word) return find_newest(place, runs, error);
  if (strlen(word) >= PATH_MAX) return status_fail(error, STATUS_INVALID, "ADDRESS is too long");
  bool exists = stat(word, &info) == 0;
  if (exists && S_ISDIR(info.st_mode)) return find_in_folder(place, word, error);
  bool is_socket = exists && S_ISSOCK(info.st_mode);
  snprintf(place->address, sizeof(place->address), "%s%s", is_socket ? "unix:" : "", word);
  if (is_socket || strchr(word, ':')) return STATUS_OK;
  return status_fail(error, STATUS_INVALID,
                     "'%.400s' is neither an address (HOST:PORT or unix:PATH) nor a run folder",
                     word);
}

/* ---- who is it */

static enum status explain_nobody(const struct learner_place *place, int reason,
                                  struct error *error) {
  const char *why = reason == 0             ? "the host is not known"
                    : reason == ENOENT      ? "there is no such socket"
                    : reason == EINPROGRESS ? "no connection in time"
                                            : strerror(reason);
  if (!place->run_folder[0])
    return status_fail(error, STATUS_UNAVAILABLE, "nobody listens at %.400s: %s", place->address,
                       why);
  return status_fail(error, STATUS_UNAVAILABLE,
                     "the run in %.300s is over: nobody listens at %.300s", place->run_folder,
                     place->address);
}

enum status learner_place_listens(const struct learner_place *place, int timeout_ms,
                                  struct error *error) {
  int fd = probe_connect(place->address, timeout_ms);
  if (fd < 0) return explain_nobody(place, errno, error);
  close(fd);
  return STATUS_OK;
}

/* ---- a call */

enum status learner_place_credentials(struct credentials **out, const struct learner_place *place,
                                      const struct credentials_options *given,
                                      struct error *error) {
  struct credentials_options access = *given;
  if (!access.token_file[0]) access.token_file = (char *)place->token_file;
  if (!access.tls_ca[0]) access.tls_ca = (char *)place->tls_ca;
  if (!access.tls_cert[0] && !access.tls_key[0]) {
    access.tls_cert = (char *)place->tls_cert;
    access.tls_key = (char *)place->tls_key;
  }
  return credentials_open(out, &access, CREDENTIALS_CLIENT, error);
}

static enum status explain_silence(const struct learner_place *place, const char *text,
                                   int timeout_ms, struct error *error) {
  enum status status = learner_place_listens(place, timeout_ms, error);
  if (status != STATUS_OK) return status;
  return status_fail(error, STATUS_UNAVAILABLE,
                     "something listens at %.300s but has not answered in time: a learner that is "
                     "stopped or very busy, or another program (gRPC: %.300s)",
                     place->address, text);
}

enum status learner_place_explain(const struct learner_place *place,
                                  const struct rpc_result *result, int timeout_ms,
                                  struct error *error) {
  switch (result->code) {
    case RPC_UNIMPLEMENTED:
      return status_fail(error, STATUS_MISMATCH,
                         "a gRPC server listens at %.400s, but it is no learner of this version",
                         place->address);
    case RPC_DEADLINE_EXCEEDED:
    case RPC_UNAVAILABLE:
      if (result->tls_failed)
        return status_fail(error, STATUS_MISMATCH, "%.300s: %.300s", place->address, result->text);
      return explain_silence(place, result->text, timeout_ms, error);
    case RPC_INVALID_ARGUMENT:
    case RPC_FAILED_PRECONDITION:
      return status_fail(error,
                         result->code == RPC_INVALID_ARGUMENT ? STATUS_INVALID : STATUS_UNAVAILABLE,
                         "%.300s refuses: %.500s", place->address, result->text);
    default:
      return status_fail(error, STATUS_UNAVAILABLE, "%.300s refused to answer: %.300s",
                         place->address, result->text);
  }
}
