#include "deploy/run_folder.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { STAMP_BYTES = 32, MAX_TWINS = 1000 };

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

// Whether it is "<prefix>YYYYmmdd-HHMMSS[Z][-n]". Such names are in the order of strverscmp.
static bool is_name(const char *name, const char *prefix) {
  static const char stamp[] = "00000000-000000";
  size_t length = strlen(prefix);
  if (strncmp(name, prefix, length) != 0) return false;
  name += length;
  for (const char *want = stamp; *want; want++, name++)
    if (*want == '0' ? !isdigit((unsigned char)*name) : *name != *want) return false;
  if (*name == 'Z') name++;
  if (*name == '\0') return true;
  return name[0] == '-' && isdigit((unsigned char)name[1]) &&
         name[1 + strspn(name + 1, "0123456789")] == '\0';
}

bool run_folder_newest(char *path, size_t bytes, const char *runs, const char *env,
                       const char *agent) {
  char prefix[256], config[PATH_MAX], newest[NAME_MAX + 1] = "";
  snprintf(prefix, sizeof(prefix), "%s-%s-", env, agent);
  DIR *folder = opendir(runs);
  if (!folder) return false;
  for (struct dirent *entry; (entry = readdir(folder));) {
    if (!is_name(entry->d_name, prefix) || strverscmp(entry->d_name, newest) <= 0) continue;
    int length = snprintf(config, sizeof(config), "%s/%s/config.txt", runs, entry->d_name);
    if (length < PATH_MAX && access(config, F_OK) == 0)
      snprintf(newest, sizeof(newest), "%s", entry->d_name);
  }
  closedir(folder);
  if (newest[0]) snprintf(path, bytes, "%s/%s", runs, newest);
  return newest[0] != '\0';
}
