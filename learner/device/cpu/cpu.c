/* The CPU device: choice of the kernel set, memory, scratch. The kernels are in cpu_kernels.c. */
#include "learner/device/cpu/cpu.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/check.h"
#include "learner/device/cpu/cpu_dnnl.h"
#include "learner/device/create.h"

/* The sets in order of preference. */
static const struct kernel_set {
  const char *name;
  const char *description;
  const struct device_ops *ops;
} SETS[] = {
    {"v4", "cpu (avx512)", &cpu_kernels_v4},
    {"v3", "cpu (avx2)", &cpu_kernels_v3},
    {"v2", "cpu (sse4)", &cpu_kernels_v2},
};

enum { NUM_SETS = sizeof SETS / sizeof *SETS };

static bool machine_runs(const struct kernel_set *set) {
  if (strcmp(set->name, "v4") == 0) return __builtin_cpu_supports("x86-64-v4");
  if (strcmp(set->name, "v3") == 0) return __builtin_cpu_supports("x86-64-v3");
  return __builtin_cpu_supports("x86-64-v2");
}

static const struct kernel_set *best_set(void) {
  for (int i = 0; i < NUM_SETS; i++)
    if (machine_runs(&SETS[i])) return &SETS[i];
  return NULL;
}

static enum status named_set(const struct kernel_set **out, const char *name, struct error *error) {
  for (int i = 0; i < NUM_SETS; i++) {
    if (strcmp(SETS[i].name, name) != 0) continue;
    if (!machine_runs(&SETS[i]))
      return status_fail(
          error, STATUS_INVALID,
          "ACORN_CPU=%s: this machine does not run %s; unset it to get the best set it runs", name,
          SETS[i].description);
    *out = &SETS[i];
    return STATUS_OK;
  }
  return status_fail(error, STATUS_INVALID, "ACORN_CPU=%s: use v2, v3 or v4, or unset it", name);
}

enum status cpu_create(struct device **out, const char *set_name, struct error *error) {
  *out = NULL;
  const struct kernel_set *set = best_set();
  if (!set)
    return status_fail(error, STATUS_INVALID, "device 'cpu' needs an x86-64-v2 processor (SSE4.2)");
  if (set_name) {
    enum status status = named_set(&set, set_name, error);
    if (status != STATUS_OK) return status;
  }
  struct cpu *cpu = check_alloc(1, sizeof *cpu);
  cpu->device.ops = set->ops;
  cpu->device.description = set->description;
  *out = &cpu->device;
  return STATUS_OK;
}

enum status device_cpu_create(struct device **out, struct error *error) {
  const char *set = getenv("ACORN_CPU");
  return cpu_create(out, set && *set ? set : NULL, error);
}

enum status device_cpu_use_bf16(struct device *d, bool automatic, struct error *error) {
  struct cpu *cpu = (struct cpu *)d;
  if (automatic && !cpu_dnnl_has_fast_bf16()) return STATUS_OK;
  if (!cpu_dnnl_has_bf16())
    return status_fail(error, STATUS_INVALID,
                       "--precision=bf16 needs a processor with AVX-512: use float32 here");
  cpu->bf16 = true;
  const char *instructions = cpu->device.description; /* "cpu (avx512)" */
  snprintf(cpu->description, sizeof(cpu->description), "%.*s, bf16)", (int)strlen(instructions) - 1,
           instructions);
  cpu->device.description = cpu->description;
  return STATUS_OK;
}

void device_cpu_use_threads(struct device *d, int threads) {
  struct cpu *cpu = (struct cpu *)d;
  CHECK(!cpu->pool, "threads of a device for the second time");
  if (threads > 1) cpu->pool = cpu_pool_create(threads);
}

void cpu_destroy(struct device *d) {
  struct cpu *cpu = (struct cpu *)d;
  cpu_pool_destroy(cpu->pool);
  for (int i = 0; i < SCRATCH_COUNT; i++) free(cpu->scratch[i].memory);
  cpu_dnnl_destroy(cpu->dnnl);
  free(cpu);
}

float *cpu_scratch(struct device *d, enum cpu_scratch purpose, size_t count) {
  struct cpu *cpu = (struct cpu *)d;
  if (cpu->scratch[purpose].count < count) {
    free(cpu->scratch[purpose].memory);
    cpu->scratch[purpose].memory = check_alloc(count, sizeof(float));
    cpu->scratch[purpose].count = count;
  }
  return cpu->scratch[purpose].memory;
}

void *cpu_alloc(struct device *d, size_t bytes) {
  (void)d;
  return check_alloc(1, bytes ? bytes : 1);
}

void cpu_release(struct device *d, void *memory) {
  (void)d;
  free(memory);
}

void cpu_upload(struct device *d, real *y, const float *host, size_t n) {
  (void)d;
  memcpy(y, host, n * sizeof *host);
}

void cpu_download(struct device *d, float *host, const real *x, size_t n) {
  (void)d;
  memcpy(host, x, n * sizeof *host);
}

void cpu_upload_bytes(struct device *d, void *y, const void *host, size_t bytes) {
  (void)d;
  memcpy(y, host, bytes);
}

void cpu_download_bytes(struct device *d, void *host, const void *x, size_t bytes) {
  (void)d;
  memcpy(host, x, bytes);
}

/* Every operation is done when it returns. */
uint64_t cpu_mark(struct device *d) {
  (void)d;
  return 0;
}

void cpu_wait(struct device *d, uint64_t mark) {
  (void)d, (void)mark;
}

void cpu_follow(struct device *d, struct device *other, uint64_t mark) {
  (void)d, (void)other, (void)mark;
}
