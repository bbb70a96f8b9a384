/* The convolutional torsos, from bytes to features: layers in a row, each reading what the one
 * before wrote. Private to learner/network. Images are (B, H, W, C). Thread: as in network.h.
 * Upstream: pixels.c. */
#ifndef ACORN_LEARNER_NETWORK_FEATURES_H
#define ACORN_LEARNER_NETWORK_FEATURES_H

#include "learner/network/layers.h"

enum { FEATURES_MAX_LAYERS = 16 };

/* A convolution; or the largest of each window; or a residual block, x + conv(relu(conv(relu(x)))),
 * both convolutions alike; or relu. */
enum feature_layer_kind { FEATURE_CONV, FEATURE_POOL, FEATURE_BLOCK, FEATURE_RELU };

struct feature_layer {
  enum feature_layer_kind kind;
  struct device_window window;
  enum activation activation;
  int weight[2], bias[2]; /* indices into the network's parameters; conv: the first, block: both */
  int numbers;            /* of one image that it writes */
};

struct features {
  struct feature_layer layer[FEATURES_MAX_LAYERS];
  int num_layers;
  int H, W, C; /* of what the last layer writes */
  int numbers; /* H * W * C */
};

struct features_buffers {
  pixel *image; /* (rows in hand, of the network's input) */
  struct {
    pixel *y;        /* what the layer writes */
    pixel *kept;     /* block: relu(conv(..)) */
    uint8_t *choice; /* pool */
  } layer[FEATURES_MAX_LAYERS];
  pixel *output;      /* (rows, numbers) */
  pixel *d_output;    /* the same, and the next: NULL without backward */
  pixel *gradient[3]; /* (rows in hand, of the largest layer) */
};

/* Layers are added one after the other. All tensors of `inputs` are images of one size
 * (images_split). */
void features_begin(struct features *features, const struct device_inputs *inputs);
void features_conv(struct network *network, struct features *features, int outputs, int size,
                   int stride, bool same, enum activation activation);
/* Above a convolution without activation. */
void features_pool(struct features *features, int size, int stride);
void features_block(struct network *network, struct features *features);
void features_relu(struct features *features);

/* Whether every layer has at least one place to write. */
bool features_fit(const struct features *features);

/* Weights normal with deviation gain / sqrt(what goes into a sum), biases 0. Those of the first
 * layer have a mean of 0 in each sum. */
void features_init(const struct network *network, const struct features *features, float *host,
                   uint64_t seed, double gain);
/* The images, then the layers. */
void features_list(const struct features *features, struct network_layer_list *list);
void features_allocate(struct network_workspace *workspace, struct features_buffers *buffers,
                       const struct features *features);

/* buffers->output from the inputs, images as those of features_begin. */
void features_forward(struct network_workspace *workspace, struct features_buffers *buffers,
                      const real *params, const struct features *features,
                      const struct device_inputs *inputs, int B);
/* Where the gradient of the output goes: the caller fills it, then calls backward, which uses it as
 * scratch. */
pixel *features_gradient(const struct features_buffers *buffers);
void features_backward(struct network_workspace *workspace, struct features_buffers *buffers,
                       real *grads, const real *params, const struct features *features, int B);

#endif
