/* The parts that networks are put together from: a dense layer, and the torso of hidden layers that
 * most begin with. Private to learner/network. Shapes: x (B, I), y (B, O); dense arrays. Thread: as
 * in network.h. */
#ifndef ACORN_LEARNER_NETWORK_LAYERS_H
#define ACORN_LEARNER_NETWORK_LAYERS_H

#include "learner/network/kind.h"

struct dense {
  int weight, bias; /* indices into the network's parameters */
  int inputs, outputs;
  enum activation activation;
};

/* Declares <name>/w (I, O) and <name>/b (O). */
struct dense dense_declare(struct network *network, const char *name, int inputs, int outputs,
                           enum activation activation);

/* Biases 0, weights normal with deviation gain / sqrt(I) in columns [first, last), which keeps the
 * size of what goes through. */
void dense_init(const struct network *network, const struct dense *dense, float *host,
                uint64_t seed, int first, int last, double gain);

void dense_list(const struct dense *dense, int stream, struct network_layer_list *list);

void dense_forward(struct network_workspace *workspace, real *y, const real *params, const real *x,
                   const struct dense *dense, int B);
/* dx may be NULL; dy is used as scratch. */
void dense_backward(struct network_workspace *workspace, real *dx, real *grads, const real *params,
                    real *dy, const real *y, const real *x, const struct dense *dense, int B);

/* The same above images: x, dx (B, I) are pixels. */
void dense_forward_pixels(struct network_workspace *workspace, real *y, const real *params,
                          const pixel *x, const struct dense *dense, int B);
void dense_backward_pixels(struct network_workspace *workspace, pixel *dx, real *grads,
                           const real *params, real *dy, const real *y, const pixel *x,
                           const struct dense *dense, int B);

/* As the first two, with a weight (I, O) and a bias (O) that are not the parameters; grads get the
 * gradients with respect to them where the parameters' would be. */
void dense_forward_with(struct network_workspace *workspace, real *y, const real *weight,
                        const real *bias, const real *x, const struct dense *dense, int B);
void dense_backward_with(struct network_workspace *workspace, real *dx, real *grads,
                         const real *weight, real *dy, const real *y, const real *x,
                         const struct dense *dense, int B);

struct torso {
  struct dense layer[NETWORK_MAX_LAYERS];
  int num_layers;
  int outputs; /* of the last layer; I without layers */
};

struct torso_buffers {
  real *y[NETWORK_MAX_LAYERS];
  real *dy[NETWORK_MAX_LAYERS]; /* NULL without backward */
};

void torso_declare(struct network *network, struct torso *torso);
void torso_init(const struct network *network, const struct torso *torso, float *host,
                uint64_t seed);
/* The inputs, then the hidden layers. */
void torso_list(const struct torso *torso, struct network_layer_list *list);
void torso_allocate(struct network_workspace *workspace, struct torso_buffers *buffers,
                    const struct torso *torso);

/* From workspace->inputs to torso_output. */
void torso_forward(struct network_workspace *workspace, struct torso_buffers *buffers,
                   const real *params, const struct torso *torso, int B);
/* From torso_gradient, which the caller has filled, to the parameters' gradients and, where it is
 * wanted, the inputs'. */
void torso_backward(struct network_workspace *workspace, struct torso_buffers *buffers, real *grads,
                    const real *params, const struct torso *torso, int B);

/* (B, outputs): the last layer's output, or the inputs without layers. */
const real *torso_output(const struct network_workspace *workspace,
                         const struct torso_buffers *buffers, const struct torso *torso);
/* Where the gradient of that goes; NULL without layers, unless the inputs' is wanted. */
real *torso_gradient(const struct network_workspace *workspace, const struct torso_buffers *buffers,
                     const struct torso *torso);

/* Writes one parameter array: uniform in +-limit. */
void parameter_init_uniform(const struct network *network, int index, float *host, uint64_t seed,
                            double limit);

/* A parameter array inside a flat one. */
real *parameter_at(const struct network_workspace *workspace, real *flat, int index);
const real *parameter_at_const(const struct network_workspace *workspace, const real *flat,
                               int index);

#endif
