#include "deploy/launch/run_folder.h"

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

// The rest of a name that is "<prefix>YYYYmmdd-HHMMSS[Z][-n]", or NULL. These are in the order of
// strverscmp.
static const char *find_stamp(const char *name, const char *prefix) {
  size_t length = strlen(prefix);
  if (strncmp(name, prefix, length) != 0) return NULL;
  const char *stamp = name + length;
  int stamp_length = 0;
  sscanf(stamp, "%*8[0-9]-%*6[0-9]%n", &stamp_length);
  if (stamp_length != (int)strlen("YYYYmmdd-HHMMSS")) return NULL;
  name = stamp + stamp_length;
  if (*name == 'Z') name++;
  if (*name == '\0') return stamp;
  bool is_twin = name[0] == '-' && isdigit((unsigned char)name[1]) &&
                 name[1 + strspn(name + 1, "0123456789")] == '\0';
  return is_twin ? stamp : NULL;
}

// Whether `name` begins like that of a run of `env`, any game of it, and `agent`:
// "atari-Breakout-vtrace-", which becomes the prefix.
static bool begins_with_game(char *prefix, size_t bytes, const char *name, const char *env,
                             const char *agent) {
  char end[128];
  size_t length = strlen(env);
  if (strncmp(name, env, length) != 0 || name[length] != '-') return false;
  snprintf(end, sizeof(end), "-%s-", agent);
  const char *at = strstr(name + length + 1, end);
  if (at) snprintf(prefix, bytes, "%.*s%s", (int)(at - name), name, end);
  return at != NULL;
}

bool run_folder_newest(char *path, size_t bytes, const char *runs, const char *env,
                       const char *label, const char *agent) {
  char older[256], prefix[512] = "", config[PATH_MAX], newest[NAME_MAX + 1] = "";
  const char *newest_stamp = newest;
  snprintf(older, sizeof(older), "%s-%s-", env, agent);
  if (label) snprintf(prefix, sizeof(prefix), "%s-%s-", label, agent);
  DIR *folder = opendir(runs);
  if (!folder) return false;
  for (struct dirent *entry; (entry = readdir(folder));) {
    const char *name = entry->d_name, *stamp = find_stamp(name, older);
    bool fits = label || begins_with_game(prefix, sizeof(prefix), name, env, agent);
    if (!stamp && fits) stamp = find_stamp(name, prefix);
    if (!stamp || strverscmp(stamp, newest_stamp) <= 0) continue;
    int length = snprintf(config, sizeof(config), "%s/%s/config.txt", runs, name);
    if (length >= PATH_MAX || access(config, F_OK) != 0) continue;
    snprintf(newest, sizeof(newest), "%s", name);
    newest_stamp = newest + (stamp - name);
  }
  closedir(folder);
  if (newest[0]) snprintf(path, bytes, "%s/%s", runs, newest);
  return newest[0] != '\0';
}
