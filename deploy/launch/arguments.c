#include "deploy/launch/arguments.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/check.h"

enum { NAME_BYTES = 128, MAX_ENVS_PER_ACTOR = 4096 };

// A flag that is the launcher's to set: "--check_env", "--no-check-env=1".
static enum status check_reserved(const struct reserved_flag *reserved, const char *word,
                                  struct error *error) {
  char name[NAME_BYTES];
  if (strncmp(word, "--", 2) != 0) return STATUS_OK;
  const char *from = word + 2;
  if (strncmp(from, "no_", 3) == 0 || strncmp(from, "no-", 3) == 0) from += 3;
  snprintf(name, sizeof(name), "%.*s", (int)strcspn(from, "="), from);
  for (char *c = name; *c; c++)
    if (*c == '-') *c = '_';
  for (; reserved->name; reserved++)
    if (strcmp(name, reserved->name) == 0)
      return status_fail(error, STATUS_INVALID, "%.100s cannot be given here: %s", word,
                         reserved->instead);
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
  if (num_words >= (form->counts_actors ? 1 : 2)) return STATUS_OK;
  return status_fail(error, STATUS_INVALID,
                     "%s is missing: ENV %s [--flag=value ...], for example: cartpole vtrace%s",
                     num_words ? "AGENT" : "ENV",
                     form->counts_actors ? "[AGENT [NUM_ACTORS [ENVS_PER_ACTOR]]]" : "AGENT",
                     form->counts_actors ? " 4" : "");
}

static bool asks_for_help(int argc, char **argv) {
  for (int i = 1; i < argc; i++)
    if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) return true;
  return false;
}

enum status arguments_parse(struct arguments *arguments, const struct option_target *targets,
                            int num_targets, const struct arguments_form *form, int argc,
                            char **argv, struct error *error) {
  *arguments = (struct arguments){.help = asks_for_help(argc, argv)};
  if (arguments->help) return STATUS_OK;
  char **words = check_alloc((size_t)argc + 1, sizeof(*words));
  int count = 0, num_places = 0;
  enum status status = STATUS_OK;
  for (int i = 0; i < argc && status == STATUS_OK; i++) {
    if (strcmp(argv[i], "--") != 0) words[count++] = argv[i];
    status = check_reserved(form->reserved, argv[i], error);
  }
  if (status == STATUS_OK)
    status = options_parse_each(targets, num_targets, count, words, words, &num_places, error);
  for (int i = 0; i < num_places && status == STATUS_OK; i++)
    status = take_word(arguments, form, i, words[i], error);
  if (status == STATUS_OK) status = check_complete(form, num_places, error);
  free(words);
  return status;
}
