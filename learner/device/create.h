/* Devices by name.
 * Upstream: learner. */
#ifndef ACORN_LEARNER_DEVICE_CREATE_H
#define ACORN_LEARNER_DEVICE_CREATE_H

#include "common/base/status.h"
#include "learner/device/device.h"

/* Which device, and how it computes. */
struct device_options {
  const char *name; /* "cpu", "cuda", "ref", "ref_double"; "auto": see device_choose */
  /* "float32"; "bf16" (cpu, cuda: convolutions and large products read numbers of 8 bits precision,
   * sums are float); "tf32" (cuda: the same, of 10 bits); "auto": bf16 where the machine is faster
   * at it. */
  const char *precision;
  int gpu;            /* cuda: number of the GPU among those that CUDA_VISIBLE_DEVICES shows */
  int64_t memory_mib; /* cuda: of the GPU's memory, at most; 0: all of it */
  bool urgent;        /* cuda: what it computes goes before other devices' */
};

/* "cuda" where a GPU can be used, else "cpu", for "auto"; other names as they are. *reason: why
 * there is no GPU, or "". */
const char *device_choose(const char *name, struct error *reason);

/* GPUs that can be used. */
int device_count_gpus(void);

/* A device for the calling thread. Owner: the caller. cpu picks the best kernels this machine runs;
 * ACORN_CPU=v2|v3|v4 in the environment forces a set (refused with INVALID if the machine lacks
 * it). cuda: see cuda_plugin.h. */
struct device *device_ref_float_create(void);
struct device *device_ref_double_create(void);
MUST_CHECK enum status device_cpu_create(struct device **out, struct error *error);
/* Makes a cpu compute in bf16; automatic: only where the machine is faster at it. Errors: INVALID:
 * the machine cannot. */
MUST_CHECK enum status device_cpu_use_bf16(struct device *d, bool automatic, struct error *error);
/* Makes a cpu share what is large of dense layers in float32 and of Adam among so many threads: the
 * caller's, and others of its own until it is destroyed. Results stay the same to the last bit. At
 * most once. */
void device_cpu_use_threads(struct device *d, int threads);
MUST_CHECK enum status device_create(struct device **out, const char *name, struct error *error);
MUST_CHECK enum status device_create_by(struct device **out, const struct device_options *options,
                                        struct error *error);
void device_destroy(struct device *d);

#endif
