/* Whether what must not be done ends the process by a CHECK: it is done in a child process. */
#ifndef ACORN_TESTS_SUPPORT_ABORTS_H
#define ACORN_TESTS_SUPPORT_ABORTS_H

#include <stdbool.h>

/* misuse does the `what`-th thing that must not be done to the subject. */
bool aborts(void (*misuse)(void *subject, int what), void *subject, int what);

#endif
