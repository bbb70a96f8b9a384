#include "learner/network/features.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/base/check.h"
#include "common/base/random.h"

/* ---- declare */

void features_begin(struct features *features, const struct device_inputs *inputs) {
  int stack = inputs->stack > 1 ? inputs->stack : 1;
  *features = (struct features){.H = inputs->tensor[0].height,
                                .W = inputs->tensor[0].width,
                                .C = device_inputs_channels(inputs) * stack};
}

static struct feature_layer *add(struct features *features, enum feature_layer_kind kind,
                                 const struct device_window *window) {
  CHECK(features->num_layers < FEATURES_MAX_LAYERS, "more than %d layers", FEATURES_MAX_LAYERS);
  struct feature_layer *layer = &features->layer[features->num_layers++];
  *layer = (struct feature_layer){.kind = kind, .window = *window};
  features->H = device_window_rows(window);
  features->W = device_window_columns(window);
  features->C = window->O;
  layer->numbers = features->numbers = features->H * features->W * features->C;
  return layer;
}

/* A window that moves over what the last layer wrote. */
static struct device_window window_on(const struct features *features, int outputs, int size,
                                      int stride, bool same) {
  return (struct device_window){.H = features->H,
                                .W = features->W,
                                .C = features->C,
                                .O = outputs,
                                .size = size,
                                .stride = stride,
                                .same = same};
}

/* Declares <name>/w (size * size * C, O) and <name>/b (O) for convolution i of the layer. */
static void declare_weights(struct network *network, const struct features *features,
                            struct feature_layer *layer, int i) {
  const struct device_window *v = &layer->window;
  char name[32];
  const char *part = layer->kind == FEATURE_BLOCK ? i ? "b" : "a" : "";
  snprintf(name, sizeof(name), "conv%d%s/w", features->num_layers - 1, part);
  layer->weight[i] = network_declare(network, name, 2, v->size * v->size * v->C, v->O);
  snprintf(name, sizeof(name), "conv%d%s/b", features->num_layers - 1, part);
  layer->bias[i] = network_declare(network, name, 1, v->O, 1);
}

void features_conv(struct network *network, struct features *features, int outputs, int size,
                   int stride, bool same, enum activation activation) {
  struct device_window window = window_on(features, outputs, size, stride, same);
  struct feature_layer *layer = add(features, FEATURE_CONV, &window);
  layer->activation = activation;
  declare_weights(network, features, layer, 0);
}

void features_pool(struct features *features, int size, int stride) {
  const struct feature_layer *below = &features->layer[features->num_layers - 1];
  CHECK(features->num_layers > 0 && below->kind == FEATURE_CONV && !below->activation,
        "pooling of what is no plain convolution");
  struct device_window window = window_on(features, features->C, size, stride, true);
  add(features, FEATURE_POOL, &window);
}

void features_block(struct network *network, struct features *features) {
  struct device_window window = window_on(features, features->C, 3, 1, true);
  struct feature_layer *layer = add(features, FEATURE_BLOCK, &window);
  declare_weights(network, features, layer, 0);
  declare_weights(network, features, layer, 1);
}

void features_relu(struct features *features) {
  struct device_window window = window_on(features, features->C, 1, 1, true);
  add(features, FEATURE_RELU, &window);
}

bool features_fit(const struct features *features) {
  for (int l = 0; l < features->num_layers; l++)
    if (features->layer[l].numbers == 0) return false;
  return true;
}

static int num_convolutions(const struct feature_layer *layer) {
  return layer->kind == FEATURE_CONV ? 1 : layer->kind == FEATURE_BLOCK ? 2 : 0;
}

/* Takes their mean from what goes into each sum: a plain background, which is most of many
 * pictures, is 0 then. Otherwise it decides for every unit behind it whether that is ever above 0,
 * and what moves in front of it changes little. */
static void ignore_background(const struct network *network, const struct dense *dense,
                              float *host) {
  float *w = host + network->parameter[dense->weight].offset;
  for (int o = 0; o < dense->outputs; o++) {
    double sum = 0;
    for (int i = 0; i < dense->inputs; i++) sum += (double)w[i * dense->outputs + o];
    for (int i = 0; i < dense->inputs; i++)
      w[i * dense->outputs + o] -= (float)(sum / dense->inputs);
  }
}

void features_init(const struct network *network, const struct features *features, float *host,
                   uint64_t seed, double gain) {
  for (int l = 0; l < features->num_layers; l++) {
    const struct feature_layer *layer = &features->layer[l];
    const struct device_window *v = &layer->window;
    for (int i = 0; i < num_convolutions(layer); i++) {
      struct dense as_dense = {.weight = layer->weight[i],
                               .bias = layer->bias[i],
                               .inputs = v->size * v->size * v->C,
                               .outputs = v->O};
      dense_init(network, &as_dense, host, seed, 0, v->O, gain);
      if (l == 0) ignore_background(network, &as_dense, host);
    }
  }
}

void features_list(const struct features *features, struct network_layer_list *list) {
  static const enum network_layer_kind kinds[] = {[FEATURE_CONV] = NETWORK_CONV,
                                                  [FEATURE_POOL] = NETWORK_POOL,
                                                  [FEATURE_BLOCK] = NETWORK_BLOCK,
                                                  [FEATURE_RELU] = NETWORK_RELU};
  layer_list_add(list, NETWORK_IMAGES);
  for (int l = 0; l < features->num_layers; l++) {
    const struct feature_layer *from = &features->layer[l];
    struct network_layer *layer = layer_list_add(list, kinds[from->kind]);
    layer->activation = from->activation;
    layer->window = from->window;
    memcpy(layer->weight, from->weight, sizeof(layer->weight));
    memcpy(layer->bias, from->bias, sizeof(layer->bias));
  }
}

/* ---- buffers */

static int image_numbers(const struct features *features) {
  const struct device_window *first = &features->layer[0].window;
  return first->H * first->W * first->C;
}

static int largest(const struct features *features) {
  int numbers = 0;
  for (int l = 0; l < features->num_layers; l++)
    if (features->layer[l].numbers > numbers) numbers = features->layer[l].numbers;
  return numbers;
}

/* Images that go through all layers together, forwards and backwards: at most as many as the device
 * likes. */
static int images_together(const struct network_workspace *workspace, int rows) {
  int images = workspace->device->ops->images;
  return rows < images ? rows : images;
}

/* Without backward the buffers are for those only. */
static int rows_kept(const struct network_workspace *workspace) {
  return workspace->backward ? workspace->rows : images_together(workspace, workspace->rows);
}

static pixel *pixels(struct network_workspace *workspace, int rows, int numbers) {
  size_t count = (size_t)rows * (size_t)numbers;
  return workspace_memory(workspace, count * workspace->device->ops->pixel_bytes);
}

static pixel *room(struct network_workspace *workspace, int numbers) {
  return pixels(workspace, rows_kept(workspace), numbers);
}

void features_allocate(struct network_workspace *workspace, struct features_buffers *buffers,
                       const struct features *features) {
  buffers->image = room(workspace, image_numbers(features));
  for (int l = 0; l < features->num_layers; l++) {
    const struct feature_layer *layer = &features->layer[l];
    bool last = l == features->num_layers - 1;
    buffers->layer[l].y =
        pixels(workspace, last ? workspace->rows : rows_kept(workspace), layer->numbers);
    if (last) buffers->output = buffers->layer[l].y;
    if (layer->kind == FEATURE_POOL)
      buffers->layer[l].choice =
          workspace_memory(workspace, (size_t)rows_kept(workspace) * (size_t)layer->numbers);
    if (layer->kind != FEATURE_BLOCK) continue;
    buffers->layer[l].kept = room(workspace, layer->numbers);
  }
  if (!workspace->backward) return;
  buffers->d_output = pixels(workspace, workspace->rows, features->numbers);
  int together = images_together(workspace, workspace->rows);
  for (int i = 0; i < 3; i++) buffers->gradient[i] = pixels(workspace, together, largest(features));
}

/* ---- forward */

struct convolution {
  const real *w, *b;
};

static struct convolution convolution_of(const struct network_workspace *workspace,
                                         const real *params, const struct feature_layer *layer,
                                         int i) {
  return (struct convolution){parameter_at_const(workspace, params, layer->weight[i]),
                              parameter_at_const(workspace, params, layer->bias[i])};
}

/* Row `row` of an array with so many numbers in each. */
static pixel *row_of(const struct network_workspace *workspace, pixel *array, int row,
                     int numbers) {
  return pixel_at(workspace->device, array, (size_t)row * (size_t)numbers);
}

static void block_forward(struct network_workspace *workspace, pixel *y, pixel *kept,
                          const real *params, const pixel *x, const struct feature_layer *layer,
                          int n) {
  struct device *device = workspace->device;
  struct convolution first = convolution_of(workspace, params, layer, 0);
  struct convolution second = convolution_of(workspace, params, layer, 1);
  device->ops->conv_forward(device, kept, x, first.w, first.b, NULL, ACTIVATION_RELU, true,
                            &layer->window, n);
  device->ops->conv_forward(device, y, kept, second.w, second.b, x, ACTIVATION_NONE, false,
                            &layer->window, n);
}

/* Layer l over n images; what it writes begins at row `row` of its buffers, y in its own place. */
static void layer_forward(struct network_workspace *workspace, struct features_buffers *buffers,
                          pixel *y, const real *params, const pixel *x,
                          const struct features *features, int l, int row, int n) {
  struct device *device = workspace->device;
  const struct feature_layer *layer = &features->layer[l];
  size_t start = (size_t)row * (size_t)layer->numbers;
  switch (layer->kind) {
    case FEATURE_CONV: {
      struct convolution conv = convolution_of(workspace, params, layer, 0);
      device->ops->conv_forward(device, y, x, conv.w, conv.b, NULL, layer->activation, false,
                                &layer->window, n);
      break;
    }
    case FEATURE_POOL:
      device->ops->pool_forward(device, y, buffers->layer[l].choice + start, x, &layer->window, n);
      break;
    case FEATURE_BLOCK:
      block_forward(workspace, y, pixel_at(device, buffers->layer[l].kept, start), params, x, layer,
                    n);
      break;
    case FEATURE_RELU:
      device->ops->relu(device, y, x, (size_t)n * (size_t)layer->numbers);
      break;
  }
}

/* The inputs of rows from `row` on. */
static struct device_inputs inputs_from(const struct device_inputs *inputs, int row) {
  struct device_inputs from = *inputs;
  from.observation += (size_t)row * inputs->row_stride;
  if (inputs->frame) from.frame += (size_t)row * (size_t)(inputs->stack - 1);
  return from;
}

void features_forward(struct network_workspace *workspace, struct features_buffers *buffers,
                      const real *params, const struct features *features,
                      const struct device_inputs *inputs, int B) {
  struct device *device = workspace->device;
  for (int b = 0, n; b < B; b += n) {
    n = images_together(workspace, B - b);
    int row = workspace->backward ? b : 0;
    struct device_inputs from = inputs_from(inputs, b);
    pixel *x = row_of(workspace, buffers->image, row, image_numbers(features));
    device->ops->image(device, x, &from, n);
    for (int l = 0; l < features->num_layers; l++) {
      bool last = l == features->num_layers - 1;
      pixel *y = row_of(workspace, buffers->layer[l].y, last ? b : row, features->layer[l].numbers);
      layer_forward(workspace, buffers, y, params, x, features, l, row, n);
      x = y;
    }
  }
}

/* ---- backward */

pixel *features_gradient(const struct features_buffers *buffers) {
  return buffers->d_output;
}

/* Where a backward pass is: what it writes to, and the images in hand. */
struct pass {
  real *grads;
  const real *params;
  pixel *dy;      /* the gradient of what the layer in hand wrote */
  pixel *room[3]; /* one of them may be dy */
  int row, n;
};

/* The first room that neither dy nor `other` is in. */
static pixel *free_room(const struct pass *p, const pixel *other) {
  int i = 0;
  while (p->room[i] == p->dy || p->room[i] == other) i++;
  return p->room[i];
}
static void conv_backward(struct network_workspace *workspace, struct pass *p, pixel *dx, pixel *dy,
                          const pixel *y, const pixel *x, const struct feature_layer *layer, int i,
                          enum activation act, bool open) {
  struct device *device = workspace->device;
  struct convolution conv = convolution_of(workspace, p->params, layer, i);
  device->ops->conv_backward(device, dx, parameter_at(workspace, p->grads, layer->weight[i]),
                             parameter_at(workspace, p->grads, layer->bias[i]), dy, y, x, conv.w,
                             act, open, &layer->window, p->n, p->row > 0);
}

/* The gradient in place: what goes through the convolutions is added to what goes round them. */
static void block_backward(struct network_workspace *workspace, struct features_buffers *buffers,
                           struct pass *p, const pixel *y, const pixel *x,
                           const struct feature_layer *layer, int l) {
  pixel *kept = row_of(workspace, buffers->layer[l].kept, p->row, layer->numbers);
  pixel *d_kept = free_room(p, NULL);
  conv_backward(workspace, p, d_kept, p->dy, y, kept, layer, 1, ACTIVATION_NONE, false);
  conv_backward(workspace, p, p->dy, d_kept, kept, x, layer, 0, ACTIVATION_RELU, true);
}

/* What layer l read. */
static pixel *input_of(const struct network_workspace *workspace,
                       const struct features_buffers *buffers, const struct pass *p,
                       const struct features *features, int l) {
  return l > 0 ? row_of(workspace, buffers->layer[l - 1].y, p->row, features->layer[l - 1].numbers)
               : row_of(workspace, buffers->image, p->row, image_numbers(features));
}

/* Pooling, layer l, and the convolution below it. */
static void pool_backward(struct network_workspace *workspace,
                          const struct features_buffers *buffers, struct pass *p,
                          const struct features *features, int l) {
  struct device *device = workspace->device;
  const struct feature_layer *pool = &features->layer[l], *layer = &features->layer[l - 1];
  struct convolution conv = convolution_of(workspace, p->params, layer, 0);
  pixel *dx = free_room(p, NULL), *between = free_room(p, dx);
  device->ops->conv_pool_backward(device, l > 1 ? dx : NULL,
                                  parameter_at(workspace, p->grads, layer->weight[0]),
                                  parameter_at(workspace, p->grads, layer->bias[0]), between, p->dy,
                                  buffers->layer[l].choice + (size_t)p->row * (size_t)pool->numbers,
                                  input_of(workspace, buffers, p, features, l - 1), conv.w,
                                  &layer->window, &pool->window, p->n, p->row > 0);
  p->dy = dx;
}

/* From the gradient of what layer l wrote to that of what it read, both in p->dy; pooling with the
 * layer below it. */
static void layer_backward(struct network_workspace *workspace, struct features_buffers *buffers,
                           struct pass *p, const struct features *features, int l) {
  struct device *device = workspace->device;
  const struct feature_layer *layer = &features->layer[l];
  pixel *y = row_of(workspace, buffers->layer[l].y, p->row, layer->numbers);
  pixel *x = input_of(workspace, buffers, p, features, l);
  pixel *dy = p->dy, *dx = free_room(p, NULL);
  switch (layer->kind) {
    case FEATURE_BLOCK:
      block_backward(workspace, buffers, p, y, x, layer, l);
      return;
    case FEATURE_CONV:
      conv_backward(workspace, p, l > 0 ? dx : NULL, dy, y, x, layer, 0, layer->activation, false);
      break;
    case FEATURE_POOL:
      pool_backward(workspace, buffers, p, features, l);
      return;
    case FEATURE_RELU:
      device->ops->relu_backward(device, dx, dy, y, (size_t)p->n * (size_t)layer->numbers);
      break;
  }
  p->dy = dx;
}

void features_backward(struct network_workspace *workspace, struct features_buffers *buffers,
                       real *grads, const real *params, const struct features *features, int B) {
  struct pass p = {.grads = grads,
                   .params = params,
                   .room = {buffers->gradient[0], buffers->gradient[1], buffers->gradient[2]}};
  for (; p.row < B; p.row += p.n) {
    p.n = images_together(workspace, B - p.row);
    p.dy = row_of(workspace, buffers->d_output, p.row, features->numbers);
    for (int l = features->num_layers - 1; l >= 0;
         l -= features->layer[l].kind == FEATURE_POOL ? 2 : 1)
      layer_backward(workspace, buffers, &p, features, l);
  }
}
