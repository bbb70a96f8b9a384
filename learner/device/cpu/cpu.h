/* The CPU device's inside: what cpu.c and the kernel sets (cpu_kernels.c, compiled three times)
 * share.
 * Upstream: outside of this folder only tests and benchmarks, which force a set. */
#ifndef ACORN_LEARNER_DEVICE_CPU_CPU_H
#define ACORN_LEARNER_DEVICE_CPU_CPU_H

#include "common/base/status.h"
#include "learner/device/cpu/cpu_pool.h"
#include "learner/device/device.h"

/* Scratch memory, one piece per purpose, so that two live at a time do not meet. */
enum cpu_scratch {
  SCRATCH_PANELS,
  SCRATCH_WEIGHTS,
  SCRATCH_STATE,
  SCRATCH_LOW_X,
  SCRATCH_LOW_DY,
  SCRATCH_OPEN,
  SCRATCH_COUNT
};

struct cpu {
  struct device device;
  bool bf16;             /* convolutions and large products read bf16 */
  char description[32];  /* with that; else the instructions' own */
  struct cpu_pool *pool; /* threads beside the caller's; NULL: none */
  struct cpu_dnnl *dnnl; /* cpu_dnnl.c's; NULL before the first convolution */
  struct {
    float *memory;
    size_t count; /* floats */
  } scratch[SCRATCH_COUNT];
};

/* The threads for what is done to so many numbers: NULL where it takes less than some 10 us. */
static inline struct cpu_pool *cpu_pool_for(struct device *d, size_t count) {
  return count < 1 << 15 ? NULL : ((struct cpu *)d)->pool;
}

/* A table per kernel set: x86-64-v2 (SSE4), -v3 (AVX2), -v4 (AVX-512). */
extern const struct device_ops cpu_kernels_v2, cpu_kernels_v3, cpu_kernels_v4;

/* set: "v2", "v3", "v4", or NULL for the best this machine runs.
 * Errors: INVALID: no such set, or the machine lacks it. */
MUST_CHECK enum status cpu_create(struct device **out, const char *set, struct error *error);

/* At least `count` floats, 64-byte aligned, not cleared; grown when a size is first seen, then
 * kept. */
float *cpu_scratch(struct device *d, enum cpu_scratch purpose, size_t count);

/* The operations that need no vectors: entries of every kernel set's table. */
void cpu_destroy(struct device *d);
void *cpu_alloc(struct device *d, size_t bytes);
void cpu_release(struct device *d, void *memory);
void cpu_upload(struct device *d, real *y, const float *host, size_t n);
void cpu_download(struct device *d, float *host, const real *x, size_t n);
void cpu_upload_bytes(struct device *d, void *y, const void *host, size_t bytes);
void cpu_download_bytes(struct device *d, void *host, const void *x, size_t bytes);
uint64_t cpu_mark(struct device *d);
void cpu_wait(struct device *d, uint64_t mark);
void cpu_follow(struct device *d, struct device *other, uint64_t mark);

#endif
