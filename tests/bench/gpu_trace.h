/* What a GPU did between two moments, from CUPTI, NVIDIA's tracing library: the time that kernels
 * ran, and the bytes that went to the device. ACORN_CUPTI names the library (scripts/gpu_check.sh
 * finds it); without it nothing is traced. With ACORN_TRACE_KERNELS=N the N kernels that took the
 * most time are printed. The few declarations that are needed stand here, so that
 * building takes no header of CUPTI's: the offsets of these members are the same from CUDA 8 on.
 * Header of one benchmark program. Thread: one calls begin and end; CUPTI calls back on its own. */
#ifndef ACORN_TESTS_BENCH_GPU_TRACE_H
#define ACORN_TESTS_BENCH_GPU_TRACE_H

#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/check.h"

struct gpu_trace_result {
  double wall_us;        /* from the first record's start to the last one's end */
  double kernel_us;      /* when at least one kernel ran */
  double busy_us;        /* when a kernel, a copy or a fill ran */
  double to_device;      /* bytes that were copied there from the host */
  int64_t kernels, lost; /* lost: records that CUPTI had no room or no times for */
};

enum { TRACE_MEMCPY = 1, TRACE_MEMSET = 2, TRACE_KERNEL = 10 }; /* enum CUpti_ActivityKind */
enum { TRACE_BUFFER_BYTES = 4 << 20, TRACE_TO_DEVICE = 1 };

enum { TRACE_NAME_OFFSET = 104, TRACE_NAME_BYTES = 96, TRACE_KERNELS = 512 };

struct gpu_trace_span {
  uint64_t begin_ns, end_ns;
  bool kernel;
};

/* The time of a kernel, of all its launches. */
struct gpu_trace_kernel {
  char name[TRACE_NAME_BYTES];
  double us;
  int64_t launches;
};

static struct {
  int (*enable)(int kind);
  int (*disable)(int kind);
  int (*flush)(uint32_t flags);
  int (*next_record)(uint8_t *buffer, size_t bytes, uint8_t **record);
  int (*lost_records)(void *context, uint32_t stream, size_t *count);
  pthread_mutex_t lock; /* guards the rest */
  struct gpu_trace_span *span;
  size_t count, room;
  double to_device;
  int64_t lost;
  struct gpu_trace_kernel kernel[TRACE_KERNELS];
  int num_kernels;
} gpu_trace = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* ---- called by CUPTI */

static void gpu_trace_give_buffer(uint8_t **buffer, size_t *bytes, size_t *records) {
  *buffer = aligned_alloc(64, TRACE_BUFFER_BYTES);
  *bytes = TRACE_BUFFER_BYTES;
  *records = 0;
}

static uint64_t gpu_trace_word(const uint8_t *record, size_t offset) {
  uint64_t word;
  memcpy(&word, record + offset, sizeof(word));
  return word;
}

/* Names are mangled ones; a name that finds no room any more is counted with the last. */
static void gpu_trace_add_kernel(const uint8_t *record, double us) {
  const char *name;
  memcpy(&name, record + TRACE_NAME_OFFSET, sizeof(name));
  if (!name) name = "(no name)";
  int i = 0;
  while (i < gpu_trace.num_kernels &&
         strncmp(gpu_trace.kernel[i].name, name, TRACE_NAME_BYTES - 1) != 0)
    i++;
  if (i == TRACE_KERNELS) i--;
  if (i == gpu_trace.num_kernels) {
    gpu_trace.kernel[gpu_trace.num_kernels++] = (struct gpu_trace_kernel){.us = 0};
    snprintf(gpu_trace.kernel[i].name, TRACE_NAME_BYTES, "%s", name);
  }
  gpu_trace.kernel[i].us += us;
  gpu_trace.kernel[i].launches++;
}

/* A record may have no times: CUPTI leaves them 0 where it could not take any. */
static void gpu_trace_add(const uint8_t *record) {
  uint32_t kind;
  memcpy(&kind, record, sizeof(kind));
  if (kind != TRACE_MEMCPY && kind != TRACE_MEMSET && kind != TRACE_KERNEL) return;
  struct gpu_trace_span span = {gpu_trace_word(record, 16), gpu_trace_word(record, 24),
                                kind == TRACE_KERNEL};
  if (kind == TRACE_MEMCPY && record[4] == TRACE_TO_DEVICE)
    gpu_trace.to_device += (double)gpu_trace_word(record, 8);
  if (span.begin_ns == 0 || span.end_ns < span.begin_ns) {
    gpu_trace.lost++;
    return;
  }
  if (span.kernel) gpu_trace_add_kernel(record, (double)(span.end_ns - span.begin_ns) / 1e3);
  if (gpu_trace.count == gpu_trace.room) {
    gpu_trace.room = gpu_trace.room ? 2 * gpu_trace.room : 1 << 16;
    gpu_trace.span = realloc(gpu_trace.span, gpu_trace.room * sizeof(*gpu_trace.span));
    CHECK(gpu_trace.span, "no memory for %zu records", gpu_trace.room);
  }
  gpu_trace.span[gpu_trace.count++] = span;
}

static void gpu_trace_take_buffer(void *context, uint32_t stream, uint8_t *buffer, size_t bytes,
                                  size_t filled) {
  (void)bytes;
  uint8_t *record = NULL;
  size_t lost = 0;
  pthread_mutex_lock(&gpu_trace.lock);
  while (gpu_trace.next_record(buffer, filled, &record) == 0) gpu_trace_add(record);
  if (gpu_trace.lost_records(context, stream, &lost) == 0) gpu_trace.lost += (int64_t)lost;
  pthread_mutex_unlock(&gpu_trace.lock);
  free(buffer);
}

/* ---- for the benchmark */

/* Before the device is made. Returns whether CUPTI is there. */
static inline bool gpu_trace_open(void) {
  const char *path = getenv("ACORN_CUPTI");
  void *library = path && *path ? dlopen(path, RTLD_NOW) : NULL;
  if (!library) return false;
  int (*callbacks)(void (*)(uint8_t **, size_t *, size_t *),
                   void (*)(void *, uint32_t, uint8_t *, size_t, size_t));
  struct {
    const char *name;
    void *function;
  } table[] = {{"cuptiActivityEnable", &gpu_trace.enable},
               {"cuptiActivityDisable", &gpu_trace.disable},
               {"cuptiActivityFlushAll", &gpu_trace.flush},
               {"cuptiActivityGetNextRecord", &gpu_trace.next_record},
               {"cuptiActivityGetNumDroppedRecords", &gpu_trace.lost_records},
               {"cuptiActivityRegisterCallbacks", &callbacks}};
  for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
    void *found = dlsym(library, table[i].name);
    if (!found) return false;
    memcpy(table[i].function, &found, sizeof(found));
  }
  return callbacks(gpu_trace_give_buffer, gpu_trace_take_buffer) == 0;
}

static inline void gpu_trace_begin(void) {
  static const int kinds[] = {TRACE_MEMCPY, TRACE_MEMSET, TRACE_KERNEL};
  for (int i = 0; i < 3; i++)
    if (gpu_trace.enable(kinds[i]) != 0) fprintf(stderr, "CUPTI: kind %d is refused\n", kinds[i]);
}

static int gpu_trace_compare(const void *a, const void *b) {
  uint64_t x = ((const struct gpu_trace_span *)a)->begin_ns,
           y = ((const struct gpu_trace_span *)b)->begin_ns;
  return (x > y) - (x < y);
}

/* The time that these spans cover together; sorted by their begins. */
static double gpu_trace_covered_us(bool kernels_only) {
  uint64_t covered = 0, until = 0;
  for (size_t i = 0; i < gpu_trace.count; i++) {
    const struct gpu_trace_span *span = &gpu_trace.span[i];
    if ((kernels_only && !span->kernel) || span->end_ns <= until) continue;
    covered += span->end_ns - (span->begin_ns > until ? span->begin_ns : until);
    until = span->end_ns;
  }
  return (double)covered / 1e3;
}

static int gpu_trace_compare_kernels(const void *a, const void *b) {
  double x = ((const struct gpu_trace_kernel *)a)->us, y = ((const struct gpu_trace_kernel *)b)->us;
  return (x < y) - (x > y);
}

/* The longest first, on stderr, where ACORN_TRACE_KERNELS says how many. */
static void gpu_trace_print_kernels(double kernel_us) {
  const char *asked = getenv("ACORN_TRACE_KERNELS");
  int rows = asked ? atoi(asked) : 0;
  if (rows == 0) return;
  qsort(gpu_trace.kernel, (size_t)gpu_trace.num_kernels, sizeof(*gpu_trace.kernel),
        gpu_trace_compare_kernels);
  fprintf(stderr, "%7s %9s %8s  kernel\n", "share", "us each", "launches");
  for (int i = 0; i < gpu_trace.num_kernels && i < rows; i++) {
    const struct gpu_trace_kernel *k = &gpu_trace.kernel[i];
    fprintf(stderr, "%6.2f%% %9.2f %8lld  %s\n", 100 * k->us / kernel_us,
            k->us / (double)k->launches, (long long)k->launches, k->name);
  }
}

/* The device has finished what is to be counted, or goes on with the same. */
static inline struct gpu_trace_result gpu_trace_end(void) {
  static const int kinds[] = {TRACE_MEMCPY, TRACE_MEMSET, TRACE_KERNEL};
  struct gpu_trace_result result = {0};
  for (int i = 0; i < 3; i++) gpu_trace.disable(kinds[i]);
  gpu_trace.flush(1);
  pthread_mutex_lock(&gpu_trace.lock);
  uint64_t last = 0;
  if (gpu_trace.count)
    qsort(gpu_trace.span, gpu_trace.count, sizeof(*gpu_trace.span), gpu_trace_compare);
  for (size_t i = 0; i < gpu_trace.count; i++) {
    result.kernels += gpu_trace.span[i].kernel;
    if (gpu_trace.span[i].end_ns > last) last = gpu_trace.span[i].end_ns;
  }
  if (gpu_trace.count) result.wall_us = (double)(last - gpu_trace.span[0].begin_ns) / 1e3;
  result.kernel_us = gpu_trace_covered_us(true);
  result.busy_us = gpu_trace_covered_us(false);
  result.to_device = gpu_trace.to_device;
  result.lost = gpu_trace.lost;
  gpu_trace_print_kernels(result.kernel_us);
  gpu_trace.count = 0;
  gpu_trace.num_kernels = 0;
  gpu_trace.to_device = 0;
  gpu_trace.lost = 0;
  pthread_mutex_unlock(&gpu_trace.lock);
  return result;
}

#endif
