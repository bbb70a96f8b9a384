/* Convolutions of the CPU device, and products in bf16, by oneDNN; no other file includes
 * its headers. Images stay as they are in memory (B, H, W, C), which oneDNN reads as fast as
 * layouts of its own; weights are kept in the layout that it wants.
 *
 * A batch goes through in chunks of 1, 2, 4 ... 32 images: so there are few primitives whatever
 * the batch sizes, and what a chunk's operations share is still in the cache. One computing
 * thread: the caller's (libgomp's threads would spin where actors want the core).
 * Thread: as the device. Errors: a failure inside oneDNN is fatal.
 * Upstream: cpu_image.h, cpu.c. */
#ifndef ACORN_LEARNER_DEVICE_CPU_CPU_DNNL_H
#define ACORN_LEARNER_DEVICE_CPU_CPU_DNNL_H

#include "learner/device/device.h"

struct cpu_dnnl;

/* NULL is fine. */
void cpu_dnnl_destroy(struct cpu_dnnl *self);
/* The device operation of this name. */
void cpu_dnnl_weights_changed(struct device *d);
/* The same for one array of weights. */
void cpu_dnnl_array_changed(struct device *d, const float *weights);

/* Images of the next chunk when B are left. */
int cpu_dnnl_chunk(int B);

/* Whether x and dy are bf16 for such a window, or floats. */
bool cpu_dnnl_reads_bf16(const struct device *d, const struct device_window *window);
/* One chunk of n images. relu: on the result. */
void cpu_dnnl_forward(struct device *d, float *y, const void *x, const float *weights,
                      const float *b, bool relu, const struct device_window *window, int n);
void cpu_dnnl_backward_data(struct device *d, float *dx, const void *dy, const float *weights,
                            const struct device_window *window, int n);
/* Several chunks add up: the first of a batch begins, and finish writes dw and db, or adds to
 * them. */
void cpu_dnnl_backward_weights(struct device *d, const void *dy, const void *x,
                               const struct device_window *window, int n, bool first);
void cpu_dnnl_finish_weights(struct device *d, float *dw, float *db,
                             const struct device_window *window, bool add);

/* Whether bf16 can be computed with at all, and whether there are instructions for its products
 * (AVX512_BF16, AMX), which make it faster than float32. */
bool cpu_dnnl_has_bf16(void);
bool cpu_dnnl_has_fast_bf16(void);

/* C (M, N) = A (M, K) B (K, N) + bias (N) (+ C), then relu: on a bf16 device, C and bias floats.
 * A: bf16, stored (K, M) if transposed. B: bf16; or floats, kept in another form until
 * weights_changed, stored (N, K) if transposed. */
struct cpu_dnnl_product {
  int M, N, K;
  bool a_transposed, b_kept, b_transposed, bias, add, relu;
};
void cpu_dnnl_multiply(struct device *d, float *c, const void *a, const void *b, const float *bias,
                       const struct cpu_dnnl_product *shape);
/* Rows of the next product when B are left, so that there are few shapes. */
int cpu_dnnl_rows(int B);

#endif
