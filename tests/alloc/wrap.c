/* Counts the allocations that our own objects make (linked with --wrap in MODE=alloc) into a file
 * that the test maps too: the path in ACORN_ALLOC_COUNT. Libraries' own are not counted.
 * ACORN_ALLOC_TRACE=N prints a backtrace of each allocation after the N-th, to find who did it. */
#include <execinfo.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

static _Atomic int64_t own;
static _Atomic int64_t *count = &own;
static int64_t trace_after = INT64_MAX;

void *__real_malloc(size_t size);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t size);
void *__real_aligned_alloc(size_t alignment, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t size);
void *__wrap_aligned_alloc(size_t alignment, size_t size);

__attribute__((constructor)) static void map_counter(void) {
  const char *path = getenv("ACORN_ALLOC_COUNT"), *trace = getenv("ACORN_ALLOC_TRACE");
  if (trace) trace_after = atoll(trace);
  int fd = path ? open(path, O_RDWR) : -1;
  if (fd < 0) return;
  void *page = mmap(NULL, sizeof(int64_t), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (page != MAP_FAILED) count = page;
  close(fd);
}

static void note(void) {
  if (atomic_fetch_add(count, 1) < trace_after) return;
  void *frames[16];
  backtrace_symbols_fd(frames, backtrace(frames, 16), STDERR_FILENO);
}

void *__wrap_malloc(size_t size) {
  note();
  return __real_malloc(size);
}

void *__wrap_calloc(size_t n, size_t size) {
  note();
  return __real_calloc(n, size);
}

void *__wrap_realloc(void *p, size_t size) {
  note();
  return __real_realloc(p, size);
}

void *__wrap_aligned_alloc(size_t alignment, size_t size) {
  note();
  return __real_aligned_alloc(alignment, size);
}
