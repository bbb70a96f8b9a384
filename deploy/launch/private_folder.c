#include "deploy/launch/private_folder.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <glob.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define NAME "/acorn-XXXXXX"
#define NAMES "/acorn-??????"
/* No other folder has a file of this name: a run folder has a `lock`. */
#define LOCK "/launcher.lock"
enum { LOCK_BYTES = PRIVATE_FOLDER_BYTES + sizeof(LOCK), OPEN_FOLDERS = 8 };

// ---- what an ended process has left

static int remove_entry(const char *path, const struct stat *info, int kind, struct FTW *walk) {
  (void)info, (void)kind, (void)walk;
  return remove(path);
}

// A folder without a lock file may be one that is being made.
static void remove_if_left(const char *lock_path) {
  char path[LOCK_BYTES];
  struct stat info;
  int lock = open(lock_path, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
  if (lock < 0) return;
  snprintf(path, sizeof(path), "%.*s", (int)(strlen(lock_path) - strlen(LOCK)), lock_path);
  if (fstat(lock, &info) == 0 && info.st_uid == geteuid() && flock(lock, LOCK_EX | LOCK_NB) == 0)
    private_folder_remove(path);
  close(lock);
}

static void remove_left(const char *parent) {
  char pattern[LOCK_BYTES];
  glob_t locks;
  snprintf(pattern, sizeof(pattern), "%s" NAMES LOCK, parent);
  if (glob(pattern, GLOB_NOSORT, NULL, &locks) == 0) {
    for (size_t i = 0; i < locks.gl_pathc; i++) remove_if_left(locks.gl_pathv[i]);
    globfree(&locks);
  }
}

// ---- a new one

// Takes the lock that the end of the process gives back; false if another process took the folder
// for one that was left, and removed it.
static bool take_lock(const char *path) {
  char lock_path[LOCK_BYTES];
  snprintf(lock_path, sizeof(lock_path), "%s" LOCK, path);
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
    rmdir(path);
  }
  return false;
}

enum status private_folder_create(char path[PRIVATE_FOLDER_BYTES], struct error *error) {
  if (create_in(path, getenv("XDG_RUNTIME_DIR")) || create_in(path, "/tmp")) return STATUS_OK;
  return status_fail(error, STATUS_IO,
                     "cannot make a folder for the learner's socket in /tmp: %s; give the learner "
                     "an address with --listen=HOST:PORT, or set XDG_RUNTIME_DIR",
                     strerror(errno));
}

void private_folder_remove(const char *path) {
  nftw(path, remove_entry, OPEN_FOLDERS, FTW_DEPTH | FTW_PHYS);
}
