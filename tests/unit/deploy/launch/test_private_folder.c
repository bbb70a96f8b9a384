#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "deploy/launch/private_folder.h"

static char parent[] = "/tmp/acorn-unit-XXXXXX";

static int setup(void **state) {
  (void)state;
  return mkdtemp(parent) && setenv("XDG_RUNTIME_DIR", parent, 1) == 0 ? 0 : -1;
}

static int teardown(void **state) {
  (void)state;
  return rmdir(parent); // every test removes what it made
}

static void make_file(const char *folder, const char *name) {
  char path[512];
  snprintf(path, sizeof(path), "%s/%s", folder, name);
  FILE *file = fopen(path, "w");
  assert_non_null(file);
  fclose(file);
}

static void make_folder(const char *folder, const char *name) {
  char path[512];
  snprintf(path, sizeof(path), "%s/%s", folder, name);
  assert_int_equal(mkdir(path, 0700), 0);
}

static void make_socket(const char *folder) {
  struct sockaddr_un place = {.sun_family = AF_UNIX};
  snprintf(place.sun_path, sizeof(place.sun_path), "%s/socket", folder);
  int fd = socket(AF_UNIX, SOCK_STREAM, 0);
  assert_int_equal(bind(fd, (struct sockaddr *)&place, sizeof(place)), 0);
  close(fd);
}

// The folder that a process has left which ended without a word.
static void leave(char path[PRIVATE_FOLDER_BYTES]) {
  int ends[2];
  assert_int_equal(pipe(ends), 0);
  pid_t pid = fork();
  if (pid == 0) {
    char made[PRIVATE_FOLDER_BYTES] = "";
    bool written = private_folder_create(made, NULL) == STATUS_OK &&
                   write(ends[1], made, sizeof(made)) == sizeof(made);
    _exit(!written);
  }
  int status;
  assert_int_equal(read(ends[0], path, PRIVATE_FOLDER_BYTES), PRIVATE_FOLDER_BYTES);
  assert_int_equal(waitpid(pid, &status, 0), pid);
  assert_int_equal(status, 0);
  close(ends[0]);
  close(ends[1]);
}

static bool is_there(const char *path) {
  return access(path, F_OK) == 0;
}

// Makes one more folder, which sweeps, and removes it.
static void sweep(void) {
  char path[PRIVATE_FOLDER_BYTES];
  assert_int_equal(private_folder_create(path, NULL), STATUS_OK);
  private_folder_remove(path);
}

static void what_an_ended_process_left_is_removed(void **state) {
  (void)state;
  char left[PRIVATE_FOLDER_BYTES];
  leave(left);
  make_socket(left);
  make_folder(left, "logs");
  make_file(left, "logs/actor-0.log");
  assert_true(is_there(left));
  sweep();
  assert_false(is_there(left));
}

static void the_folder_of_a_living_process_stays(void **state) {
  (void)state;
  char ours[PRIVATE_FOLDER_BYTES];
  assert_int_equal(private_folder_create(ours, NULL), STATUS_OK);
  sweep();
  assert_true(is_there(ours));
  private_folder_remove(ours);
  assert_false(is_there(ours));
}

static void other_names_and_folders_without_a_lock_stay(void **state) {
  (void)state;
  static const char *const names[] = {"acorn-abc12", "acorn-abc1234", "bcorn-abc123",
                                      "acorn-abc123"};
  for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
    char path[128];
    snprintf(path, sizeof(path), "%s/%s", parent, names[i]);
    make_folder(parent, names[i]);
    // The last name is ours, but the folder is a run's, or one that nobody has locked yet.
    bool is_ours = i + 1 == sizeof(names) / sizeof(*names);
    make_file(path, is_ours ? "lock" : "launcher.lock");
    sweep();
    assert_true(is_there(path));
    private_folder_remove(path);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(what_an_ended_process_left_is_removed),
      cmocka_unit_test(the_folder_of_a_living_process_stays),
      cmocka_unit_test(other_names_and_folders_without_a_lock_stay),
  };
  return cmocka_run_group_tests(tests, setup, teardown);
}
