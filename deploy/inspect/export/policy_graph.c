#include "deploy/inspect/export/policy_graph.h"

#include <string.h>

#include "learner/learn/algorithms.h"
#include "learner/learn/policy.h"

/* The head's outputs from the first on, of the policy's and then the value's. */
static const char *of_head(struct policy_graph *graph, int first, int count) {
  return onnx_columns(graph->onnx, graph->head, first, count);
}

static const char *argmax(struct policy_graph *graph, const char *x, bool keeps_axis) {
  const char *at = onnx_1(graph->onnx, "ArgMax", x);
  onnx_attribute(graph->onnx, "axis", 1);
  onnx_attribute(graph->onnx, "keepdims", keeps_axis);
  return at;
}

/* ---- masks: as the rule `mask` of learner/rules/categorical.rule.h */

/* Of one choice: MASKED where an action may not be chosen, unless none may. */
static const char *masked_choice(struct policy_graph *graph, const char *x, const char *mask) {
  struct onnx_graph *onnx = graph->onnx;
  const char *zero = onnx_scalar(onnx, 0);
  const char *most = onnx_1(onnx, "ReduceMax", mask);
  onnx_attributes(onnx, "axes", (const int64_t[]){1}, 1);
  const char *none = onnx_1(onnx, "Not", onnx_2(onnx, "Greater", most, zero));
  const char *may = onnx_2(onnx, "Or", onnx_2(onnx, "Greater", mask, zero), none);
  return onnx_3(onnx, "Where", may, x, onnx_scalar(onnx, MASKED));
}

/* x (batch, A), choice after choice. */
static const char *masked(struct policy_graph *graph, const char *x) {
  const struct space *space = &graph->run->space;
  const char *part[SPACE_MAX_CHOICES];
  int count = space_num_choices(&space->choices);
  if (!graph->mask) return x;
  const char *mask = onnx_cast(graph->onnx, graph->mask, ONNX_FLOAT);
  if (count == 1) return masked_choice(graph, x, mask);
  for (int c = 0, first = 0; c < count; c++) {
    int among = space->choices.among[c];
    part[c] = masked_choice(graph, onnx_columns(graph->onnx, x, first, among),
                            onnx_columns(graph->onnx, mask, first, among));
    first += among;
  }
  return onnx_concat(graph->onnx, part, count, 1);
}

/* ---- values of actions: as learner/network/action_values.h */

/* (batch, A, Z) of a dueling network: value + advantages - their mean. */
static const char *dueling(struct policy_graph *graph, const struct action_values *v) {
  struct onnx_graph *onnx = graph->onnx;
  const char *advantages =
      onnx_reshape(onnx, of_head(graph, 0, v->A * v->Z), &ONNX_SHAPE(0, v->A, v->Z));
  const char *value =
      onnx_reshape(onnx, of_head(graph, v->A * v->Z, v->Z), &ONNX_SHAPE(0, 1, v->Z));
  const char *mean = onnx_1(onnx, "ReduceMean", advantages);
  onnx_attributes(onnx, "axes", (const int64_t[]){1}, 1);
  return onnx_2(onnx, "Sub", onnx_2(onnx, "Add", value, advantages), mean);
}

/* (batch, A): the mean of the distribution over atoms that each row of x (batch, A, Z) has. */
static const char *expected(struct policy_graph *graph, const char *x,
                            const struct action_values *v) {
  struct onnx_graph *onnx = graph->onnx;
  const char *atoms;
  float *atom = onnx_constant(&atoms, onnx, NULL, ONNX_FLOAT, &ONNX_SHAPE(v->Z));
  for (int z = 0; z < v->Z; z++)
    atom[z] = v->low + (float)z * (v->high - v->low) / (float)(v->Z - 1);
  x = onnx_1(onnx, "Softmax", x);
  onnx_attribute(onnx, "axis", 2);
  return onnx_2(onnx, "MatMul", x, atoms);
}

static void values_out(struct policy_graph *graph) {
  const struct action_values *v = network_action_values(graph->run->network);
  const char *x = v->dueling ? dueling(graph, v)
                             : onnx_reshape(graph->onnx, graph->head, &ONNX_SHAPE(0, v->A, v->Z));
  x = v->Z > 1 ? expected(graph, x, v) : onnx_reshape(graph->onnx, x, &ONNX_SHAPE(0, v->A));
  x = masked(graph, x);
  onnx_graph_output(graph->onnx, "q", "value of each action", ONNX_FLOAT,
                    &ONNX_SHAPE(ONNX_BATCH, v->A), x);
  onnx_graph_output(graph->onnx, "action", "the action of the largest value", ONNX_INT64,
                    &ONNX_SHAPE(ONNX_BATCH), argmax(graph, x, false));
}

/* ---- discrete actions */

static void choices_out(struct policy_graph *graph) {
  const struct space *space = &graph->run->space;
  const char *part[SPACE_MAX_CHOICES];
  int count = space->choices.count;
  const char *x = masked(graph, of_head(graph, 0, space->discrete));
  onnx_graph_output(graph->onnx, "logits", "of each action, of choice after choice", ONNX_FLOAT,
                    &ONNX_SHAPE(ONNX_BATCH, space->discrete), x);
  if (count == 0) {
    onnx_graph_output(graph->onnx, "action", "the most probable action", ONNX_INT64,
                      &ONNX_SHAPE(ONNX_BATCH), argmax(graph, x, false));
    return;
  }
  for (int c = 0, first = 0; c < count; first += space->choices.among[c++])
    part[c] = argmax(graph, onnx_columns(graph->onnx, x, first, space->choices.among[c]), true);
  onnx_graph_output(graph->onnx, "action", "the most probable action of each choice", ONNX_INT64,
                    &ONNX_SHAPE(ONNX_BATCH, count), onnx_concat(graph->onnx, part, count, 1));
}

/* ---- a box: as learner/learn/normal.c */

static float *vector(const char **value, struct policy_graph *graph) {
  return onnx_constant(value, graph->onnx, NULL, ONNX_FLOAT, &ONNX_SHAPE(graph->run->space.box));
}

/* What the environment gets for an action: on the scale of its bounds, and within them. */
static const char *sent(struct policy_graph *graph, const char *x) {
  struct onnx_graph *onnx = graph->onnx;
  const struct space *space = &graph->run->space;
  const char *shifts, *halves, *starts, *lows, *highs;
  float *shift = vector(&shifts, graph), *half = vector(&halves, graph);
  float *start = vector(&starts, graph), *low = vector(&lows, graph), *high = vector(&highs, graph);
  for (int i = 0; i < space->box; i++) {
    float width = space_half_width(space, i);
    bool has_scale = width > 0;
    shift[i] = has_scale ? 1 : 0;
    half[i] = has_scale ? width : 1;
    start[i] = has_scale ? space->low[i] : 0;
    low[i] = space->low[i];
    high[i] = space->high[i];
  }
  x = onnx_2(onnx, "Mul", onnx_2(onnx, "Add", x, shifts), halves);
  x = onnx_2(onnx, "Add", starts, x);
  return onnx_2(onnx, "Min", onnx_2(onnx, "Max", x, lows), highs);
}

/* As learner/learn/squashed_normal.c. */
static void squashed_out(struct policy_graph *graph) {
  struct onnx_graph *onnx = graph->onnx;
  int n = graph->run->space.box;
  const struct onnx_shape rows = ONNX_SHAPE(ONNX_BATCH, n);
  const char *mean = of_head(graph, 0, n);
  const char *kept = onnx_2(onnx, "Max", of_head(graph, n, n), onnx_scalar(onnx, -20));
  onnx_graph_output(onnx, "mean", "of the normal distribution, before it is squashed by tanh",
                    ONNX_FLOAT, &rows, mean);
  onnx_graph_output(onnx, "log_std", "logarithm of its standard deviation", ONNX_FLOAT, &rows,
                    onnx_2(onnx, "Min", kept, onnx_scalar(onnx, 2)));
  onnx_graph_output(onnx, "action", "the squashed mean, on the scale of the bounds", ONNX_FLOAT,
                    &rows, sent(graph, onnx_1(onnx, "Tanh", mean)));
}

static void box_out(struct policy_graph *graph) {
  struct onnx_graph *onnx = graph->onnx;
  int n = graph->run->space.box;
  const struct onnx_shape rows = ONNX_SHAPE(ONNX_BATCH, n);
  const char *mean = of_head(graph, 0, n), *deviations;
  memcpy(vector(&deviations, graph), policy_graph_find(graph, "head/log_std"),
         (size_t)n * sizeof(float));
  const char *of_rows = onnx_2(onnx, "Expand", deviations, onnx_1(onnx, "Shape", mean));
  onnx_graph_output(onnx, "mean", "of the normal distribution, where -1 and 1 are the bounds",
                    ONNX_FLOAT, &rows, mean);
  onnx_graph_output(onnx, "log_std", "logarithm of its standard deviation", ONNX_FLOAT, &rows,
                    of_rows);
  onnx_graph_output(onnx, "action", "the mean, on the scale of the bounds and within them",
                    ONNX_FLOAT, &rows, sent(graph, mean));
}

/* ---- */

/* What the head's value stands for, if it is on a scale of its own. */
static void value_out(struct policy_graph *graph) {
  struct onnx_graph *onnx = graph->onnx;
  const float *mean = policy_graph_find(graph, "value/mean"),
              *deviation = policy_graph_find(graph, "value/deviation");
  const char *value = onnx_reshape(onnx, of_head(graph, network_head_size(graph->run->network), 1),
                                   &ONNX_SHAPE(-1));
  if (mean && deviation)
    value = onnx_2(onnx, "Add", onnx_2(onnx, "Mul", value, onnx_scalar(onnx, *deviation)),
                   onnx_scalar(onnx, *mean));
  onnx_graph_output(onnx, "value", "of the state", ONNX_FLOAT, &ONNX_SHAPE(ONNX_BATCH), value);
}

enum status policy_graph_build(struct policy_graph *graph, struct error *error) {
  const struct run *run = graph->run;
  policy_graph_inputs(graph);
  enum status status = policy_graph_layers(graph, error);
  if (status != STATUS_OK) return status;
  if (run->policy->action_values)
    values_out(graph);
  else if (run->policy == &policy_squashed_normal)
    squashed_out(graph);
  else if (run->space.box)
    box_out(graph);
  else
    choices_out(graph);
  if (!run->policy->action_values && !run->policy->without_value) value_out(graph);
  if (graph->state_out)
    onnx_graph_output(graph->onnx, "state_out", "`state_in` of the next step", ONNX_FLOAT,
                      &ONNX_SHAPE(ONNX_BATCH, network_state_size(run->network)), graph->state_out);
  return STATUS_OK;
}
