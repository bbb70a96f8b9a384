#include "deploy/atari_words.h"

#include <jansson.h>
#include <stdbool.h>
#include <string.h>

#include "common/base/check.h"

static bool is_given(const struct launch_options *options, const char *name) {
  return options_given(&launch_options_table, options, name);
}

static void put(json_t *object, const struct launch_options *options) {
  if (is_given(options, "game")) json_object_set_new(object, "game", json_string(options->game));
  if (is_given(options, "sticky_actions"))
    json_object_set_new(object, "sticky_actions", json_real(options->sticky_actions));
  if (is_given(options, "resize"))
    json_object_set_new(object, "resize", json_string(options->resize));
}

enum status atari_words_add(char **out, const struct launch_options *options, const char *env,
                            const char *env_args, struct error *error) {
  static const char *const names[] = {"game", "sticky_actions", "resize"};
  const char *first = NULL;
  *out = NULL;
  for (int i = 0; i < 3 && !first; i++)
    if (is_given(options, names[i])) first = names[i];
  if (!first) return STATUS_OK;
  if (strcmp(env, "atari") != 0)
    return status_fail(error, STATUS_INVALID,
                       "--%s is an option of the environment atari; those of %.100s are given as "
                       "--env_args='{...}'",
                       first, env);
  json_t *object = json_loads(env_args[0] ? env_args : "{}", 0, NULL);
  if (!json_is_object(object)) {
    json_decref(object);
    return status_fail(error, STATUS_INVALID, "--env_args: '%.200s' is not a JSON object",
                       env_args);
  }
  put(object, options);
  *out = json_dumps(object, JSON_COMPACT);
  CHECK(*out, "out of memory");
  json_decref(object);
  return STATUS_OK;
}
