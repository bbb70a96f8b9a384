/* Files of checked blocks: what was put comes back, whatever the pieces; what is cut short, changed
 * or moved is refused where it is reached; what cannot be written leaves no file. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/block_file.h"
#include "common/base/random.h"
#include "tests/unit/support/temporary_folder.h"

enum { BLOCK = BLOCK_FILE_BYTES, WITH_CHECKSUM = BLOCK + 4, MOST = 3 * BLOCK + 100 };

static uint8_t content[MOST], read_back[MOST];
static char path[TEMPORARY_PATH_BYTES];
static struct block_writer *writer;
static struct block_reader *reader;
static uint32_t draws;

static size_t draw(size_t below) {
  return (size_t)(random_bits(7, 0, 0, draws++, RANDOM_TEST) % below);
}

static int setup(void **state) {
  if (temporary_folder_setup(state) != 0) return -1;
  strcpy(path, temporary_folder_path(temporary_folder(), "file"));
  for (size_t i = 0; i < MOST; i++)
    content[i] = (uint8_t)random_bits(7, 1, 0, (uint32_t)i, RANDOM_TEST);
  writer = block_writer_create();
  reader = block_reader_create();
  return 0;
}

static int teardown(void **state) {
  block_writer_destroy(writer);
  block_reader_destroy(reader);
  return temporary_folder_teardown(state);
}

/* In pieces of at most so many bytes. */
static void put(size_t size, size_t piece) {
  struct error error;
  assert_int_equal(block_writer_begin(writer, path, NULL, NULL, &error), STATUS_OK);
  for (size_t at = 0, count; at < size; at += count) {
    count = 1 + draw(piece);
    if (count > size - at) count = size - at;
    assert_true(block_writer_put(writer, content + at, count));
  }
  assert_int_equal(block_writer_flush(writer, &error), STATUS_OK);
  assert_int_equal(block_writer_end(writer, &error), STATUS_OK);
}

static enum status get(size_t size, size_t piece, struct error *error) {
  enum status status = block_reader_begin(reader, path, error);
  memset(read_back, 0, sizeof read_back);
  for (size_t at = 0, count; status == STATUS_OK && at < size; at += count) {
    count = 1 + draw(piece);
    if (count > size - at) count = size - at;
    status = block_reader_get(reader, read_back + at, count, error);
  }
  if (status == STATUS_OK) status = block_reader_end(reader, error);
  block_reader_close(reader);
  return status;
}

static off_t size_of_file(void) {
  struct stat about;
  return stat(path, &about) == 0 ? about.st_size : -1;
}

static void content_comes_back(void **state) {
  (void)state;
  static const size_t sizes[] = {1, 7, BLOCK - 1, BLOCK, BLOCK + 1, 2 * BLOCK, MOST};
  static const size_t pieces[] = {100000, BLOCK, 3 * BLOCK};
  struct error error;
  for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
    for (size_t k = 0; k < sizeof pieces / sizeof pieces[0]; k++) {
      put(sizes[i], pieces[k]);
      if (get(sizes[i], pieces[2 - k], &error) != STATUS_OK) fail_msg("%s", error.text);
      assert_memory_equal(read_back, content, sizes[i]);
      assert_int_equal(block_writer_bytes(writer), size_of_file());
      assert_int_equal(block_reader_bytes(reader), size_of_file());
      assert_int_equal(size_of_file(), sizes[i] + 4 * ((sizes[i] + BLOCK - 1) / BLOCK));
    }
}

static void assert_damaged(size_t size, const char *says) {
  struct error error;
  assert_int_equal(get(size, BLOCK, &error), STATUS_CORRUPT);
  if (!strstr(error.text, says) || !strstr(error.text, path)) fail_msg("it says: %s", error.text);
}

static void what_is_cut_short_is_refused(void **state) {
  (void)state;
  enum { SMALL = 60 };
  put(SMALL, SMALL);
  for (off_t size = SMALL + 3; size >= 0; size--) {
    assert_int_equal(truncate(path, size), 0);
    assert_damaged(SMALL, "");
  }
  put(MOST, MOST);
  static const off_t sizes[] = {3 * WITH_CHECKSUM + 103, 3 * WITH_CHECKSUM + 1, 3 * WITH_CHECKSUM,
                                3 * WITH_CHECKSUM - 1,   WITH_CHECKSUM,         BLOCK};
  for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
    assert_int_equal(truncate(path, sizes[i]), 0);
    assert_damaged(MOST, sizes[i] % WITH_CHECKSUM < 5 ? "it is cut short at byte" : "checksum");
  }
}

static void flip(off_t byte, int bit) {
  FILE *file = fopen(path, "r+b");
  assert_non_null(file);
  fseek(file, byte, SEEK_SET);
  int value = fgetc(file);
  fseek(file, byte, SEEK_SET);
  fputc(value ^ 1 << bit, file);
  fclose(file);
}

static void any_one_bit_is_noticed(void **state) {
  (void)state;
  enum { SMALL = 30 };
  struct error error;
  put(SMALL, SMALL);
  for (int i = 0; i < (SMALL + 4) * 8; i++) {
    flip(i / 8, i % 8);
    assert_damaged(SMALL, "have checksum");
    flip(i / 8, i % 8);
  }
  assert_int_equal(get(SMALL, SMALL, &error), STATUS_OK);
  put(MOST, MOST);
  for (int i = 0; i < 30; i++) {
    off_t byte = (off_t)draw((size_t)size_of_file());
    flip(byte, i % 8);
    assert_damaged(MOST, "have checksum");
    flip(byte, i % 8);
  }
  assert_int_equal(get(MOST, MOST, &error), STATUS_OK);
}

/* Each block is whole in itself. */
static void blocks_in_another_order_are_refused(void **state) {
  (void)state;
  put(MOST, MOST);
  uint8_t *block = malloc(2 * WITH_CHECKSUM);
  FILE *file = fopen(path, "r+b");
  assert_int_equal(fread(block, WITH_CHECKSUM, 2, file), 2);
  rewind(file);
  fwrite(block + WITH_CHECKSUM, WITH_CHECKSUM, 1, file);
  fwrite(block, WITH_CHECKSUM, 1, file);
  fclose(file);
  assert_damaged(MOST, "bytes 0 to");
  put(MOST, MOST);
  file = fopen(path, "r+b");
  fseek(file, WITH_CHECKSUM, SEEK_SET);
  fwrite(block, WITH_CHECKSUM, 1, file); /* the first one twice */
  fclose(file);
  assert_damaged(MOST, "checksum");
  free(block);
}

static void what_follows_the_end_is_refused(void **state) {
  (void)state;
  static const size_t sizes[] = {10, BLOCK};
  for (int i = 0; i < 2; i++) {
    put(sizes[i], BLOCK);
    assert_damaged(sizes[i] - 1, "bytes follow its end");
    FILE *file = fopen(path, "ab");
    fputc(0, file);
    fclose(file);
    assert_damaged(sizes[i], "");
  }
}

static void only_regular_files_are_read(void **state) {
  (void)state;
  struct error error;
  unlink(path);
  assert_int_equal(get(1, 1, &error), STATUS_NOT_FOUND);
  mkdir(path, 0755);
  assert_damaged(1, "no regular file");
  rmdir(path);
  mkfifo(path, 0644);
  assert_damaged(1, "no regular file");
  unlink(path);
  assert_int_equal(symlink("/dev/zero", path), 0);
  assert_damaged(1, "no regular file");
  unlink(path);
  assert_int_equal(symlink("file", path), 0);
  assert_damaged(1, "Too many levels of symbolic links");
  unlink(path);
}

/* ---- writing that fails */

static enum status try_put(size_t size, struct error *error) {
  enum status status = block_writer_begin(writer, path, NULL, NULL, error);
  if (status != STATUS_OK) return status;
  bool put_all = true;
  for (size_t at = 0, count; at < size; at += count) {
    count = size - at < 1000 ? size - at : 1000;
    put_all = block_writer_put(writer, content + at, count);
  }
  status = block_writer_flush(writer, error);
  if (!put_all) assert_int_not_equal(status, STATUS_OK);
  return status == STATUS_OK ? block_writer_end(writer, error) : status;
}

static void a_file_that_may_not_grow_is_removed(void **state) {
  (void)state;
  struct rlimit limit;
  struct error error;
  getrlimit(RLIMIT_FSIZE, &limit);
  signal(SIGXFSZ, SIG_IGN);
  static const rlim_t sizes[] = {0, 1000, BLOCK, WITH_CHECKSUM, 2 * BLOCK, MOST};
  for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
    setrlimit(RLIMIT_FSIZE, &(struct rlimit){sizes[i], limit.rlim_max});
    enum status status = try_put(MOST, &error);
    setrlimit(RLIMIT_FSIZE, &limit);
    assert_int_equal(status, STATUS_IO);
    assert_non_null(strstr(error.text, "File too large; raise the limit of file sizes"));
    assert_int_equal(size_of_file(), -1);
  }
  signal(SIGXFSZ, SIG_DFL);
  assert_int_equal(try_put(MOST, &error), STATUS_OK);
}

static bool after_two(void *context) {
  return ++*(int *)context > 2;
}

static void a_cancelled_file_is_removed(void **state) {
  (void)state;
  struct error error;
  int asked = 0;
  assert_int_equal(block_writer_begin(writer, path, after_two, &asked, &error), STATUS_OK);
  assert_false(block_writer_put(writer, content, MOST));
  assert_int_equal(asked, 3);
  assert_int_equal(block_writer_flush(writer, &error), STATUS_DONE);
  assert_int_equal(size_of_file(), -1);
}

static void a_dropped_file_is_removed(void **state) {
  (void)state;
  struct error error;
  for (int i = 0; i < 2; i++) {
    assert_int_equal(block_writer_begin(writer, path, NULL, NULL, &error), STATUS_OK);
    assert_true(block_writer_put(writer, content, BLOCK));
    assert_int_equal(size_of_file(), WITH_CHECKSUM);
    if (i == 0) block_writer_drop(writer);
  }
  block_writer_destroy(writer); /* drops it too */
  assert_int_equal(size_of_file(), -1);
  writer = block_writer_create();
  block_writer_drop(writer);
}

static void paths_that_cannot_be_written(void **state) {
  (void)state;
  struct error error;
  static char long_path[10000];
  assert_int_equal(block_writer_begin(writer, "/no/such/folder/file", NULL, NULL, &error),
                   STATUS_IO);
  assert_non_null(strstr(error.text, "/no/such/folder/file cannot be written: No such file"));
  memset(long_path, 'x', sizeof long_path - 1);
  assert_int_equal(block_writer_begin(writer, long_path, NULL, NULL, &error), STATUS_IO);
  assert_int_equal(block_reader_begin(reader, long_path, &error), STATUS_IO);
  block_writer_drop(writer);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(content_comes_back),
      cmocka_unit_test(what_is_cut_short_is_refused),
      cmocka_unit_test(any_one_bit_is_noticed),
      cmocka_unit_test(blocks_in_another_order_are_refused),
      cmocka_unit_test(what_follows_the_end_is_refused),
      cmocka_unit_test(only_regular_files_are_read),
      cmocka_unit_test(a_file_that_may_not_grow_is_removed),
      cmocka_unit_test(a_cancelled_file_is_removed),
      cmocka_unit_test(a_dropped_file_is_removed),
      cmocka_unit_test(paths_that_cannot_be_written),
  };
  return cmocka_run_group_tests(tests, setup, teardown);
}
