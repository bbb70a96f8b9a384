/* Checkpoints as bytes in memory: what was written is read back, anything else is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdbool.h>
#include <string.h>

#include "common/base/crc32c.h"
#include "learner/params/checkpoint_format.h"

enum { ROOM = 4096, FLOATS = 3, BYTES = 5 };

/* Two arrays; where the first one's entry stands in the header. */
enum {
  AT_MAGIC = 0,
  AT_FORMAT = 8,
  AT_COUNT = 12,
  AT_NAME_LENGTH = 16,
  AT_NAME = 18,
  AT_DTYPE = 19,
  AT_RANK = 20,
  AT_SHAPE = 21,
  AT_BYTES = 29,
  AT_CRC = 37,
  AT_SECOND_NAME = 43,
  AT_SECOND_DTYPE = 44,
  AT_HEADER_CRC = 66,
};

struct file {
  uint8_t bytes[ROOM];
  size_t size;
};

struct arrays {
  float floats[FLOATS];
  uint8_t bytes[BYTES];
  struct checkpoint_item item[2];
};

static void arrays_init(struct arrays *arrays) {
  *arrays = (struct arrays){.floats = {1.5f, -2, 3e30f}, .bytes = {0, 255, 7, 8, 9}};
  arrays->item[0] = (struct checkpoint_item){.name = "a",
                                             .dtype = CHECKPOINT_FLOAT32,
                                             .rank = 1,
                                             .shape = {FLOATS},
                                             .data = arrays->floats};
  arrays->item[1] = (struct checkpoint_item){
      .name = "b", .dtype = CHECKPOINT_BYTES, .rank = 1, .shape = {BYTES}, .data = arrays->bytes};
}

static void encode(struct file *file, const struct checkpoint_item *items, int num_items) {
  memset(file, 0, sizeof *file);
  static uint8_t header[CHECKPOINT_HEADER_ROOM];
  file->size = checkpoint_encode_header(header, items, num_items);
  assert_true(file->size <= ROOM && file->size % 64 == 0);
  memcpy(file->bytes, header, file->size);
  for (int i = 0; i < num_items; i++) {
    size_t bytes = checkpoint_item_bytes(&items[i]);
    if (bytes) memcpy(file->bytes + file->size, items[i].data, bytes);
    file->size += bytes + checkpoint_padding(bytes);
  }
  assert_true(file->size <= ROOM);
}

static void encode_two(struct file *file) {
  struct arrays arrays;
  arrays_init(&arrays);
  encode(file, arrays.item, 2);
  assert_int_equal(file->size, 128 + 64 + 64);
}

/* Parses a copy that ends exactly where the bytes do, so that a sanitizer sees any step beyond. */
static enum status parse(const struct file *file, struct arrays *into, struct error *error) {
  uint8_t *copy = test_malloc(file->size + 1);
  uint8_t *bytes = copy + 1;
  memcpy(bytes, file->bytes, file->size);
  enum status status = checkpoint_parse(bytes, file->size, into->item, 2, error);
  test_free(copy);
  return status;
}

/* Refused as damaged, and nothing was written. */
static void assert_corrupt(const struct file *file) {
  struct arrays into, before;
  struct error error = {""};
  arrays_init(&into);
  memset(into.floats, 0x77, sizeof into.floats);
  memset(into.bytes, 0x77, sizeof into.bytes);
  before = into;
  assert_int_equal(parse(file, &into, &error), STATUS_CORRUPT);
  assert_memory_equal(into.floats, before.floats, sizeof into.floats);
  assert_memory_equal(into.bytes, before.bytes, sizeof into.bytes);
  assert_true(strlen(error.text) > 10);
}

static void test_round_trip(void **state) {
  (void)state;
  struct file file;
  struct arrays written, read;
  struct error error;
  encode_two(&file);
  arrays_init(&written);
  arrays_init(&read);
  memset(read.floats, 0, sizeof read.floats);
  memset(read.bytes, 0, sizeof read.bytes);
  assert_int_equal(parse(&file, &read, &error), STATUS_OK);
  assert_memory_equal(read.floats, written.floats, sizeof read.floats);
  assert_memory_equal(read.bytes, written.bytes, sizeof read.bytes);
}

static void test_every_type_rank_and_size(void **state) {
  (void)state;
  uint8_t data[512], back[512];
  for (size_t i = 0; i < sizeof data; i++) data[i] = (uint8_t)(i * 37 + 1);
  static const size_t type_bytes[] = {0, 4, 8, 8, 1};
  for (int dtype = CHECKPOINT_FLOAT32; dtype <= CHECKPOINT_BYTES; dtype++)
    for (int rank = 0; rank <= CHECKPOINT_MAX_RANK; rank++)
      for (uint64_t length = 0; length < 3; length++) {
        struct checkpoint_item item = {.name = "x", .dtype = dtype, .rank = rank, .data = data};
        size_t bytes = type_bytes[dtype];
        for (int i = 0; i < rank; i++) item.shape[i] = length, bytes *= length;
        assert_int_equal(checkpoint_item_bytes(&item), bytes);
        struct file file;
        struct error error;
        encode(&file, &item, 1);
        memset(back, 0, sizeof back);
        item.data = back;
        assert_int_equal(checkpoint_parse(file.bytes, file.size, &item, 1, &error), STATUS_OK);
        assert_memory_equal(back, data, bytes);
        assert_int_equal(back[bytes], 0);
      }
}

static void test_no_items(void **state) {
  (void)state;
  struct file file;
  struct error error;
  encode(&file, NULL, 0);
  assert_int_equal(file.size, 64);
  assert_int_equal(checkpoint_parse(file.bytes, file.size, NULL, 0, &error), STATUS_OK);
}

/* The header has room for the most and the longest. */
static void test_the_largest_header(void **state) {
  (void)state;
  static struct checkpoint_item items[CHECKPOINT_MAX_ITEMS];
  static uint8_t header[CHECKPOINT_HEADER_ROOM];
  static struct checkpoint_directory directory;
  struct error error;
  for (int i = 0; i < CHECKPOINT_MAX_ITEMS; i++) {
    items[i] = (struct checkpoint_item){.dtype = CHECKPOINT_INT64, .rank = CHECKPOINT_MAX_RANK};
    memset(items[i].name, 'n', CHECKPOINT_NAME_BYTES - 1);
    items[i].name[0] = (char)('a' + i % 16);
    items[i].name[1] = (char)('a' + i / 16);
  }
  size_t size = checkpoint_encode_header(header, items, CHECKPOINT_MAX_ITEMS);
  assert_true(size <= CHECKPOINT_HEADER_ROOM);
  assert_int_equal(checkpoint_decode(&directory, header, size, &error), STATUS_OK);
  assert_int_equal(directory.count, CHECKPOINT_MAX_ITEMS);
  int last = CHECKPOINT_MAX_ITEMS - 1;
  assert_string_equal(directory.entry[last].item.name, items[last].name);
}

static void test_every_flipped_bit_is_seen(void **state) {
  (void)state;
  struct file file;
  encode_two(&file);
  for (size_t bit = 0; bit < file.size * 8; bit++) {
    file.bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
    assert_corrupt(&file);
    file.bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
  }
}

static void test_every_truncation_is_seen(void **state) {
  (void)state;
  struct file file;
  encode_two(&file);
  for (size_t whole = file.size; file.size-- > 0;) {
    assert_true(file.size < whole);
    assert_corrupt(&file);
  }
}

static void test_bytes_behind_the_end_are_seen(void **state) {
  (void)state;
  struct file file;
  encode_two(&file);
  file.size++;
  assert_corrupt(&file);
  file.size += 63;
  assert_corrupt(&file);
}

/* Headers whose checksum is right and that still make no sense. */
static void test_nonsense_with_a_right_checksum_is_refused(void **state) {
  (void)state;
  static const struct {
    size_t at;
    uint8_t value;
    const char *says;
  } rows[] = {
      {AT_NAME, ' ', "name"},
      {AT_NAME, 0, "name"},
      {AT_NAME, 200, "name"},
      {AT_DTYPE, 0, "type 0"},
      {AT_DTYPE, 9, "type 9"},
      {AT_DTYPE, 255, "type 255"},
      {AT_DTYPE, 2, "shape"},
      {AT_SHAPE, 4, "shape"},
      {AT_BYTES, 13, "shape"},
      {AT_BYTES + 7, 255, "shape"},
      {AT_SHAPE + 7, 64, "shape"},
      {AT_SECOND_NAME, 'a', "twice"},
      {AT_CRC, 1, "checksum"},
      {AT_COUNT, 1, ""},
      {AT_COUNT + 1, 2, "514 items"},
      {AT_COUNT + 3, 255, "items"},
      {AT_RANK, 0, ""},
      {AT_RANK, 5, "damaged at"},
      {AT_NAME_LENGTH, 64, "damaged at"},
      {AT_NAME_LENGTH, 0, ""},
      {AT_NAME_LENGTH + 1, 255, "damaged"},
      {AT_FORMAT, 2, "format 2"},
      {AT_MAGIC, 'B', "begin"},
  };
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    struct file file;
    struct arrays into;
    struct error error = {""};
    encode_two(&file);
    file.bytes[rows[i].at] = rows[i].value;
    uint32_t crc = crc32c(file.bytes, AT_HEADER_CRC);
    memcpy(file.bytes + AT_HEADER_CRC, &crc, sizeof crc);
    assert_corrupt(&file);
    arrays_init(&into);
    assert_int_equal(parse(&file, &into, &error), STATUS_CORRUPT);
    if (!strstr(error.text, rows[i].says)) fail_msg("row %zu says: %s", i, error.text);
  }
}

/* A shape whose product is 2^64 times a bit: it would wrap to the right number of bytes. */
static void test_a_shape_that_wraps_is_refused(void **state) {
  (void)state;
  struct checkpoint_item item = {
      .name = "w", .dtype = CHECKPOINT_FLOAT32, .rank = 2, .shape = {0, 1}};
  struct file file;
  struct error error;
  encode(&file, &item, 1);
  uint64_t shape[2] = {1ull << 62, 1ull << 2};
  memcpy(file.bytes + AT_SHAPE, shape, sizeof shape);
  size_t at_crc = AT_SHAPE + sizeof shape + 8 + 4;
  uint32_t crc = crc32c(file.bytes, at_crc);
  memcpy(file.bytes + at_crc, &crc, sizeof crc);
  assert_int_equal(checkpoint_parse(file.bytes, file.size, NULL, 0, &error), STATUS_CORRUPT);
  assert_non_null(strstr(error.text, "shape"));
}

static void test_mismatches_name_both_sides(void **state) {
  (void)state;
  static const struct {
    struct checkpoint_item wanted;
    const char *says;
  } rows[] = {
      {{.name = "a", .dtype = CHECKPOINT_FLOAT64, .rank = 1, .shape = {3}},
       "'a' is float32 (3) in it, here it is float64 (3)"},
      {{.name = "a", .dtype = CHECKPOINT_FLOAT32, .rank = 1, .shape = {4}},
       "'a' is float32 (3) in it, here it is float32 (4)"},
      {{.name = "a", .dtype = CHECKPOINT_FLOAT32, .rank = 2, .shape = {3, 1}},
       "'a' is float32 (3) in it, here it is float32 (3, 1)"},
      {{.name = "a", .dtype = CHECKPOINT_FLOAT32, .rank = 0}, "here it is float32 ()"},
      {{.name = "b", .dtype = CHECKPOINT_INT64, .rank = 1, .shape = {5}},
       "'b' is bytes (5) in it, here it is int64 (5)"},
      {{.name = "c", .dtype = CHECKPOINT_INT64, .rank = 1, .shape = {1}},
       "there is no 'c' in it, here it is int64 (1)"},
  };
  struct file file;
  encode_two(&file);
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    struct arrays into;
    struct error error;
    arrays_init(&into);
    memset(into.bytes, 0x77, sizeof into.bytes);
    /* The other item fits, and is not touched either. */
    struct checkpoint_item items[2] = {into.item[1], rows[i].wanted};
    assert_int_equal(checkpoint_parse(file.bytes, file.size, items, 2, &error), STATUS_MISMATCH);
    assert_int_equal(into.bytes[0], 0x77);
    if (!strstr(error.text, rows[i].says)) fail_msg("row %zu says: %s", i, error.text);
    assert_non_null(strstr(error.text, "begin a new run"));
  }
}

static void test_items_that_nobody_asks_for_are_ignored(void **state) {
  (void)state;
  struct file file;
  struct arrays into;
  struct error error;
  encode_two(&file);
  arrays_init(&into);
  memset(into.bytes, 0, sizeof into.bytes);
  assert_int_equal(checkpoint_parse(file.bytes, file.size, &into.item[1], 1, &error), STATUS_OK);
  assert_int_equal(into.bytes[1], 255);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_round_trip),
      cmocka_unit_test(test_every_type_rank_and_size),
      cmocka_unit_test(test_no_items),
      cmocka_unit_test(test_the_largest_header),
      cmocka_unit_test(test_every_flipped_bit_is_seen),
      cmocka_unit_test(test_every_truncation_is_seen),
      cmocka_unit_test(test_bytes_behind_the_end_are_seen),
      cmocka_unit_test(test_nonsense_with_a_right_checksum_is_refused),
      cmocka_unit_test(test_a_shape_that_wraps_is_refused),
      cmocka_unit_test(test_mismatches_name_both_sides),
      cmocka_unit_test(test_items_that_nobody_asks_for_are_ignored),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
