#include "inspect/learner_place.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/cluster/probe.h"

/* ---- run folders */

/* Its learner holds the lock as long as it lives. */
static bool goes_on(const char *folder) {
  char path[PATH_MAX + 16];
  snprintf(path, sizeof(path), "%s/lock", folder);
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  bool held = flock(fd, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  close(fd);
  return held;
}

static bool read_address(struct learner_place *place, const char *folder) {
  char path[PATH_MAX + 16];
  snprintf(path, sizeof(path), "%s/address", folder);
  FILE *file = fopen(path, "r");
  if (!file) return false;
  bool read = fgets(place->address, sizeof(place->address), file) != NULL;
  fclose(file);
  if (read) place->address[strcspn(place->address, "\n")] = '\0';
  return read && place->address[0];
}

static enum status find_newest(struct learner_place *place, const char *runs, struct error *error);

static enum status find_in_folder(struct learner_place *place, const char *folder,
                                  struct error *error) {
  char config[PATH_MAX + 16];
  snprintf(config, sizeof(config), "%s/config.txt", folder);
  if (access(config, F_OK) != 0) {
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

static enum status find_newest(struct learner_place *place, const char *runs, struct error *error) {
  char newest[PATH_MAX] = "";
  struct timespec latest = {0};
  DIR *folder = opendir(runs);
  for (struct dirent *entry; folder && (entry = readdir(folder));) {
    char path[PATH_MAX];
    if (entry->d_name[0] == '.') continue;
    if (snprintf(path, sizeof(path), "%s/%s", runs, entry->d_name) >= PATH_MAX) continue;
    struct timespec at = started(path);
    if (!is_later(at, latest)) continue;
    latest = at;
    memcpy(newest, path, sizeof(newest));
  }
  if (folder) closedir(folder);
  if (newest[0]) return find_in_folder(place, newest, error);
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

/* The start of what a gRPC server says first, a frame of settings: length (3), type 4, flags,
 * stream 0 (4). */
static bool speaks_http2(const unsigned char *bytes, ssize_t count) {
  static const unsigned char stream[4] = {0};
  return count >= 9 && bytes[3] == 4 && memcmp(bytes + 5, stream, 4) == 0;
}

/* The first line that another program sends, as far as it is printable. */
static void first_line(char *line, const unsigned char *bytes, ssize_t count) {
  ssize_t n = 0;
  for (; n < count && n < 60 && bytes[n] >= ' ' && bytes[n] <= '~'; n++) line[n] = (char)bytes[n];
  line[n] = '\0';
}

static enum status explain_answer(const struct learner_place *place, const unsigned char *bytes,
                                  ssize_t count, struct error *error) {
  char line[64] = "";
  if (count < 0)
    return status_fail(error, STATUS_UNAVAILABLE,
                       "something listens at %.400s but says nothing: a learner that is stopped or "
                       "very busy, or another program",
                       place->address);
  if (speaks_http2(bytes, count))
    return status_fail(error, STATUS_UNAVAILABLE,
                       "a gRPC server listens at %.400s but has not answered in time: a learner "
                       "that is very busy, or another program",
                       place->address);
  first_line(line, bytes, count);
  return status_fail(error, STATUS_MISMATCH,
                     "something else than a learner listens at %.400s: it %s%s%s", place->address,
                     line[0] ? "says '"
                     : count ? "does not speak gRPC"
                             : "hangs up on gRPC",
                     line, line[0] ? "'" : "");
}

enum status learner_place_explain(const struct learner_place *place, int timeout_ms,
                                  struct error *error) {
  static const char greeting[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0";
  int fd = probe_connect(place->address, timeout_ms);
  if (fd < 0) return explain_nobody(place, errno, error);
  unsigned char bytes[64];
  ssize_t count = send(fd, greeting, sizeof(greeting), MSG_NOSIGNAL);
  if (count > 0) count = recv(fd, bytes, sizeof(bytes), 0);
  if (count < 0 && errno != EAGAIN && errno != EWOULDBLOCK) count = 0; /* reset: it hung up */
  close(fd);
  return explain_answer(place, bytes, count, error);
}
