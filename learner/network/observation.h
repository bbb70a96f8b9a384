/* Observations on one scale: the numbers of float32 vectors less their running means, over their
 * running deviations, clipped. Images, bytes (one-hot numbers, masks), integers, the previous
 * action and reward stay as they are.
 *
 * The statistics are parameters without gradient, behind all others of a network: so acting, target
 * networks, checkpoints and evaluations have those that training had, and only training moves them
 * (network_observe). Private to learner/network but for network.h. F: numbers of a step that are
 * normalised. Thread: as in network.h. Upstream: network.c, pixels.c. */
#ifndef ACORN_LEARNER_NETWORK_OBSERVATION_H
#define ACORN_LEARNER_NETWORK_OBSERVATION_H

#include "learner/network/kind.h"

/* Declares observation/count, observation/mean and observation/variance (F), if there is any such
 * number. */
void observation_declare(struct network *network);
/* As if nothing had been seen: observations are only clipped. */
void observation_init(const struct network *network, float *host);
void observation_allocate(struct network_workspace *workspace);

/* Of y (B, I), which embed has written for `inputs`: its vectors, normalised in place. */
void observation_normalize(struct network_workspace *workspace, real *y, const real *params,
                           const struct device_inputs *inputs, int B);
/* The gradient of the statistics: none. */
void observation_backward(struct network_workspace *workspace, real *grads);

#endif
