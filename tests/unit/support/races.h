/* How much a test does: ThreadSanitizer looks for races, which do not depend on the numbers, and an
 * emulated kernel takes it hundreds of times as long. */
#ifndef ACORN_TESTS_UNIT_SUPPORT_RACES_H
#define ACORN_TESTS_UNIT_SUPPORT_RACES_H

#ifdef __SANITIZE_THREAD__
enum { TESTING_FOR_RACES = 1 };
#else
enum { TESTING_FOR_RACES = 0 };
#endif

#endif
