/* Spaces as JSON and back; texts that are no space. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/base/space_json.h"

static void a_space_comes_back(void **state) {
  (void)state;
  static const struct space spaces[] = {
      {.num_tensors = 1, .tensor = {{"state", DTYPE_FLOAT32, 1, {4}}}, .discrete = 2},
      {.num_tensors = 2,
       .tensor = {{"image", DTYPE_UINT8, 3, {84, 84, 3}}, {"one", DTYPE_INT32, 0, {0}}},
       .discrete = 9,
       .choices = {3, {2, 3, 4}}},
      {.num_tensors = 1,
       .tensor = {{"x", DTYPE_FLOAT32, 1, {4}}},
       .box = 2,
       .low = {-0.1f, -INFINITY},
       .high = {1.7f, INFINITY}},
  };
  for (size_t i = 0; i < sizeof(spaces) / sizeof(spaces[0]); i++) {
    struct space found;
    char *text = space_json_text(&spaces[i]);
    assert_int_equal(space_json_parse(&found, text, NULL), STATUS_OK);
    assert_int_equal(space_compare(&spaces[i], "here", &found, "there", NULL), STATUS_OK);
    free(text);
  }
}

#define OBSERVED "{\"observation\":[{\"name\":\"x\",\"dtype\":\"uint8\",\"shape\":[2]}]"

static void other_texts_are_refused(void **state) {
  (void)state;
  static const char *const texts[] = {
      "",
      "[]",
      "{\"discrete\":2}",
      "{\"observation\":[],\"discrete\":2}",
      "{\"observation\":[1],\"discrete\":2}",
      "{\"observation\":[{\"name\":\"x\",\"dtype\":\"int8\",\"shape\":[2]}],\"discrete\":2}",
      "{\"observation\":[{\"name\":\"x\",\"dtype\":\"uint8\",\"shape\":[1,1,1,1,1]}],\"discrete\":"
      "2}",
      "{\"observation\":[{\"name\":\"x\",\"dtype\":\"uint8\",\"shape\":[1e300]}],\"discrete\":2}",
      OBSERVED "}",
      OBSERVED ",\"discrete\":-1}",
      OBSERVED ",\"discrete\":99999999999}",
      OBSERVED ",\"choices\":[2,-1]}",
      OBSERVED ",\"choices\":[2147483647,2147483647]}",
      OBSERVED ",\"low\":[0,0],\"high\":[1]}",
      OBSERVED ",\"discrete\":2,\"low\":[0],\"high\":[1]}",
      OBSERVED ",\"discrete\":2,\"low\":[0]}",
      OBSERVED ",\"low\":[2],\"high\":[1]}",
  };
  for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
    struct space found;
    struct error error = {""};
    assert_int_equal(space_json_parse(&found, texts[i], &error), STATUS_INVALID);
    assert_true(error.text[0]);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_space_comes_back),
      cmocka_unit_test(other_texts_are_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
