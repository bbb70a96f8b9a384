#include "common/base/decimal.h"

#include <stdio.h>
#include <stdlib.h>

// The C library has the locale "C" ready: nothing is allocated.
locale_t decimal_begin(void) {
  return uselocale(newlocale(LC_ALL_MASK, "C", (locale_t)0));
}

void decimal_end(locale_t before) {
  uselocale(before);
}

double decimal_read(const char *text, char **end) {
  locale_t before = decimal_begin();
  double number = strtod(text, end);
  decimal_end(before);
  return number;
}

void decimal_print(char text[DECIMAL_BYTES], double number) {
  locale_t before = decimal_begin();
  for (int digits = 6; digits <= 17; digits++) {
    snprintf(text, DECIMAL_BYTES, "%.*g", digits, number);
    if (strtod(text, NULL) == number) break;
  }
  decimal_end(before);
}
