/* A dense layer that is noisy if the network's head is to be: its weights and biases are mean +
 * deviation * noise, where the noise is factorised, an outer product of one number for each input
 * and one for each output. Private to learner/network. Shapes: x (B, I), y (B, O). Thread: as in
 * network.h. Upstream: head.c. Source: Fortunato et al. 2018, section 3. */
#ifndef ACORN_LEARNER_NETWORK_NOISY_LAYER_H
#define ACORN_LEARNER_NETWORK_NOISY_LAYER_H

#include "learner/network/layers.h"

struct noisy_layer {
  struct dense dense; /* its parameters are the means */
  bool has_noise;
  int weight_deviation, bias_deviation; /* indices into the network's parameters */
};

struct noisy_layer_buffers {
  bool noise_on;       /* since the last draw */
  real *noise;         /* (I + O): of the inputs, then of the outputs; NULL without has_noise */
  real *weight, *bias; /* (I, O), (O) of the last forward; likewise */
};

/* Declares <name>/w (I, O) and <name>/b (O), and if the network's head is noisy
 * <name>/w_deviation and <name>/b_deviation. */
struct noisy_layer noisy_layer_declare(struct network *network, const char *name, int inputs,
                                       int outputs, enum activation activation);
/* Of a layer with noise. Means uniform in +-1/sqrt(I), deviations 0.5/sqrt(I). */
void noisy_layer_init(const struct network *network, const struct noisy_layer *layer, float *host,
                      uint64_t seed);
void noisy_layer_allocate(struct network_workspace *workspace, struct noisy_layer_buffers *buffers,
                          const struct noisy_layer *layer);

/* The noise of every forward and backward from now on. */
void noisy_layer_draw(struct network_workspace *workspace, struct noisy_layer_buffers *buffers,
                      const struct noisy_layer *layer, const struct network_noise *noise);

void noisy_layer_forward(struct network_workspace *workspace,
                         const struct noisy_layer_buffers *buffers, real *y, const real *params,
                         const real *x, const struct noisy_layer *layer, int B);
/* dx may be NULL; dy is used as scratch. Deviations without noise get the gradient 0. */
void noisy_layer_backward(struct network_workspace *workspace,
                          const struct noisy_layer_buffers *buffers, real *dx, real *grads,
                          const real *params, real *dy, const real *y, const real *x,
                          const struct noisy_layer *layer, int B);

#endif
