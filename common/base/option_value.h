/* The value of one option: from the text that a person typed to the member of a configuration
 * struct, and back. For the options*.c files, and for who shows single options; everybody else uses
 * options.h.
 * Thread: one, at start. */
#ifndef ACORN_COMMON_BASE_OPTION_VALUE_H
#define ACORN_COMMON_BASE_OPTION_VALUE_H

#include <stdbool.h>
#include <stddef.h>

#include "common/base/options.h"
#include "common/base/status.h"

/* Reads `text` into the option's member of `config`; a string it replaces is freed.
 * Errors: INVALID: not of the option's type, or outside its range or choices; the sentence starts
 * with `where`, and the member is unchanged. */
MUST_CHECK enum status option_value_read(const struct option *option, void *config,
                                         const char *text, const char *where, struct error *error);

/* The member of a string or a choice; NULL for the other types. Owner: the configuration. */
const char *option_value_string(const struct option *option, const void *config);

/* Prints the member as text that option_value_read reads back to the same value. */
void option_value_write(const struct option *option, const void *config, FILE *out);

/* Makes the member, which may hold anything, false, 0 or NULL. */
void option_value_clear(const struct option *option, void *config);

/* Frees the member if it is a string. */
void option_value_free(const struct option *option, void *config);

/* Whether `text` is one of "a|b|c". */
bool option_value_is_choice(const char *choices, const char *text);

/* Writes the range of a number ("1..65535", "at least 1", "at most 5") or the choices of a choice
 * ("a, b, c") into `text`; an empty string where any value goes. */
void option_value_describe(const struct option *option, char *text, size_t bytes);

#endif
