/* Checkpoint files in a folder of their own: what is there after a write, and which one is read. */
#include "tests/unit/learner/params/checkpoint_world.h"

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

int main(void) {
#define TEST(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
  const struct CMUnitTest tests[] = {
      TEST(test_round_trip),
      TEST(test_list_names_what_is_there),
      TEST(test_the_newest_is_read),
      TEST(test_only_the_last_ones_are_kept),
      TEST(test_the_one_just_written_is_never_removed),
      TEST(test_other_files_are_left_alone),
      TEST(test_hundreds_of_checkpoints),
      TEST(test_a_mismatch_is_not_passed_over),
      TEST(test_nothing_there),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
