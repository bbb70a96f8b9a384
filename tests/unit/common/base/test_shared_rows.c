/* Memory that a learner makes and an actor opens: what is written there is read here, and nothing
 * else is opened by its numbers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/files.h"
#include "common/base/shared_rows.h"
#include "tests/unit/support/temporary_folder.h"

enum { BYTES = 10000 };

static const uint64_t id = 0x00123456789abcdf;
static struct shared_rows made, opened;
static struct error error;

static enum status open_file(int file, size_t bytes, uint64_t its_id) {
  return shared_rows_open(&opened, (uint32_t)getpid(), (uint32_t)file, bytes, its_id, &error);
}

static int make(void **state) {
  (void)state;
  memset(&opened, 0, sizeof(opened));
  return shared_rows_create(&made, BYTES, id, &error) == STATUS_OK ? 0 : -1;
}

static int end(void **state) {
  (void)state;
  shared_rows_deinit(&opened);
  shared_rows_deinit(&made);
  return 0;
}

/* The lowest free descriptor: what is left open shows by it. */
static int next_file(void) {
  int file = open("/dev/null", O_RDONLY);
  close(file);
  return file;
}

static void what_is_written_is_read(void **state) {
  (void)state;
  assert_int_equal(open_file(made.file, BYTES, id), STATUS_OK);
  assert_int_equal(made.data[BYTES - 1], 0);
  memset(opened.data, 7, BYTES);
  assert_int_equal(made.data[0], 7);
  shared_rows_close_file(&made);
  opened.data[BYTES - 1] = 8;
  assert_int_equal(made.data[BYTES - 1], 8);
}

static void an_end_leaves_nothing_open(void **state) {
  (void)state;
  int file = made.file;
  assert_int_equal(open_file(file, BYTES, id), STATUS_OK);
  shared_rows_close_file(&made);
  assert_int_equal(next_file(), file);
  shared_rows_deinit(&opened);
  shared_rows_deinit(&made);
  assert_true(!made.data && !opened.data);
  shared_rows_deinit(&made);
  assert_int_equal(next_file(), file);
}

static void what_dies_leaves_the_other_its_memory(void **state) {
  (void)state;
  pid_t child = fork();
  if (child == 0) {
    if (shared_rows_open(&opened, (uint32_t)getppid(), (uint32_t)made.file, BYTES, id, &error) !=
        STATUS_OK)
      _exit(1);
    memset(opened.data, 9, BYTES / 2);
    raise(SIGKILL);
  }
  int ended;
  assert_int_equal(waitpid(child, &ended, 0), child);
  assert_true(WIFSIGNALED(ended));
  assert_int_equal(made.data[BYTES / 2 - 1], 9);
  assert_int_equal(made.data[BYTES / 2], 0);
}

static void its_size_is_sealed(void **state) {
  (void)state;
  char path[64];
  snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)getpid(), made.file);
  int file = open(path, O_RDWR);
  assert_true(file >= 0);
  assert_int_equal(ftruncate(file, 0), -1);
  assert_int_equal(ftruncate(file, 2 * BYTES), -1);
  assert_int_equal(fcntl(file, F_ADD_SEALS, F_SEAL_WRITE), -1);
  close(file);
}

static void refused(int file, size_t bytes, uint64_t its_id, const char *reason) {
  int next = next_file();
  assert_int_equal(open_file(file, bytes, its_id), STATUS_NOT_FOUND);
  assert_non_null(strstr(error.text, reason));
  assert_non_null(strstr(error.text, "(for example, the learner has another user"));
  assert_null(opened.data);
  assert_int_equal(next_file(), next);
}

static void nothing_else_is_opened(void **state) {
  (void)state;
  refused(made.file, BYTES, id + 1, "it is another file");
  refused(made.file, BYTES + 1, id, "it has another size");
  refused(made.file + 1, BYTES, id, "opened: No such file or directory (");

  char folder[TEMPORARY_FOLDER_BYTES];
  temporary_folder_make(folder);
  const char *name = "memfd:acorn-rows-00123456789abcdf (deleted)";
  int file = open(temporary_folder_path(folder, name), O_RDWR | O_CREAT, 0600);
  assert_int_equal(ftruncate(file, BYTES), 0);
  refused(file, BYTES, id, "it is another file");
  close(file);
  temporary_folder_remove(folder);

  file = memfd_create("acorn-rows-00123456789abcdf", MFD_ALLOW_SEALING);
  assert_int_equal(ftruncate(file, BYTES), 0);
  refused(file, BYTES, id, "its size is not sealed");
  assert_int_equal(fcntl(file, F_ADD_SEALS, F_SEAL_SHRINK), 0);
  refused(file, BYTES, id, "its size is not sealed");
  assert_int_equal(fcntl(file, F_ADD_SEALS, F_SEAL_GROW | F_SEAL_SEAL), 0);
  assert_int_equal(open_file(file, BYTES, id), STATUS_OK);
  close(file);
}

static int successor; /* what a descriptor becomes once its name has been read; 0: it stays */

/* In the place of libc's. */
ssize_t readlink(const char *path, char *target, size_t bytes) {
  ssize_t read = syscall(SYS_readlinkat, AT_FDCWD, path, target, bytes);
  if (successor) dup2(successor, made.file);
  successor = 0;
  return read;
}

static void a_descriptor_that_changes_hands_is_not_mistaken(void **state) {
  (void)state;
  struct shared_rows other;
  assert_int_equal(shared_rows_create(&other, BYTES, id + 1, &error), STATUS_OK);
  successor = other.file;
  refused(made.file, BYTES, id, "it is another file");
  assert_int_equal(successor, 0);
  shared_rows_deinit(&other);
}

/* Pages that are there cannot be missing later, when a process writes. */
static void it_has_its_pages(void **state) {
  (void)state;
  struct stat info;
  assert_int_equal(fstat(made.file, &info), 0);
  assert_true(info.st_blocks * 512 >= BYTES);
}

static void another_user_may_not_open_it(void **state) {
  (void)state;
  if (geteuid() != 0) skip();
  pid_t child = fork();
  if (child == 0) {
    bool left = setgid(65534) == 0 && setuid(65534) == 0;
    _exit(left &&
                  shared_rows_open(&opened, (uint32_t)getppid(), (uint32_t)made.file, BYTES, id,
                                   &error) == STATUS_NOT_FOUND &&
                  strstr(error.text, "Permission denied")
              ? 0
              : 1);
  }
  int ended;
  assert_int_equal(waitpid(child, &ended, 0), child);
  assert_int_equal(ended, 0);
}

static void create_fails(int resource, rlim_t limit, const char *reason) {
  struct rlimit before;
  struct shared_rows rows;
  assert_int_equal(getrlimit(resource, &before), 0);
  assert_int_equal(setrlimit(resource, &(struct rlimit){limit, limit}), 0);
  assert_int_equal(shared_rows_create(&rows, 4 * BYTES, id, &error), STATUS_EXHAUSTED);
  assert_non_null(strstr(error.text, reason));
  assert_true(!rows.data && !rows.file);
  shared_rows_deinit(&rows);
}

/* Limits that were lowered cannot be raised again. */
static void in_a_child(void (*test)(void)) {
  pid_t child = fork();
  if (child == 0) {
    test();
    _exit(0);
  }
  int ended;
  assert_int_equal(waitpid(child, &ended, 0), child);
  assert_int_equal(ended, 0);
}

static void without_room_for_files(void) {
  create_fails(RLIMIT_NOFILE, 3, "Too many open files");
}

static void with_small_files(void) {
  signal(SIGXFSZ, SIG_IGN);
  create_fails(RLIMIT_FSIZE, BYTES, "File too large");
}

static void want_of_room_is_reported(void **state) {
  (void)state;
  in_a_child(without_room_for_files);
  in_a_child(with_small_files);
}

/* The reserve is for files that are open for a moment. */
static void fill_to_the_reserve(void) {
  struct rlimit limit = {64, 64};
  struct shared_rows rows;
  assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
  while (next_file() < files_room(64)) assert_true(open("/dev/null", O_RDONLY) >= 0);
  int next = next_file();
  assert_int_equal(shared_rows_create(&rows, BYTES, id, &error), STATUS_EXHAUSTED);
  assert_int_equal(next_file(), next);
}

static void the_reserve_of_files_is_left_alone(void **state) {
  (void)state;
  in_a_child(fill_to_the_reserve);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(what_is_written_is_read, make, end),
      cmocka_unit_test_setup_teardown(an_end_leaves_nothing_open, make, end),
      cmocka_unit_test_setup_teardown(what_dies_leaves_the_other_its_memory, make, end),
      cmocka_unit_test_setup_teardown(its_size_is_sealed, make, end),
      cmocka_unit_test_setup_teardown(nothing_else_is_opened, make, end),
      cmocka_unit_test_setup_teardown(a_descriptor_that_changes_hands_is_not_mistaken, make, end),
      cmocka_unit_test_setup_teardown(it_has_its_pages, make, end),
      cmocka_unit_test_setup_teardown(another_user_may_not_open_it, make, end),
      cmocka_unit_test_setup_teardown(want_of_room_is_reported, make, end),
      cmocka_unit_test_setup_teardown(the_reserve_of_files_is_left_alone, make, end),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
