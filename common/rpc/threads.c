#include "common/rpc/threads.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <string.h>

#include "common/base/check.h"
#include "common/base/thread.h"

/* clang links its sanitizers into the program, and with them a pthread_create() that is in front
 * already. */
#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define THREADS_ARE_TAKEN
#endif
#endif

#ifdef THREADS_ARE_TAKEN

void threads_init(void) {}

#else

typedef int (*create_function)(pthread_t *thread, const pthread_attr_t *attributes,
                               void *(*run)(void *), void *argument);

/* The C library's. Looked up again where two threads come first: both find the same. */
static create_function next_pthread_create(void) {
  static _Atomic uintptr_t found;
  union {
    void *symbol;
    uintptr_t bits;
    create_function function;
  } next = {.bits = found};
  if (next.bits) return next.function;
  next.symbol = dlsym(RTLD_NEXT, "pthread_create");
  CHECK(next.symbol, "there is no pthread_create() in the C library");
  found = next.bits;
  return next.function;
}

void threads_init(void) {
  next_pthread_create();
}

/* The library that the code at that address is in, if it is gRPC's or libuv's; else NULL. */
static const char *library_of(const void *caller) {
  static const char *const libraries[] = {"libgpr.so", "libgrpc.so", "libuv.so"};
  Dl_info info;
  if (!dladdr(caller, &info) || !info.dli_fname) return NULL;
  const char *slash = strrchr(info.dli_fname, '/');
  const char *name = slash ? slash + 1 : info.dli_fname;
  for (size_t i = 0; i < sizeof(libraries) / sizeof(libraries[0]); i++)
    if (strncmp(name, libraries[i], strlen(libraries[i])) == 0) return name;
  return NULL;
}

// Libraries must meet it: everything else is hidden from them.
__attribute__((visibility("default"))) int pthread_create(pthread_t *thread,
                                                          const pthread_attr_t *attributes,
                                                          void *(*run)(void *), void *argument) {
  int error = next_pthread_create()(thread, attributes, run, argument);
  const char *library = error ? library_of(__builtin_return_address(0)) : NULL;
  if (library) thread_give_up(library, error);
  return error;
}

#endif
