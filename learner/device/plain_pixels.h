/* Operations on pixels for devices that have no better ones: where pixels are reals, the operations
 * on reals; for two operations in one, the two.
 * Upstream: the tables of ref/ref.c, cpu/cpu_kernels.c, tests/devices/guarded.c. */
#ifndef ACORN_LEARNER_DEVICE_PLAIN_PIXELS_H
#define ACORN_LEARNER_DEVICE_PLAIN_PIXELS_H

#include "learner/device/device.h"

static inline void plain_linear_pixels_forward(struct device *d, real *y, const pixel *x,
                                               const real *w, const real *b, enum activation act,
                                               int B, int I, int O) {
  d->ops->linear_forward(d, y, (const real *)x, I, w, b, act, B, I, O);
}

static inline void plain_linear_pixels_backward(struct device *d, pixel *dx, real *dw, real *db,
                                                real *dy, const real *y, const pixel *x,
                                                const real *w, enum activation act, int B, int I,
                                                int O) {
  d->ops->linear_backward(d, (real *)dx, dw, db, dy, y, (const real *)x, I, w, act, B, I, O);
}
static inline void plain_conv_pool_backward(struct device *d, pixel *dx, real *dw, real *db,
                                            pixel *between, const pixel *dy, const uint8_t *choice,
                                            const pixel *x, const real *weights,
                                            const struct device_window *window,
                                            const struct device_window *pool, int B, bool add) {
  d->ops->pool_backward(d, between, dy, choice, pool, B);
  d->ops->conv_backward(d, dx, dw, db, between, between, x, weights, ACTIVATION_NONE, false, window,
                        B, add);
}

#endif
