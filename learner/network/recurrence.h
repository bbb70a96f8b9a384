/* The recurrent core that networks share: an LSTM over T steps of N sequences. The part of the
 * gates that comes from its inputs is one matrix product over all T*N rows; only the recurrent
 * part goes step by step. The state of a sequence is h, then c: S = 2H. Private to learner/network.
 * Thread: as in network.h. Upstream: lstm.c, pixels.c. */
#ifndef ACORN_LEARNER_NETWORK_RECURRENCE_H
#define ACORN_LEARNER_NETWORK_RECURRENCE_H

#include "learner/network/layers.h"

struct recurrence {
  struct dense input; /* to the gates: Wx (I, 4H) and the bias */
  int wh;             /* index of wh (H, 4H) */
  int H;
};

struct recurrence_buffers {
  real *h, *c;   /* (rows, H) after every step */
  real *gates;   /* (rows, 4H) */
  real *h0, *c0; /* (N, H) before the first step */
  real *dh;      /* (rows, H), and the next: NULL without backward */
  real *dgates;  /* (rows, 4H) */
};

/* Declares lstm/w, lstm/b, lstm/wh and sets the network's state_size. */
struct recurrence recurrence_declare(struct network *network, int inputs, int H);
/* Weights uniform in +-1/sqrt(H), biases 0. */
void recurrence_init(const struct network *network, const struct recurrence *core, float *host,
                     uint64_t seed);
void recurrence_list(const struct recurrence *core, struct network_layer_list *list);
void recurrence_allocate(struct network_workspace *workspace, struct recurrence_buffers *buffers,
                         const struct recurrence *core);

/* buffers->h from x (T*N, I) and the state before; state_out may be NULL. */
void recurrence_forward(struct network_workspace *workspace, struct recurrence_buffers *buffers,
                        real *state_out, const real *params, const real *x,
                        const struct recurrence *core, const struct device_inputs *inputs,
                        const real *state_in, int T, int N);
/* dx (T*N, I; may be NULL) and the parameters' gradients from buffers->dh, which the caller has
 * filled and which is used as scratch. */
void recurrence_backward(struct network_workspace *workspace, struct recurrence_buffers *buffers,
                         real *dx, real *grads, const real *params, const real *x,
                         const struct recurrence *core, const struct device_inputs *inputs, int T,
                         int N);

#endif
