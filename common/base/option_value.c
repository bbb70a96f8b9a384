#include "common/base/option_value.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/base/check.h"
#include "common/base/decimal.h"

enum { CHOICES_MAX = 64 }; // that are looked at for the nearest one

// A bound from here on is shown as none: whole numbers below it are exact.
static const double no_bound = 0x1p53;

static void *member(const struct option *option, void *config) {
  return (char *)config + option->offset;
}

static const void *member_const(const struct option *option, const void *config) {
  return (const char *)config + option->offset;
}

static bool is_string(const struct option *option) {
  return option->type == OPTION_STRING || option->type == OPTION_CHOICE;
}

static bool has_range(const struct option *option) {
  return option->min != 0 || option->max != 0;
}

static void print_bound(char *text, size_t bytes, double bound) {
  bool is_integer = bound == rint(bound) && fabs(bound) < no_bound;
  locale_t before = decimal_begin();
  snprintf(text, bytes, is_integer ? "%.0f" : "%g", bound);
  decimal_end(before);
}

void option_value_describe(const struct option *option, char *text, size_t bytes) {
  text[0] = '\0';
  if (option->type == OPTION_CHOICE) {
    // "a|b|c" reads better as "a, b, c".
    size_t length = 0;
    for (const char *c = option->choices; *c && length + 3 < bytes; c++) {
      if (*c == '|') text[length++] = ',';
      text[length++] = *c == '|' ? ' ' : *c;
    }
    text[length] = '\0';
  }
  if ((option->type != OPTION_INT && option->type != OPTION_FLOAT) || !has_range(option)) return;

  char low[32], high[32];
  print_bound(low, sizeof low, option->min);
  print_bound(high, sizeof high, option->max);
  if (option->min > -no_bound && option->max < no_bound)
    snprintf(text, bytes, "%s..%s", low, high);
  else if (option->min > -no_bound)
    snprintf(text, bytes, "at least %s", low);
  else if (option->max < no_bound)
    snprintf(text, bytes, "at most %s", high);
}

// The sentence for a value that is not what the option takes. `problem`: "is not a number".
static enum status refuse(const struct option *option, const char *text, const char *where,
                          const char *problem, struct error *error) {
  char allowed[400];
  option_value_describe(option, allowed, sizeof allowed);
  return status_fail(error, STATUS_INVALID, "%s%s--%s: '%.200s' %s%s%s", where,
                     where[0] ? ": " : "", option->name, text, problem,
                     allowed[0] ? "; allowed: " : "", allowed);
}

// The power of ten of a unit suffix; -1 if it is none. `suffix` is what decimal_read left over.
static int suffix_exponent(const char *suffix) {
  if (!suffix[0]) return 0;
  if (suffix[1]) return -1;
  switch (suffix[0]) {
    case 'k':
      return 3;
    case 'M':
      return 6;
    case 'G':
      return 9;
    default:
      return -1;
  }
}

// Reads a finite decimal number with an optional suffix. Hexadecimal, "inf" and "nan" are no
// numbers here.
static bool read_number(const char *text, double *number) {
  if (!text[0] || strspn(text, "+-.0123456789eEkMG") != strlen(text)) return false;
  char *end;
  double mantissa = decimal_read(text, &end);
  int exponent = suffix_exponent(end);
  if (end == text || exponent < 0) return false;
  *number = mantissa * (exponent == 9 ? 1e9 : exponent == 6 ? 1e6 : exponent == 3 ? 1e3 : 1);
  return isfinite(*number);
}

static enum status read_int(const struct option *option, int64_t *value, const char *text,
                            const char *where, struct error *error) {
  double number;
  if (!read_number(text, &number))
    return refuse(option, text, where,
                  isdigit((unsigned char)text[0])
                      ? "is not a whole number as 1500000, 1.5e6, 1500k or 1.5M are"
                      : "is not a whole number",
                  error);

  // Plain digits are read exactly; a double would round them from 2^53 on.
  char *end;
  errno = 0;
  int64_t whole = strtoll(text, &end, 10);
  bool too_large = errno == ERANGE;
  if (*end) {
    // 1.1M times a power of ten may miss the whole number by a rounding error.
    double nearest = rint(number);
    if (fabs(number - nearest) > 1e-9 * fmin(1, fabs(number))) {
      return refuse(option, text, where, "is not a whole number", error);
    }
    too_large = fabs(nearest) >= 0x1p63;
    whole = too_large ? 0 : (int64_t)nearest;
  }
  if (too_large) return refuse(option, text, where, "does not fit 64 bits", error);
  if (has_range(option) && ((double)whole < option->min || (double)whole > option->max)) {
    return refuse(option, text, where, "is out of range", error);
  }
  *value = whole;
  return STATUS_OK;
}

static enum status read_float(const struct option *option, double *value, const char *text,
                              const char *where, struct error *error) {
  double number;
  if (strcmp(text, "none") == 0 && strcmp(option->fallback, "none") == 0) {
    *value = NAN;
    return STATUS_OK;
  }
  if (!read_number(text, &number)) return refuse(option, text, where, "is not a number", error);
  if (has_range(option) && (number < option->min || number > option->max)) {
    return refuse(option, text, where, "is out of range", error);
  }
  *value = number;
  return STATUS_OK;
}

static enum status read_bool(const struct option *option, bool *value, const char *text,
                             const char *where, struct error *error) {
  static const char *const words[][2] = {
      {"false", "true"}, {"0", "1"}, {"no", "yes"}, {"off", "on"}};
  for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
    for (int truth = 0; truth < 2; truth++) {
      if (strcasecmp(text, words[i][truth]) != 0) continue;
      *value = truth;
      return STATUS_OK;
    }
  }
  return refuse(option, text, where, "is neither true nor false", error);
}

bool option_value_is_choice(const char *choices, const char *text) {
  size_t length = strlen(text);
  for (const char *choice = choices; length > 0; choice++) {
    size_t choice_length = strcspn(choice, "|");
    if (choice_length == length && memcmp(choice, text, length) == 0) return true;
    choice += choice_length;
    if (!*choice) return false;
  }
  return false;
}

// The choice that is spelt most like `text`, in `choices`, a copy that is cut up; or NULL.
static const char *nearest_choice(char *choices, const char *text) {
  const char *words[CHOICES_MAX];
  int count = 0;
  for (char *rest = choices, *word; count < CHOICES_MAX && (word = strsep(&rest, "|"));)
    words[count++] = word;
  return options_nearest_word(words, count, text);
}

static enum status refuse_choice(const struct option *option, const char *text, const char *where,
                                 struct error *error) {
  char *choices = check_copy(option->choices);
  const char *nearest = nearest_choice(choices, text);
  char problem[128] = "is not one of its values";
  if (nearest)
    snprintf(problem, sizeof problem, "is not one of its values (did you mean '%.60s'?)", nearest);
  enum status status = refuse(option, text, where, problem, error);
  free(choices);
  return status;
}

static enum status read_string(const struct option *option, char **value, const char *text,
                               const char *where, struct error *error) {
  if (option->type == OPTION_CHOICE && !option_value_is_choice(option->choices, text))
    return refuse_choice(option, text, where, error);
  char *copy = check_copy(text);
  free(*value);
  *value = copy;
  return STATUS_OK;
}

enum status option_value_read(const struct option *option, void *config, const char *text,
                              const char *where, struct error *error) {
  switch (option->type) {
    case OPTION_BOOL:
      return read_bool(option, member(option, config), text, where, error);
    case OPTION_INT:
      return read_int(option, member(option, config), text, where, error);
    case OPTION_FLOAT:
      return read_float(option, member(option, config), text, where, error);
    case OPTION_STRING:
    case OPTION_CHOICE:
      return read_string(option, member(option, config), text, where, error);
  }
  CHECK(false, "--%s has no type", option->name);
}

static void write_float(double number, FILE *out) {
  char text[DECIMAL_BYTES];
  decimal_print(text, number);
  fputs(text, out);
}

void option_value_write(const struct option *option, const void *config, FILE *out) {
  const void *value = member_const(option, config);
  switch (option->type) {
    case OPTION_BOOL:
      fputs(*(const bool *)value ? "true" : "false", out);
      return;
    case OPTION_INT:
      fprintf(out, "%" PRId64, *(const int64_t *)value);
      return;
    case OPTION_FLOAT:
      if (isnan(*(const double *)value))
        fputs("none", out);
      else
        write_float(*(const double *)value, out);
      return;
    case OPTION_STRING:
    case OPTION_CHOICE:
      fputs(*(char *const *)value, out);
      return;
  }
}

const char *option_value_string(const struct option *option, const void *config) {
  return is_string(option) ? *(char *const *)member_const(option, config) : NULL;
}

void option_value_clear(const struct option *option, void *config) {
  static const size_t bytes[] = {[OPTION_BOOL] = sizeof(bool),
                                 [OPTION_INT] = sizeof(int64_t),
                                 [OPTION_FLOAT] = sizeof(double),
                                 [OPTION_STRING] = sizeof(char *),
                                 [OPTION_CHOICE] = sizeof(char *)};
  memset(member(option, config), 0, bytes[option->type]);
}

void option_value_free(const struct option *option, void *config) {
  if (!is_string(option)) return;
  char **value = member(option, config);
  free(*value);
  *value = NULL;
}
