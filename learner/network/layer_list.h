/* The layers of a network in the order in which they are computed, as data: for an export, which
 * writes the same computation in another form. No forward pass reads it.
 * Upstream: kind.h, deploy/inspect/export/layers_graph.c. Thread: any (plain data). */
#ifndef ACORN_LEARNER_NETWORK_LAYER_LIST_H
#define ACORN_LEARNER_NETWORK_LAYER_LIST_H

#include "learner/network/network.h"

/* What a layer makes of x, the output of the one before it. Images are (B, H, W, C). */
enum network_layer_kind {
  NETWORK_INPUTS, /* x (B, I): the inputs as numbers, vectors normalised where the network does */
  NETWORK_IMAGES, /* x: the images of all frames */
  NETWORK_DENSE,  /* x (B, O) = activation(x w + b), of an image pixel after pixel */
  NETWORK_CONV,   /* as device_ops.conv_forward without residual */
  NETWORK_POOL,   /* as device_ops.pool_forward */
  NETWORK_BLOCK,  /* x += conv1(relu(conv0(relu(x)))) */
  NETWORK_RELU,
  NETWORK_JOIN, /* x (B, O): x, then what NETWORK_INPUTS gives of the inputs that are no images */
  NETWORK_LSTM  /* as device_ops.lstm_forward over one step, x (B, H) = h */
};

struct network_layer {
  enum network_layer_kind kind;
  int stream; /* 0: of the body; s > 0: of stream s of the head, the first of which reads what the
                 body gives. The head's outputs are those of its streams, one after the other */
  int weight[2], bias[2];     /* indices of network_parameters. NETWORK_BLOCK: of both convolutions;
                             NETWORK_LSTM: w and wh, b; the others: the first */
  enum activation activation; /* NETWORK_DENSE, NETWORK_CONV */
  struct device_window window; /* NETWORK_CONV, NETWORK_POOL, NETWORK_BLOCK */
};

enum { NETWORK_MAX_LISTED = 32 };

struct network_layer_list {
  struct network_layer layer[NETWORK_MAX_LISTED];
  int count;
};

/* Noisy layers are listed without their noise. count is 0 for a network without parameters. */
void network_list_layers(const struct network *network, struct network_layer_list *list);

/* Adds a layer, all else 0. Private to learner/network. */
struct network_layer *layer_list_add(struct network_layer_list *list, enum network_layer_kind kind);

#endif
