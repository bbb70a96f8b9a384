/* DESIGN. A checkpoint is written under one fixed temporary name, so that whatever a crashed run
 * left there is replaced by the next write. It gets its real name when all of it is on the disk,
 * and that name is on the disk before anything older is removed: at every moment, a power cut
 * included, the newest whole checkpoint is there.
 *
 * What is newest is decided by what the files hold (CHECKPOINT_VERSION); a name is only believed of
 * a file whose content has no version or cannot be read. What does not hold a whole checkpoint is
 * neither counted nor removed: where it is in the way it is set aside, under another name. */
#include "learner/params/checkpoint.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/check.h"
#include "common/base/log.h"
#include "learner/params/checkpoint_file.h"

#define TEMPORARY_NAME "checkpoint.tmp"
#define MAX_UPDATES 999999999999
enum { MAX_ASIDE = 1000, NS_PER_S = 1000000000 };

/* ---- names */

struct path {
  char text[CHECKPOINT_PATH_BYTES + 32]; /* a name set aside is longer */
};

static enum status join(struct path *path, const char *folder, const char *name,
                        struct error *error) {
  int length = snprintf(path->text, sizeof path->text, "%s/%s", folder, name);
  if (length < CHECKPOINT_PATH_BYTES) return STATUS_OK;
  return status_fail(error, STATUS_IO, "the path %.200s.../%s is too long", folder, name);
}

static enum status path_of(struct path *path, const char *folder, int64_t number,
                           struct error *error) {
  char name[64];
  snprintf(name, sizeof name, CHECKPOINT_NAME_FORMAT, (long long)number);
  return join(path, folder, name, error);
}

/* The number in a checkpoint's file name; -1 for any other name. */
static int64_t number_of(const char *name) {
  char same[64];
  long long number;
  if (sscanf(name, "checkpoint-%12lld", &number) != 1 || number < 0) return -1;
  snprintf(same, sizeof same, CHECKPOINT_NAME_FORMAT, number);
  return strcmp(name, same) == 0 ? number : -1;
}

/* ---- what is in a folder */

struct listed {
  int64_t number;  /* in its name */
  int64_t updates; /* in its content, if that can be read; else the number */
  bool whole;      /* examined, and no damage found */
};

/* A training run keeps few files and so never allocates for them; `file` points into the struct
 * then, which must not be moved. */
struct listing {
  struct listed *file;
  int count, room;
  struct listed few[64];
};

static void free_listing(struct listing *listing) {
  if (listing->file != listing->few) free(listing->file);
}

static void add_file(struct listing *listing, int64_t number) {
  if (listing->count == listing->room) {
    struct listed *more = check_alloc(2 * (size_t)listing->room, sizeof(*more));
    memcpy(more, listing->file, (size_t)listing->count * sizeof(*more));
    free_listing(listing);
    listing->file = more;
    listing->room *= 2;
  }
  listing->file[listing->count++] = (struct listed){number, number, false};
}

static enum status list_folder(struct listing *listing, const char *folder, struct error *error) {
  listing->file = listing->few;
  listing->count = 0;
  listing->room = sizeof(listing->few) / sizeof(listing->few[0]);
  DIR *directory = opendir(folder);
  if (!directory)
    return status_fail(error, errno == ENOENT ? STATUS_NOT_FOUND : STATUS_IO,
                       "the checkpoint folder %s cannot be read: %s", folder, strerror(errno));
  for (struct dirent *entry; (entry = readdir(directory));) {
    int64_t number = number_of(entry->d_name);
    if (number >= 0) add_file(listing, number);
  }
  closedir(directory);
  return STATUS_OK;
}

static int newest_first(const void *a, const void *b) {
  const struct listed *left = a, *right = b;
  if (left->updates != right->updates) return left->updates < right->updates ? 1 : -1;
  return (left->number < right->number) - (left->number > right->number);
}

/* Looks into each file, and puts the newest first. */
static void sort_by_content(struct listing *listing, const char *folder) {
  for (int i = 0; i < listing->count; i++) {
    struct listed *file = &listing->file[i];
    struct path path;
    int64_t updates;
    if (path_of(&path, folder, file->number, NULL) != STATUS_OK) continue;
    if (checkpoint_file_version(&updates, path.text, NULL) != STATUS_OK || updates < 0) continue;
    file->updates = updates;
  }
  if (listing->count)
    qsort(listing->file, (size_t)listing->count, sizeof(struct listed), newest_first);
}

/* ---- what is no whole checkpoint, or not the one that its name says */

/* Gives it a name that is free, under which it neither counts nor is read; `why` is logged. False:
 * it keeps its name. */
static bool set_aside(const char *path, const char *why) {
  struct path aside;
  struct stat about;
  errno = EEXIST;
  for (int i = 1; i <= MAX_ASIDE; i++) {
    snprintf(aside.text, sizeof aside.text, "%s.aside-%d", path, i);
    if (lstat(aside.text, &about) == 0) continue;
    if (rename(path, aside.text) != 0) break;
    log_warn("%s; it is now %s: it does not count, and is not removed", why, aside.text);
    return true;
  }
  log_warn("%s; it cannot be set aside: %s", why, strerror(errno));
  return false;
}

/* The name is taken by what will not be replaced silently. */
static void make_way(const char *path, int64_t updates) {
  struct error error;
  int64_t held;
  enum status status = checkpoint_file_version(&held, path, &error);
  if (status == STATUS_NOT_FOUND) return;
  if (status == STATUS_OK) status = checkpoint_read(path, NULL, 0, &error);
  if (status == STATUS_OK && (held == updates || held < 0)) return;
  if (status == STATUS_OK)
    (void)!status_fail(&error, STATUS_EXISTS, "the checkpoint %s is of update %lld", path,
                       (long long)held);
  set_aside(path, error.text);
}

/* ---- removing */

/* When a file was last changed, its name included; -1: it is not there. */
static int64_t changed_ns(const char *path) {
  struct stat about;
  if (lstat(path, &about) != 0) return -1;
  return (int64_t)about.st_ctim.tv_sec * NS_PER_S + about.st_ctim.tv_nsec;
}

/* Finds the whole ones: `written`, which has just been, and files that have not changed since they
 * were examined last. Where there are too many, the others are read, and damaged ones set aside. */
static void examine(struct listing *listing, const char *folder, int64_t written,
                    struct checkpoint_kept *kept) {
  bool too_many = listing->count > kept->count;
  int64_t checked_ns = kept->checked_ns;
  bool all_known = true;
  for (int i = 0; i < listing->count; i++) {
    struct listed *file = &listing->file[i];
    struct path path;
    struct error error;
    int64_t file_ns = path_of(&path, folder, file->number, NULL) ? -1 : changed_ns(path.text);
    if (file_ns < 0) continue;
    if (file_ns > checked_ns) checked_ns = file_ns;
    file->whole = file->number == written || file_ns <= kept->checked_ns;
    if (file->whole) continue;
    enum status status = too_many ? checkpoint_read(path.text, NULL, 0, &error) : STATUS_IO;
    file->whole = status == STATUS_OK;
    bool is_aside = status == STATUS_CORRUPT && set_aside(path.text, error.text);
    if (!file->whole && !is_aside) all_known = false;
  }
  if (all_known) kept->checked_ns = checked_ns;
}

/* Of the whole files up to the one just written the newest stay. Of later ones the run knows
 * nothing: they neither count nor are removed. */
static void remove_beyond(const struct listing *listing, const char *folder, int64_t written,
                          int count) {
  struct path path;
  for (int i = 0, kept = 0; i < listing->count; i++) {
    const struct listed *file = &listing->file[i];
    if (!file->whole || file->updates > written || kept++ < count) continue;
    if (path_of(&path, folder, file->number, NULL) != STATUS_OK) continue;
    if (unlink(path.text) != 0 && errno != ENOENT)
      log_warn("the old checkpoint %s cannot be removed: %s", path.text, strerror(errno));
  }
}

static void remove_oldest(const char *folder, int64_t written, struct checkpoint_kept *kept) {
  struct listing listing;
  struct error error;
  enum status status = list_folder(&listing, folder, &error);
  if (status != STATUS_OK) log_warn("old checkpoints were not removed: %s", error.text);
  if (status == STATUS_OK) examine(&listing, folder, written, kept);
  if (status == STATUS_OK && listing.count > kept->count) {
    sort_by_content(&listing, folder);
    remove_beyond(&listing, folder, written, kept->count);
  }
  free_listing(&listing);
}

/* ---- writing */

static enum status write_failed(const char *path, struct error *error) {
  const char *advice = "";
  if (errno == ENOSPC || errno == EDQUOT)
    advice = "; make room there: the older checkpoints are as they were";
  if (errno == EFBIG)
    advice = "; raise the limit of file sizes (ulimit -f): the older checkpoints are as they were";
  return status_fail(error, STATUS_IO, "the checkpoint %s cannot be written: %s%s", path,
                     strerror(errno), advice);
}

enum status checkpoint_write(const char *folder, int64_t updates,
                             const struct checkpoint_item *items, int num_items,
                             struct checkpoint_kept *kept, struct error *error) {
  CHECK(updates >= 0 && updates <= MAX_UPDATES, "update %lld", (long long)updates);
  struct path temporary, path;
  enum status status = join(&temporary, folder, TEMPORARY_NAME, error);
  if (status == STATUS_OK) status = path_of(&path, folder, updates, error);
  if (status != STATUS_OK) return status;

  if (!checkpoint_file_write(temporary.text, items, num_items))
    return write_failed(path.text, error);
  make_way(path.text, updates);
  if (rename(temporary.text, path.text) != 0) {
    status = write_failed(path.text, error);
    unlink(temporary.text);
    return status;
  }
  if (!checkpoint_sync_folder(folder)) return write_failed(path.text, error);
  if (kept->count > 0) remove_oldest(folder, updates, kept);
  return STATUS_OK;
}

enum status checkpoint_write_named(const char *folder, const char *name,
                                   const struct checkpoint_item *items, int num_items,
                                   struct error *error) {
  struct path temporary, path;
  char file[CHECKPOINT_NAME_BYTES + 16];
  snprintf(file, sizeof file, "%s.acorn", name);
  enum status status = join(&temporary, folder, TEMPORARY_NAME, error);
  if (status == STATUS_OK) status = join(&path, folder, file, error);
  if (status != STATUS_OK) return status;
  bool written = checkpoint_file_write(temporary.text, items, num_items) &&
                 rename(temporary.text, path.text) == 0 && checkpoint_sync_folder(folder);
  return written ? STATUS_OK : write_failed(path.text, error);
}

/* ---- reading */

/* The first that is whole. One that has gone since the folder was listed was removed by its writer,
 * for newer ones. */
static enum status read_first_whole(struct path *path, const struct listing *listing,
                                    const char *folder, struct checkpoint_item *items,
                                    int num_items, struct error *error) {
  struct error first = {""}, detail;
  int damaged = 0;
  for (int i = 0; i < listing->count; i++) {
    const struct listed *file = &listing->file[i];
    enum status status = path_of(path, folder, file->number, &detail);
    if (status == STATUS_OK) status = checkpoint_read(path->text, items, num_items, &detail);
    if (status == STATUS_NOT_FOUND) continue;
    if (status == STATUS_CORRUPT) {
      log_warn("%s; trying the one before it", detail.text);
      if (damaged++ == 0) first = detail;
      continue;
    }
    if (status == STATUS_OK && file->updates != file->number)
      log_warn("the checkpoint %s is of update %lld, unlike its name", path->text,
               (long long)file->updates);
    if (error && status != STATUS_OK) *error = detail;
    return status;
  }
  if (damaged == 0)
    return status_fail(error, STATUS_NOT_FOUND, "there is no checkpoint in %s", folder);
  return status_fail(error, STATUS_CORRUPT, "no checkpoint of %d in %s is whole; the newest: %s",
                     damaged, folder, first.text);
}

enum status checkpoint_read_newest(const char *folder, struct checkpoint_item *items, int num_items,
                                   char read_path[CHECKPOINT_PATH_BYTES], struct error *error) {
  struct listing listing;
  struct path path = {""};
  enum status status = list_folder(&listing, folder, error);
  if (status == STATUS_OK) {
    sort_by_content(&listing, folder);
    status = read_first_whole(&path, &listing, folder, items, num_items, error);
  }
  memcpy(read_path, path.text, CHECKPOINT_PATH_BYTES);
  free_listing(&listing);
  return status;
}
