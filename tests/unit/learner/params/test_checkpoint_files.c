/* What files in a folder of checkpoints hold, and what they are called: damaged ones, wrong names,
 * and what is no file. */
#include <sys/socket.h>
#include <sys/un.h>

#include "common/base/clock.h"
#include "tests/unit/learner/params/checkpoint_world.h"
#include "tests/unit/support/skip.h"

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
  assert_non_null(strstr(said, "checkpoint-000000000005.acorn is of update 40, unlike its name"));
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

  /* Another file may have its name. */
  assert_int_equal(truncate(path, 0), 0);
  assert_int_equal(read_newest(world, &updates, said, &error), STATUS_OK);
  assert_non_null(strstr(said, "checkpoint-000000000002.acorn is no checkpoint: "));

  /* Nothing whole is left: what was read before is as it was. */
  flip_bit(world, 1, 0);
  assert_int_equal(read_newest(world, &updates, said, &error), STATUS_CORRUPT);
  assert_true(holds(world, -1));
  assert_non_null(strstr(error.text, "no checkpoint of 3"));
  assert_non_null(strstr(error.text, "checkpoint-000000000003.acorn"));
}

int main(void) {
#define TEST(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
  const struct CMUnitTest tests[] = {
      TEST(test_the_content_says_what_is_newest),
      TEST(test_damaged_files_do_not_count),
      TEST(test_a_file_that_is_damaged_later_does_not_count),
      TEST(test_a_name_that_is_taken),
      TEST(test_only_regular_files_are_read),
      TEST(test_a_link_to_a_whole_file_is_one),
      TEST(test_a_file_that_is_too_long_is_not_read),
      TEST(test_a_damaged_newest_is_reported_and_passed_over),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
