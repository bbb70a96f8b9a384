/* Values on one scale: the head's value v stands for deviation v + mean, by statistics of the
 * targets of values (learner/learn/value_targets.h). They are parameters without gradient, as those
 * of observations are (observation.h). Outside of the network values are what v stands for.
 * Private to learner/network but for network.h. Thread: as in network.h. Upstream: network.c.
 * Source: van Hasselt et al. 2016. */
#ifndef ACORN_LEARNER_NETWORK_VALUE_SCALE_H
#define ACORN_LEARNER_NETWORK_VALUE_SCALE_H

#include "learner/network/kind.h"

/* Declares value/count, value/mean and value/deviation (1), behind the head's parameters. */
void value_scale_declare(struct network *network);
/* v stands for itself. */
void value_scale_init(const struct network *network, float *host);

/* Of workspace->head (B, outputs): v becomes the value. */
void value_scale_forward(struct network_workspace *workspace, const real *params, int B);
/* dhead (B, outputs): the gradient at the value becomes that at v; the statistics have none. */
void value_scale_backward(struct network_workspace *workspace, real *grads, const real *params,
                          real *dhead, int B);

#endif
