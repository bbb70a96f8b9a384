/* Between floats and the images of a device that keeps them as bf16 (struct cuda, low_pixels): image,
 * pool_forward, pool_backward, relu and relu_backward then read and write bf16, as the convolutions
 * do.
 * Upstream: learner/device/cuda. Thread: as device.h says. */
#ifndef ACORN_LEARNER_DEVICE_CUDA_PIXELS_H
#define ACORN_LEARNER_DEVICE_CUDA_PIXELS_H

#include "learner/device/cuda/cuda.h"

/* y (n) = x (n), rounded to the nearest, ties to even. */
void cuda_to_bf16(struct device *d, bf16 *y, const float *x, size_t n);
void cuda_to_float(struct device *d, float *y, const bf16 *x, size_t n);

#endif
