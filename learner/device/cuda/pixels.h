/* The operations on images that also exist with pixels (activations and their gradients) of 16
 * bits: as in device.h, which has those with floats, but for the pixels' type.
 * Upstream: learner/device/cuda. Thread: as device.h says. */
#ifndef ACORN_LEARNER_DEVICE_CUDA_PIXELS_H
#define ACORN_LEARNER_DEVICE_CUDA_PIXELS_H

#include "learner/device/cuda/cuda.h"

/* inputs.cu */
void cuda_embed_bf16(struct device *d, bf16 *y, const struct device_inputs *in, int B);
void cuda_image_bf16(struct device *d, bf16 *y, const struct device_inputs *in, int B);

/* pixels.cu */
void cuda_pool_forward_bf16(struct device *d, bf16 *y, uint8_t *choice, const bf16 *x,
                            const struct device_window *window, int B);
void cuda_pool_backward_bf16(struct device *d, bf16 *dx, const bf16 *dy, const uint8_t *choice,
                             const struct device_window *window, int B);
void cuda_relu_bf16(struct device *d, bf16 *y, const bf16 *x, size_t n);
void cuda_relu_backward_bf16(struct device *d, bf16 *dx, const bf16 *dy, const bf16 *y, size_t n);
/* y (n) = x (n), rounded to nearest even. */
void cuda_to_bf16(struct device *d, bf16 *y, const float *x, size_t n);
void cuda_to_float(struct device *d, float *y, const bf16 *x, size_t n);

/* conv.cu. Weights and biases and their gradients are floats. */
void cuda_conv_forward_bf16(struct device *d, bf16 *y, const bf16 *x, const real *weights,
                            const real *b, const bf16 *residual, enum activation act,
                            const struct device_window *window, int B);
void cuda_conv_backward_bf16(struct device *d, bf16 *dx, real *dw, real *db, bf16 *dy,
                             const bf16 *y, const bf16 *x, const real *weights, enum activation act,
                             const struct device_window *window, int B, bool add);

#endif
