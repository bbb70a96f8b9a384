#include "common/base/decimal.h"

// The C library has the locale "C" ready: nothing is allocated.
locale_t decimal_begin(void) {
  return uselocale(newlocale(LC_ALL_MASK, "C", (locale_t)0));
}

void decimal_end(locale_t before) {
  uselocale(before);
}
