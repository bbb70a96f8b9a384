/* Which learner is meant, and whether anybody listens there. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <arpa/inet.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/files.h"
#include "deploy/inspect/learner_place.h"
#include "tests/unit/support/temporary_folder.h"

static char runs[TEMPORARY_FOLDER_BYTES];

static int create(void **state) {
  (void)state;
  temporary_folder_make(runs);
  return 0;
}

static int destroy(void **state) {
  (void)state;
  temporary_folder_remove(runs);
  return 0;
}

/* A run folder; returns its lock, which is held if the run goes on. */
static int make_run(char path[128], const char *name, const char *address, bool goes_on) {
  struct error error;
  char lock[160];
  snprintf(path, 128, "%s/%s", runs, name);
  assert_int_equal(files_make_folders(path, &error), STATUS_OK);
  temporary_folder_write(path, "config.txt", "");
  if (address) temporary_folder_write(path, "address", address);
  snprintf(lock, sizeof(lock), "%s/lock", path);
  int fd = open(lock, O_CREAT | O_RDWR, 0666);
  if (goes_on) assert_int_equal(flock(fd, LOCK_EX | LOCK_NB), 0);
  return fd;
}

static void not_found(const char *word, enum status expected, const char *fault) {
  struct learner_place place;
  struct error error;
  enum status status = learner_place_find(&place, word, runs, &error);
  if (status != expected || !strstr(error.text, fault)) fail_msg("%d \"%s\"", status, error.text);
}

/* Else whoever can write the folder would be sent a secret of the caller. */
static void credentials_are_taken_from_a_file_of_our_own(void **state) {
  (void)state;
  struct learner_place place;
  struct error error;
  char path[128], file[160];
  if (geteuid() != 0) skip();
  int lock = make_run(path, "run", "127.0.0.1:7\ntoken_file=/secret\n", true);
  assert_int_equal(learner_place_find(&place, path, runs, &error), STATUS_OK);
  assert_string_equal(place.token_file, "/secret");
  snprintf(file, sizeof(file), "%s/address", path);
  assert_int_equal(chown(file, 12345, 12345), 0);
  assert_int_equal(learner_place_find(&place, path, runs, &error), STATUS_OK);
  assert_string_equal(place.address, "127.0.0.1:7");
  assert_string_equal(place.token_file, "");
  close(lock);
}

static void words_are_addresses_or_folders(void **state) {
  (void)state;
  struct learner_place place;
  struct error error;
  char path[128];
  assert_int_equal(learner_place_find(&place, "host:1", runs, &error), STATUS_OK);
  assert_string_equal(place.address, "host:1");
  assert_string_equal(place.run_folder, "");
  int lock = make_run(path, "a", "unix:/a\n", true);
  assert_int_equal(learner_place_find(&place, path, runs, &error), STATUS_OK);
  assert_string_equal(place.address, "unix:/a");
  assert_string_equal(place.run_folder, path);
  close(lock);
  not_found(path, STATUS_NOT_FOUND, "is over");
  not_found(runs, STATUS_NOT_FOUND, "holds no run");
  not_found("8686", STATUS_INVALID, "neither an address");
  lock = make_run(path, "b", NULL, true);
  not_found(path, STATUS_NOT_FOUND, "has not written its address");
  close(lock);
}

static void a_run_folder_names_the_files_to_call_with(void **state) {
  (void)state;
  struct learner_place place;
  struct error error;
  char path[128];
  int lock = make_run(path, "files", "0.0.0.0:1\ntoken_file=/a b\ntls_ca=/c\nother=/d\n", true);
  assert_int_equal(learner_place_find(&place, path, runs, &error), STATUS_OK);
  assert_string_equal(place.address, "127.0.0.1:1");
  assert_string_equal(place.token_file, "/a b");
  assert_string_equal(place.tls_ca, "/c");
  assert_string_equal(place.tls_cert, "");
  temporary_folder_write(path, "address", "[::]:1\n");
  assert_int_equal(learner_place_find(&place, path, runs, &error), STATUS_OK);
  assert_string_equal(place.address, "[::1]:1");
  assert_string_equal(place.token_file, "");
  close(lock);
}

static void without_a_word_it_is_the_newest_that_goes_on(void **state) {
  (void)state;
  struct learner_place place;
  struct error error;
  char path[128];
  not_found(NULL, STATUS_NOT_FOUND, "no run goes on in the folder");
  int a = make_run(path, "z-first", "host:1", true);
  usleep(20000);
  int b = make_run(path, "a-second", "host:2", true);
  usleep(20000);
  int over = make_run(path, "b-over", "host:3", false);
  assert_int_equal(learner_place_find(&place, NULL, runs, &error), STATUS_OK);
  assert_string_equal(place.address, "host:2");
  assert_int_equal(learner_place_find(&place, runs, "/nowhere", &error), STATUS_OK);
  assert_string_equal(place.address, "host:2");
  close(b);
  assert_int_equal(learner_place_find(&place, NULL, runs, &error), STATUS_OK);
  assert_string_equal(place.address, "host:1");
  close(a);
  close(over);
  not_found(NULL, STATUS_NOT_FOUND, "no run goes on in the folder");
}

static void runs_of_a_sweep_are_found(void **state) {
  (void)state;
  struct learner_place place;
  struct error error;
  char path[128];
  struct {
    const char *folder, *address; /* "": it is not found */
  } cases[] = {{"sweep/seed-1", "host:1"},
               {"sweep/rate=1/seed-1", "host:2"},
               {"sweep/rate=1/more/seed-1", ""},
               {"over/learner-1", ""}};
  close(make_run(path, "over", "host:3", false));
  for (int i = 0; i < 4; i++) {
    int lock = make_run(path, cases[i].folder, cases[i].address, true);
    if (cases[i].address[0]) {
      assert_int_equal(learner_place_find(&place, NULL, runs, &error), STATUS_OK);
      assert_string_equal(place.address, cases[i].address);
    } else {
      not_found(NULL, STATUS_NOT_FOUND, "no run goes on in the folder");
    }
    close(lock);
  }
}

static void whether_anybody_listens(void **state) {
  (void)state;
  struct sockaddr_in name = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t length = sizeof(name);
  int fd = socket(AF_INET, SOCK_STREAM, 0);
  assert_int_equal(bind(fd, (struct sockaddr *)&name, length), 0);
  assert_int_equal(listen(fd, 4), 0);
  getsockname(fd, (struct sockaddr *)&name, &length);
  struct learner_place place = {.address = ""};
  snprintf(place.address, sizeof(place.address), "127.0.0.1:%d", ntohs(name.sin_port));
  struct error error;
  assert_int_equal(learner_place_listens(&place, 200, &error), STATUS_OK);
  close(fd);
  assert_int_equal(learner_place_listens(&place, 200, &error), STATUS_UNAVAILABLE);
  assert_non_null(strstr(error.text, "nobody listens"));
  snprintf(place.run_folder, sizeof(place.run_folder), "runs/x");
  assert_int_equal(learner_place_listens(&place, 200, &error), STATUS_UNAVAILABLE);
  assert_non_null(strstr(error.text, "the run in runs/x is over"));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(credentials_are_taken_from_a_file_of_our_own, create,
                                      destroy),
      cmocka_unit_test_setup_teardown(words_are_addresses_or_folders, create, destroy),
      cmocka_unit_test_setup_teardown(a_run_folder_names_the_files_to_call_with, create, destroy),
      cmocka_unit_test_setup_teardown(without_a_word_it_is_the_newest_that_goes_on, create,
                                      destroy),
      cmocka_unit_test_setup_teardown(runs_of_a_sweep_are_found, create, destroy),
      cmocka_unit_test(whether_anybody_listens),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
