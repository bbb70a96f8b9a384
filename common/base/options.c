#include "common/base/options.h"

#include <ctype.h>
#include <string.h>

#include "common/base/check.h"
#include "common/base/option_value.h"
#include "common/base/version.h"

enum { NAME_BYTES = 128 };

// The command line and how far it has been read.
struct words {
  int count;
  char **word;
  int next;
};

static uint8_t *given_rows(void *config) {
  return ((struct options_given *)config)->row;
}

// A table that cannot work is found when the program starts, whatever the user typed.
static void check_table(const struct option_table *table) {
  CHECK(table->count <= OPTIONS_MAX, "%d options, room for %d", table->count, OPTIONS_MAX);
  for (int i = 0; i < table->count; i++) {
    const struct option *option = &table->options[i];
    CHECK(options_find(table, option->name) == option, "two options are called --%s", option->name);
    CHECK(!option->alias || options_find(table, option->alias) == option,
          "two options are called --%s", option->alias);
    CHECK(option->type != OPTION_CHOICE || option->choices, "--%s has no choices", option->name);
    CHECK(option->min <= option->max, "--%s: its range is empty", option->name);
  }
}

void options_init(const struct option_table *table, void *config) {
  check_table(table);
  memset(given_rows(config), 0, OPTIONS_MAX);
  for (int i = 0; i < table->count; i++) {
    const struct option *option = &table->options[i];
    struct error error = {""};
    option_value_clear(option, config);
    enum status status = option_value_read(option, config, option->fallback ? option->fallback : "",
                                           "the default", &error);
    CHECK(status == STATUS_OK, "%s", error.text);
  }
}

void options_deinit(const struct option_table *table, void *config) {
  for (int i = 0; i < table->count; i++) option_value_free(&table->options[i], config);
}

static enum status refuse_unknown(const struct option_target *targets, int num_targets,
                                  const char *name, const char *where, struct error *error) {
  const char *nearest = options_nearest(targets, num_targets, name);
  const char *colon = where[0] ? ": " : "";
  if (!nearest) {
    return status_fail(error, STATUS_INVALID,
                       "%s%s--%.100s: there is no such option; --help lists them all", where, colon,
                       name);
  }
  return status_fail(error, STATUS_INVALID,
                     "%s%s--%.100s: there is no such option; did you mean --%s?", where, colon,
                     name, nearest);
}

enum status options_set(const struct option_table *table, void *config, const char *name,
                        const char *value, const char *where, struct error *error) {
  const struct option *option = options_find(table, name);
  if (!option) return refuse_unknown(&(struct option_target){table, config}, 1, name, where, error);
  enum status status = option_value_read(option, config, value, where, error);
  if (status == STATUS_OK) given_rows(config)[option - table->options] = OPTION_TYPED;
  return status;
}

bool options_given(const struct option_table *table, const void *config, const char *name) {
  const struct option *option = options_find(table, name);
  CHECK(option, "--%s is in no table of %s", name, table->program);
  return ((const struct options_given *)config)->row[option - table->options];
}

bool options_of_file(const struct option_table *table, const void *config, const char *name) {
  const struct option *option = options_find(table, name);
  CHECK(option, "--%s is in no table of %s", name, table->program);
  return ((const struct options_given *)config)->row[option - table->options] == OPTION_OF_FILE;
}

void options_reset(const struct option_table *table, void *config, const struct option *option) {
  struct error error;
  enum status status = option_value_read(option, config, option->fallback, "the defaults", &error);
  CHECK(status == STATUS_OK, "%s", error.text);
  given_rows(config)[option - table->options] = 0;
}

static bool is_option(const char *word) {
  return strncmp(word, "--", 2) == 0;
}

static bool is_short_option(const char *word) {
  return word[0] == '-' && isalpha((unsigned char)word[1]);
}

// Takes one "--name" or "--name=value". `value` is NULL if there was no "=".
static void take_name(struct words *words, char name[NAME_BYTES], const char **value) {
  const char *word = words->word[words->next++] + 2;
  const char *equals = strchr(word, '=');
  snprintf(name, NAME_BYTES, "%.*s", equals ? (int)(equals - word) : (int)strlen(word), word);
  *value = equals ? equals + 1 : NULL;
}

// The value that stands in a word of its own. A word that starts with "--" is the next option.
static enum status take_value(struct words *words, const char **value, const char *name,
                              struct error *error) {
  if (words->next >= words->count || is_option(words->word[words->next])) {
    return status_fail(error, STATUS_INVALID, "--%s: its value is missing; write --%s=VALUE", name,
                       name);
  }
  *value = words->word[words->next++];
  return STATUS_OK;
}

// The first row that a name sets, or NULL. *negated: the name is "no_" and that of a flag.
static const struct option *find_row(const struct option_target *targets, int num_targets,
                                     const char *name, bool *negated) {
  const struct option *option = NULL;
  *negated = false;
  for (int i = 0; i < num_targets && !option; i++) option = options_find(targets[i].table, name);
  if (option || (strncmp(name, "no_", 3) != 0 && strncmp(name, "no-", 3) != 0)) return option;
  *negated = true;
  for (int i = 0; i < num_targets && !option; i++)
    option = options_find(targets[i].table, name + 3);
  return option && option->type == OPTION_BOOL ? option : NULL;
}

// Takes one option with its value and sets it wherever there is one of that name.
static enum status parse_option(const struct option_target *targets, int num_targets,
                                struct words *words, struct error *error) {
  char name[NAME_BYTES];
  const char *value;
  bool negated;
  take_name(words, name, &value);
  const struct option *option = find_row(targets, num_targets, name, &negated);
  if (!option && strcmp(name, "config") != 0)
    return refuse_unknown(targets, num_targets, name, "", error);
  if (negated && value) {
    return status_fail(error, STATUS_INVALID, "--%s takes no value; write --%s alone, or --%s=%s",
                       name, name, option->name, "false");
  }

  // Flags take no second word; the others do.
  enum status status = STATUS_OK;
  if (!value && option && option->type == OPTION_BOOL) value = negated ? "false" : "true";
  if (!value) status = take_value(words, &value, name, error);

  // The files have been read by then; a program may still keep the name in a row of its own.
  for (int i = 0; option && status == STATUS_OK && i < num_targets; i++)
    if (options_find(targets[i].table, option->name))
      status = options_set(targets[i].table, targets[i].config, option->name, value, "", error);
  return status;
}

// Reads every --config file ahead of the options themselves, since those win wherever they stand.
// Answers --help and --version.
static enum status parse_early(const struct option_table *table, void *config, struct words words,
                               struct error *error) {
  if (version_asked(table->program, words.count, words.word)) return STATUS_DONE;
  while (words.next < words.count && strcmp(words.word[words.next], "--") != 0) {
    if (strcmp(words.word[words.next], "-h") == 0 ||
        strcmp(words.word[words.next], "--help") == 0) {
      options_help(table, stdout);
      return STATUS_DONE;
    }
    if (strcmp(words.word[words.next], "--help=markdown") == 0) {
      options_markdown(table, stdout);
      return STATUS_DONE;
    }
    if (!is_option(words.word[words.next])) {
      words.next++;
      continue;
    }

    char name[NAME_BYTES];
    const char *value;
    take_name(&words, name, &value);
    if (strcmp(name, "config") != 0) continue;
    enum status status = value ? STATUS_OK : take_value(&words, &value, name, error);
    if (status == STATUS_OK) status = options_read_config(table, config, value, error);
    if (status != STATUS_OK) return status;
  }
  return STATUS_OK;
}

static enum status refuse_word(const char *word, struct error *error) {
  if (word[0] == '-' && word[1] && word[1] != '-') {
    return status_fail(error, STATUS_INVALID,
                       "'%.200s' is no option: they start with two dashes; see --help", word);
  }
  return status_fail(error, STATUS_INVALID,
                     "'%.200s' is not expected here; options are written --name=value", word);
}

enum status options_parse_each(const struct option_target *targets, int num_targets, int argc,
                               char **argv, char **positional, int *num_positional,
                               struct error *error) {
  struct words words = {.count = argc, .word = argv, .next = 1};
  if (positional) *num_positional = 0;
  enum status status = parse_early(targets[0].table, targets[0].config, words, error);

  bool only_positional = false;
  while (status == STATUS_OK && words.next < words.count) {
    char *word = words.word[words.next];
    if (!only_positional && strcmp(word, "--") == 0) {
      only_positional = true;
      words.next++;
    } else if (!only_positional && is_option(word)) {
      status = parse_option(targets, num_targets, &words, error);
    } else if (positional && (only_positional || !is_short_option(word))) {
      positional[(*num_positional)++] = word;
      words.next++;
    } else {
      status = refuse_word(word, error);
    }
  }
  return status;
}

enum status options_parse(const struct option_table *table, void *config, int argc, char **argv,
                          char **positional, int *num_positional, struct error *error) {
  return options_parse_each(&(struct option_target){table, config}, 1, argc, argv, positional,
                            num_positional, error);
}
