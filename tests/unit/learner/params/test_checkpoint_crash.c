/* Checkpoints whose write is cut short: by a crash, a limit, a full disk, or the folder. */
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "tests/unit/learner/params/checkpoint_world.h"
#include "tests/unit/support/skip.h"

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
      TEST(test_what_a_crash_left_is_replaced),    TEST(test_a_writer_may_be_killed_at_any_time),
      TEST(test_a_file_that_may_not_grow),         TEST(test_a_full_disk),
      TEST(test_a_folder_that_may_not_be_written), TEST(test_folders_that_are_none),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
