/* Between floats and the images of a device that keeps them as bf16 (struct cuda, low_pixels):
 * image, pool_forward, pool_backward, relu and relu_backward then read and write bf16, as the
 * convolutions do. Upstream: learner/device/cuda. Thread: as device.h says. */
#ifndef ACORN_LEARNER_DEVICE_CUDA_PIXELS_H
#define ACORN_LEARNER_DEVICE_CUDA_PIXELS_H

#include "learner/device/cuda/cuda.h"

/* y (n) = x (n), rounded to the nearest, ties to even. */
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
