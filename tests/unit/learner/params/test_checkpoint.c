/* Checkpoint files in a folder of their own: what is there after a write, a failed write, a crash
 * and damage. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "learner/params/checkpoint.h"
#include "tests/unit/support/skip.h"

enum { COUNT = 1000, NOBODY = 65534, PATH_BYTES = 128 };

struct world {
  char folder[64];
  int64_t values[COUNT], counter;
  struct checkpoint_item item[2];
};

static int setup(void **state) {
  struct world *world = calloc(1, sizeof *world);
  strcpy(world->folder, "/tmp/test_checkpoint.XXXXXX");
  if (!mkdtemp(world->folder)) return -1;
  world->item[0] = (struct checkpoint_item){.name = "values",
                                            .dtype = CHECKPOINT_INT64,
                                            .rank = 2,
                                            .shape = {10, 100},
                                            .data = world->values};
  world->item[1] = (struct checkpoint_item){
      .name = CHECKPOINT_VERSION, .dtype = CHECKPOINT_INT64, .rank = 0, .data = &world->counter};
  *state = world;
  return 0;
}

/* Calls `visit` on the path of every file in the folder; returns how many there are. */
static int for_each_file(const char *folder, void (*visit)(const char *path)) {
  DIR *directory = opendir(folder);
  int count = 0;
  for (struct dirent *entry; directory && (entry = readdir(directory));) {
    if (entry->d_name[0] == '.') continue;
    char path[PATH_BYTES + 256];
    snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
    if (visit) visit(path);
    count++;
  }
  if (directory) closedir(directory);
  return count;
}

static void remove_file(const char *path) {
  remove(path);
}

static int teardown(void **state) {
  struct world *world = *state;
  for_each_file(world->folder, remove_file);
  int failed = rmdir(world->folder);
  free(world);
  return failed;
}

static void path_of(char path[PATH_BYTES], const struct world *world, int64_t updates) {
  snprintf(path, PATH_BYTES, "%s/checkpoint-%012lld.acorn", world->folder, (long long)updates);
}

static bool exists(const struct world *world, int64_t updates) {
  char path[PATH_BYTES];
  path_of(path, world, updates);
  return access(path, F_OK) == 0;
}

/* All values follow from the number of updates. */
static void fill(struct world *world, int64_t updates) {
  for (int i = 0; i < COUNT; i++) world->values[i] = updates * COUNT + i;
  world->counter = updates;
}

static bool holds(const struct world *world, int64_t updates) {
  bool same = world->counter == updates;
  for (int i = 0; i < COUNT; i++) same &= world->values[i] == updates * COUNT + i;
  return same;
}

static enum status try_write(struct world *world, const char *folder, int64_t updates, int keep,
                             struct error *error) {
  struct checkpoint_kept kept = {.count = keep};
  fill(world, updates);
  error->text[0] = '\0';
  return checkpoint_write(folder, updates, world->item, 2, &kept, error);
}

static void write_one(struct world *world, int64_t updates, int keep) {
  struct error error;
  if (try_write(world, world->folder, updates, keep, &error) != STATUS_OK)
    fail_msg("%s", error.text);
}

static void flip_bit(const struct world *world, int64_t updates, long at) {
  char path[PATH_BYTES];
  path_of(path, world, updates);
  FILE *file = fopen(path, "r+b");
  assert_non_null(file);
  fseek(file, at, SEEK_SET);
  int byte = fgetc(file);
  fseek(file, at, SEEK_SET);
  fputc(byte ^ 4, file);
  fclose(file);
}

/* Whether what had the name of so many updates was set aside. */
static bool is_aside(const struct world *world, int64_t updates) {
  char path[PATH_BYTES], aside[PATH_BYTES + 16];
  struct stat about;
  path_of(path, world, updates);
  snprintf(aside, sizeof aside, "%s.aside-1", path);
  return lstat(aside, &about) == 0;
}

static void rename_file(const struct world *world, int64_t from, int64_t to) {
  char old_path[PATH_BYTES], new_path[PATH_BYTES];
  path_of(old_path, world, from);
  path_of(new_path, world, to);
  assert_int_equal(rename(old_path, new_path), 0);
}

/* What `read_newest` gives, and what it said on stderr meanwhile. *updates: of its content. */
static enum status read_newest(struct world *world, int64_t *updates, char said[4096],
                               struct error *error) {
  char read_path[CHECKPOINT_PATH_BYTES];
  char path[PATH_BYTES] = "/tmp/test_checkpoint_log.XXXXXX";
  int log = mkstemp(path), terminal = dup(STDERR_FILENO);
  unlink(path);
  dup2(log, STDERR_FILENO);
  fill(world, -1);
  error->text[0] = '\0';
  enum status status = checkpoint_read_newest(world->folder, world->item, 2, read_path, error);
  *updates = world->counter;
  dup2(terminal, STDERR_FILENO);
  ssize_t length = pread(log, said, 4095, 0);
  said[length > 0 ? length : 0] = '\0';
  close(log);
  close(terminal);
  return status;
}

/* ---- tests */

static void test_round_trip(void **state) {
  struct world *world = *state;
  char path[PATH_BYTES];
  struct error error;
  write_one(world, 42, 0);
  path_of(path, world, 42);
  fill(world, 0);
  assert_int_equal(checkpoint_read(path, world->item, 2, &error), STATUS_OK);
  assert_true(holds(world, 42));
  assert_int_equal(for_each_file(world->folder, NULL), 1);
}

static void test_list_names_what_is_there(void **state) {
  struct world *world = *state;
  char path[PATH_BYTES];
  static struct checkpoint_item items[CHECKPOINT_MAX_ITEMS];
  int count;
  struct error error;
  write_one(world, 1, 0);
  path_of(path, world, 1);
  assert_int_equal(checkpoint_list(path, items, &count, &error), STATUS_OK);
  assert_int_equal(count, 2);
  assert_string_equal(items[0].name, "values");
  assert_int_equal(items[0].dtype, CHECKPOINT_INT64);
  assert_int_equal(items[0].rank, 2);
  assert_int_equal(items[0].shape[1], 100);
  assert_null(items[0].data);
  assert_string_equal(items[1].name, CHECKPOINT_VERSION);
  assert_int_equal(items[1].rank, 0);
  flip_bit(world, 1, 300);
  assert_int_equal(checkpoint_list(path, items, &count, &error), STATUS_CORRUPT);
  assert_int_equal(count, 0);
}

static void test_the_newest_is_read(void **state) {
  struct world *world = *state;
  char said[4096];
  struct error error;
  int64_t updates;
  static const int64_t order[] = {5, 1000, 30, 999999999999};
  for (int i = 0; i < 4; i++) write_one(world, order[i], 0);
  assert_int_equal(read_newest(world, &updates, said, &error), STATUS_OK);
  assert_true(updates == 999999999999);
  assert_true(holds(world, 999999999999));
  assert_string_equal(said, "");
}

static void test_only_the_last_ones_are_kept(void **state) {
  struct world *world = *state;
  for (int64_t n = 1; n <= 10; n++) {
    write_one(world, n, 3);
    for (int64_t m = 1; m <= n; m++) assert_int_equal(exists(world, m), m > n - 3);
  }
  write_one(world, 11, 0);
  assert_int_equal(for_each_file(world->folder, NULL), 4);
}

/* After a resume from before a damaged one, what is written now is older by number than what is
 * damaged. */
static void test_the_one_just_written_is_never_removed(void **state) {
  struct world *world = *state;
  char said[4096];
  struct error error;
  int64_t updates;
  for (int64_t n = 10; n <= 30; n += 10) write_one(world, n, 2);
  flip_bit(world, 30, 300);
  assert_int_equal(read_newest(world, &updates, said, &error), STATUS_OK);
  assert_int_equal(updates, 20);
  write_one(world, 25, 1);
  assert_true(exists(world, 25) && !exists(world, 20) && is_aside(world, 30));
  assert_int_equal(read_newest(world, &updates, said, &error), STATUS_OK);
  assert_int_equal(updates, 25);
  assert_string_equal(said, "");
  write_one(world, 30, 1);
  assert_int_equal(read_newest(world, &updates, said, &error), STATUS_OK);
  assert_int_equal(updates, 30);
  assert_true(is_aside(world, 30));
  assert_int_equal(for_each_file(world->folder, NULL), 2);
}

/* ---- what files hold, and what they are called */

static void test_the_content_says_what_is_newest(void **state) {
  struct world *world = *state;
  char said[4096];
  struct error error;
  int64_t updates;
  for (int64_t n = 10; n <= 30; n += 10) write_one(world, n, 0);
  rename_file(world, 10, 999);
  assert_int_equal(read_newest(world, &updates, said, &error), STATUS_OK);
  assert_int_equal(updates, 30);
  assert_string_equal(said, "");
  /* It is the oldest, so that it goes first. */
  write_one(world, 40, 3);
  assert_true(exists(world, 40) && exists(world, 30) && exists(world, 20) && !exists(world, 999));

  rename_file(world, 40, 5);
  assert_int_equal(read_newest(world, &updates, said, &error), STATUS_OK);
  assert_int_equal(updates, 40);
  assert_non_null(strstr(said, "checkpoint-000000000005.acorn is of update 40, whatever"));
}

/* Whole ones that are kept are not displaced by damaged ones, of which none is lost. */
static void test_damaged_files_do_not_count(void **state) {
  struct world *world = *state;
  char said[4096];
  struct error error;
  int64_t updates;
  for (int64_t n = 10; n <= 50; n += 10) write_one(world, n, 0);
  flip_bit(world, 30, 500); /* its data; then its header; then its end */
  flip_bit(world, 40, 20);
  char path[PATH_BYTES];
  path_of(path, world, 50);
  assert_int_equal(truncate(path, 700), 0);
  assert_int_equal(read_newest(world, &updates, said, &error), STATUS_OK);
  assert_int_equal(updates, 20);
  write_one(world, 60, 3);
  assert_true(exists(world, 60) && exists(world, 20) && exists(world, 10));
  for (int64_t n = 30; n <= 50; n += 10) assert_true(!exists(world, n) && is_aside(world, n));
  write_one(world, 70, 3);
  assert_true(exists(world, 70) && exists(world, 60) && exists(world, 20) && !exists(world, 10));
  assert_int_equal(for_each_file(world->folder, NULL), 6);
}

/* While a run goes on: files that it has written are looked at again once they change. */
static void test_a_file_that_is_damaged_later_does_not_count(void **state) {
  struct world *world = *state;
  struct checkpoint_kept kept = {.count = 2};
  struct error error;
  for (int64_t n = 1; n <= 5; n++) {
    fill(world, n);
    clock_sleep_us(20000); /* the time of a change has steps of some milliseconds */
    if (n == 5) flip_bit(world, 4, 500);
    assert_int_equal(checkpoint_write(world->folder, n, world->item, 2, &kept, &error), STATUS_OK);
    assert_true(n == 1 || exists(world, n == 5 ? 3 : n - 1));
    assert_int_equal(for_each_file(world->folder, NULL), n == 1 ? 1 : n == 5 ? 3 : 2);
  }
  assert_true(is_aside(world, 4));
}

/* What has the name that is written now is not replaced, unless it is that update. */
static void test_a_name_that_is_taken(void **state) {
  struct world *world = *state;
  char said[4096], path[PATH_BYTES];
  struct error error;
  int64_t updates;
  write_one(world, 10, 0);
  write_one(world, 10, 0);
  assert_int_equal(for_each_file(world->folder, NULL), 1);
  flip_bit(world, 10, 300);
  write_one(world, 10, 0);
  write_one(world, 20, 0);
  rename_file(world, 20, 30); /* whole, but of another update */
  write_one(world, 30, 0);
  path_of(path, world, 40);
  assert_int_equal(mkdir(path, 0755), 0);
  write_one(world, 40, 0);
  for (int64_t n = 10; n <= 40; n += 10) assert_true(n == 20 || is_aside(world, n));
  assert_int_equal(read_newest(world, &updates, said, &error), STATUS_OK);
  assert_int_equal(updates, 40);
  assert_string_equal(said, "");
}

static void make_fifo(const char *path) {
  assert_int_equal(mkfifo(path, 0644), 0);
}
static void make_folder(const char *path) {
  assert_int_equal(mkdir(path, 0755), 0);
}
static void make_loop(const char *path) {
  assert_int_equal(symlink(path, path), 0);
}
static void make_device(const char *path) {
  assert_int_equal(symlink("/dev/zero", path), 0);
}
static void make_socket(const char *path) {
  struct sockaddr_un name = {.sun_family = AF_UNIX};
  int fd = socket(AF_UNIX, SOCK_STREAM, 0);
  snprintf(name.sun_path, sizeof(name.sun_path), "%s", path);
  assert_int_equal(bind(fd, (struct sockaddr *)&name, sizeof(name)), 0);
  close(fd);
}

/* Whatever is called like a checkpoint: nothing waits for it. */
static void test_only_regular_files_are_read(void **state) {
  struct world *world = *state;
  static void (*const make[])(const char *path) = {make_fifo, make_folder, make_loop, make_device,
                                                   make_socket};
  char said[4096], path[PATH_BYTES];
  struct error error;
  int64_t updates;
  alarm(20);
  for (size_t i = 0; i < sizeof(make) / sizeof(make[0]); i++) {
    write_one(world, 1, 0);
    path_of(path, world, 2);
    make[i](path);
    assert_int_equal(checkpoint_read(path, world->item, 2, &error), STATUS_CORRUPT);
    assert_int_equal(read_newest(world, &updates, said, &error), STATUS_OK);
    assert_int_equal(updates, 1);
    assert_non_null(strstr(said, "checkpoint-000000000002.acorn"));
    if (make[i] != make_loop) assert_non_null(strstr(said, "it is no regular file"));
    write_one(world, 3, 1);
    assert_true(exists(world, 3) && !exists(world, 1) && is_aside(world, 2));
    for_each_file(world->folder, remove_file);
  }
  alarm(0);
}

static void test_a_link_to_a_whole_file_is_one(void **state) {
  struct world *world = *state;
  char said[4096], path[PATH_BYTES];
  struct error error;
  int64_t updates;
  write_one(world, 1, 0);
  path_of(path, world, 2);
  assert_int_equal(symlink("checkpoint-000000000001.acorn", path), 0);
  assert_int_equal(read_newest(world, &updates, said, &error), STATUS_OK);
  assert_int_equal(updates, 1);
}

/* It is neither read nor is there memory for it. */
static void test_a_file_that_is_too_long_is_not_read(void **state) {
  struct world *world = *state;
  char path[PATH_BYTES];
  struct error error;
  write_one(world, 1, 0);
  path_of(path, world, 1);
  alarm(20);
  if (truncate(path, (off_t)1 << 40) != 0) skip();
  assert_int_equal(checkpoint_read(path, world->item, 2, &error), STATUS_CORRUPT);
  assert_non_null(strstr(error.text, "bytes follow its end"));
  write_one(world, 2, 1);
  assert_true(is_aside(world, 1));
  alarm(0);
}

static void test_other_files_are_left_alone(void **state) {
  struct world *world = *state;
  static const char *const names[] = {"notes.txt",
                                      "checkpoint-12.acorn",
                                      "checkpoint-0000000000001.acorn",
                                      "checkpoint-000000000007.acorn.bak",
                                      "checkpoint--00000000001.acorn",
                                      "checkpoint- 00000000001.acorn"};
  char said[4096];
  struct error error;
  int64_t updates;
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
    char path[PATH_BYTES + 64];
    snprintf(path, sizeof path, "%s/%s", world->folder, names[i]);
    fclose(fopen(path, "w"));
  }
  for (int64_t n = 3; n < 9; n++) write_one(world, n, 2);
  assert_int_equal(read_newest(world, &updates, said, &error), STATUS_OK);
  assert_int_equal(updates, 8);
  assert_string_equal(said, "");
  /* Nor do they count: the two newest are there. */
  assert_true(exists(world, 8) && exists(world, 7));
  assert_int_equal(for_each_file(world->folder, NULL), 8);
}

/* More names than fit where the usual few are kept. */
static void test_hundreds_of_checkpoints(void **state) {
  struct world *world = *state;
  char said[4096], path[PATH_BYTES], first[PATH_BYTES];
  struct error error;
  int64_t updates;
  write_one(world, 1, 0);
  path_of(first, world, 1);
  for (int64_t n = 2; n <= 300; n++) {
    path_of(path, world, n);
    assert_int_equal(link(first, path), 0);
  }
  write_one(world, 1000, 0);
  assert_int_equal(read_newest(world, &updates, said, &error), STATUS_OK);
  assert_int_equal(updates, 1000);
  assert_string_equal(said, "");
  write_one(world, 1001, 2);
  assert_true(exists(world, 1000) && exists(world, 1001));
  assert_int_equal(for_each_file(world->folder, NULL), 2);
}

static void test_a_damaged_newest_is_reported_and_passed_over(void **state) {
  struct world *world = *state;
  char said[4096];
  struct error error;
  int64_t updates;
  for (int64_t n = 1; n <= 3; n++) write_one(world, n, 0);
  flip_bit(world, 3, 500);
  char path[PATH_BYTES];
  path_of(path, world, 2);
  assert_int_equal(truncate(path, 700), 0);
  assert_int_equal(read_newest(world, &updates, said, &error), STATUS_OK);
  assert_int_equal(updates, 1);
  assert_true(holds(world, 1));
  assert_non_null(strstr(said, "warning:"));
  assert_non_null(strstr(said, "checkpoint-000000000003.acorn is damaged: the data of 'values'"));
  assert_non_null(strstr(said, "checkpoint-000000000002.acorn is damaged: it is cut short"));

  /* Nothing whole is left: what was read before is as it was. */
  flip_bit(world, 1, 0);
  assert_int_equal(read_newest(world, &updates, said, &error), STATUS_CORRUPT);
  assert_true(holds(world, -1));
  assert_non_null(strstr(error.text, "no checkpoint of 3"));
  assert_non_null(strstr(error.text, "checkpoint-000000000003.acorn"));
}

static void test_a_mismatch_is_not_passed_over(void **state) {
  struct world *world = *state;
  char said[4096];
  struct error error;
  int64_t updates;
  write_one(world, 1, 0);
  world->item[0].shape[0] = 5;
  write_one(world, 2, 0);
  world->item[0].shape[0] = 10;
  assert_int_equal(read_newest(world, &updates, said, &error), STATUS_MISMATCH);
  assert_true(holds(world, -1));
  assert_string_equal(said, "");
  assert_non_null(strstr(error.text,
                         "checkpoint-000000000002.acorn does not fit: 'values' is int64 "
                         "(5, 100) in it, here it is int64 (10, 100)"));
}

static void test_nothing_there(void **state) {
  struct world *world = *state;
  char said[4096], path[CHECKPOINT_PATH_BYTES];
  struct error error;
  int64_t updates;
  assert_int_equal(read_newest(world, &updates, said, &error), STATUS_NOT_FOUND);
  assert_non_null(strstr(error.text, world->folder));
  path_of(path, world, 7);
  assert_int_equal(checkpoint_read(path, world->item, 2, &error), STATUS_NOT_FOUND);
  assert_non_null(strstr(error.text, path));
  assert_int_equal(checkpoint_read_newest("/no/such/folder", world->item, 2, path, &error),
                   STATUS_NOT_FOUND);
  /* A folder in the place of a file. */
  assert_int_equal(checkpoint_read(world->folder, world->item, 2, &error), STATUS_CORRUPT);
}

/* ---- crashes and failed writes */

static void test_what_a_crash_left_is_replaced(void **state) {
  struct world *world = *state;
  char said[4096], path[PATH_BYTES];
  struct error error;
  int64_t updates;
  write_one(world, 1, 0);
  snprintf(path, sizeof path, "%s/checkpoint.tmp", world->folder);
  FILE *file = fopen(path, "w");
  for (int i = 0; i < 100000; i++) fputs("left over", file);
  fclose(file);
  assert_int_equal(read_newest(world, &updates, said, &error), STATUS_OK);
  assert_int_equal(updates, 1);
  write_one(world, 2, 0);
  assert_int_equal(access(path, F_OK), -1);
  assert_int_equal(read_newest(world, &updates, said, &error), STATUS_OK);
  assert_int_equal(updates, 2);
  assert_int_equal(for_each_file(world->folder, NULL), 2);
}

/* Killed again and again while it writes: there is always a whole newest one. */
static void test_a_writer_may_be_killed_at_any_time(void **state) {
  struct world *world = *state;
  char said[4096];
  struct error error;
  int64_t updates = 0, before = 1;
  write_one(world, 1, 2);
  for (int round = 0; round < 15; round++) {
    pid_t child = fork();
    if (child == 0)
      for (int64_t n = before + 1;; n++)
        if (try_write(world, world->folder, n, 2, &error) != STATUS_OK) _exit(1);
    usleep(1000 + (useconds_t)round * 700);
    kill(child, SIGKILL);
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(read_newest(world, &updates, said, &error), STATUS_OK);
    assert_string_equal(said, "");
    assert_true(updates >= before && holds(world, updates));
    before = updates;
  }
}

/* The write fails with these words, the older checkpoint is there, and no temporary file. */
static void assert_write_fails(struct world *world, const char *says) {
  struct error error;
  assert_int_equal(try_write(world, world->folder, 2, 1, &error), STATUS_IO);
  if (!strstr(error.text, says)) fail_msg("it says: %s", error.text);
  assert_non_null(strstr(error.text, "checkpoint-000000000002.acorn"));
  assert_int_equal(for_each_file(world->folder, NULL), 1);
  assert_true(exists(world, 1));
}

static void test_a_file_that_may_not_grow(void **state) {
  struct world *world = *state;
  write_one(world, 1, 0);
  struct rlimit limit;
  getrlimit(RLIMIT_FSIZE, &limit);
  signal(SIGXFSZ, SIG_IGN);
  static const rlim_t sizes[] = {0, 100, 200, 1000, 8000};
  for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
    setrlimit(RLIMIT_FSIZE, &(struct rlimit){sizes[i], limit.rlim_max});
    struct error error;
    enum status status = try_write(world, world->folder, 2, 1, &error);
    setrlimit(RLIMIT_FSIZE, &limit);
    assert_int_equal(status, STATUS_IO);
    assert_non_null(
        strstr(error.text, "File too large; raise the limit of file sizes (ulimit -f)"));
    assert_int_equal(for_each_file(world->folder, NULL), 1);
    assert_true(exists(world, 1));
  }
  signal(SIGXFSZ, SIG_DFL);
}

/* In a child with mounts of its own. Exit 0: as it should be; 1: not; 2: nothing can be mounted
 * here. */
static int fill_a_small_disk(struct world *world) {
  struct error error;
  if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
      mount("none", world->folder, "tmpfs", 0, "size=12k") != 0)
    return 2;
  if (try_write(world, world->folder, 1, 1, &error) != STATUS_OK) return 1;
  if (try_write(world, world->folder, 2, 1, &error) != STATUS_IO) return 1;
  bool says = strstr(error.text, "No space left on device; make room there") != NULL;
  return says && exists(world, 1) && for_each_file(world->folder, NULL) == 1 ? 0 : 1;
}

static void test_a_full_disk(void **state) {
  pid_t child = fork();
  if (child == 0) _exit(fill_a_small_disk(*state));
  int status;
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_true(WIFEXITED(status));
  if (WEXITSTATUS(status) == 2) SKIP("no file system can be mounted here");
  assert_int_equal(WEXITSTATUS(status), 0);
}

static void test_a_folder_that_may_not_be_written(void **state) {
  struct world *world = *state;
  write_one(world, 1, 0);
  chmod(world->folder, 0555);
  bool root = geteuid() == 0;
  assert_true(!root || seteuid(NOBODY) == 0);
  assert_write_fails(world, "Permission denied");
  assert_true(!root || seteuid(0) == 0);
  chmod(world->folder, 0755);
}

static void test_folders_that_are_none(void **state) {
  struct world *world = *state;
  struct error error;
  static char path[5000];
  assert_int_equal(try_write(world, "/no/such/folder", 1, 1, &error), STATUS_IO);
  assert_non_null(strstr(error.text, "/no/such/folder/checkpoint-000000000001.acorn"));
  assert_non_null(strstr(error.text, "No such file"));
  assert_int_equal(try_write(world, "/dev/null", 1, 1, &error), STATUS_IO);
  assert_non_null(strstr(error.text, "Not a directory"));
  memset(path, 'x', sizeof path - 1);
  assert_int_equal(try_write(world, path, 1, 1, &error), STATUS_IO);
  assert_non_null(strstr(error.text, "too long"));
}

int main(void) {
#define TEST(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
  const struct CMUnitTest tests[] = {
      TEST(test_round_trip),
      TEST(test_list_names_what_is_there),
      TEST(test_the_newest_is_read),
      TEST(test_only_the_last_ones_are_kept),
      TEST(test_the_one_just_written_is_never_removed),
      TEST(test_the_content_says_what_is_newest),
      TEST(test_damaged_files_do_not_count),
      TEST(test_a_file_that_is_damaged_later_does_not_count),
      TEST(test_a_name_that_is_taken),
      TEST(test_only_regular_files_are_read),
      TEST(test_a_link_to_a_whole_file_is_one),
      TEST(test_a_file_that_is_too_long_is_not_read),
      TEST(test_other_files_are_left_alone),
      TEST(test_hundreds_of_checkpoints),
      TEST(test_a_damaged_newest_is_reported_and_passed_over),
      TEST(test_a_mismatch_is_not_passed_over),
      TEST(test_nothing_there),
      TEST(test_what_a_crash_left_is_replaced),
      TEST(test_a_writer_may_be_killed_at_any_time),
      TEST(test_a_file_that_may_not_grow),
      TEST(test_a_full_disk),
      TEST(test_a_folder_that_may_not_be_written),
      TEST(test_folders_that_are_none),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
