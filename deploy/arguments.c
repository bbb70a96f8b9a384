#include "deploy/arguments.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/check.h"

enum { NAME_BYTES = 128, MAX_ENVS_PER_ACTOR = 4096, ROOM_FOR_LAUNCHER = 32 };

void words_add(struct words *words, char *word) {
  CHECK(words->count < ARGUMENTS_MAX_WORDS, "more than %d words", ARGUMENTS_MAX_WORDS);
  words->word[words->count++] = word;
  words->word[words->count] = NULL;
}

char *words_format(const char *format, ...) {
  char *text;
  va_list args;
  va_start(args, format);
  int length = vasprintf(&text, format, args);
  va_end(args);
  CHECK(length >= 0, "out of memory");
  return text;
}

/* ---- flags */

// The row of a table that the flag sets: by its name, or by "no_" and its name.
static const struct option *find(const struct option_table *table, const char *name) {
  const struct option *option = options_find(table, name);
  if (option || (strncmp(name, "no_", 3) != 0 && strncmp(name, "no-", 3) != 0)) return option;
  option = options_find(table, name + 3);
  return option && option->type == OPTION_BOOL ? option : NULL;
}

static enum status refuse_reserved(const char *word, const struct option *option,
                                   const struct reserved_flag *reserved, struct error *error) {
  for (; reserved->name; reserved++)
    if (strcmp(option->name, reserved->name) == 0)
      return status_fail(error, STATUS_INVALID, "%.100s cannot be given here: %s", word,
                         reserved->instead);
  return STATUS_OK;
}

static enum status refuse_unknown(const struct arguments_form *form, const char *name,
                                  struct error *error) {
  const struct option_table *const all[] = {form->own, form->learner, form->actor};
  const char *nearest = options_nearest(all, 3, name);
  return status_fail(
      error, STATUS_INVALID, "--%.100s: there is no such option%s%s%s; --help lists them all", name,
      nearest ? "; did you mean --" : "", nearest ? nearest : "", nearest ? "?" : "");
}

static void add_flag(struct words *words, char *flag, char *value) {
  words_add(words, flag);
  if (value) words_add(words, value);
}

// Adds the flag at argv[*next] and, if it stands alone and needs one, the value in the next word.
static enum status take_flag(struct arguments *arguments, const struct arguments_form *form,
                             int argc, char **argv, int *next, struct error *error) {
  char *word = argv[(*next)++];
  char name[NAME_BYTES];
  bool has_value = strchr(word, '=') != NULL;
  snprintf(name, sizeof(name), "%.*s", (int)strcspn(word + 2, "="), word + 2);

  // A file of options is the learner's: config.txt of a run folder is one.
  bool is_config = strcmp(name, "config") == 0;
  const struct option *learner = find(form->learner, name), *actor = find(form->actor, name);
  const struct option *own = find(form->own, name);
  const struct option *option = own ? own : learner ? learner : actor;
  if (!option && !is_config) return refuse_unknown(form, name, error);
  if (option) {
    enum status status = refuse_reserved(word, option, form->reserved, error);
    if (status != STATUS_OK) return status;
  }

  bool takes_next =
      !has_value && *next < argc && (is_config || (option && option->type != OPTION_BOOL));
  char *value = takes_next ? argv[(*next)++] : NULL;
  if (own) add_flag(&arguments->own, word, value);
  if (learner || is_config) add_flag(&arguments->learner, word, value);
  if (actor) add_flag(&arguments->actor, word, value);
  return STATUS_OK;
}

/* ---- words */

static enum status read_count(int *out, const char *word, const char *what, int max,
                              struct error *error) {
  char *end;
  long value = strtol(word, &end, 10);
  if (*word && !*end && value >= 1 && value <= max) {
    *out = (int)value;
    return STATUS_OK;
  }
  return status_fail(error, STATUS_INVALID, "%s=%.100s: a whole number from 1 to %d is needed",
                     what, word, max);
}

static enum status take_word(struct arguments *arguments, const struct arguments_form *form,
                             int place, const char *word, struct error *error) {
  switch (form->counts_actors || place < 2 ? place : -1) {
    case 0:
      arguments->env = word;
      return STATUS_OK;
    case 1:
      arguments->agent = word;
      return STATUS_OK;
    case 2:
      return read_count(&arguments->num_actors, word, "NUM_ACTORS", ARGUMENTS_MAX_ACTORS, error);
    case 3:
      return read_count(&arguments->envs_per_actor, word, "ENVS_PER_ACTOR", MAX_ENVS_PER_ACTOR,
                        error);
    default:
      return status_fail(error, STATUS_INVALID,
                         "'%.100s' is one word too many: options are written --name=value", word);
  }
}

static enum status check_complete(const struct arguments_form *form, int num_words,
                                  struct error *error) {
  static const char *const names[] = {"ENV", "AGENT", "NUM_ACTORS"};
  if (num_words >= (form->counts_actors ? 3 : 2)) return STATUS_OK;
  return status_fail(error, STATUS_INVALID,
                     "%s is missing: ENV AGENT%s [--flag=value ...], for example: cartpole "
                     "vtrace%s",
                     names[num_words], form->counts_actors ? " NUM_ACTORS [ENVS_PER_ACTOR]" : "",
                     form->counts_actors ? " 4" : "");
}

static bool asks_for_help(int argc, char **argv) {
  for (int i = 1; i < argc; i++)
    if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) return true;
  return false;
}

enum status arguments_parse(struct arguments *arguments, const struct arguments_form *form,
                            int argc, char **argv, struct error *error) {
  *arguments = (struct arguments){.help = asks_for_help(argc, argv)};
  words_add(&arguments->own, NULL);
  words_add(&arguments->learner, NULL);
  words_add(&arguments->actor, NULL);
  if (arguments->help) return STATUS_OK;
  if (argc > ARGUMENTS_MAX_WORDS - ROOM_FOR_LAUNCHER)
    return status_fail(error, STATUS_INVALID, "%d words are too many; the limit is %d", argc,
                       ARGUMENTS_MAX_WORDS - ROOM_FOR_LAUNCHER);

  int num_words = 0;
  for (int next = 1; next < argc;) {
    enum status status = STATUS_OK;
    if (strcmp(argv[next], "--") == 0)
      next++;
    else if (strncmp(argv[next], "--", 2) == 0)
      status = take_flag(arguments, form, argc, argv, &next, error);
    else
      status = take_word(arguments, form, num_words++, argv[next++], error);
    if (status != STATUS_OK) return status;
  }
  return check_complete(form, num_words, error);
}
