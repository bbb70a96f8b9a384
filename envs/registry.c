#include "envs/registry.h"

#include <jansson.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/check.h"
#include "common/base/options.h"
#include "envs/builtin.h"

static const struct acorn_env *const environments[] = {
    &env_cartpole, &env_catch, &env_tmaze, &env_synthetic, NULL,
};
enum { NUM_ENVIRONMENTS = sizeof environments / sizeof *environments - 1, MAX_OPTIONS = 64 };

const struct acorn_env *const *registry_all(void) {
  return environments;
}

enum status registry_find(const struct acorn_env **out, const char *name, struct error *error) {
  const char *names[NUM_ENVIRONMENTS];
  char list[512] = "";
  for (int i = 0; i < NUM_ENVIRONMENTS; i++) {
    *out = environments[i];
    if (strcmp((*out)->name, name) == 0) return STATUS_OK;
    names[i] = environments[i]->name;
    size_t used = strlen(list);
    snprintf(list + used, sizeof list - used, "%s%s", i ? ", " : "", names[i]);
  }
  *out = NULL;
  const char *nearest = options_nearest_word(names, NUM_ENVIRONMENTS, name);
  return status_fail(error, STATUS_NOT_FOUND, "unknown environment '%s'%s%s%s; there are: %s", name,
                     nearest ? "; did you mean '" : "", nearest ? nearest : "", nearest ? "'?" : "",
                     list);
}

/* ---- options */

static int option_index(const struct acorn_env *env, const char *name) {
  for (int i = 0; i < env->num_options; i++) {
    if (strcmp(env->options[i].name, name) == 0) return i;
  }
  return -1;
}

static enum status unknown_option(const struct acorn_env *env, const char *name,
                                  struct error *error) {
  if (env->num_options == 0) {
    return status_fail(error, STATUS_INVALID,
                       "--env_args: %s has no options, so '%s' cannot be set", env->name, name);
  }
  const char *names[MAX_OPTIONS];
  char list[512] = "";
  for (int i = 0; i < env->num_options; i++) {
    names[i] = env->options[i].name;
    size_t used = strlen(list);
    snprintf(list + used, sizeof list - used, "%s%s", i ? ", " : "", names[i]);
  }
  const char *nearest = options_nearest_word(names, env->num_options, name);
  return status_fail(error, STATUS_INVALID, "--env_args: %s has no option '%s'%s%s%s; it has: %s",
                     env->name, name, nearest ? "; did you mean '" : "", nearest ? nearest : "",
                     nearest ? "'?" : "", list);
}

/* One "name": value of --env_args. true and false count as 1 and 0. */
static enum status set_option(struct acorn_option *option, const struct acorn_env *env,
                              json_t *value, struct error *error) {
  if (!json_is_number(value) && !json_is_boolean(value)) {
    return status_fail(error, STATUS_INVALID,
                       "--env_args: %s's option '%s' takes a number, for example {\"%s\": %g}",
                       env->name, option->name, option->name, option->value);
  }
  double number = json_is_boolean(value) ? json_is_true(value) : json_number_value(value);
  if (number < option->min || number > option->max) {
    return status_fail(error, STATUS_INVALID,
                       "--env_args: %s's option '%s' is %g, which is not in %g..%g", env->name,
                       option->name, number, option->min, option->max);
  }
  if (option->integer && number != floor(number)) {
    return status_fail(error, STATUS_INVALID,
                       "--env_args: %s's option '%s' is %g, but must be a whole number", env->name,
                       option->name, number);
  }
  option->value = number;
  return STATUS_OK;
}

static enum status set_options(struct acorn_option *option, const struct acorn_env *env,
                               json_t *object, struct error *error) {
  const char *name;
  json_t *value;
  json_object_foreach(object, name, value) {
    int i = option_index(env, name);
    if (i < 0) return unknown_option(env, name, error);
    enum status status = set_option(&option[i], env, value, error);
    if (status != STATUS_OK) return status;
  }
  return STATUS_OK;
}

enum status registry_config(struct acorn_config *out, const struct acorn_env *env, const char *json,
                            struct error *error) {
  CHECK(env->num_options <= MAX_OPTIONS, "%s has %d options", env->name, env->num_options);
  *out = (struct acorn_config){.struct_bytes = sizeof *out};

  json_error_t where;
  json_t *object = json_loads(*json ? json : "{}", JSON_REJECT_DUPLICATES, &where);
  if (!object || !json_is_object(object)) {
    json_decref(object);
    return status_fail(
        error, STATUS_INVALID,
        "--env_args: '%s' is not a JSON object%s%s; write for example --env_args='{\"%s\": %g}'",
        json, object ? "" : ": ", object ? "" : where.text,
        env->num_options ? env->options[0].name : "name",
        env->num_options ? env->options[0].value : 1.0);
  }

  struct acorn_option *option = check_alloc((size_t)env->num_options + 1, sizeof *option);
  for (int i = 0; i < env->num_options; i++) option[i] = env->options[i];
  enum status status = set_options(option, env, object, error);
  json_decref(object);
  if (status != STATUS_OK) {
    free(option);
    return status;
  }
  out->option = option;
  out->num_options = env->num_options;
  return STATUS_OK;
}

void registry_config_deinit(struct acorn_config *config) {
  free((void *)config->option);
  *config = (struct acorn_config){0};
}

/* ---- identity */

static void append(char *out, size_t bytes, const char *format, ...) PRINTF_LIKE(3, 4);
static void append(char *out, size_t bytes, const char *format, ...) {
  size_t used = strlen(out);
  va_list args;
  va_start(args, format);
  vsnprintf(out + used, bytes - used, format, args);
  va_end(args);
}

void registry_identity(char *out, size_t bytes, const struct acorn_env *env,
                       const struct acorn_config *config) {
  snprintf(out, bytes, "%s", env->name);
  char before = '(';
  for (int i = 0; i < config->num_options; i++) {
    const struct acorn_option *option = &config->option[i];
    if (option->value == env->options[i].value) continue;
    append(out, bytes, "%c%s=%g", before, option->name, option->value);
    before = ',';
  }
  if (before == ',') append(out, bytes, ")");
}

/* ---- space */

/* What a plugin by a third party may get wrong. */
static enum status check_space(const struct acorn_space *space, const struct acorn_env *env,
                               struct error *error) {
  const char *name = env->name;
  if (space->num_tensors < 1 || space->num_tensors > ACORN_MAX_TENSORS) {
    return status_fail(error, STATUS_INVALID,
                       "environment %s: %d observation tensors, there may be 1..%d", name,
                       space->num_tensors, ACORN_MAX_TENSORS);
  }
  if ((space->discrete > 0) == (space->box > 0) || space->box > ACORN_MAX_BOX) {
    return status_fail(error, STATUS_INVALID,
                       "environment %s: discrete %d and box %d actions; exactly one must be above "
                       "0, box at most %d",
                       name, space->discrete, space->box, ACORN_MAX_BOX);
  }
  for (int i = 0; i < space->num_tensors; i++) {
    const struct acorn_tensor *tensor = &space->tensor[i];
    int ok = tensor->name && tensor->rank >= 0 && tensor->rank <= ACORN_MAX_RANK &&
             tensor->dtype >= ACORN_UINT8 && tensor->dtype <= ACORN_FLOAT32;
    for (int d = 0; ok && d < tensor->rank; d++) ok = tensor->shape[d] > 0;
    if (ok) continue;
    return status_fail(error, STATUS_INVALID,
                       "environment %s: observation tensor %d needs a name, a dtype, a rank of at "
                       "most %d and a shape "
                       "above 0",
                       name, i, ACORN_MAX_RANK);
  }
  return STATUS_OK;
}

enum status registry_space(struct wire_space *out, const struct acorn_env *env,
                           const struct acorn_config *config, struct error *error) {
  struct acorn_space space = {.struct_bytes = sizeof space};
  char text[512] = "";
  if (env->space(&space, config, text, sizeof text)) {
    return status_fail(error, STATUS_INVALID, "environment %s: %s", env->name, text);
  }
  enum status status = check_space(&space, env, error);
  if (status != STATUS_OK) return status;

  *out = (struct wire_space){
      .num_tensors = space.num_tensors, .discrete = space.discrete, .box = space.box};
  for (int i = 0; i < space.num_tensors; i++) {
    const struct acorn_tensor *from = &space.tensor[i];
    struct wire_tensor_spec *to = &out->tensor[i];
    to->dtype = (enum wire_dtype)from->dtype; // the numbers are the same, see the assertions below
    to->rank = from->rank;
    snprintf(to->name, sizeof to->name, "%s", from->name);
    memcpy(to->shape, from->shape, sizeof to->shape);
  }
  memcpy(out->low, space.low, sizeof out->low);
  memcpy(out->high, space.high, sizeof out->high);
  return STATUS_OK;
}

_Static_assert((int)ACORN_UINT8 == (int)WIRE_UINT8 && (int)ACORN_INT32 == (int)WIRE_INT32 &&
                   (int)ACORN_FLOAT32 == (int)WIRE_FLOAT32,
               "dtypes");
_Static_assert((int)ACORN_MAX_TENSORS == (int)WIRE_MAX_TENSORS &&
                   (int)ACORN_MAX_RANK == (int)WIRE_MAX_RANK &&
                   (int)ACORN_MAX_BOX == (int)WIRE_MAX_BOX,
               "sizes");
