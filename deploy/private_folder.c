#include "deploy/private_folder.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <ftw.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define PREFIX "acorn-"
#define LETTERS "XXXXXX"
#define NAME "/" PREFIX LETTERS
enum { OPEN_FOLDERS = 8 };
static const char lock_name[] = "lock";

// ---- what an ended process has left

static bool has_our_name(const char *name) {
  if (strncmp(name, PREFIX, strlen(PREFIX)) != 0) return false;
  name += strlen(PREFIX);
  for (size_t i = 0; i < strlen(LETTERS); i++)
    if (!isalnum((unsigned char)name[i])) return false;
  return name[strlen(LETTERS)] == '\0';
}

// Ends the walk at the first thing that no launcher puts there.
static int check_entry(const char *path, const struct stat *info, int kind, struct FTW *walk) {
  const char *name = path + walk->base;
  bool is_folder = kind == FTW_D, is_file = kind == FTW_F && S_ISREG(info->st_mode);
  if (walk->level == 0) return !is_folder;
  if (walk->level == 1 && strcmp(name, "socket") == 0) return !S_ISSOCK(info->st_mode);
  if (walk->level == 1 && strcmp(name, lock_name) == 0) return !is_file;
  if (walk->level == 1 && strcmp(name, "logs") == 0) return !is_folder;
  bool is_log = walk->level == 2 && is_file && fnmatch("actor-*.log", name, 0) == 0;
  return !is_log;
}

static int remove_entry(const char *path, const struct stat *info, int kind, struct FTW *walk) {
  (void)info, (void)kind, (void)walk;
  return remove(path);
}

// A folder without a lock file may be one that is being made.
static void remove_if_left(const char *path) {
  char lock_path[PRIVATE_FOLDER_BYTES + sizeof(lock_name)];
  struct stat info;
  if (lstat(path, &info) != 0 || !S_ISDIR(info.st_mode) || info.st_uid != geteuid()) return;
  snprintf(lock_path, sizeof(lock_path), "%s/%s", path, lock_name);
  int lock = open(lock_path, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
  if (lock < 0) return;
  if (flock(lock, LOCK_EX | LOCK_NB) == 0 && nftw(path, check_entry, OPEN_FOLDERS, FTW_PHYS) == 0)
    private_folder_remove(path);
  close(lock);
}

static void remove_left(const char *parent) {
  DIR *folder = opendir(parent);
  if (!folder) return;
  char path[PRIVATE_FOLDER_BYTES];
  for (struct dirent *entry; (entry = readdir(folder));) {
    if (!has_our_name(entry->d_name)) continue;
    snprintf(path, sizeof(path), "%s/%.*s", parent, (int)strlen(NAME) - 1, entry->d_name);
    remove_if_left(path);
  }
  closedir(folder);
}

// ---- a new one

// Takes the lock that the end of the process gives back; false if another process took the folder
// for one that was left, and removed it.
static bool take_lock(const char *path) {
  char lock_path[PRIVATE_FOLDER_BYTES + sizeof(lock_name)];
  snprintf(lock_path, sizeof(lock_path), "%s/%s", path, lock_name);
  int lock = open(lock_path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (lock < 0) return false;
  if (flock(lock, LOCK_EX | LOCK_NB) == 0 && access(lock_path, F_OK) == 0) return true;
  close(lock);
  return false;
}

static bool create_in(char path[PRIVATE_FOLDER_BYTES], const char *parent) {
  enum { ATTEMPTS = 8 };
  if (!parent || parent[0] != '/' || strlen(parent) + strlen(NAME) >= PRIVATE_FOLDER_BYTES) {
    errno = ENAMETOOLONG;
    return false;
  }
  remove_left(parent);
  for (int i = 0; i < ATTEMPTS; i++) {
    snprintf(path, PRIVATE_FOLDER_BYTES, "%s" NAME, parent);
    if (!mkdtemp(path)) return false;
    if (take_lock(path)) return true;
    int reason = errno;
    rmdir(path);
    errno = reason;
  }
  return false;
}

enum status private_folder_create(char path[PRIVATE_FOLDER_BYTES], struct error *error) {
  if (create_in(path, getenv("XDG_RUNTIME_DIR")) || create_in(path, "/tmp")) return STATUS_OK;
  return status_fail(
      error, STATUS_IO,
      "cannot make a folder for the learner's socket in /tmp: %s; give the learner an "
      "address with --listen=HOST:PORT, or set XDG_RUNTIME_DIR",
      strerror(errno));
}

void private_folder_remove(const char *path) {
  nftw(path, remove_entry, OPEN_FOLDERS, FTW_DEPTH | FTW_PHYS);
}
