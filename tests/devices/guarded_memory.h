/* The memory of the device `guarded`: one region, which the process cannot read or write except
 * inside operations. An access outside of one ends the process by SIGSEGV.
 *
 * While an operation of one thread runs, the region is open to the others too, so that an access
 * that races with one may pass: a test that runs for long enough meets it alone.
 * Upstream: guarded.c. Thread: any; one mutex. */
#ifndef ACORN_TESTS_DEVICES_GUARDED_MEMORY_H
#define ACORN_TESTS_DEVICES_GUARDED_MEMORY_H

#include <stddef.h>

/* Zeroed whole pages of the region. CHECK when it is full. */
void *guarded_alloc(size_t bytes);
/* Takes what guarded_alloc gave, or NULL. */
void guarded_release(void *memory);

/* Around each operation; they nest, over all threads. */
void guarded_open(void);
void guarded_close(void);

/* CHECKs that each of `count` pointers is NULL or in the region: a GPU could read no other. */
void guarded_check(const void *const *pointer, int count, const char *operation);

#endif
