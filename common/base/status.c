#include "common/base/status.h"

#include <stdarg.h>
#include <stdio.h>

#include "common/base/decimal.h"

enum status status_fail(struct error *error, enum status status, const char *format, ...) {
  if (!error) return status;

  // Formatted aside first: an argument may be the old text of `error` itself.
  struct error sentence;
  locale_t before = decimal_begin();
  va_list args;
  va_start(args, format);
  vsnprintf(sentence.text, sizeof sentence.text, format, args);
  va_end(args);
  decimal_end(before);
  *error = sentence;
  return status;
}
