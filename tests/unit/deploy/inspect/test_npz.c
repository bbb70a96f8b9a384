/* The archive byte by byte: what numpy makes of it is tests/integration/after.sh. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/base/crc32.h"
#include "deploy/inspect/npz.h"

static char folder[] = "/tmp/test_npz_XXXXXX";
static char path[64];
static float matrix[2][3] = {{1, 2, 3}, {4, 5, 6}};
static int64_t number = -7;
static const struct checkpoint_item items[] = {
    {"layer/w", CHECKPOINT_FLOAT32, 2, {2, 3}, matrix},
    {"n", CHECKPOINT_INT64, 1, {1}, &number},
    {"none", CHECKPOINT_FLOAT64, 1, {0}, NULL},
};

static int make_folder(void **state) {
  (void)state;
  if (!mkdtemp(folder)) return -1;
  snprintf(path, sizeof(path), "%s/a.npz", folder);
  return 0;
}

static int remove_folder(void **state) {
  (void)state;
  unlink(path);
  return rmdir(folder);
}

static size_t read_back(uint8_t *bytes, size_t room) {
  FILE *file = fopen(path, "rb");
  assert_non_null(file);
  size_t size = fread(bytes, 1, room, file);
  fclose(file);
  return size;
}

static uint32_t number_at(const uint8_t *bytes, int width) {
  uint32_t value = 0;
  for (int i = 0; i < width; i++) value |= (uint32_t)bytes[i] << 8 * i;
  return value;
}

static void every_array_is_a_stored_file(void **state) {
  (void)state;
  static uint8_t bytes[4096];
  assert_int_equal(npz_write(path, items, 3, NULL, 0, NULL), STATUS_OK);
  size_t size = read_back(bytes, sizeof(bytes));

  const uint8_t *end = bytes + size - 22;
  assert_int_equal(number_at(end, 4), 0x06054b50);
  assert_int_equal(number_at(end + 10, 2), 3);
  const uint8_t *central = bytes + number_at(end + 16, 4);
  assert_ptr_equal(central + number_at(end + 12, 4), end);
  for (int i = 0; i < 3; i++) {
    assert_int_equal(number_at(central, 4), 0x02014b50);
    assert_int_equal(number_at(central + 10, 2), 0); /* stored */
    const uint8_t *local = bytes + number_at(central + 42, 4);
    assert_int_equal(number_at(local, 4), 0x04034b50);
    assert_memory_equal(local + 4, central + 6, 26); /* both say the same */
    size_t name = number_at(local + 26, 2), length = number_at(local + 18, 4);
    char expected[80];
    snprintf(expected, sizeof(expected), "%.60s.npy", items[i].name);
    assert_int_equal(name, strlen(expected));
    assert_memory_equal(local + 30, expected, name);
    const uint8_t *data = local + 30 + name;
    assert_int_equal(number_at(local + 14, 4), crc32_extend(0, data, length));
    size_t own = checkpoint_item_bytes(&items[i]);
    assert_memory_equal(data, "\x93NUMPY\x01\x00", 8);
    assert_int_equal(number_at(data + 8, 2) + 10 + own, length);
    if (own) assert_memory_equal(data + length - own, items[i].data, own);
    central += 46 + name;
  }
  assert_non_null(
      memmem(bytes, size, "'descr': '<f4', 'fortran_order': False, 'shape': (2, 3, ), ", 58));
  assert_ptr_equal(central, end);
}

static void the_same_arrays_give_the_same_bytes(void **state) {
  (void)state;
  static uint8_t first[4096], second[4096];
  assert_int_equal(npz_write(path, items, 3, NULL, 0, NULL), STATUS_OK);
  size_t size = read_back(first, sizeof(first));
  assert_int_equal(npz_write(path, items, 3, NULL, 0, NULL), STATUS_OK);
  assert_int_equal(read_back(second, sizeof(second)), size);
  assert_memory_equal(first, second, size);
}

static void what_cannot_be_written_is_said(void **state) {
  (void)state;
  struct error error;
  assert_int_equal(npz_write("/nowhere/a.npz", items, 3, NULL, 0, &error), STATUS_IO);
  assert_non_null(strstr(error.text, "/nowhere/a.npz cannot be written: No such file"));
  const struct checkpoint_item huge = {"h", CHECKPOINT_FLOAT32, 2, {65536, 65536}, matrix};
  assert_int_equal(npz_write(path, &huge, 1, NULL, 0, &error), STATUS_INVALID);
  assert_non_null(strstr(error.text, "16.0 GiB"));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_array_is_a_stored_file),
      cmocka_unit_test(the_same_arrays_give_the_same_bytes),
      cmocka_unit_test(what_cannot_be_written_is_said),
  };
  return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
