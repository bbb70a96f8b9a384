#include "learner/run/run_replay.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "common/base/block_file.h"
#include "common/base/check.h"
#include "common/base/clock.h"
#include "common/base/crc32c.h"
#include "common/base/log.h"
#include "common/base/notify.h"
#include "learner/experience/replay_file.h"
#include "learner/params/checkpoint_file.h"

#define TEMPORARY_NAME "replay.tmp"
#define NAME_FORMAT "replay-%012lld.acorn"
enum { FORMAT = 2, NONE = -1, TELL_US = 1000 * 1000 };
static const char MAGIC[8] = {'A', 'C', 'O', 'R', 'N', 'R', 'P', 'L'};

struct run_replay {
  struct block_writer *writer;
  int64_t newest;     /* updates of the newest checkpoint; NONE: there is none yet */
  bool is_alone;      /* it was said that there is no room for two */
  int64_t left_alone; /* updates of which a file is not replaced: it was not loaded; NONE */

  /* the one that is captured and written */
  bool skipped; /* there is nothing to write */
  int64_t updates, windows;
  int64_t captured_us;                     /* when it was */
  int64_t trainer_wait_us, acting_wait_us; /* for the capture; acting's before it, see the source */
  int64_t told_us;                         /* when the supervisor was told last */
};

/* What the content begins with. */
struct identity {
  char magic[sizeof(MAGIC)];
  uint32_t format, parameters;
  int64_t updates;
};
_Static_assert(sizeof(struct identity) == 24, "an identity has no padding");

/* ---- names */

static void path_of(char path[PATH_MAX], const struct run *run, const char *name) {
  snprintf(path, PATH_MAX, "%s/%s", run->folder.checkpoints, name);
}

static void path_of_updates(char path[PATH_MAX], const struct run *run, int64_t updates) {
  char name[64];
  snprintf(name, sizeof(name), NAME_FORMAT, (long long)updates);
  path_of(path, run, name);
}

/* The number in the file name of a replay; NONE for any other name. */
static int64_t number_of(const char *name) {
  char same[64];
  long long number;
  if (sscanf(name, "replay-%12lld", &number) != 1 || number < 0) return NONE;
  snprintf(same, sizeof(same), NAME_FORMAT, number);
  return strcmp(name, same) == 0 ? number : NONE;
}

/* The largest number of a replay in the folder; NONE. Removes all but `kept` if `removes`. */
static int64_t visit(const struct run *run, bool removes, int64_t kept) {
  int64_t largest = NONE;
  char path[PATH_MAX];
  DIR *directory = opendir(run->folder.checkpoints);
  for (struct dirent *entry; directory && (entry = readdir(directory));) {
    int64_t number = number_of(entry->d_name);
    if (number > largest) largest = number;
    if (number == NONE || number == kept || !removes) continue;
    path_of(path, run, entry->d_name);
    if (unlink(path) != 0 && errno != ENOENT)
      log_warn("the old replay %s cannot be removed: %s", path, strerror(errno));
  }
  if (directory) closedir(directory);
  return largest;
}

/* ---- which checkpoint */

/* Of the parameters in the checkpoint buffer. */
static uint32_t checksum_of_parameters(const struct run *run) {
  static const char prefix[] = "params/";
  struct checkpoint_item items[CHECKPOINT_MAX_ITEMS];
  int count = trainer_items(run->trainer, items);
  uint32_t crc = 0;
  for (int i = 0; i < count; i++)
    if (strncmp(items[i].name, prefix, strlen(prefix)) == 0)
      crc = crc32c_extend(crc, items[i].data, checkpoint_item_bytes(&items[i]));
  return crc;
}

static struct identity identity_of(const struct run *run, int64_t updates) {
  struct identity identity = {
      .format = FORMAT, .parameters = checksum_of_parameters(run), .updates = updates};
  memcpy(identity.magic, MAGIC, sizeof(MAGIC));
  return identity;
}

static enum status check_identity(const struct identity *theirs, const struct identity *ours,
                                  const char *path, struct error *error) {
  if (memcmp(theirs->magic, MAGIC, sizeof(MAGIC)) != 0)
    return status_fail(error, STATUS_CORRUPT, "%s is no replay", path);
  if (theirs->format != ours->format)
    return status_fail(error, STATUS_MISMATCH, "%s has format %u, this learner reads %u", path,
                       theirs->format, ours->format);
  if (theirs->updates != ours->updates)
    return status_fail(error, STATUS_MISMATCH,
                       "%s is of update %lld, and the checkpoint of update %lld", path,
                       (long long)theirs->updates, (long long)ours->updates);
  if (theirs->parameters != ours->parameters)
    return status_fail(error, STATUS_MISMATCH,
                       "%s was saved with other parameters than the checkpoint of update %lld has",
                       path, (long long)ours->updates);
  return STATUS_OK;
}

double run_replay_saved_steps(const struct run *run) {
  char path[PATH_MAX];
  struct identity theirs;
  int64_t updates = visit(run, false, NONE);
  if (updates == NONE) return 0;
  path_of_updates(path, run, updates);
  struct block_reader *reader = block_reader_create();
  bool is_ours = block_reader_begin(reader, path, NULL) == STATUS_OK &&
                 block_reader_get(reader, &theirs, sizeof(theirs), NULL) == STATUS_OK &&
                 memcmp(theirs.magic, MAGIC, sizeof(MAGIC)) == 0 && theirs.format == FORMAT;
  double steps = is_ours ? replay_file_steps(reader) : 0;
  block_reader_destroy(reader);
  return steps;
}

/* ---- made */

struct run_replay *run_replay_create(const struct run *run) {
  bool wanted = run->options->checkpoint_replay && run->source && source_can_save(run->source);
  if (!wanted) return NULL;
  struct run_replay *replay = check_alloc(1, sizeof(*replay));
  *replay =
      (struct run_replay){.writer = block_writer_create(), .newest = NONE, .left_alone = NONE};
  return replay;
}

void run_replay_destroy(struct run_replay *replay) {
  if (!replay) return;
  block_writer_destroy(replay->writer);
  free(replay);
}

/* ---- loading */

static enum status read_replay(struct run *run, struct block_reader *reader, int64_t updates,
                               struct error *error) {
  char path[PATH_MAX];
  struct identity theirs, ours = identity_of(run, updates);
  path_of_updates(path, run, updates);
  enum status status = block_reader_begin(reader, path, error);
  if (status == STATUS_OK) status = block_reader_get(reader, &theirs, sizeof(theirs), error);
  if (status == STATUS_OK) status = check_identity(&theirs, &ours, path, error);
  return status == STATUS_OK ? source_load(run->source, reader, error) : status;
}

static double mebibytes(int64_t bytes) {
  return (double)bytes / 0x1p20;
}

static double seconds_since(int64_t start_us) {
  return (double)(clock_now_us() - start_us) * 1e-6;
}

void run_replay_load(struct run *run) {
  struct run_replay *replay = run->replay;
  if (!replay) return;
  struct error error;
  int64_t updates = trainer_report(run->trainer).updates, start_us = clock_now_us();
  struct block_reader *reader = block_reader_create();
  enum status status = read_replay(run, reader, updates, &error);
  replay->newest = updates;
  if (status == STATUS_OK)
    log_info("the replay of update %lld is restored: %lld windows, %.1f MiB in %.1f s",
             (long long)updates, (long long)source_counters(run->source).windows_held,
             mebibytes(block_reader_bytes(reader)), seconds_since(start_us));
  int64_t other = status == STATUS_NOT_FOUND ? visit(run, false, NONE) : NONE;
  if (other != NONE)
    log_warn(
        "the saved replay is of update %lld, and the checkpoint of update %lld: the run goes "
        "on with an empty replay",
        (long long)other, (long long)updates);
  else if (status == STATUS_NOT_FOUND)
    log_warn(
        "no replay was saved with the checkpoint of update %lld: the run goes on with an "
        "empty one",
        (long long)updates);
  else if (status != STATUS_OK)
    log_warn("%s: the run goes on with an empty replay", error.text);
  if (status != STATUS_OK && status != STATUS_NOT_FOUND) replay->left_alone = updates;
  block_reader_destroy(reader);
}

void run_replay_leave(struct run *run) {
  if (!run->replay) return;
  run->replay->newest = run->replay->left_alone = trainer_report(run->trainer).updates;
}

/* ---- saving */

static bool has_stopped(void *context) {
  const struct run *run = context;
  return progress_stopped(run->progress) != STOP_NONE;
}

/* After a stop: it may take longer than a supervisor waits for a learner that is silent. */
static bool tell_supervisor(void *context) {
  struct run_replay *replay = ((struct run *)context)->replay;
  int64_t now_us = clock_now_us();
  if (now_us - replay->told_us < TELL_US) return false;
  replay->told_us = now_us;
  notify_send(NOTICE_SAVING);
  return false;
}

void run_replay_capture(struct run *run) {
  struct run_replay *replay = run->replay;
  if (!replay) return;
  replay->updates = trainer_saved_updates(run->trainer);
  replay->skipped = replay->updates == replay->left_alone;
  if (replay->skipped) return;
  struct source_counters counters = source_counters(run->source);
  replay->captured_us = clock_now_us();
  source_capture(run->source);
  replay->trainer_wait_us = clock_now_us() - replay->captured_us;
  replay->acting_wait_us = counters.saving_wait_us;
  replay->windows = counters.windows_held;
}

static double bytes_of(const char *path) {
  struct stat file;
  return stat(path, &file) == 0 ? (double)file.st_size : 0;
}

/* Whether the folder has room for as much as the newest replay and its checkpoint take, and a
 * little more; yes where no replay is there. */
static bool has_room(const struct run *run) {
  const double MARGIN = 1.05;
  char name[64], replay[PATH_MAX], checkpoint[PATH_MAX];
  struct statvfs disk;
  path_of_updates(replay, run, run->replay->newest);
  snprintf(name, sizeof(name), CHECKPOINT_NAME_FORMAT, (long long)run->replay->newest);
  path_of(checkpoint, run, name);
  if (bytes_of(replay) == 0 || statvfs(run->folder.checkpoints, &disk) != 0) return true;
  return (double)disk.f_bavail * (double)disk.f_frsize >
         MARGIN * (bytes_of(replay) + bytes_of(checkpoint));
}

/* The newest stays beside the one that is written, but on a disk with room for one alone, where
 * every second one would fail: a checkpoint without a replay has that of the one before removed. */
static void make_room(struct run *run) {
  struct run_replay *replay = run->replay;
  visit(run, true, replay->newest);
  if (replay->newest == NONE || has_room(run)) return;
  visit(run, true, NONE);
  if (!replay->is_alone)
    log_info(
        "there is no room for two replays: the older is removed before the next is "
        "written");
  replay->is_alone = true;
}

static enum status write_content(struct run *run, bool until_stop, struct error *error) {
  struct run_replay *replay = run->replay;
  char path[PATH_MAX];
  make_room(run);
  path_of(path, run, TEMPORARY_NAME);
  enum status status = block_writer_begin(replay->writer, path,
                                          until_stop ? has_stopped : tell_supervisor, run, error);
  if (status != STATUS_OK) {
    source_let_go(run->source);
    return status;
  }
  struct identity identity = identity_of(run, replay->updates);
  block_writer_put(replay->writer, &identity, sizeof(identity));
  return source_save(run->source, replay->writer, error);
}

/* The name is free, or that of an older file of the same update. */
static enum status give_name(const struct run *run, struct error *error) {
  char temporary[PATH_MAX], path[PATH_MAX];
  path_of(temporary, run, TEMPORARY_NAME);
  path_of_updates(path, run, run->replay->updates);
  if (rename(temporary, path) == 0 && checkpoint_sync_folder(run->folder.checkpoints))
    return STATUS_OK;
  return status_fail(error, STATUS_IO, "%s cannot be written: %s", path, strerror(errno));
}

enum status run_replay_write(struct run *run, bool until_stop, struct error *error) {
  struct run_replay *replay = run->replay;
  if (!replay || replay->skipped) return STATUS_OK;
  enum status status = write_content(run, until_stop, error);
  int64_t waited_us = source_counters(run->source).saving_wait_us - replay->acting_wait_us;
  if (status == STATUS_OK) status = block_writer_end(replay->writer, error);
  if (status == STATUS_OK) status = give_name(run, error);
  if (status != STATUS_OK) return status;
  log_info(
      "the replay of update %lld is saved: %lld windows, %.1f MiB in %.1f s; training waited "
      "for %.3f s, acting for %.3f s",
      (long long)replay->updates, (long long)replay->windows,
      mebibytes(block_writer_bytes(replay->writer)), seconds_since(replay->captured_us),
      (double)replay->trainer_wait_us * 1e-6, (double)(replay->trainer_wait_us + waited_us) * 1e-6);
  return STATUS_OK;
}

void run_replay_remove_others(struct run *run) {
  struct run_replay *replay = run->replay;
  if (!replay) return;
  replay->newest = replay->updates;
  visit(run, true, replay->newest);
}

void run_replay_drop(struct run *run) {
  if (run->replay) visit(run, true, run->replay->newest);
}
