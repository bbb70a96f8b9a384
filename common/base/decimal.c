#include "common/base/decimal.h"

#include <math.h>
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

const char *decimal_short(char text[DECIMAL_BYTES], double x) {
  if (!isfinite(x)) return "-";
  const char *letter = x >= 1e12 ? "T" : x >= 1e9 ? "G" : x >= 1e6 ? "M" : x >= 1e4 ? "k" : "";
  double unit = x >= 1e12 ? 1e12 : x >= 1e9 ? 1e9 : x >= 1e6 ? 1e6 : x >= 1e4 ? 1e3 : 1;
  int digits = unit > 1e3 ? 2 : x < 10 && x != floor(x) ? 2 : 0;
  locale_t before = decimal_begin();
  snprintf(text, DECIMAL_BYTES, "%.*f%s", digits, x / unit, letter);
  decimal_end(before);
  return text;
}
