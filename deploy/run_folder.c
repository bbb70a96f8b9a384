#include "deploy/run_folder.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { STAMP_BYTES = 32, STAMP_LENGTH = 15, MAX_TWINS = 1000, MAX_ZONE_S = 14 * 3600 };

// ---- a new one

// Makes `path` and is the only one who did.
static enum status make(const char *path, bool *is_ours, struct error *error) {
  *is_ours = mkdir(path, 0777) == 0;
  if (*is_ours || errno == EEXIST) return STATUS_OK;
  return status_fail(error, STATUS_IO,
                     "cannot create the run folder %s: %s; choose one with --logdir", path,
                     strerror(errno));
}

enum status run_folder_create(char *path, size_t bytes, const char *runs, const char *env,
                              const char *agent, time_t now, struct error *error) {
  char stamp[STAMP_BYTES], suffix[16] = "";
  struct tm utc;
  strftime(stamp, sizeof(stamp), "%Y%m%d-%H%M%SZ", gmtime_r(&now, &utc));
  bool is_ours;
  enum status status = make(runs, &is_ours, error);
  if (status != STATUS_OK) return status;

  for (int twin = 0; twin < MAX_TWINS; twin++) {
    if (twin > 0) snprintf(suffix, sizeof(suffix), "-%d", twin);
    int length = snprintf(path, bytes, "%s/%s-%s-%s%s", runs, env, agent, stamp, suffix);
    if (length >= (int)bytes)
      return status_fail(error, STATUS_INVALID, "the run folder's path is too long: %s...", path);
    status = make(path, &is_ours, error);
    if (status != STATUS_OK || is_ours) return status;
  }
  return status_fail(error, STATUS_EXISTS, "%s and all of its like are taken; use --logdir", path);
}

// ---- the newest one

// The name of a run's folder.
struct name {
  struct tm stamp;
  bool is_utc;
  long twin;
};

// What orders the folders of one environment and agent.
struct place {
  time_t started;
  long twin;
};

static bool read_stamp(struct tm *stamp, const char *text) {
  static const char pattern[] = "00000000-000000";
  for (int i = 0; i < STAMP_LENGTH; i++) {
    bool is_digit = text[i] >= '0' && text[i] <= '9';
    if (pattern[i] == '0' ? !is_digit : text[i] != pattern[i]) return false;
  }
  *stamp = (struct tm){.tm_isdst = -1};
  sscanf(text, "%4d%2d%2d-%2d%2d%2d", &stamp->tm_year, &stamp->tm_mon, &stamp->tm_mday,
         &stamp->tm_hour, &stamp->tm_min, &stamp->tm_sec);
  stamp->tm_year -= 1900;
  stamp->tm_mon--;
  return true;
}

// Reads "<prefix>YYYYmmdd-HHMMSS[Z][-n]"; false for any other name.
static bool read_name(struct name *out, const char *name, const char *prefix) {
  size_t length = strlen(prefix);
  if (strncmp(name, prefix, length) != 0 || !read_stamp(&out->stamp, name + length)) return false;
  name += length + STAMP_LENGTH;
  out->is_utc = *name == 'Z';
  if (out->is_utc) name++;
  out->twin = 0;
  if (*name == '\0') return true;
  char *end;
  out->twin = *name == '-' ? strtol(name + 1, &end, 10) : 0;
  return out->twin > 0 && *end == '\0';
}

// Of a name in local time, whose zone need not be today's. The lock was made at the start and is
// never written to; that is the time, unless the folder was copied without its times.
static time_t started_locally(const struct tm *stamp, const char *folder) {
  char lock[PATH_MAX];
  struct stat info;
  struct tm utc = *stamp, local = *stamp;
  int length = snprintf(lock, sizeof(lock), "%s/lock", folder);
  bool has_lock = length < PATH_MAX && stat(lock, &info) == 0;
  if (has_lock && llabs((long long)(info.st_mtime - timegm(&utc))) <= MAX_ZONE_S)
    return info.st_mtime;
  return mktime(&local);
}

static time_t started(const struct name *name, const char *folder) {
  struct tm utc = name->stamp;
  return name->is_utc ? timegm(&utc) : started_locally(&name->stamp, folder);
}

static bool is_newer(const struct place *a, const struct place *b) {
  return a->started != b->started ? a->started > b->started : a->twin > b->twin;
}

static bool holds_run(const char *folder) {
  char path[PATH_MAX];
  int length = snprintf(path, sizeof(path), "%s/config.txt", folder);
  return length < PATH_MAX && access(path, F_OK) == 0;
}

bool run_folder_newest(char *path, size_t bytes, const char *runs, const char *env,
                       const char *agent) {
  char prefix[256], candidate[PATH_MAX];
  snprintf(prefix, sizeof(prefix), "%s-%s-", env, agent);
  DIR *folder = opendir(runs);
  if (!folder) return false;
  struct place newest = {0, -1};
  struct name name;
  for (struct dirent *entry; (entry = readdir(folder));) {
    if (!read_name(&name, entry->d_name, prefix)) continue;
    int length = snprintf(candidate, sizeof(candidate), "%s/%s", runs, entry->d_name);
    if (length >= PATH_MAX || !holds_run(candidate)) continue;
    struct place place = {started(&name, candidate), name.twin};
    if (!is_newer(&place, &newest)) continue;
    newest = place;
    snprintf(path, bytes, "%s", candidate);
  }
  closedir(folder);
  return newest.twin >= 0;
}
