/* How much a test does: ThreadSanitizer looks for races, which do not depend on the numbers, and an
 * emulated kernel takes it hundreds of times as long. AddressSanitizer looks at where memory is
 * touched, and takes it five times as long. */
#ifndef ACORN_TESTS_UNIT_SUPPORT_RACES_H
#define ACORN_TESTS_UNIT_SUPPORT_RACES_H

#ifdef __SANITIZE_THREAD__
enum { TESTING_FOR_RACES = 1 };
#else
enum { TESTING_FOR_RACES = 0 };
#endif
#ifdef __SANITIZE_ADDRESS__
enum { TESTING_FOR_MEMORY = 1 };
#else
enum { TESTING_FOR_MEMORY = 0 };
#endif
enum { TESTING_SLOWLY = TESTING_FOR_RACES || TESTING_FOR_MEMORY };

#endif
