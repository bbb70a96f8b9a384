/* Prints numbers with a decimal point, whatever the locale of the process is. We never set one, but
 * the code of an environment may call setlocale, and then printf writes 0,25.
 * Upstream: what prints or formats numbers where environments are played. Thread: any; begin and
 * end are of the calling thread, between them nothing of an environment runs. */
#ifndef ACORN_COMMON_BASE_DECIMAL_H
#define ACORN_COMMON_BASE_DECIMAL_H

#include <locale.h>

/* The calling thread formats in the locale "C" until decimal_end. Returns what that needs. */
locale_t decimal_begin(void);
void decimal_end(locale_t before);

#endif
