/* The run folder: one owner at a time, and nothing of an earlier run is lost. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/base/files.h"
#include "common/base/log.h"
#include "learner/run/folder.h"
#include "tests/unit/support/temporary_folder.h"

enum { NOBODY = 65534 };
static char base[TEMPORARY_FOLDER_BYTES], run_path[128];
static struct error error;

static enum status open_run(struct folder *folder, bool resume) {
  return folder_open(folder, run_path, "cartpole", "vtrace", resume, &error);
}

static const char *path_of(const char *name) {
  return temporary_folder_path(run_path, name);
}

static bool exists(const char *name) {
  return access(path_of(name), F_OK) == 0;
}

static void write_text(const char *name, const char *text) {
  temporary_folder_write(run_path, name, text);
}

static void expect_text(const char *name, const char *expected) {
  assert_string_equal(temporary_folder_read(run_path, name), expected);
}

static int setup(void **state) {
  (void)state;
  temporary_folder_make(base);
  snprintf(run_path, sizeof(run_path), "%s/above/run", base);
  return chdir(base);
}

static int teardown(void **state) {
  (void)state;
  temporary_folder_remove(base);
  return chdir("/");
}

static void an_environment_of_any_length_is_read(void **state) {
  (void)state;
  struct folder folder;
  char name[600], text[20];
  memset(name, 'n', sizeof(name) - 1);
  name[sizeof(name) - 1] = '\0';
  assert_int_equal(open_run(&folder, false), STATUS_OK);
  assert_int_equal(folder_write_environment(&folder, name, "discrete(2)", NULL), STATUS_OK);
  folder_read_environment(&folder, 1, text, sizeof(text));
  assert_string_equal(text, "discrete(2)");
  folder_read_environment(&folder, 2, text, sizeof(text));
  assert_string_equal(text, "");
  folder_close(&folder);
}

static void what_is_above_is_made_too(void **state) {
  (void)state;
  struct folder folder;
  assert_int_equal(open_run(&folder, false), STATUS_OK);
  assert_false(folder.held_run);
  assert_string_equal(folder.name, run_path);
  assert_true(exists("checkpoints"));
  folder_close(&folder);
  folder_close(&folder);
}

static int flock_fails_by; /* errno; 0: it does not */
int __real_flock(int file, int how);
int __wrap_flock(int file, int how);
int __wrap_flock(int file, int how) {
  if (flock_fails_by == 0) return __real_flock(file, how);
  errno = flock_fails_by;
  return -1;
}

static void a_file_system_without_locks_is_named(void **state) {
  (void)state;
  struct folder folder;
  flock_fails_by = ENOSYS;
  assert_int_equal(open_run(&folder, false), STATUS_IO);
  flock_fails_by = 0;
  assert_non_null(strstr(error.text, "needs a file system with locks"));
  assert_false(folder.held_run);
  folder_abandon(&folder);
}

static void a_second_learner_is_refused(void **state) {
  (void)state;
  struct folder first, second;
  assert_int_equal(open_run(&first, false), STATUS_OK);
  assert_int_equal(open_run(&second, true), STATUS_EXISTS);
  assert_non_null(strstr(error.text, "in use by another learner"));
  assert_true(second.held_run);
  folder_abandon(&second); /* not its own */
  assert_true(exists("lock"));
  folder_close(&first);
  assert_int_equal(open_run(&second, false), STATUS_OK);
  folder_close(&second);
}

static void an_earlier_run_is_continued_or_left_alone(void **state) {
  (void)state;
  struct folder folder;
  assert_int_equal(open_run(&folder, false), STATUS_OK);
  write_text("config.txt", "env = cartpole\n");
  folder_close(&folder);
  assert_int_equal(open_run(&folder, false), STATUS_EXISTS);
  assert_non_null(strstr(error.text, "--resume"));
  assert_int_equal(open_run(&folder, true), STATUS_OK); /* the refusal has let go of the lock */
  assert_true(folder.held_run);
  folder_abandon(&folder);
  expect_text("config.txt", "env = cartpole\n");
  assert_int_equal(open_run(&folder, true), STATUS_OK);
  folder_close(&folder);
}

/* Of a user that may read the run, and even lock it. */
static void a_run_that_cannot_be_written_is_not_continued(void **state) {
  (void)state;
  const char *const folders[] = {"", "checkpoints"};
  struct folder folder;
  bool is_root = geteuid() == 0;
  assert_int_equal(open_run(&folder, false), STATUS_OK);
  write_text("config.txt", "env = cartpole\n");
  assert_int_equal(chmod(base, 0755), 0);
  assert_int_equal(chmod(path_of("lock"), 0666), 0);
  assert_int_equal(chmod(run_path, 0777), 0);
  assert_int_equal(chmod(path_of("checkpoints"), 0777), 0);
  folder_close(&folder);
  for (int i = 0; i < 2; i++) {
    assert_int_equal(chmod(path_of(folders[i]), 0555), 0);
    assert_true(!is_root || seteuid(NOBODY) == 0);
    assert_int_equal(open_run(&folder, true), STATUS_IO);
    assert_non_null(strstr(error.text, "cannot be written: Permission denied"));
    assert_int_equal(folder.lock, -1);
    assert_true(!is_root || seteuid(0) == 0);
    assert_int_equal(chmod(path_of(folders[i]), 0777), 0);
  }
  assert_true(!is_root || seteuid(NOBODY) == 0);
  assert_int_equal(open_run(&folder, true), STATUS_OK);
  assert_true(!is_root || seteuid(0) == 0);
  folder_close(&folder);
}

static void a_run_that_did_not_come_about_leaves_nothing(void **state) {
  (void)state;
  struct folder folder;
  assert_int_equal(open_run(&folder, false), STATUS_OK);
  folder_abandon(&folder);
  assert_int_equal(access(run_path, F_OK), -1);
}

static void but_the_folder_that_was_there(void **state) {
  (void)state;
  struct folder folder;
  assert_int_equal(files_make_folders(run_path, &error), STATUS_OK);
  assert_int_equal(open_run(&folder, false), STATUS_OK);
  folder_abandon(&folder);
  assert_int_equal(access(run_path, F_OK), 0);
  assert_false(exists("checkpoints"));
}

/* What somebody else put there stays. */
static void but_what_is_not_its_own(void **state) {
  (void)state;
  struct folder folder;
  assert_int_equal(open_run(&folder, false), STATUS_OK);
  write_text("notes", "mine");
  folder_abandon(&folder);
  expect_text("notes", "mine");
}

static void without_a_path_it_is_named_by_environment_agent_and_time(void **state) {
  (void)state;
  struct folder folder;
  assert_int_equal(folder_open(&folder, "", "tmaze", "vtrace", false, &error), STATUS_OK);
  const char *name = "runs/tmaze-vtrace-";
  assert_memory_equal(folder.name, name, strlen(name));
  assert_int_equal(strlen(folder.name), strlen(name) + strlen("20260102-030405Z"));
  assert_int_equal(folder.name[strlen(folder.name) - 1], 'Z'); // UTC
  folder_abandon(&folder);
}

static void a_path_that_is_no_good_is_named(void **state) {
  (void)state;
  struct folder folder;
  char path[900];
  memset(path, 'x', sizeof(path));
  path[sizeof(path) - 1] = '\0';
  assert_int_equal(folder_open(&folder, path, "e", "a", false, &error), STATUS_INVALID);
  assert_non_null(strstr(error.text, "too long"));
  assert_int_equal(folder_open(&folder, "/dev/null/run", "e", "a", false, &error), STATUS_IO);
  assert_non_null(strstr(error.text, "/dev/null"));
  assert_int_equal(folder_open_read_only(&folder, base, &error), STATUS_NOT_FOUND);
  assert_non_null(strstr(error.text, "no config.txt"));
}

/* To look at a run takes no lock, and leaves none. */
static void a_run_can_be_read_while_it_is_owned(void **state) {
  (void)state;
  struct folder owner, reader;
  assert_int_equal(open_run(&owner, false), STATUS_OK);
  write_text("config.txt", "");
  assert_int_equal(folder_open_read_only(&reader, run_path, &error), STATUS_OK);
  assert_string_equal(reader.name, owner.name);
  folder_abandon(&reader);
  assert_true(exists("lock"));
  folder_close(&owner);
}

/* Each learner writes into its own, whatever they are called. */
static void a_renamed_folder_is_still_its_learners(void **state) {
  (void)state;
  struct folder first, second;
  char moved[160];
  snprintf(moved, sizeof(moved), "%s/moved", base);
  assert_int_equal(open_run(&first, false), STATUS_OK);
  assert_false(folder_moved(&first));
  assert_int_equal(rename(run_path, moved), 0);
  assert_int_equal(open_run(&second, false), STATUS_OK);
  assert_int_equal(folder_write_environment(&first, "first", "", NULL), STATUS_OK);
  assert_int_equal(folder_write_environment(&second, "second", "", NULL), STATUS_OK);
  expect_text("environment.txt", "second\n");
  assert_string_equal(temporary_folder_read(moved, "environment.txt"), "first\n");
  assert_int_equal(folder_check(&first, &error), STATUS_OK);
  assert_true(folder_moved(&first));
  assert_string_equal(first.name, moved);
  assert_false(folder_moved(&first)); /* that is known now */
  folder_close(&first);
  folder_close(&second);
}

static void a_removed_folder_is_missed(void **state) {
  (void)state;
  struct folder first, second;
  assert_int_equal(open_run(&first, false), STATUS_OK);
  assert_int_equal(folder_check(&first, &error), STATUS_OK);
  temporary_folder_remove(run_path);
  assert_int_equal(open_run(&second, false), STATUS_OK);
  assert_int_equal(folder_write_environment(&first, "first", "", NULL), STATUS_IO);
  assert_false(exists("environment.txt"));
  assert_false(folder_moved(&first));
  assert_int_equal(folder_check(&first, &error), STATUS_NOT_FOUND);
  assert_non_null(strstr(error.text, run_path));
  assert_int_equal(folder_check(&second, &error), STATUS_OK);
  folder_close(&first);
  /* Another learner's lock in the same folder. */
  assert_int_equal(unlink(path_of("lock")), 0);
  assert_int_equal(open_run(&first, false), STATUS_OK);
  assert_int_equal(folder_check(&second, &error), STATUS_NOT_FOUND);
  folder_close(&first);
  folder_close(&second);
}

static void the_address_is_good_from_anywhere(void **state) {
  (void)state;
  struct folder folder;
  const struct credentials_options none = {"", "", "", "", ""};
  char expected[128];
  assert_int_equal(open_run(&folder, false), STATUS_OK);
  assert_int_equal(folder_write_address(&folder, "0.0.0.0:0", 4242, &none, &error), STATUS_OK);
  expect_text("address", "0.0.0.0:4242\n");
  assert_int_equal(folder_write_address(&folder, "[::1]:0", 4242, &none, &error), STATUS_OK);
  expect_text("address", "[::1]:4242\n");
  fclose(fopen("socket", "w"));
  assert_int_equal(folder_write_address(&folder, "unix:socket", 0, &none, &error), STATUS_OK);
  snprintf(expected, sizeof(expected), "unix:%s/socket\n", base);
  expect_text("address", expected);
  folder_close(&folder);
}

static void the_files_of_a_client_are_good_from_anywhere(void **state) {
  (void)state;
  struct folder folder;
  char expected[512];
  assert_int_equal(open_run(&folder, false), STATUS_OK);
  const struct credentials_options tls = {"token", "", "/a/tls.crt", "/a/tls.key", "/a/operator"};
  assert_int_equal(folder_write_address(&folder, "host:1", 1, &tls, &error), STATUS_OK);
  snprintf(expected, sizeof(expected),
           "host:1\ntoken_file=%s/token\noperator_token_file=/a/operator\ntls_ca=/a/tls.crt\n",
           base);
  expect_text("address", expected);
  const struct credentials_options mutual = {"", "/a/ca.crt", "/a/tls.crt", "/a/tls.key", ""};
  assert_int_equal(folder_write_address(&folder, "host:1", 1, &mutual, &error), STATUS_OK);
  expect_text("address", "host:1\ntls_ca=/a/tls.crt\ntls_cert=/a/tls.crt\ntls_key=/a/tls.key\n");
  folder_close(&folder);
}

static void the_environment_and_its_choices_are_kept(void **state) {
  (void)state;
  struct folder folder;
  char text[64] = "before";
  assert_int_equal(open_run(&folder, false), STATUS_OK);
  folder_read_environment(&folder, 0, text, sizeof(text));
  assert_string_equal(text, "");
  assert_int_equal(folder_write_environment(&folder, "tmaze(length=20)", "", NULL), STATUS_OK);
  folder_read_environment(&folder, 0, text, sizeof(text));
  assert_string_equal(text, "tmaze(length=20)");
  folder_read_environment(&folder, 1, text, sizeof(text));
  assert_string_equal(text, "");
  assert_int_equal(folder_write_environment(&folder, "tmaze(length=20)", "choices(2,3)", NULL),
                   STATUS_OK);
  folder_read_environment(&folder, 1, text, sizeof(text));
  assert_string_equal(text, "choices(2,3)");
  folder_read_environment(&folder, 0, text, 6); /* no further than there is room */
  assert_string_equal(text, "tmaze");
  folder_close(&folder);
}

static void the_space_is_kept(void **state) {
  (void)state;
  static const struct space space = {
      .num_tensors = 1, .tensor = {{"x", DTYPE_FLOAT32, 1, {3}}}, .discrete = 2};
  struct folder folder;
  struct space found;
  assert_int_equal(open_run(&folder, false), STATUS_OK);
  assert_int_equal(folder_read_space(&found, folder.path, &error), STATUS_NOT_FOUND);
  assert_int_equal(folder_write_space(&folder, &space, NULL), STATUS_OK);
  assert_int_equal(folder_read_space(&found, folder.path, NULL), STATUS_OK);
  assert_int_equal(space_compare(&space, "here", &found, "there", NULL), STATUS_OK);
  char path[1024];
  snprintf(path, sizeof(path), "%s/space.json", folder.path);
  FILE *file = fopen(path, "w");
  fputs("{\"discrete\": 2}", file);
  fclose(file);
  assert_int_equal(folder_read_space(&found, folder.path, &error), STATUS_INVALID);
  assert_non_null(strstr(error.text, "space.json: 0 observation tensors"));
  folder_close(&folder);
}

int main(void) {
#define WITH(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
  const struct CMUnitTest tests[] = {
      WITH(what_is_above_is_made_too),
      WITH(an_environment_of_any_length_is_read),
      WITH(a_file_system_without_locks_is_named),
      WITH(a_second_learner_is_refused),
      WITH(an_earlier_run_is_continued_or_left_alone),
      WITH(a_run_that_cannot_be_written_is_not_continued),
      WITH(a_run_that_did_not_come_about_leaves_nothing),
      WITH(but_the_folder_that_was_there),
      WITH(but_what_is_not_its_own),
      WITH(without_a_path_it_is_named_by_environment_agent_and_time),
      WITH(a_path_that_is_no_good_is_named),
      WITH(a_run_can_be_read_while_it_is_owned),
      WITH(a_renamed_folder_is_still_its_learners),
      WITH(a_removed_folder_is_missed),
      WITH(the_address_is_good_from_anywhere),
      WITH(the_files_of_a_client_are_good_from_anywhere),
      WITH(the_environment_and_its_choices_are_kept),
      WITH(the_space_is_kept),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
