/* A test that cannot run here, with its reason in one line: scripts/run_units.sh prints it. */
#ifndef ACORN_TESTS_SUPPORT_SKIP_H
#define ACORN_TESTS_SUPPORT_SKIP_H

// clang-format off
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on

#define SKIP(reason)                                  \
  do {                                                \
    print_message("SKIP %s: %s\n", __func__, reason); \
    skip();                                           \
  } while (0)

#endif
