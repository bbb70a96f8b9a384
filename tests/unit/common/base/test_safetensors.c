/* A safetensors file, written and read; what is none. What the package of that name makes of such
 * files is tests/integration/export.sh. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/base/safetensors.h"

static char folder[] = "/tmp/test_safetensors_XXXXXX";
static char path[64];
enum { TEXT_BYTES = 1024 };
static const float numbers[] = {1, 2, 3, 4, 5, 6};
static const struct safetensor tensors[] = {
    {"layer/w", 2, (const int[]){2, 3}, numbers},
    {"layer/b", 1, (const int[]){3}, numbers + 3},
};

static int make_folder(void **state) {
  (void)state;
  if (!mkdtemp(folder)) return -1;
  snprintf(path, sizeof(path), "%s/a.safetensors", folder);
  return 0;
}

static int remove_folder(void **state) {
  (void)state;
  unlink(path);
  return rmdir(folder);
}

static void write_example(void) {
  json_t *metadata = json_pack("{s:s}", "agent", "ppo");
  assert_int_equal(safetensors_write(path, tensors, 2, metadata, NULL), STATUS_OK);
  json_decref(metadata);
}

static void what_is_written_is_read(void **state) {
  (void)state;
  struct safetensors file;
  float found[6];
  write_example();
  assert_int_equal(safetensors_open(&file, path, NULL), STATUS_OK);
  assert_string_equal(safetensors_text(&file, "agent"), "ppo");
  assert_null(safetensors_text(&file, "layer/w"));
  assert_int_equal((uintptr_t)(file.data - file.file) % 8, 0);
  assert_int_equal(file.bytes, 9 * sizeof(float));
  assert_int_equal(safetensors_take(&file, found, &tensors[0], NULL), STATUS_OK);
  assert_memory_equal(found, numbers, sizeof(numbers));
  assert_int_equal(safetensors_take(&file, found, &tensors[1], NULL), STATUS_OK);
  assert_memory_equal(found, numbers + 3, 3 * sizeof(float));
  safetensors_close(&file);
}

static void another_array_is_refused(void **state) {
  (void)state;
  const struct safetensor none = {"none", 1, (const int[]){3}, NULL},
                          turned = {"layer/w", 2, (const int[]){3, 2}, NULL},
                          flat = {"layer/w", 1, (const int[]){6}, NULL};
  struct safetensors file;
  struct error error;
  float found[6];
  write_example();
  assert_int_equal(safetensors_open(&file, path, NULL), STATUS_OK);
  assert_int_equal(safetensors_take(&file, found, &none, &error), STATUS_INVALID);
  assert_non_null(strstr(error.text, "no array none"));
  assert_int_equal(safetensors_take(&file, found, &turned, &error), STATUS_INVALID);
  assert_int_equal(safetensors_take(&file, found, &flat, &error), STATUS_INVALID);
  assert_non_null(strstr(error.text, "layer/w has another shape"));
  safetensors_close(&file);
}

/* Of a header, behind its length: what taking `x` of two numbers gives. */
static enum status take_x(const char *header, size_t data_bytes, char text[TEXT_BYTES]) {
  const struct safetensor x = {"x", 1, (const int[]){2}, NULL};
  uint8_t bytes[512] = {0};
  float found[2];
  struct safetensors file = {0};
  struct error error = {""};
  size_t length = strlen(header);
  bytes[0] = (uint8_t)length;
  memcpy(bytes + 8, header, length);
  enum status status = safetensors_parse(&file, bytes, 8 + length + data_bytes, length, &error);
  if (status == STATUS_OK) status = safetensors_take(&file, found, &x, &error);
  safetensors_close(&file);
  snprintf(text, TEXT_BYTES, "%s", error.text);
  return status;
}

#define X(type, shape, begin, end) \
  "{\"x\":{\"dtype\":\"" type "\",\"shape\":" shape ",\"data_offsets\":[" begin "," end "]}}"

static void places_stay_within_the_file(void **state) {
  (void)state;
  static const struct {
    const char *header, *says;
  } cases[] = {
      {X("F32", "[2]", "0", "8"), ""},
      {X("F32", "[2]", "4", "12"), ""},
      {X("F32", "[2]", "8", "16"), "within the file"},
      {X("F32", "[2]", "-8", "0"), "within the file"},
      {X("F32", "[2]", "8", "0"), "within the file"},
      {X("F32", "[2]", "0", "12"), "within the file"},
      {X("F32", "[2]", "0", "9223372036854775807"), "within the file"},
      {X("F64", "[2]", "0", "8"), "another shape"},
      {X("F32", "[2,1]", "0", "8"), "another shape"},
      {X("F32", "2", "0", "8"), "another shape"},
      {"{\"x\":[]}", "no array x"},
      {"{\"x\":{},\"x\":{}}", "twice"},
      {"[]", "no JSON object"},
      {"{\"x\":", "no JSON object"},
      {"{\"\x1b[2J\"", "no JSON object"},
  };
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
    char text[TEXT_BYTES];
    enum status status = take_x(cases[i].header, 12, text);
    assert_int_equal(status, cases[i].says[0] ? STATUS_INVALID : STATUS_OK);
    assert_non_null(strstr(text, cases[i].says));
    assert_null(strchr(text, '\x1b'));
  }
}

static void what_is_no_file_of_the_kind_is_refused(void **state) {
  (void)state;
  static const uint8_t long_header[16] = {9}, huge[16] = {0, 0, 0, 0, 0, 0, 0, 0x80};
  struct safetensors file = {0};
  struct error error;
  assert_int_equal(safetensors_parse(&file, huge, 7, 100, &error), STATUS_INVALID);
  assert_int_equal(safetensors_parse(&file, long_header, 16, 100, &error), STATUS_INVALID);
  assert_int_equal(safetensors_parse(&file, huge, 16, SIZE_MAX, &error), STATUS_INVALID);
  assert_non_null(strstr(error.text, "header would have"));
  assert_int_equal(safetensors_open(&file, "/nowhere/a", &error), STATUS_NOT_FOUND);
  assert_non_null(strstr(error.text, "/nowhere/a cannot be read"));
  assert_int_equal(safetensors_open(&file, folder, &error), STATUS_NOT_FOUND);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(what_is_written_is_read),
      cmocka_unit_test(another_array_is_refused),
      cmocka_unit_test(places_stay_within_the_file),
      cmocka_unit_test(what_is_no_file_of_the_kind_is_refused),
  };
  return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
