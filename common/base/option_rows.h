/* Rows of an option table, a macro for each type. A file with a table defines AT(member), the
 * offset of a member in its configuration.
 * Thread: any. */
#ifndef ACORN_COMMON_BASE_OPTION_ROWS_H
#define ACORN_COMMON_BASE_OPTION_ROWS_H

#include <stddef.h>

#include "common/base/options.h"

#define BOOL(name, member, fallback, group, help) \
  { name, NULL, OPTION_BOOL, AT(member), fallback, 0, 0, NULL, group, help }
#define INT(name, member, fallback, min, max, group, help) \
  { name, NULL, OPTION_INT, AT(member), fallback, min, max, NULL, group, help }
#define FLOAT(name, member, fallback, min, max, group, help) \
  { name, NULL, OPTION_FLOAT, AT(member), fallback, min, max, NULL, group, help }
#define STRING(name, member, fallback, group, help) \
  { name, NULL, OPTION_STRING, AT(member), fallback, 0, 0, NULL, group, help }
#define CHOICE(name, member, fallback, choices, group, help) \
  { name, NULL, OPTION_CHOICE, AT(member), fallback, 0, 0, choices, group, help }

#endif
