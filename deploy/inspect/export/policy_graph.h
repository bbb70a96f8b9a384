/* A run's policy as an ONNX graph: everything between the environment's observation and the action
 * that it gets. Three parts, in the order of the data: the inputs as the network reads them
 * (inputs_graph.c), the network's layers (layers_graph.c), and what the policy makes of the head
 * (policy_graph.c). docs/export.md describes inputs and outputs.
 *
 * Upstream: deploy/inspect/export. Downstream: onnx_graph.h, learner/network/layer_list.h.
 * Thread: one. */
#ifndef ACORN_DEPLOY_INSPECT_EXPORT_POLICY_GRAPH_H
#define ACORN_DEPLOY_INSPECT_EXPORT_POLICY_GRAPH_H

#include "deploy/inspect/export/onnx_graph.h"
#include "learner/run/run.h"

/* Values are names in the graph; NULL: the policy has no such thing. */
struct policy_graph {
  struct onnx_graph *onnx; /* borrowed */
  const struct run *run;   /* borrowed: made to evaluate, its checkpoint loaded */
  const float *params;     /* (P), borrowed */

  /* inputs */
  const char *tensor[SPACE_MAX_TENSORS]; /* of run->inputs */
  const char *mask;                      /* (batch, A) */
  const char *reset;                     /* (batch, 1): an episode begins */
  const char *previous_action, *previous_reward, *state_in;

  /* (batch, outputs) of the network, (batch, S) of its state */
  const char *head, *state_out;
};

/* Adds inputs, operators and outputs. Errors: INVALID: why the policy cannot be exported. */
MUST_CHECK enum status policy_graph_build(struct policy_graph *graph, struct error *error);

/* ---- of the parts for each other */

/* Adds the inputs. */
void policy_graph_inputs(struct policy_graph *graph);
/* (batch, numbers): the inputs as a network embeds them; without_images: but these. */
const char *policy_graph_numbers(struct policy_graph *graph, bool without_images);
/* (batch, channels, height, width) of all frames. */
const char *policy_graph_images(struct policy_graph *graph);
/* x (batch, ...), zeros where an episode begins. */
const char *policy_graph_of_episode(struct policy_graph *graph, const char *x);

/* Sets head and state_out. Errors: INVALID: the network has no layers. */
MUST_CHECK enum status policy_graph_layers(struct policy_graph *graph, struct error *error);

/* Parameter `index` of the network in its shape; the parameter of that name, NULL if there is none.
 */
const char *policy_graph_parameter(struct policy_graph *graph, int index);
const float *policy_graph_find(const struct policy_graph *graph, const char *name);

#endif
