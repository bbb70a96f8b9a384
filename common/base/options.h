/* Command-line options: one table, a row each; parsing, --help, --config files and the effective
 * configuration all come from it.
 *
 * Syntax: --name=value, --name value, --flag and --no_flag for booleans, --config=FILE (lines "name
 * = value", # starts a comment), also --kebab-case. Later wins; the command line wins over the
 * file. Large numbers may be written 1e6, 500k, 2M. A wrong name is an error that names the nearest
 * right one; a value out of range names the range. Thread: one, at start. */
#ifndef ACORN_COMMON_BASE_OPTIONS_H
#define ACORN_COMMON_BASE_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>
#include <stddef.h>
#include <stdio.h>

#include "common/base/status.h"

enum option_type {
  OPTION_BOOL,   /* bool */
  OPTION_INT,    /* int64_t */
  OPTION_FLOAT,  /* double; one whose default is "none" may be none: NaN */
  OPTION_STRING, /* char *, heap, never NULL after options_init */
  OPTION_CHOICE, /* char *, one of `choices` */
};

/* One row. `offset` is that of the member in the program's configuration struct. */
struct option {
  const char *name;
  const char *alias; /* a second name, or NULL */
  enum option_type type;
  size_t offset;
  const char *fallback; /* the default, as one would type it */
  double min, max;      /* numbers only; both ends allowed; min == max == 0: any */
  const char *choices;  /* OPTION_CHOICE: "a|b|c" */
  const char *group;    /* heading in --help; NULL: "Options" */
  const char *help;     /* one line, starts with a lower-case letter, no full stop */
};

enum { OPTIONS_MAX = 256 };

enum { OPTION_TYPED = 1, OPTION_OF_FILE };

/* Which rows the user set: 0, OPTION_TYPED or OPTION_OF_FILE. The first member of every
 * configuration struct. Read-only outside options.c and options_file.c. */
struct options_given {
  uint8_t row[OPTIONS_MAX];
};

/* "3", "the budget ended before the target" */
struct option_exit {
  const char *code, *meaning;
};

struct option_table {
  const char *program; /* "learner" */
  const char *words;   /* before the options in the usage line: "RUN|FILE"; NULL: none */
  const char *about;   /* a paragraph for the top of --help */
  const struct option_exit *exits; /* how the program ends; the last code is NULL. NULL: not said */
  const struct option *options;
  int count;
};

/* A table and the configuration that it describes. */
struct option_target {
  const struct option_table *table;
  void *config;
};

/* Fills every member with its default. Owner: strings are on the heap, options_deinit frees them.
 */
void options_init(const struct option_table *table, void *config);
void options_deinit(const struct option_table *table, void *config);

/* Reads argv[1..]; what follows "--" alone and anything that does not start with "--" is an error
 * here, unless `positional` (room for argc pointers, may be argv) is given: then such words are
 * collected there, `num_positional` of them. Errors: INVALID. STATUS_DONE: --help (or
 * --help=markdown) or --version was asked for and has been printed to stdout. */
MUST_CHECK enum status options_parse(const struct option_table *table, void *config, int argc,
                                     char **argv, char **positional, int *num_positional,
                                     struct error *error);

/* The same over the tables of several programs: an option is set wherever a table has it. Files,
 * --help and --version are the first one's. */
MUST_CHECK enum status options_parse_each(const struct option_target *targets, int num_targets,
                                          int argc, char **argv, char **positional,
                                          int *num_positional, struct error *error);

/* Sets one option by name, as if typed. `where` ("--config file x, line 3") starts the error
 * sentence; may be "". */
MUST_CHECK enum status options_set(const struct option_table *table, void *config, const char *name,
                                   const char *value, const char *where, struct error *error);

/* The same of a line that stands in a file: what is typed holds instead. */
MUST_CHECK enum status options_set_of_file(const struct option_table *table, void *config,
                                           const char *name, const char *value, const char *where,
                                           struct error *error);

/* Reads a file of "name = value" lines. A string may stand in double quotes, with the escapes \"
 * \\ and \n. It must be a regular file; that of --config, which the user names, may be a pipe. */
MUST_CHECK enum status options_read_file(const struct option_table *table, void *config,
                                         const char *path, struct error *error);
MUST_CHECK enum status options_read_config(const struct option_table *table, void *config,
                                           const char *path, struct error *error);

/* The row with that name, alias or kebab-case spelling; NULL if there is none. */
const struct option *options_find(const struct option_table *table, const char *name);

/* Whether the user set it (by flag, file or options_set) rather than its default standing. */
bool options_given(const struct option_table *table, const void *config, const char *name);

/* Whether the last one to set it was a file. */
bool options_of_file(const struct option_table *table, const void *config, const char *name);

/* Its default, as if nobody had set it. */
void options_reset(const struct option_table *table, void *config, const struct option *option);

/* The name nearest to `name` in one or several tables (edit distance); NULL if none is near. */
const char *options_nearest(const struct option_target *targets, int num_targets, const char *name);

/* The heading that a row stands under: its group, or "Options". */
const char *option_group(const struct option *option);

/* Prints the help, grouped, for a terminal; or as the section of a Markdown document. */
void options_help(const struct option_table *table, FILE *out);
void options_markdown(const struct option_table *table, FILE *out);

/* Prints every option as "name = value", which options_read_file reads back; those that are named
 * follow as comments. */
void options_write(const struct option_table *table, const void *config, const char *const *names,
                   int num_names, FILE *out);

/* The option's value as one would type it. Owner: the caller. */
char *options_value_text(const struct option *option, const void *config);

/* Calls `differs` for every row whose values in a and b are not the same, with both as text. */
void options_compare(const struct option_table *table, const void *a, const void *b,
                     void (*differs)(void *context, const struct option *option, const char *a,
                                     const char *b),
                     void *context);

/* The nearest of several words to one, for other error sentences ("unknown environment 'cartpol';
 * did you mean ..."). */
const char *options_nearest_word(const char *const *words, int count, const char *word);

#endif
