/* Observations on one scale: the numbers of float32 vectors, and of images, less their running
 * means, over their running deviations, clipped. Bytes of vectors (one-hot numbers, masks),
 * integers, the previous action and reward stay as they are. Stacked frames share the statistics of
 * one frame.
 *
 * The statistics are parameters without gradient, behind all others of a network: so acting, target
 * networks, checkpoints and evaluations have those that training had, and only training moves them
 * (network_observe). Private to learner/network but for network.h. F: numbers of a step that are
 * normalised. Thread: as in network.h. Upstream: network.c, pixels.c. */
#ifndef ACORN_LEARNER_NETWORK_OBSERVATION_H
#define ACORN_LEARNER_NETWORK_OBSERVATION_H

#include "learner/network/kind.h"

/* Declares observation/count, observation/mean and observation/variance (F), and of images
 * image/count and so on, for what the network's config normalises, if there is any such number. */
void observation_declare(struct network *network);
/* As if nothing had been seen: numbers are only clipped. */
void observation_init(const struct network *network, float *host);
void observation_allocate(struct network_workspace *workspace);

/* Of y (B, I), which embed has written for `inputs`: its vectors, normalised in place. */
void observation_normalize(struct network_workspace *workspace, real *y, const real *params,
                           const struct device_inputs *inputs, int B);
/* Sets mean, deviation and limit of `images`, by which the operation image normalises them. */
void observation_normalize_images(struct network_workspace *workspace, struct device_inputs *images,
                                  const real *params);
/* The gradient of the statistics: none. */
void observation_backward(struct network_workspace *workspace, real *grads);

#endif
