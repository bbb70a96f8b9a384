/* The layers of a network, one after the other, as learner/network computes them. */
#include <string.h>

#include "common/base/check.h"
#include "deploy/inspect/export/policy_graph.h"
#include "learner/network/layer_list.h"

/* What the layers so far give. */
struct place {
  const char *x;
  bool is_image; /* (batch, channels, height, width); false: (batch, numbers) */
};

static const char *parameter_as(struct policy_graph *graph, int index,
                                const struct onnx_shape *shape) {
  int count;
  const struct network_parameter *from = &network_parameters(graph->run->network, &count)[index];
  const char *value;
  void *to = onnx_constant(&value, graph->onnx, from->name, ONNX_FLOAT, shape);
  memcpy(to, graph->params + from->offset, from->count * sizeof(float));
  return value;
}

const char *policy_graph_parameter(struct policy_graph *graph, int index) {
  int count;
  const struct network_parameter *from = &network_parameters(graph->run->network, &count)[index];
  struct onnx_shape shape = {from->rank, {from->shape[0], from->shape[1]}};
  return parameter_as(graph, index, &shape);
}

const float *policy_graph_find(const struct policy_graph *graph, const char *name) {
  int count;
  const struct network_parameter *parameter = network_parameters(graph->run->network, &count);
  for (int i = 0; i < count; i++)
    if (strcmp(parameter[i].name, name) == 0) return graph->params + parameter[i].offset;
  return NULL;
}

static const char *activated(struct policy_graph *graph, const char *x, enum activation act) {
  if (act == ACTIVATION_NONE) return x;
  return onnx_1(graph->onnx, act == ACTIVATION_RELU ? "Relu" : "Tanh", x);
}

/* ---- images */

/* From (size, size, C, O), which is ours, to ONNX's (O, C, size, size). */
static const char *kernel(struct policy_graph *graph, const struct network_layer *layer, int i) {
  const struct device_window *v = &layer->window;
  int count;
  const struct network_parameter *from =
      &network_parameters(graph->run->network, &count)[layer->weight[i]];
  const float *w = graph->params + from->offset;
  const char *value;
  int places = v->size * v->size;
  float *to = onnx_constant(&value, graph->onnx, from->name, ONNX_FLOAT,
                            &ONNX_SHAPE(v->O, v->C, v->size, v->size));
  for (int o = 0; o < v->O; o++)
    for (int c = 0; c < v->C; c++)
      for (int place = 0; place < places; place++) *to++ = w[(place * v->C + c) * v->O + o];
  return value;
}

/* Attributes of the newest operator. */
static void move_window(struct policy_graph *graph, const struct device_window *v) {
  const int64_t size[] = {v->size, v->size}, stride[] = {v->stride, v->stride};
  const int64_t zeros[] = {device_window_before(v, v->H), device_window_before(v, v->W),
                           device_window_after(v, v->H), device_window_after(v, v->W)};
  onnx_attributes(graph->onnx, "kernel_shape", size, 2);
  onnx_attributes(graph->onnx, "strides", stride, 2);
  onnx_attributes(graph->onnx, "pads", zeros, 4);
}

static const char *convolved(struct policy_graph *graph, const char *x,
                             const struct network_layer *layer, int i) {
  const char *w = kernel(graph, layer, i), *b = policy_graph_parameter(graph, layer->bias[i]);
  const char *y = onnx_3(graph->onnx, "Conv", x, w, b);
  move_window(graph, &layer->window);
  return y;
}

static const char *block(struct policy_graph *graph, const char *x,
                         const struct network_layer *layer) {
  const char *y = convolved(graph, onnx_1(graph->onnx, "Relu", x), layer, 0);
  y = convolved(graph, onnx_1(graph->onnx, "Relu", y), layer, 1);
  return onnx_2(graph->onnx, "Add", x, y);
}

static const char *pooled(struct policy_graph *graph, const char *x,
                          const struct network_layer *layer) {
  const char *y = onnx_1(graph->onnx, "MaxPool", x);
  move_window(graph, &layer->window);
  return y;
}

/* Pixel after pixel. */
static const char *flat(struct policy_graph *graph, const struct place *at) {
  if (!at->is_image) return at->x;
  const char *x = onnx_1(graph->onnx, "Transpose", at->x);
  onnx_attributes(graph->onnx, "perm", (const int64_t[]){0, 2, 3, 1}, 4);
  x = onnx_1(graph->onnx, "Flatten", x);
  onnx_attribute(graph->onnx, "axis", 1);
  return x;
}

/* ---- numbers */

static const char *dense(struct policy_graph *graph, const char *x,
                         const struct network_layer *layer) {
  const char *w = policy_graph_parameter(graph, layer->weight[0]);
  const char *b = policy_graph_parameter(graph, layer->bias[0]);
  return activated(graph, onnx_3(graph->onnx, "Gemm", x, w, b), layer->activation);
}

static const char *gate(struct policy_graph *graph, const char *gates, int number, int H) {
  const char *x = onnx_columns(graph->onnx, gates, number * H, H);
  return onnx_1(graph->onnx, number == 2 ? "Tanh" : "Sigmoid", x);
}

/* Gates in our order, i, f, g, o; 1 is added to the forget gate. */
static const char *lstm(struct policy_graph *graph, const char *x,
                        const struct network_layer *layer) {
  struct onnx_graph *onnx = graph->onnx;
  int H = network_state_size(graph->run->network) / 2;
  const char *state = policy_graph_of_episode(graph, graph->state_in);
  const char *h = onnx_columns(onnx, state, 0, H), *c = onnx_columns(onnx, state, H, H);
  const char *recurrent =
      onnx_2(onnx, "MatMul", h, policy_graph_parameter(graph, layer->weight[1]));
  const char *gates = onnx_2(onnx, "Add", dense(graph, x, layer), recurrent);
  const char *ones;
  float *one = onnx_constant(&ones, onnx, NULL, ONNX_FLOAT, &ONNX_SHAPE(4 * H));
  for (int j = H; j < 2 * H; j++) one[j] = 1;
  gates = onnx_2(onnx, "Add", gates, ones);
  const char *kept = onnx_2(onnx, "Mul", gate(graph, gates, 1, H), c);
  const char *entered = onnx_2(onnx, "Mul", gate(graph, gates, 0, H), gate(graph, gates, 2, H));
  c = onnx_2(onnx, "Add", kept, entered);
  h = onnx_2(onnx, "Mul", gate(graph, gates, 3, H), onnx_1(onnx, "Tanh", c));
  graph->state_out = onnx_concat(onnx, (const char *const[]){h, c}, 2, 1);
  return h;
}

/* ---- all */

static struct place after(struct policy_graph *graph, const struct place *at,
                          const struct network_layer *layer) {
  const char *pair[2];
  switch (layer->kind) {
    case NETWORK_INPUTS:
      return (struct place){policy_graph_numbers(graph, false), false};
    case NETWORK_IMAGES:
      return (struct place){policy_graph_images(graph), true};
    case NETWORK_CONV:
      return (struct place){activated(graph, convolved(graph, at->x, layer, 0), layer->activation),
                            true};
    case NETWORK_POOL:
      return (struct place){pooled(graph, at->x, layer), true};
    case NETWORK_BLOCK:
      return (struct place){block(graph, at->x, layer), true};
    case NETWORK_RELU:
      return (struct place){onnx_1(graph->onnx, "Relu", at->x), true};
    case NETWORK_DENSE:
      return (struct place){dense(graph, flat(graph, at), layer), false};
    case NETWORK_JOIN:
      pair[0] = at->x, pair[1] = policy_graph_numbers(graph, true);
      return (struct place){onnx_concat(graph->onnx, pair, 2, 1), false};
    case NETWORK_LSTM:
      return (struct place){lstm(graph, at->x, layer), false};
  }
  CHECK(false, "a layer of kind %d", layer->kind);
}

enum status policy_graph_layers(struct policy_graph *graph, struct error *error) {
  struct network_layer_list list;
  struct place body = {0}, stream[NETWORK_MAX_LISTED];
  const char *output[NETWORK_MAX_LISTED];
  int num_streams = 0;
  network_list_layers(graph->run->network, &list);
  for (int l = 0; l < list.count; l++) {
    const struct network_layer *layer = &list.layer[l];
    int s = layer->stream;
    if (s == 0) body = after(graph, &body, layer);
    if (s > num_streams) stream[s] = body, num_streams = s;
    if (s > 0) stream[s] = after(graph, &stream[s], layer), output[s - 1] = stream[s].x;
  }
  if (num_streams == 0)
    return status_fail(error, STATUS_INVALID,
                       "network %s has no layers that could be exported: export a run of another "
                       "network",
                       graph->run->options->network);
  graph->head = onnx_concat(graph->onnx, output, num_streams, 1);
  return STATUS_OK;
}
