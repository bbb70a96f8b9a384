#include "common/base/space_json.h"

#include <jansson.h>
#include <math.h>
#include <string.h>

#include "common/base/check.h"

static const char *const dtypes[] = {
    [DTYPE_UINT8] = "uint8", [DTYPE_INT32] = "int32", [DTYPE_FLOAT32] = "float32"};
enum { NUM_DTYPES = sizeof(dtypes) / sizeof(dtypes[0]) };

/* ---- written */

static json_t *integers(const int *numbers, int count) {
  json_t *array = json_array();
  for (int i = 0; i < count; i++) json_array_append_new(array, json_integer(numbers[i]));
  return array;
}

static json_t *bounds(const float *numbers, int count) {
  json_t *array = json_array();
  for (int i = 0; i < count; i++)
    json_array_append_new(array,
                          isfinite(numbers[i]) ? json_real((double)numbers[i]) : json_null());
  return array;
}

char *space_json_text(const struct space *space) {
  json_t *json = json_object(), *observation = json_array();
  for (int i = 0; i < space->num_tensors; i++) {
    const struct space_tensor *tensor = &space->tensor[i];
    json_array_append_new(observation, json_pack("{s:s, s:s, s:o}", "name", tensor->name, "dtype",
                                                 dtypes[tensor->dtype], "shape",
                                                 integers(tensor->shape, tensor->rank)));
  }
  json_object_set_new(json, "observation", observation);
  if (space->choices.count) {
    json_object_set_new(json, "choices", integers(space->choices.among, space->choices.count));
  } else if (space->discrete) {
    json_object_set_new(json, "discrete", json_integer(space->discrete));
  } else {
    json_object_set_new(json, "low", bounds(space->low, space->box));
    json_object_set_new(json, "high", bounds(space->high, space->box));
  }
  char *text = json_dumps(json, JSON_COMPACT);
  json_decref(json);
  CHECK(text, "a name of an observation is no text");
  return text;
}

/* ---- read: what does not fit becomes what space_check refuses */

/* Returns how many there are; -1: more than there is room for. */
static int take_integers(int *out, int room, const json_t *array) {
  if (json_array_size(array) > (size_t)room) return -1;
  for (size_t i = 0; i < json_array_size(array); i++) {
    json_int_t number = json_integer_value(json_array_get(array, i));
    out[i] = number > 0 && number < INT32_MAX ? (int)number : 0;
  }
  return (int)json_array_size(array);
}

static int take_bounds(float *out, const json_t *array, float none) {
  if (json_array_size(array) > SPACE_MAX_BOX) return -1;
  for (size_t i = 0; i < json_array_size(array); i++) {
    const json_t *bound = json_array_get(array, i);
    out[i] = json_is_number(bound) ? (float)json_number_value(bound) : none;
  }
  return (int)json_array_size(array);
}

static void take_tensor(struct space_tensor *tensor, const json_t *json) {
  const char *name = json_string_value(json_object_get(json, "name"));
  const char *dtype = json_string_value(json_object_get(json, "dtype"));
  space_set_name(tensor, name ? name : "");
  for (int i = 1; dtype && i < NUM_DTYPES; i++)
    if (strcmp(dtype, dtypes[i]) == 0) tensor->dtype = (enum dtype)i;
  tensor->rank = take_integers(tensor->shape, SPACE_MAX_RANK, json_object_get(json, "shape"));
}

enum status space_json_parse(struct space *out, const char *text, struct error *error) {
  json_error_t wrong;
  json_t *json = json_loads(text, JSON_REJECT_DUPLICATES, &wrong);
  const json_t *observation = json_object_get(json, "observation");
  *out = (struct space){0};
  size_t count = json_array_size(observation);
  out->num_tensors = count > SPACE_MAX_TENSORS ? -1 : (int)count;
  for (int i = 0; i < out->num_tensors; i++)
    take_tensor(&out->tensor[i], json_array_get(observation, (size_t)i));
  json_int_t among = json_integer_value(json_object_get(json, "discrete"));
  if (among > 0 && among <= SPACE_MAX_DISCRETE) out->discrete = (int)among;
  out->choices.count =
      take_integers(out->choices.among, SPACE_MAX_CHOICES, json_object_get(json, "choices"));
  for (int c = 0; c < out->choices.count && out->discrete <= SPACE_MAX_DISCRETE; c++)
    out->discrete +=
        out->choices.among[c] <= SPACE_MAX_DISCRETE ? out->choices.among[c] : SPACE_MAX_DISCRETE;
  int low = take_bounds(out->low, json_object_get(json, "low"), -INFINITY);
  int high = take_bounds(out->high, json_object_get(json, "high"), INFINITY);
  out->box = low;
  json_decref(json);
  if (low != high || low < 0)
    return status_fail(error, STATUS_INVALID, "a box of %d lower and %d upper bounds", low, high);
  return space_check(out, error);
}
