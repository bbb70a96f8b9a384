#include "learner/params/named.h"

#include <float.h>
#include <stdio.h>
#include <string.h>

#include "common/base/check.h"
#include "common/base/step.h"

/* Of a parameter: e to that is still a number, and so is e to the opposite. */
#define MOST_LOGARITHM 20.0f

static const char network_prefix[] = "params/", own_prefix[] = "own/";

static bool begins_with(const char *name, const char *prefix) {
  return strncmp(name, prefix, strlen(prefix)) == 0;
}

static size_t numbers_of(const struct checkpoint_item *item) {
  return checkpoint_item_bytes(item) / sizeof(float);
}

static void add(struct named *named, const struct checkpoint_item *item, const char *name,
                const float *first) {
  CHECK(named->count < NAMED_MAX, "more than %d parameters", NAMED_MAX);
  CHECK((const float *)item->data == first + named->numbers, "%s lies elsewhere", item->name);
  struct checkpoint_item *to = &named->item[named->count];
  *to = *item;
  to->data = NULL;
  snprintf(to->name, sizeof(to->name), "%s", name);
  named->offset[named->count++] = named->numbers;
  named->numbers += numbers_of(item);
}

void named_init(struct named *named, const struct checkpoint_item *items, int count) {
  *named = (struct named){0};
  for (int i = 0; i < count; i++) {
    const char *name = items[i].name;
    if (begins_with(name, network_prefix))
      add(named, &items[i], name + strlen(network_prefix), items[0].data);
    else if (begins_with(name, own_prefix))
      add(named, &items[i], name, items[0].data);
  }
}

size_t named_max_bytes(const struct named *named) {
  return named->numbers * sizeof(float) + NAMED_MAX_HEADER_BYTES + 8;
}

static struct safetensor tensor_of(const struct checkpoint_item *item,
                                   int shape[CHECKPOINT_MAX_RANK], const float *data) {
  for (int k = 0; k < item->rank; k++) shape[k] = (int)item->shape[k];
  return (struct safetensor){item->name, item->rank, shape, data};
}

uint8_t *named_pack(const struct named *named, size_t *size, const float *values, int64_t updates) {
  struct safetensor tensor[NAMED_MAX];
  int shape[NAMED_MAX][CHECKPOINT_MAX_RANK];
  char text[32];
  for (int i = 0; i < named->count; i++)
    tensor[i] = tensor_of(&named->item[i], shape[i], values + named->offset[i]);
  snprintf(text, sizeof(text), "%lld", (long long)updates);
  json_t *metadata = json_pack("{s:s}", "updates", text);
  uint8_t *bytes = safetensors_pack(size, tensor, named->count, metadata);
  json_decref(metadata);
  return bytes;
}

static int find(const struct named *named, const char *name) {
  int i = 0;
  while (i < named->count && strcmp(named->item[i].name, name) != 0) i++;
  return i;
}

static bool ends_with(const char *name, const char *end) {
  size_t length = strlen(name), of_end = strlen(end);
  return length >= of_end && strcmp(name + length - of_end, end) == 0;
}

/* Of numbers that training can go on from: observations are within +-STEP_MAX_NUMBER, a variance
 * within its square, and numbers are divided by a deviation. */
static enum status check_numbers(const float *values, const struct checkpoint_item *item,
                                 struct error *error) {
  bool variance = ends_with(item->name, "/variance");
  bool logarithm = ends_with(item->name, "/log_std") || ends_with(item->name, "/log_temperature");
  float most = variance    ? STEP_MAX_NUMBER * STEP_MAX_NUMBER
               : logarithm ? MOST_LOGARITHM
                           : STEP_MAX_NUMBER;
  float least = ends_with(item->name, "/deviation")           ? FLT_MIN
                : variance || ends_with(item->name, "/count") ? 0
                                                              : -most;
  for (size_t i = 0; i < numbers_of(item); i++)
    if (!(values[i] >= least && values[i] <= most))
      return status_fail(error, STATUS_INVALID,
                         "number %zu of array %.60s is %g: it has to be within %g and %g", i,
                         item->name, (double)values[i], (double)least, (double)most);
  return STATUS_OK;
}

/* A stranger's name goes into the log and to terminals. */
static bool is_printable(const char *name) {
  while (*name >= ' ' && *name <= '~') name++;
  return !*name;
}

static enum status take(const struct named *named, float *values, bool *given,
                        const struct safetensors *file, const char *name, struct error *error) {
  int i = find(named, name), shape[CHECKPOINT_MAX_RANK];
  if (!is_printable(name))
    return status_fail(error, STATUS_INVALID, "an array in it has a name that is not printable");
  if (i == named->count)
    return status_fail(error, STATUS_INVALID,
                       "the run has no parameter %.60s: scripts/parameters.sh get writes a file "
                       "of those that it has",
                       name);
  const struct safetensor tensor = tensor_of(&named->item[i], shape, NULL);
  float *to = values + named->offset[i];
  given[i] = true;
  enum status status = safetensors_take(file, to, &tensor, error);
  return status == STATUS_OK ? check_numbers(to, &named->item[i], error) : status;
}

enum status named_unpack(const struct named *named, float *values, bool *given,
                         const uint8_t *bytes, size_t size, struct error *error) {
  struct safetensors file = {0};
  const char *name;
  json_t *entry;
  memset(given, 0, (size_t)named->count * sizeof(*given));
  enum status status = safetensors_parse(&file, bytes, size, NAMED_MAX_HEADER_BYTES, error);
  bool any = false;
  json_object_foreach(file.header, name, entry) {
    if (status != STATUS_OK) break;
    if (strcmp(name, SAFETENSORS_METADATA) == 0) continue;
    any = true;
    status = take(named, values, given, &file, name, error);
  }
  safetensors_close(&file);
  if (status == STATUS_OK && !any)
    return status_fail(error, STATUS_INVALID, "there is no array in it");
  return status;
}
