#include "envs/env_words.h"

#include <ctype.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/check.h"
#include "common/base/log.h"

static const char has_games[] = "atari", of_gymnasium[] = "gym:";
#define ALE_STICKY "0.25" /* what sticky_actions is in an ID that ends with -v5 */

static char *copy(const char *text, size_t length) {
  char *out = strndup(text, length);
  CHECK(out, "out of memory");
  return out;
}

/* The characters of GAME in "gym:ALE/GAME-v5", of which Gymnasium takes "gym:ALE/GAME" for a short
 * form; 0: the word is another. */
static size_t ale_game(const char **game, const char *word) {
  static const char before[] = "gym:ALE/", after[] = "-v5";
  *game = word + strlen(before);
  if (strncmp(word, before, strlen(before)) != 0) return 0;
  size_t length = 0;
  while (isalnum((unsigned char)(*game)[length])) length++;
  const char *rest = *game + length;
  return !rest[0] || strcmp(rest, after) == 0 ? length : 0;
}

void env_word_init(struct env_word *out, const char *word) {
  size_t length = strlen(has_games);
  const char *game;
  size_t of_ale = ale_game(&game, word);
  bool split = strncmp(word, has_games, length) == 0 && word[length] == ':' && word[length + 1];
  *out = (struct env_word){.is_ale = of_ale > 0};
  out->env = split || of_ale ? copy(has_games, length) : copy(word, strlen(word));
  if (split) out->game = copy(word + length + 1, strlen(word));
  if (!of_ale) return;
  out->game = copy(game, of_ale);
  log_info("%s is played as atari:%s, grey and 84 x 84, with sticky actions of " ALE_STICKY
           " unless told otherwise (docs/gymnasium.md); gym:ale_py:%s has raw screens",
           word, out->game, word + strlen(of_gymnasium));
}

void env_word_deinit(struct env_word *word) {
  free(word->env);
  free(word->game);
}

static enum status read_object(json_t **out, const char *env_args, struct error *error) {
  *out = json_loads(env_args[0] ? env_args : "{}", 0, NULL);
  if (json_is_object(*out)) return STATUS_OK;
  json_decref(*out);
  *out = NULL;
  return status_fail(error, STATUS_INVALID, "--env_args: '%.200s' is not a JSON object", env_args);
}

static char *write_object(json_t *object) {
  char *text = json_dumps(object, JSON_COMPACT);
  CHECK(text, "out of memory");
  json_decref(object);
  return text;
}

static bool is_of_gymnasium(const struct option *option) {
  return strcmp(option->group, GYM_FLAGS_GROUP) == 0;
}

static bool is_given_flag(const struct option_table *table, const void *options, int row) {
  const struct option *option = &table->options[row];
  bool is_flag = is_of_gymnasium(option) || strcmp(option->group, ENV_FLAGS_GROUP) == 0;
  return is_flag && options_given(table, options, option->name);
}

static enum status check_flag(const struct option *option, const char *env, struct error *error) {
  bool gym = is_of_gymnasium(option);
  if (gym ? strncmp(env, of_gymnasium, strlen(of_gymnasium)) == 0 : strcmp(env, has_games) == 0)
    return STATUS_OK;
  if (gym)
    return status_fail(error, STATUS_INVALID,
                       "--%s is an option of Gymnasium's environments, gym:ID, and this one is "
                       "%.100s: leave it out",
                       option->name, env);
  return status_fail(error, STATUS_INVALID,
                     "--%s is an option of the environment atari; those of %.100s are given as "
                     "--env_args='{...}'",
                     option->name, env);
}

static json_t *value_of(const struct option *option, const void *options) {
  const void *member = (const char *)options + option->offset;
  return option->type == OPTION_FLOAT ? json_real(*(const double *)member)
                                      : json_string(*(char *const *)member);
}

/* What an ID of Gymnasium means besides the game. */
static void complete_ale(json_t *object) {
  if (!json_object_get(object, "sticky_actions"))
    json_object_set_new(object, "sticky_actions", json_real(atof(ALE_STICKY)));
}

enum status env_words_add_flags(char **out, const struct option_table *table, const void *options,
                                const char *env, bool is_ale, const char *env_args,
                                struct error *error) {
  json_t *object = NULL;
  enum status status = STATUS_OK;
  *out = NULL;
  for (int i = 0; i < table->count && status == STATUS_OK; i++) {
    const struct option *option = &table->options[i];
    if (!is_given_flag(table, options, i)) continue;
    status = check_flag(option, env, error);
    if (status == STATUS_OK && !object) status = read_object(&object, env_args, error);
    if (status == STATUS_OK) json_object_set_new(object, option->name, value_of(option, options));
  }
  if (status == STATUS_OK && is_ale && !object) status = read_object(&object, env_args, error);
  if (status == STATUS_OK && is_ale) complete_ale(object);
  if (status == STATUS_OK && object)
    *out = write_object(object);
  else
    json_decref(object);
  return status;
}

/* Works on copies: setting an option frees its value. */
static enum status set_game(const struct option_table *table, void *options,
                            const struct env_word *word, struct error *error) {
  char *env_args = options_value_text(options_find(table, "env_args"), options);
  json_t *object;
  enum status status = read_object(&object, env_args, error);
  free(env_args);
  if (status != STATUS_OK) return status;
  json_object_set_new(object, "game", json_string(word->game));
  if (word->is_ale) complete_ale(object);
  char *text = write_object(object);
  status = options_set(table, options, "env_args", text, "", error);
  if (status == STATUS_OK) status = options_set(table, options, "env", word->env, "", error);
  free(text);
  return status;
}

enum status env_words_expand(const struct option_table *table, void *options, struct error *error) {
  char *text = options_value_text(options_find(table, "env"), options);
  struct env_word word;
  env_word_init(&word, text);
  enum status status = word.game ? set_game(table, options, &word, error) : STATUS_OK;
  env_word_deinit(&word);
  free(text);
  return status;
}

static bool has(const char *env_args, const char *option) {
  json_t *options = json_loads(env_args, 0, NULL);
  bool is_there = json_object_get(options, option) != NULL;
  json_decref(options);
  return is_there;
}

char *env_words_wrapper(const char *env_args) {
  json_t *options = json_loads(env_args, 0, NULL);
  const char *words = json_string_value(json_object_get(options, "wrapper"));
  char *out = words ? copy(words, strlen(words)) : copy("", 0);
  json_decref(options);
  return out;
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

bool env_words_names_game(const char *env_args) {
  return has(env_args, "game") || has(env_args, "level");
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
