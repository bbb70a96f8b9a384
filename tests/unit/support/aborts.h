/* Whether a function ends the process by a CHECK: it runs in a child process. */
#ifndef ACORN_TESTS_SUPPORT_ABORTS_H
#define ACORN_TESTS_SUPPORT_ABORTS_H

#include <stdbool.h>

bool aborts(void (*function)(void *context), void *context);

#endif
