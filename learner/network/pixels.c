/* Networks for images: convolutions, a hidden layer, beside it the rest of the observation and the
 * previous action and reward, an LSTM (or none), the head. impala_shallow, impala_deep: Espeholt et
 * al. 2018, figure 3, without the text. nature: Mnih et al. 2015. */
#include <math.h>
#include <string.h>

#include "common/base/check.h"
#include "learner/network/features.h"
#include "learner/network/head.h"
#include "learner/network/images.h"
#include "learner/network/observation.h"
#include "learner/network/recurrence.h"

enum { MAX_STACK = 16, MAX_LSTM = 1 << 16 };

struct pixels {
  struct features features;
  struct dense hidden;
  int extras; /* numbers beside the hidden layer's: what is no image; previous action, reward */
  struct recurrence core;
  bool has_memory;
};

struct buffers {
  struct features_buffers features;
  real *hidden; /* (rows, hidden) */
  real *extras; /* (rows, extras), NULL if there are none; and so `joined` */
  real *joined; /* (rows, hidden + extras): what the core reads */
  struct recurrence_buffers core;
  real *d_hidden, *d_joined; /* NULL without backward */
};

/* ---- create */

static enum status check(const struct network_config *config, struct error *error) {
  const struct device_inputs *in = &config->inputs;
  enum status status = images_check(in, config->network, error);
  if (status != STATUS_OK) return status;
  if (config->lstm_size < 0 || config->lstm_size > MAX_LSTM)
    return status_fail(error, STATUS_INVALID,
                       "the network: lstm size %d; it must be 0 (none) to %d", config->lstm_size,
                       MAX_LSTM);
  if (in->stack < 0 || in->stack > MAX_STACK)
    return status_fail(error, STATUS_INVALID, "the network: %d frames; there must be 1..%d",
                       in->stack, MAX_STACK);
  return STATUS_OK;
}

static int declare_features(struct network *network, struct features *features,
                            const struct device_inputs *images) {
  const char *name = network->config.network;
  features_begin(features, images);
  if (strcmp(name, "nature") == 0) {
    features_conv(network, features, 32, 8, 4, false, ACTIVATION_RELU);
    features_conv(network, features, 64, 4, 2, false, ACTIVATION_RELU);
    features_conv(network, features, 64, 3, 1, false, ACTIVATION_RELU);
    return 512;
  }
  if (strcmp(name, "impala_shallow") == 0) {
    features_conv(network, features, 16, 8, 4, false, ACTIVATION_RELU);
    features_conv(network, features, 32, 4, 2, false, ACTIVATION_RELU);
    return 256;
  }
  static const int channels[] = {16, 32, 32};
  for (int section = 0; section < 3; section++) {
    features_conv(network, features, channels[section], 3, 1, true, ACTIVATION_NONE);
    features_pool(features, 3, 2);
    features_block(network, features);
    features_block(network, features);
  }
  features_relu(features);
  return 256;
}

static void declare(struct network *network) {
  struct pixels *pixels = network->own = check_alloc(1, sizeof(*pixels));
  struct device_inputs images, rest;
  images_split(&images, &rest, &network->config.inputs);
  int hidden = declare_features(network, &pixels->features, &images);
  CHECK(features_fit(&pixels->features), "images of %d x %d", images.tensor[0].height,
        images.tensor[0].width);
  pixels->extras = device_inputs_size(&rest);
  pixels->hidden =
      dense_declare(network, "hidden", pixels->features.numbers, hidden, ACTIVATION_RELU);
  int width = hidden + pixels->extras;
  pixels->has_memory = network->config.lstm_size > 0;
  if (pixels->has_memory) {
    pixels->core = recurrence_declare(network, width, network->config.lstm_size);
    width = pixels->core.H;
  }
  head_declare(network, width);
}

/* A residual network's layers add up: theirs begin smaller. */
static void init(const struct network *network, float *host, uint64_t seed) {
  const struct pixels *pixels = network->own;
  bool deep = strcmp(network->config.network, "impala_deep") == 0;
  features_init(network, &pixels->features, host, seed, deep ? 1 : sqrt(2));
  dense_init(network, &pixels->hidden, host, seed, 0, pixels->hidden.outputs, sqrt(2));
  if (pixels->has_memory) recurrence_init(network, &pixels->core, host, seed);
}

static void list_layers(const struct network *network, struct network_layer_list *list) {
  const struct pixels *pixels = network->own;
  features_list(&pixels->features, list);
  dense_list(&pixels->hidden, 0, list);
  if (pixels->extras) layer_list_add(list, NETWORK_JOIN);
  if (pixels->has_memory) recurrence_list(&pixels->core, list);
}

static void allocate(struct network_workspace *workspace) {
  const struct pixels *pixels = workspace->network->own;
  struct buffers *own = workspace->own = check_alloc(1, sizeof(*own));
  int hidden = pixels->hidden.outputs, joined = hidden + pixels->extras;
  features_allocate(workspace, &own->features, &pixels->features);
  own->hidden = workspace_reals(workspace, hidden);
  if (pixels->extras) {
    own->extras = workspace_reals(workspace, pixels->extras);
    own->joined = workspace_reals(workspace, joined);
  }
  if (pixels->has_memory) recurrence_allocate(workspace, &own->core, &pixels->core);
  if (!workspace->backward) return;
  own->d_hidden = workspace_reals(workspace, hidden);
  if (pixels->extras) own->d_joined = workspace_reals(workspace, joined);
}

/* ---- forward, backward */

/* The hidden layer and what stands beside it, in one array of rows. */
static const real *join(struct network_workspace *workspace, const real *params,
                        const struct device_inputs *inputs, int B) {
  const struct pixels *pixels = workspace->network->own;
  struct buffers *own = workspace->own;
  struct device *device = workspace->device;
  if (!pixels->extras) return own->hidden;
  int hidden = pixels->hidden.outputs, extras = pixels->extras, joined = hidden + extras;
  struct device_inputs rest;
  images_split(NULL, &rest, inputs);
  device->ops->embed(device, own->extras, &rest, B);
  observation_normalize(workspace, own->extras, params, &rest, B);
  device->ops->copy_rows(device, own->joined, joined, own->hidden, hidden, B, hidden);
  device->ops->copy_rows(device, device_at(device, own->joined, (size_t)hidden), joined,
                         own->extras, extras, B, extras);
  return own->joined;
}

static void forward(struct network_workspace *workspace, real *state_out, const real *params,
                    const struct device_inputs *inputs, const real *state_in, int T, int N) {
  const struct pixels *pixels = workspace->network->own;
  struct buffers *own = workspace->own;
  struct device_inputs images;
  images_split(&images, NULL, inputs);
  observation_normalize_images(workspace, &images, params);
  features_forward(workspace, &own->features, params, &pixels->features, &images, T * N);
  dense_forward_pixels(workspace, own->hidden, params, own->features.output, &pixels->hidden,
                       T * N);
  const real *x = join(workspace, params, inputs, T * N);
  if (pixels->has_memory) {
    recurrence_forward(workspace, &own->core, state_out, params, x, &pixels->core, inputs, state_in,
                       T, N);
    x = own->core.h;
  }
  head_forward(workspace, params, x, T * N);
}

static void backward(struct network_workspace *workspace, real *grads, const real *params,
                     real *dhead, const struct device_inputs *inputs, int T, int N) {
  const struct pixels *pixels = workspace->network->own;
  struct buffers *own = workspace->own;
  struct device *device = workspace->device;
  const real *x = pixels->extras ? own->joined : own->hidden;
  real *dx = pixels->extras ? own->d_joined : own->d_hidden;
  if (pixels->has_memory) {
    head_backward(workspace, own->core.dh, grads, params, dhead, own->core.h, T * N);
    recurrence_backward(workspace, &own->core, dx, grads, params, x, &pixels->core, inputs, T, N);
  } else {
    head_backward(workspace, dx, grads, params, dhead, x, T * N);
  }
  int hidden = pixels->hidden.outputs;
  if (pixels->extras)
    device->ops->copy_rows(device, own->d_hidden, hidden, dx, hidden + pixels->extras, T * N,
                           hidden);
  dense_backward_pixels(workspace, features_gradient(&own->features), grads, params, own->d_hidden,
                        own->hidden, own->features.output, &pixels->hidden, T * N);
  features_backward(workspace, &own->features, grads, params, &pixels->features, T * N);
}

#define PIXELS(symbol, text)                                \
  const struct network_kind symbol = {.name = text,         \
                                      .embeds = true,       \
                                      .check = check,       \
                                      .declare = declare,   \
                                      .init = init,         \
                                      .list = list_layers,  \
                                      .allocate = allocate, \
                                      .forward = forward,   \
                                      .backward = backward}
PIXELS(kind_impala_shallow, "impala_shallow");
PIXELS(kind_impala_deep, "impala_deep");
PIXELS(kind_nature, "nature");
