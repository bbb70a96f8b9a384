/* The head of a network: from its last features to the outputs that policies and algorithms read.
 * Private to learner/network. Either one layer of all outputs, or streams with a hidden layer each:
 * one for the policy's outputs (the advantages of a dueling network), one for the value's. The
 * outputs of both lie side by side in workspace->head (rows, outputs): the policy's, the value's,
 * then the log_stds, which no layer computes. The layers may be noisy. Thread: as in network.h.
 * Owner: `head` of a network and `head_buffers` of a workspace are allocated here and freed by
 * network.c. Upstream: network.c, mlp.c, lstm.c, pixels.c. Source: Wang et al. 2016, section 3 (two
 * streams). */
#ifndef ACORN_LEARNER_NETWORK_HEAD_H
#define ACORN_LEARNER_NETWORK_HEAD_H

#include "learner/network/noisy_layer.h"

/* Declares the parameters and sets network->head. One layer: head/w, head/b. Streams:
 * head/advantage_hidden, head/advantage, head/value_hidden, head/value, each with /w and /b; the
 * value's only if there is one. Noisy layers have /w_deviation and /b_deviation besides. The
 * log_stds are head/log_std. */
void head_declare(struct network *network, int inputs);
/* Without noise the policy's outputs start close to 0, so that a policy starts close to uniform. */
void head_init(const struct network *network, float *host, uint64_t seed);
/* Adds its layers. */
void head_list(const struct network *network, struct network_layer_list *list);
void head_allocate(struct network_workspace *workspace);

/* The layer that gives the value, of a head with one, and the value's column among its outputs. */
int head_value_layer(const struct network *network, const struct dense **layer);

/* As network_set_noise. */
void head_set_noise(struct network_workspace *workspace, const struct network_noise *noise);

/* workspace->head from x (B, inputs). */
void head_forward(struct network_workspace *workspace, const real *params, const real *x, int B);
/* dx (B, inputs; may be NULL) and the parameters' gradients from dhead (B, outputs), which is used
 * as scratch. */
void head_backward(struct network_workspace *workspace, real *dx, real *grads, const real *params,
                   real *dhead, const real *x, int B);

#endif
