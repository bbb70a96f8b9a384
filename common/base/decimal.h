/* Reads and prints numbers with a decimal point, whatever the locale of the process is. We never
 * set one, but the code of an environment or a program that loads a policy may call setlocale: then
 * printf writes 0,25.
 * Upstream: what reads or formats numbers where environments are played or a policy is loaded.
 * Thread: any; begin and end are of the calling thread, between them nothing of an environment
 * runs. */
#ifndef ACORN_COMMON_BASE_DECIMAL_H
#define ACORN_COMMON_BASE_DECIMAL_H

#include <locale.h>

/* The calling thread formats in the locale "C" until decimal_end. Returns what that needs. */
locale_t decimal_begin(void);
void decimal_end(locale_t before);

enum { DECIMAL_BYTES = 32 };

/* As strtod. */
double decimal_read(const char *text, char **end);

/* Writes the shortest of the forms %.6g to %.17g that read back to the same number. */
void decimal_print(char text[DECIMAL_BYTES], double number);

/* For people: 1234567 -> "1.23M"; "-" where it is not finite. Returns the text. */
const char *decimal_short(char text[DECIMAL_BYTES], double x);

#endif
