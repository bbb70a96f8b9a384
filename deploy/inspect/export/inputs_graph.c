/* What a network reads of the inputs: as device_ops.embed and device_ops.image do, and
 * learner/network/observation.c. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "deploy/inspect/export/policy_graph.h"
#include "learner/learn/policy.h"
#include "learner/network/images.h"

/* Names that are not an observation's. Those of operators and parameters have a slash. */
static const char *const taken[] = {
    "action_mask", "reset", "previous_action", "previous_reward", "state_in", "action",
    "logits",      "mean",  "log_std",         "value",           "q",        "state_out"};

static bool is_taken(const char *name) {
  for (size_t i = 0; i < sizeof(taken) / sizeof(taken[0]); i++)
    if (strcmp(taken[i], name) == 0) return true;
  return strchr(name, '/') != NULL;
}

static int stack_of(const struct policy_graph *graph, int index) {
  const struct device_inputs *in = &graph->run->inputs;
  return images_has(in, index) && in->stack > 1 ? in->stack : 1;
}

/* ---- inputs of the graph */

/* Tensor `from` of the space, which is number `index` of what the network reads. */
static void add_tensor(struct policy_graph *graph, int index, const struct space_tensor *from) {
  static const enum onnx_type types[] = {
      [DTYPE_UINT8] = ONNX_UINT8, [DTYPE_INT32] = ONNX_INT32, [DTYPE_FLOAT32] = ONNX_FLOAT};
  char name[2 * SPACE_NAME_BYTES], about[96] = "part of the observation";
  int stack = stack_of(graph, index);
  struct onnx_shape shape = ONNX_SHAPE(ONNX_BATCH);
  snprintf(name, sizeof(name), "%s%s", is_taken(from->name) ? "observation_" : "", from->name);
  if (stack > 1) {
    snprintf(about, sizeof(about), "the last %d frames, the newest first; zeros before an episode",
             stack);
    shape.dim[shape.rank++] = stack;
  }
  for (int i = 0; i < from->rank; i++) shape.dim[shape.rank++] = from->shape[i];
  graph->tensor[index] = onnx_graph_input(graph->onnx, name, about, types[from->dtype], &shape);
}

/* One that is not given allows every action. */
static void add_mask(struct policy_graph *graph) {
  int A = graph->run->inputs.discrete;
  const char *value;
  graph->mask = onnx_graph_input(graph->onnx, "action_mask",
                                 "1 for each action that may be chosen, 0 for the others; optional",
                                 ONNX_UINT8, &ONNX_SHAPE(ONNX_ONE_OR_BATCH, A));
  memset(onnx_constant(&value, graph->onnx, graph->mask, ONNX_UINT8, &ONNX_SHAPE(1, A)), 1,
         (size_t)A);
}

static void add_previous_action(struct policy_graph *graph) {
  const struct space *space = &graph->run->space;
  bool squashed = graph->run->policy == &policy_squashed_normal;
  const char *about = squashed ? "of the step before, as drawn: tanh of the greedy policy's `mean`"
                      : space->box ? "of the step before, as drawn: `mean` of the greedy policy"
                                   : "`action` of the step before";
  struct onnx_shape shape = ONNX_SHAPE(ONNX_BATCH);
  if (space->box) shape.dim[shape.rank++] = space->box;
  if (space->choices.count) shape.dim[shape.rank++] = space->choices.count;
  graph->previous_action = onnx_graph_input(graph->onnx, "previous_action", about,
                                            space->box ? ONNX_FLOAT : ONNX_INT64, &shape);
}

void policy_graph_inputs(struct policy_graph *graph) {
  const struct device_inputs *in = &graph->run->inputs;
  const struct space *space = &graph->run->space;
  const struct onnx_shape rows = ONNX_SHAPE(ONNX_BATCH);
  int S = network_state_size(graph->run->network), mask = space_mask(space);
  for (int i = 0, k = 0; i < space->num_tensors; i++)
    if (i != mask) add_tensor(graph, k++, &space->tensor[i]);
  if (in->masked) add_mask(graph);
  if (in->use_previous_action) add_previous_action(graph);
  if (in->use_reward)
    graph->previous_reward =
        onnx_graph_input(graph->onnx, "previous_reward", "of the step before", ONNX_FLOAT, &rows);
  if (S > 0)
    graph->state_in = onnx_graph_input(graph->onnx, "state_in", "`state_out` of the step before",
                                       ONNX_FLOAT, &ONNX_SHAPE(ONNX_BATCH, S));
  if (S == 0 && !in->use_previous_action && !in->use_reward) return;
  const char *reset = onnx_graph_input(graph->onnx, "reset",
                                       "an episode begins: what is of the step before is not read",
                                       ONNX_BOOL, &rows);
  graph->reset = onnx_reshape(graph->onnx, reset, &ONNX_SHAPE(0, 1));
}

const char *policy_graph_of_episode(struct policy_graph *graph, const char *x) {
  return onnx_3(graph->onnx, "Where", graph->reset, onnx_scalar(graph->onnx, 0), x);
}

/* ---- numbers */

/* Tensor `index` as floats: bytes between 0 and 1. */
static const char *as_floats(struct policy_graph *graph, int index) {
  enum dtype dtype = graph->run->inputs.tensor[index].dtype;
  const char *x = graph->tensor[index];
  if (dtype != DTYPE_FLOAT32) x = onnx_cast(graph->onnx, x, ONNX_FLOAT);
  return dtype == DTYPE_UINT8 ? onnx_2(graph->onnx, "Div", x, onnx_scalar(graph->onnx, 255)) : x;
}

/* Where statistics of a tensor are: which of them, from number `from` on; what clips. */
struct statistics_of {
  const char *mean, *variance;
  int from, limit;
};

/* `count` numbers of a row, whose last dimensions are `shape`. */
static const char *normalize(struct policy_graph *graph, const char *x,
                             const struct statistics_of *of, const struct onnx_shape *shape,
                             int count) {
  struct onnx_graph *onnx = graph->onnx;
  const float *mean = policy_graph_find(graph, of->mean) + of->from;
  const float *variance = policy_graph_find(graph, of->variance) + of->from;
  const char *means, *deviations;
  float *to = onnx_constant(&means, onnx, NULL, ONNX_FLOAT, shape);
  memcpy(to, mean, (size_t)count * sizeof(*to));
  to = onnx_constant(&deviations, onnx, NULL, ONNX_FLOAT, shape);
  for (int i = 0; i < count; i++) to[i] = sqrtf(variance[i] + LEAST_VARIANCE);
  const char *distance = onnx_2(onnx, "Sub", x, means);
  return onnx_3(onnx, "Clip", onnx_2(onnx, "Div", distance, deviations),
                onnx_scalar(onnx, (float)-of->limit), onnx_scalar(onnx, (float)of->limit));
}

/* One-hot, for each of several choices: whether number i of a row is the action of its choice. */
static const char *one_hot(struct policy_graph *graph) {
  struct onnx_graph *onnx = graph->onnx;
  const struct space *space = &graph->run->space;
  const char *choices, *actions;
  int64_t *choice = onnx_constant(&choices, onnx, NULL, ONNX_INT64, &ONNX_SHAPE(space->discrete));
  int64_t *action = onnx_constant(&actions, onnx, NULL, ONNX_INT64, &ONNX_SHAPE(space->discrete));
  for (int c = 0; c < space_num_choices(&space->choices); c++)
    for (int a = 0; a < space_among(&space->choices, c, space->discrete); a++)
      *choice++ = c, *action++ = a;
  const int64_t count = space_num_choices(&space->choices);
  const char *rows = onnx_reshape(onnx, graph->previous_action, &ONNX_SHAPE(-1, count));
  const char *chosen = onnx_2(onnx, "Gather", rows, choices);
  onnx_attribute(onnx, "axis", 1);
  return onnx_cast(onnx, onnx_2(onnx, "Equal", chosen, actions), ONNX_FLOAT);
}

static const char *reward(struct policy_graph *graph) {
  struct onnx_graph *onnx = graph->onnx;
  const char *x = onnx_reshape(onnx, graph->previous_reward, &ONNX_SHAPE(0, 1));
  if (!graph->run->inputs.raw_reward)
    x = onnx_3(onnx, "Clip", x, onnx_scalar(onnx, -1), onnx_scalar(onnx, 1));
  return policy_graph_of_episode(graph, x);
}

const char *policy_graph_numbers(struct policy_graph *graph, bool without_images) {
  const struct device_inputs *in = &graph->run->inputs;
  const char *part[SPACE_MAX_TENSORS + 2];
  int count = 0, from = 0;
  bool normalizes = policy_graph_find(graph, "observation/mean") != NULL;
  for (int k = 0; k < in->num_tensors; k++) {
    if (without_images && images_has(in, k)) continue;
    int size = in->tensor[k].count;
    const char *x = onnx_reshape(graph->onnx, as_floats(graph, k), &ONNX_SHAPE(-1, size));
    if (normalizes && network_normalizes(in, k)) {
      const struct statistics_of of = {"observation/mean", "observation/variance", from,
                                       NETWORK_OBSERVATION_LIMIT};
      x = normalize(graph, x, &of, &ONNX_SHAPE(size), size);
      from += size;
    }
    part[count++] = x;
  }
  if (in->use_previous_action)
    part[count++] =
        policy_graph_of_episode(graph, in->box ? graph->previous_action : one_hot(graph));
  if (in->use_reward) part[count++] = reward(graph);
  return onnx_concat(graph->onnx, part, count, 1);
}

/* ---- images */

/* The largest number of each frame (batch, stack) of tensor `index`, without its sign. */
static const char *largest_of_frames(struct policy_graph *graph, int index) {
  struct onnx_graph *onnx = graph->onnx;
  int stack = stack_of(graph, index), count = graph->run->inputs.tensor[index].count;
  const char *x = onnx_reshape(onnx, as_floats(graph, index), &ONNX_SHAPE(0, stack, count));
  const char *largest = onnx_1(onnx, "ReduceMax", onnx_1(onnx, "Abs", x));
  onnx_attributes(onnx, "axes", (const int64_t[]){2}, 1);
  onnx_attribute(onnx, "keepdims", 0);
  return largest;
}

/* Whether frames are of the episode (batch, stack, 1, 1, 1, 1): the newest is, others are unless
 * they and all older ones are zeros in all images. */
static const char *frames_of_episode(struct policy_graph *graph, int stack) {
  struct onnx_graph *onnx = graph->onnx;
  const struct device_inputs *in = &graph->run->inputs;
  const char *newest, *axis, *sum;
  float *to = onnx_constant(&newest, onnx, NULL, ONNX_FLOAT, &ONNX_SHAPE(1, stack));
  to[0] = 1;
  sum = newest;
  for (int k = 0; k < in->num_tensors; k++)
    if (images_has(in, k)) sum = onnx_2(onnx, "Add", sum, largest_of_frames(graph, k));
  *(int64_t *)onnx_constant(&axis, onnx, NULL, ONNX_INT64, &(struct onnx_shape){.rank = 0}) = 1;
  sum = onnx_2(onnx, "CumSum", sum, axis);
  onnx_attribute(onnx, "reverse", 1);
  return onnx_reshape(onnx, onnx_2(onnx, "Greater", sum, onnx_scalar(onnx, 0)),
                      &ONNX_SHAPE(0, stack, 1, 1, 1, 1));
}

/* Images (batch, stack, shape) of tensor `index`, those that are not of the episode 0. of_episode:
 * NULL: all are. */
static const char *normalize_frames(struct policy_graph *graph, const char *x, int index, int from,
                                    const struct onnx_shape *shape, const char *of_episode) {
  const struct statistics_of of = {"image/mean", "image/variance", from, NETWORK_IMAGE_LIMIT};
  const char *y = normalize(graph, x, &of, shape, graph->run->inputs.tensor[index].count);
  if (!of_episode) return y;
  return onnx_3(graph->onnx, "Where", of_episode, y, onnx_scalar(graph->onnx, 0));
}

/* (batch, stack, channels, height, width): the channels of all planes. before: numbers of the
 * images before this one; of_episode: as above. */
static const char *channels_first(struct policy_graph *graph, int index, int before,
                                  const char *of_episode) {
  struct onnx_graph *onnx = graph->onnx;
  const struct device_inputs *in = &graph->run->inputs;
  int stack = stack_of(graph, index), planes = in->tensor[index].planes;
  int height = in->tensor[index].height, width = in->tensor[index].width;
  int channels = in->tensor[index].channels;
  if (planes == 0) planes = 1;
  const char *x = onnx_reshape(onnx, as_floats(graph, index),
                               &ONNX_SHAPE(0, stack, planes, height, width, channels));
  if (policy_graph_find(graph, "image/mean"))
    x = normalize_frames(graph, x, index, before, &ONNX_SHAPE(planes, height, width, channels),
                         of_episode);
  x = onnx_1(onnx, "Transpose", x);
  onnx_attributes(onnx, "perm", (const int64_t[]){0, 1, 2, 5, 3, 4}, 6);
  return onnx_reshape(onnx, x, &ONNX_SHAPE(0, stack, planes * channels, height, width));
}

const char *policy_graph_images(struct policy_graph *graph) {
  struct device_inputs images;
  const struct device_inputs *in = &graph->run->inputs;
  const char *part[SPACE_MAX_TENSORS];
  int count = 0, before = 0, stack = in->stack > 1 ? in->stack : 1;
  images_split(&images, NULL, in);
  const char *of_episode = NULL;
  if (stack > 1 && policy_graph_find(graph, "image/mean"))
    of_episode = frames_of_episode(graph, stack);
  for (int k = 0; k < in->num_tensors; k++)
    if (images_has(in, k)) {
      part[count++] = channels_first(graph, k, before, of_episode);
      before += in->tensor[k].count;
    }
  int64_t channels = (int64_t)stack * device_inputs_channels(&images);
  return onnx_reshape(graph->onnx, onnx_concat(graph->onnx, part, count, 2),
                      &ONNX_SHAPE(0, channels, images.tensor[0].height, images.tensor[0].width));
}
