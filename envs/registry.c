#include "envs/registry.h"

#include <ctype.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/check.h"
#include "common/base/crc32.h"
#include "common/base/decimal.h"
#include "common/base/log.h"
#include "common/base/options.h"
#include "envs/bridge.h"
#include "envs/builtin.h"
#include "envs/plugin.h"

static const struct acorn_env *const environments[] = {
    &env_cartpole, &env_catch, &env_tmaze, &env_synthetic, NULL,
};
enum { NUM_ENVIRONMENTS = sizeof environments / sizeof *environments - 1 };

void registry_print(FILE *out) {
  static const char *const others[][2] = {
      {"atari:GAME", "the games of the Atari 2600: see docs/gymnasium.md"},
      {"gym:ID", "any Gymnasium environment, of Discrete, MultiDiscrete or Box actions"},
      {"football", "Google Research Football, where it is installed"},
      {"dmlab", "DeepMind Lab, where it is installed"},
      {"./my_env.so", "one's own: see docs/environments.md"},
  };
  for (int i = 0; i < NUM_ENVIRONMENTS; i++)
    fprintf(out, "  %-12s %s\n", environments[i]->name, environments[i]->about);
  for (size_t i = 0; i < sizeof others / sizeof *others; i++)
    fprintf(out, "  %-12s %s\n", others[i][0], others[i][1]);
}

static enum status find_plugin(const struct acorn_env **out, const char *path,
                               struct error *error) {
  enum status status = plugin_open(out, path, error);
  if (status != STATUS_OK) return status;
  struct error reason;
  if (plugin_check(*out, environments, &reason) == STATUS_OK) return STATUS_OK;
  return status_fail(error, STATUS_INVALID, "environment %s: %s", path, reason.text);
}

/* An ID of Gymnasium, CartPole-v1 or ALE/Pong-v5, which --env= takes with gym: before it. */
static bool is_gymnasium_id(const char *name) {
  const char *dash = strrchr(name, '-');
  if (!isalnum((unsigned char)name[0]) || !dash || dash[1] != 'v' || !dash[2]) return false;
  return dash[2 + strspn(dash + 2, "0123456789")] == '\0';
}

/* What was meant, of all words that --env= takes; in `text`, or NULL. What stands before a colon is
 * compared alone: gymnasium:CartPole-v1. */
static const char *nearest_word(char *text, size_t bytes, const char *name) {
  static const char *const bridged[] = {"atari", "football", "dmlab"};
  static const char *const before_colon[] = {"gym", "gymnasium"};
  enum { NUM_BRIDGED = sizeof bridged / sizeof *bridged };
  const char *colon = strchr(name, ':');
  if (colon) {
    snprintf(text, bytes, "%.*s", (int)(colon - name), name);
    if (!options_nearest_word(before_colon, 2, text)) return NULL;
    snprintf(text, bytes, "gym%s", colon);
    return text;
  }
  if (strncmp(name, "gym/", 4) == 0 || strncmp(name, "gym.", 4) == 0) {
    snprintf(text, bytes, "gym:%s", name + 4);
    return text;
  }
  const char *names[NUM_ENVIRONMENTS + NUM_BRIDGED];
  for (int i = 0; i < NUM_ENVIRONMENTS; i++) names[i] = environments[i]->name;
  for (int i = 0; i < NUM_BRIDGED; i++) names[NUM_ENVIRONMENTS + i] = bridged[i];
  if (!is_gymnasium_id(name))
    return options_nearest_word(names, NUM_ENVIRONMENTS + NUM_BRIDGED, name);
  for (int i = 0; i < NUM_ENVIRONMENTS && islower((unsigned char)name[0]); i++)
    if (strncmp(name, names[i], strlen(names[i])) == 0 && name[strlen(names[i])] == '-')
      return names[i]; /* cartpole-v1 */
  snprintf(text, bytes, "gym:%s", name);
  return text;
}

static enum status find_builtin(const struct acorn_env **out, const char *name,
                                struct error *error) {
  char list[512] = "", text[256];
  for (int i = 0; i < NUM_ENVIRONMENTS; i++) {
    *out = environments[i];
    if (strcmp((*out)->name, name) == 0) return STATUS_OK;
    size_t used = strlen(list);
    snprintf(list + used, sizeof list - used, "%s%s", i ? ", " : "", (*out)->name);
  }
  *out = NULL;
  const char *nearest = nearest_word(text, sizeof text, name);
  return status_fail(
      error, STATUS_NOT_FOUND,
      "unknown environment '%s'%s%s%s; there are: %s, atari, gym:ID of Gymnasium, football, dmlab, "
      "and the paths of one's own (./my_env.so)",
      name, nearest ? "; did you mean '" : "", nearest ? nearest : "", nearest ? "'?" : "", list);
}

static bool is_plugin(const char *word) {
  return plugin_is_path(word) && !bridge_is_word(word) && !is_gymnasium_id(word);
}

enum status registry_find(const struct acorn_env **out, const char *word, struct error *error) {
  if (bridge_is_word(word)) return bridge_open(out, word, error);
  if (is_plugin(word)) return find_plugin(out, word, error);
  return find_builtin(out, word, error);
}

char *registry_word(const char *word) {
  char *path = is_plugin(word) ? realpath(word, NULL) : NULL;
  if (!path) path = strdup(word);
  CHECK(path, "out of memory");
  return path;
}

enum status registry_name_code(const char *word, const char *module, bool allowed,
                               struct error *error) {
  bool names_module = strncmp(word, "gym:", 4) == 0 && strchr(word + 4, ':');
  const char *code = module[0] ? module : is_plugin(word) || names_module ? word : NULL;
  if (!code) return STATUS_OK;
  if (!allowed)
    return status_fail(error, STATUS_INVALID, "--no_code: the environment would run code of %s",
                       code);
  log_info("the environment runs code of %s, with the rights of this account", code);
  return STATUS_OK;
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
  const char *names[ACORN_MAX_OPTIONS];
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

/* Whether it takes names that are not in its table. */
static bool takes_any_option(const struct acorn_env *env) {
  return registry_has(env, any_option) && env->any_option;
}

static enum status set_options(struct acorn_option *option, const struct acorn_env *env,
                               json_t *object, struct error *error) {
  const char *name;
  json_t *value;
  json_object_foreach(object, name, value) {
    int i = option_index(env, name);
    if (i < 0 && takes_any_option(env)) continue;
    if (i < 0) return unknown_option(env, name, error);
    enum status status = set_option(&option[i], env, value, error);
    if (status != STATUS_OK) return status;
  }
  return STATUS_OK;
}

enum status registry_config(struct acorn_config *out, const struct acorn_env *env, const char *json,
                            struct error *error) {
  CHECK(env->num_options <= ACORN_MAX_OPTIONS, "%s has %d options", env->name, env->num_options);
  *out = (struct acorn_config){.struct_bytes = sizeof *out, .env = env};

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
  out->json = json_dumps(object, JSON_COMPACT | JSON_SORT_KEYS | JSON_ENSURE_ASCII);
  CHECK(out->json, "out of memory");
  json_decref(object);
  if (status != STATUS_OK) {
    free(option);
    registry_config_deinit(out);
    return status;
  }
  out->option = option;
  out->num_options = env->num_options;
  return STATUS_OK;
}

void registry_config_deinit(struct acorn_config *config) {
  free((void *)config->option);
  free((void *)config->json);
  *config = (struct acorn_config){0};
}

/* ---- identity */

static void write_identity(FILE *out, const struct acorn_env *env,
                           const struct acorn_config *config) {
  fputs(env->name, out);
  if (takes_any_option(env)) {
    if (strcmp(config->json, "{}") == 0) return;
    fputc('(', out);
    // Blanks, which only words have in a compact text, may not stand in an identity.
    for (const char *c = config->json; *c; c++) fprintf(out, *c == ' ' ? "\\u0020" : "%c", *c);
    fputc(')', out);
    return;
  }
  char before = '(';
  for (int i = 0; i < config->num_options; i++) {
    const struct acorn_option *option = &config->option[i];
    if (option->value == env->options[i].value) continue;
    char value[DECIMAL_BYTES];
    decimal_print(value, option->value);
    fprintf(out, "%c%s=%s", before, option->name, value);
    before = ',';
  }
  if (before == ',') fputc(')', out);
}

void registry_identity(char *out, size_t bytes, const struct acorn_env *env,
                       const struct acorn_config *config) {
  enum { HASH_CHARACTERS = 9 };
  char *text;
  size_t length;
  FILE *whole = open_memstream(&text, &length);
  CHECK(whole, "out of memory");
  write_identity(whole, env, config);
  CHECK(fclose(whole) == 0, "out of memory");
  snprintf(out, bytes, "%s", text);
  if (length >= bytes) {
    uint32_t hash = crc32_extend(0, text, length);
    snprintf(out + bytes - 1 - HASH_CHARACTERS, HASH_CHARACTERS + 1, "-%08x", hash);
  }
  free(text);
}
