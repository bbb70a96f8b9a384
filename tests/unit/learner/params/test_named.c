/* Parameters by name, packed and unpacked: all, some, and what is refused, with its reason. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "learner/params/named.h"

enum { P = 19 };

static float numbers[P] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19};
static int64_t version = 9;

static void make(struct named *named) {
  const struct checkpoint_item items[] = {
      {"params/head/w", CHECKPOINT_FLOAT32, 2, {2, 3}, numbers, false},
      {"params/head/b", CHECKPOINT_FLOAT32, 1, {3}, numbers + 6, false},
      {"own/critic/b", CHECKPOINT_FLOAT32, 1, {2}, numbers + 9, false},
      {"params/value/count", CHECKPOINT_FLOAT32, 1, {2}, numbers + 11, false},
      {"params/value/deviation", CHECKPOINT_FLOAT32, 1, {2}, numbers + 13, false},
      {"own/x/variance", CHECKPOINT_FLOAT32, 1, {2}, numbers + 15, false},
      {"params/head/log_std", CHECKPOINT_FLOAT32, 1, {1}, numbers + 17, false},
      {"own/log_temperature", CHECKPOINT_FLOAT32, 1, {1}, numbers + 18, false},
      {"adam/m/head/w", CHECKPOINT_FLOAT32, 2, {2, 3}, NULL, false},
      {CHECKPOINT_VERSION, CHECKPOINT_INT64, 1, {1}, &version, false},
  };
  named_init(named, items, sizeof(items) / sizeof(items[0]));
}

static void names_are_those_of_checkpoints(void **state) {
  (void)state;
  struct named named;
  make(&named);
  assert_int_equal(named.count, 8);
  assert_int_equal(named.numbers, P);
  assert_string_equal(named.item[0].name, "head/w");
  assert_string_equal(named.item[2].name, "own/critic/b");
}

static void what_is_packed_is_unpacked(void **state) {
  (void)state;
  struct named named;
  struct safetensors file = {0};
  float found[P];
  bool given[NAMED_MAX];
  size_t size;
  make(&named);
  uint8_t *bytes = named_pack(&named, &size, numbers, 9);
  assert_true(size <= named_max_bytes(&named));
  assert_int_equal(named_unpack(&named, found, given, bytes, size, NULL), STATUS_OK);
  assert_memory_equal(found, numbers, sizeof(numbers));
  assert_true(given[0] && given[1] && given[2]);
  assert_int_equal(safetensors_parse(&file, bytes, size, size, NULL), STATUS_OK);
  assert_string_equal(safetensors_text(&file, "updates"), "9");
  safetensors_close(&file);
  free(bytes);
}

/* A file with one array of that name and shape. */
static uint8_t *one(size_t *size, const char *name, int rank, const int *shape, const float *data) {
  const struct safetensor tensor = {name, rank, shape, data};
  json_t *metadata = json_pack("{s:s}", "agent", "ppo");
  uint8_t *bytes = safetensors_pack(size, &tensor, 1, metadata);
  json_decref(metadata);
  return bytes;
}

static void some_are_enough(void **state) {
  (void)state;
  struct named named;
  float found[P] = {0};
  bool given[NAMED_MAX];
  size_t size;
  make(&named);
  uint8_t *bytes = one(&size, "head/b", 1, (const int[]){3}, numbers);
  assert_int_equal(named_unpack(&named, found, given, bytes, size, NULL), STATUS_OK);
  assert_true(!given[0] && given[1] && !given[2]);
  assert_memory_equal(found + 6, numbers, 3 * sizeof(float));
  free(bytes);
}

static void what_does_not_fit_is_refused_with_its_reason(void **state) {
  (void)state;
  struct named named;
  const float nan[] = {1, NAN, 2}, infinite[] = {1, 2, INFINITY}, huge[] = {1e9f, -1e9f, -1.1e9f},
              below[] = {0, -1}, scattered[] = {1e18f, 1.1e18f}, wide[] = {21}, cold[] = {-21},
              none[] = {1, 0};
  const struct {
    const char *name;
    int rank, shape[2];
    const float *data;
    const char *reason;
  } cases[] = {
      {"params/head/b", 1, {3}, numbers, "has no parameter params/head/b"},
      {"adam/m/head/w", 2, {2, 3}, numbers, "has no parameter adam/m/head/w"},
      {"head/b", 1, {2}, numbers, "head/b has another shape than the network, (3)"},
      {"head/w", 2, {3, 2}, numbers, "head/w has another shape than the network, (2, 3)"},
      {"head/b", 1, {3}, nan, "number 1 of array head/b is nan"},
      {"head/b", 1, {3}, infinite, "number 2 of array head/b is inf"},
      {"head/b", 1, {3}, huge, "number 2 of array head/b is -1.1e+09: it has to be within -1e+09"},
      {"value/count", 1, {2}, below, "number 1 of array value/count is -1: it has to be within 0"},
      {"value/deviation",
       1,
       {2},
       none,
       "number 1 of array value/deviation is 0: it has to be within 1.17549e-38"},
      {"head/log_std", 1, {1}, wide, "head/log_std is 21: it has to be within -20 and 20"},
      {"own/log_temperature", 1, {1}, cold, "own/log_temperature is -21: it has to be within -20"},
      {"own/x/variance", 1, {2}, below, "number 1 of array own/x/variance is -1"},
      {"own/x/variance", 1, {2}, scattered, "number 1 of array own/x/variance is 1.1e+18"},
      {"head/\n\x1b[2J", 1, {3}, numbers, "a name that is not printable"},
      {"head/\xc3\xa4", 1, {3}, numbers, "a name that is not printable"},
  };
  make(&named);
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
    float found[P];
    bool given[NAMED_MAX];
    struct error error = {""};
    size_t size;
    uint8_t *bytes = one(&size, cases[i].name, cases[i].rank, cases[i].shape, cases[i].data);
    assert_int_equal(named_unpack(&named, found, given, bytes, size, &error), STATUS_INVALID);
    assert_non_null(strstr(error.text, cases[i].reason));
    assert_int_equal(named_unpack(&named, found, given, bytes, size - 1, &error), STATUS_INVALID);
    free(bytes);
  }
}

static void a_file_without_arrays_is_refused(void **state) {
  (void)state;
  struct named named;
  float found[P];
  bool given[NAMED_MAX];
  struct error error;
  make(&named);
  static const uint8_t empty[] = "\2\0\0\0\0\0\0\0{}";
  assert_int_equal(named_unpack(&named, found, given, empty, 10, &error), STATUS_INVALID);
  assert_string_equal(error.text, "there is no array in it");
}

/* It is not even parsed, which would take many times as much memory. */
static void a_long_header_is_refused(void **state) {
  (void)state;
  struct named named;
  float found[P];
  bool given[NAMED_MAX];
  struct error error;
  size_t size = NAMED_MAX_HEADER_BYTES + 9;
  uint8_t *bytes = malloc(size);
  memset(bytes, '[', size);
  memcpy(bytes, (const uint8_t[8]){1, 0, NAMED_MAX_HEADER_BYTES >> 16}, 8);
  make(&named);
  assert_int_equal(named_unpack(&named, found, given, bytes, size, &error), STATUS_INVALID);
  assert_non_null(strstr(error.text, "its header would have 131073 bytes, of 131072 at most"));
  free(bytes);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(names_are_those_of_checkpoints),
      cmocka_unit_test(what_is_packed_is_unpacked),
      cmocka_unit_test(some_are_enough),
      cmocka_unit_test(what_does_not_fit_is_refused_with_its_reason),
      cmocka_unit_test(a_file_without_arrays_is_refused),
      cmocka_unit_test(a_long_header_is_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
