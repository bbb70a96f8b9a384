#include "deploy/run_folder.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { STAMP_BYTES = 32, STAMP_LENGTH = 15, MAX_TWINS = 1000 };

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
  struct tm local;
  strftime(stamp, sizeof(stamp), "%Y%m%d-%H%M%S", localtime_r(&now, &local));
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

// What orders the folders of one environment and agent.
struct place {
  char stamp[STAMP_LENGTH + 1];
  long twin;
};

// Reads "<prefix>YYYYmmdd-HHMMSS[-n]"; false for any other name.
static bool read_place(struct place *place, const char *name, const char *prefix) {
  static const char pattern[] = "00000000-000000";
  size_t length = strlen(prefix);
  if (strncmp(name, prefix, length) != 0) return false;
  name += length;
  for (int i = 0; i < STAMP_LENGTH; i++) {
    bool is_digit = name[i] >= '0' && name[i] <= '9';
    if (pattern[i] == '0' ? !is_digit : name[i] != pattern[i]) return false;
    place->stamp[i] = name[i];
  }
  place->stamp[STAMP_LENGTH] = '\0';
  name += STAMP_LENGTH;
  place->twin = 0;
  if (*name == '\0') return true;
  char *end;
  place->twin = *name == '-' ? strtol(name + 1, &end, 10) : 0;
  return place->twin > 0 && *end == '\0';
}

static bool is_newer(const struct place *a, const struct place *b) {
  int order = strcmp(a->stamp, b->stamp);
  return order ? order > 0 : a->twin > b->twin;
}

static bool holds_run(const char *runs, const char *name) {
  char path[PATH_MAX];
  snprintf(path, sizeof(path), "%s/%s/config.txt", runs, name);
  return access(path, F_OK) == 0;
}

bool run_folder_newest(char *path, size_t bytes, const char *runs, const char *env,
                       const char *agent) {
  char prefix[256];
  snprintf(prefix, sizeof(prefix), "%s-%s-", env, agent);
  DIR *folder = opendir(runs);
  if (!folder) return false;
  struct place newest = {"", -1}, place;
  for (struct dirent *entry; (entry = readdir(folder));) {
    if (!read_place(&place, entry->d_name, prefix)) continue;
    if (!is_newer(&place, &newest) || !holds_run(runs, entry->d_name)) continue;
    newest = place;
    snprintf(path, bytes, "%s/%s", runs, entry->d_name);
  }
  closedir(folder);
  return newest.stamp[0] != '\0';
}
