#include "envs/env_words.h"

#include <ctype.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/check.h"

static const char has_games[] = "atari";

char *env_words_split(const char **game, const char *word) {
  size_t length = strlen(has_games);
  bool split = strncmp(word, has_games, length) == 0 && word[length] == ':' && word[length + 1];
  *game = split ? word + length + 1 : NULL;
  char *env = split ? strndup(word, length) : strdup(word);
  CHECK(env, "out of memory");
  return env;
}

static enum status read_object(json_t **out, const char *env_args, struct error *error) {
  *out = json_loads(env_args[0] ? env_args : "{}", 0, NULL);
  if (json_is_object(*out)) return STATUS_OK;
  json_decref(*out);
  return status_fail(error, STATUS_INVALID, "--env_args: '%.200s' is not a JSON object", env_args);
}

static char *write_object(json_t *object) {
  char *text = json_dumps(object, JSON_COMPACT);
  CHECK(text, "out of memory");
  json_decref(object);
  return text;
}

static bool is_given_flag(const struct option_table *table, const void *options, int row) {
  const struct option *option = &table->options[row];
  return strcmp(option->group, ENV_FLAGS_GROUP) == 0 && options_given(table, options, option->name);
}

static json_t *value_of(const struct option *option, const void *options) {
  const void *member = (const char *)options + option->offset;
  return option->type == OPTION_FLOAT ? json_real(*(const double *)member)
                                      : json_string(*(char *const *)member);
}

enum status env_words_add_flags(char **out, const struct option_table *table, const void *options,
                                const char *env, const char *env_args, struct error *error) {
  int first = 0;
  *out = NULL;
  while (first < table->count && !is_given_flag(table, options, first)) first++;
  if (first == table->count) return STATUS_OK;
  if (strcmp(env, has_games) != 0)
    return status_fail(error, STATUS_INVALID,
                       "--%s is an option of the environment atari; those of %.100s are given as "
                       "--env_args='{...}'",
                       table->options[first].name, env);
  json_t *object;
  enum status status = read_object(&object, env_args, error);
  if (status != STATUS_OK) return status;
  for (int i = first; i < table->count; i++)
    if (is_given_flag(table, options, i))
      json_object_set_new(object, table->options[i].name, value_of(&table->options[i], options));
  *out = write_object(object);
  return STATUS_OK;
}

/* Works on copies: setting an option frees its value. */
static enum status set_game(const struct option_table *table, void *options, const char *env,
                            const char *game, struct error *error) {
  char *env_args = options_value_text(options_find(table, "env_args"), options);
  json_t *object;
  enum status status = read_object(&object, env_args, error);
  free(env_args);
  if (status != STATUS_OK) return status;
  json_object_set_new(object, "game", json_string(game));
  char *text = write_object(object);
  status = options_set(table, options, "env_args", text, "", error);
  if (status == STATUS_OK) status = options_set(table, options, "env", env, "", error);
  free(text);
  return status;
}

enum status env_words_expand(const struct option_table *table, void *options, struct error *error) {
  char *word = options_value_text(options_find(table, "env"), options);
  const char *game;
  char *env = env_words_split(&game, word);
  enum status status = game ? set_game(table, options, env, game, error) : STATUS_OK;
  free(env);
  free(word);
  return status;
}

/* ---- labels */

/* Where an environment has several games: the option that names one. */
static const struct {
  const char *env, *option, *usual;
} games[] = {{has_games, "game", "Pong"},
             {"football", "game", "11_vs_11_easy_stochastic"},
             {"dmlab", "level", "contributed/dmlab30/explore_goal_locations_small"}};
enum { NUM_GAMES = sizeof(games) / sizeof(games[0]) };

bool env_words_has_games(const char *name) {
  for (int i = 0; i < NUM_GAMES; i++)
    if (strcmp(games[i].env, name) == 0) return true;
  return false;
}

static const char *named_game(const json_t *options) {
  const char *game = json_string_value(json_object_get(options, "game"));
  return game ? game : json_string_value(json_object_get(options, "level"));
}

bool env_words_names_game(const char *env_args) {
  json_t *options = json_loads(env_args, 0, NULL);
  bool names = named_game(options) != NULL;
  json_decref(options);
  return names;
}

/* The last part of a path, with nothing that a folder's name may not have. */
static void append_game(char *out, size_t bytes, const char *game) {
  const char *slash = strrchr(game, '/');
  size_t used = strlen(out);
  snprintf(out + used, bytes - used, "-%s", slash ? slash + 1 : game);
  for (char *c = out + used + 1; c < out + bytes && *c; c++)
    if (!isalnum((unsigned char)*c) && *c != '.' && *c != '_') *c = '_';
}

void env_words_label(char *out, size_t bytes, const char *name, const char *env_args) {
  snprintf(out, bytes, "%s", name);
  for (int i = 0; i < NUM_GAMES; i++) {
    if (strcmp(games[i].env, name) != 0) continue;
    json_t *options = json_loads(env_args, 0, NULL);
    const char *game = json_string_value(json_object_get(options, games[i].option));
    append_game(out, bytes, game ? game : games[i].usual);
    json_decref(options);
  }
}
