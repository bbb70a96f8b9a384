#include "deploy/inspect/export/onnx_graph.h"

#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/check.h"
#include "common/base/files.h"
#include "onnx.pb-c.h"

enum { IR_VERSION = 8, OPERATOR_SET = 17, MAX_PARTS = 2048, MAX_ATTRIBUTES = 4, NAME_BYTES = 64 };

/* Memory of the graph, freed with it. */
struct block {
  struct block *next;
  _Alignas(16) char data[];
};

struct onnx_graph {
  struct block *blocks;
  const char *clash; /* of two inputs; NULL: all differ */
  Onnx__ModelProto model;
  Onnx__GraphProto graph;
  Onnx__OperatorSetIdProto set, *sets[1];
  Onnx__NodeProto *node[MAX_PARTS];
  Onnx__TensorProto *constant[MAX_PARTS];
  Onnx__ValueInfoProto *input[MAX_PARTS], *output[MAX_PARTS];
  Onnx__StringStringEntryProto *metadata[MAX_PARTS];
};

static void *keep(struct onnx_graph *graph, size_t bytes) {
  struct block *block = check_alloc(1, sizeof(*block) + bytes + 1);
  block->next = graph->blocks;
  graph->blocks = block;
  return block->data;
}

static char *keep_text(struct onnx_graph *graph, const char *text) {
  return strcpy(keep(graph, strlen(text)), text);
}

static void *keep_copy(struct onnx_graph *graph, const void *from, size_t bytes) {
  return memcpy(keep(graph, bytes), from, bytes);
}

/* A message of that type, initialised. */
#define NEW(graph, type, init) ((type *)keep_copy(graph, &(const type)init, sizeof(type)))

/* The index of one more part. */
static size_t one_more(size_t *count, size_t room) {
  CHECK(*count < room, "more than %zu parts of a graph", room);
  return (*count)++;
}

struct onnx_graph *onnx_graph_create(const char *name, const char *about, const char *version) {
  struct onnx_graph *graph = check_alloc(1, sizeof(*graph));
  graph->model = (Onnx__ModelProto)ONNX__MODEL_PROTO__INIT;
  graph->graph = (Onnx__GraphProto)ONNX__GRAPH_PROTO__INIT;
  graph->set = (Onnx__OperatorSetIdProto)ONNX__OPERATOR_SET_ID_PROTO__INIT;
  graph->sets[0] = &graph->set;
  graph->set.domain = keep_text(graph, "");
  graph->set.has_version = graph->model.has_ir_version = true;
  graph->set.version = OPERATOR_SET;
  graph->model.ir_version = IR_VERSION;
  graph->model.producer_name = keep_text(graph, "acorn");
  graph->model.producer_version = keep_text(graph, version);
  graph->model.doc_string = keep_text(graph, about);
  graph->model.graph = &graph->graph;
  graph->model.opset_import = graph->sets;
  graph->model.n_opset_import = 1;
  graph->model.metadata_props = graph->metadata;
  graph->graph.name = keep_text(graph, name);
  graph->graph.node = graph->node;
  graph->graph.initializer = graph->constant;
  graph->graph.input = graph->input;
  graph->graph.output = graph->output;
  return graph;
}

void onnx_graph_destroy(struct onnx_graph *graph) {
  if (!graph) return;
  for (struct block *block = graph->blocks, *next; block; block = next) {
    next = block->next;
    free(block);
  }
  free(graph);
}

/* ---- inputs, outputs, metadata */

static Onnx__TypeProto *type_of(struct onnx_graph *graph, enum onnx_type type,
                                const struct onnx_shape *of) {
  Onnx__TensorShapeProto *shape =
      NEW(graph, Onnx__TensorShapeProto, ONNX__TENSOR_SHAPE_PROTO__INIT);
  shape->dim = keep(graph, (size_t)of->rank * sizeof(*shape->dim));
  for (int i = 0; i < of->rank; i++) {
    Onnx__TensorShapeProto__Dimension *dim =
        NEW(graph, Onnx__TensorShapeProto__Dimension, ONNX__TENSOR_SHAPE_PROTO__DIMENSION__INIT);
    if (of->dim[i] < 0) {
      dim->value_case = ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_PARAM;
      dim->dim_param = keep_text(graph, of->dim[i] == ONNX_BATCH ? "batch" : "one_or_batch");
    } else {
      dim->value_case = ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE;
      dim->dim_value = of->dim[i];
    }
    shape->dim[shape->n_dim++] = dim;
  }
  Onnx__TypeProto__Tensor *tensor =
      NEW(graph, Onnx__TypeProto__Tensor, ONNX__TYPE_PROTO__TENSOR__INIT);
  tensor->has_elem_type = true;
  tensor->elem_type = (int32_t)type;
  tensor->shape = shape;
  Onnx__TypeProto *whole = NEW(graph, Onnx__TypeProto, ONNX__TYPE_PROTO__INIT);
  whole->value_case = ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE;
  whole->tensor_type = tensor;
  return whole;
}

static Onnx__ValueInfoProto *describe(struct onnx_graph *graph, const char *name, const char *about,
                                      enum onnx_type type, const struct onnx_shape *shape) {
  Onnx__ValueInfoProto *info = NEW(graph, Onnx__ValueInfoProto, ONNX__VALUE_INFO_PROTO__INIT);
  info->name = keep_text(graph, name);
  info->doc_string = keep_text(graph, about);
  info->type = type_of(graph, type, shape);
  return info;
}

const char *onnx_graph_input(struct onnx_graph *graph, const char *name, const char *about,
                             enum onnx_type type, const struct onnx_shape *shape) {
  Onnx__ValueInfoProto *info = describe(graph, name, about, type, shape);
  for (size_t i = 0; i < graph->graph.n_input; i++)
    if (strcmp(graph->input[i]->name, name) == 0) graph->clash = info->name;
  graph->input[one_more(&graph->graph.n_input, MAX_PARTS)] = info;
  return info->name;
}

void onnx_graph_output(struct onnx_graph *graph, const char *name, const char *about,
                       enum onnx_type type, const struct onnx_shape *shape, const char *value) {
  Onnx__ValueInfoProto *info = describe(graph, name, about, type, shape);
  graph->output[one_more(&graph->graph.n_output, MAX_PARTS)] = info;
  onnx_1(graph, "Identity", value);
  graph->node[graph->graph.n_node - 1]->output[0] = info->name;
}

void onnx_graph_metadata(struct onnx_graph *graph, const char *key, const char *value) {
  Onnx__StringStringEntryProto *entry =
      NEW(graph, Onnx__StringStringEntryProto, ONNX__STRING_STRING_ENTRY_PROTO__INIT);
  graph->metadata[one_more(&graph->model.n_metadata_props, MAX_PARTS)] = entry;
  entry->key = keep_text(graph, key);
  entry->value = keep_text(graph, value);
}

/* ---- constants */

static size_t bytes_of(enum onnx_type type) {
  if (type == ONNX_UINT8 || type == ONNX_BOOL) return 1;
  return type == ONNX_INT64 ? 8 : 4;
}

void *onnx_constant(const char **value, struct onnx_graph *graph, const char *name,
                    enum onnx_type type, const struct onnx_shape *shape) {
  Onnx__TensorProto *tensor = NEW(graph, Onnx__TensorProto, ONNX__TENSOR_PROTO__INIT);
  graph->constant[one_more(&graph->graph.n_initializer, MAX_PARTS)] = tensor;
  char numbered[NAME_BYTES];
  snprintf(numbered, sizeof(numbered), "/constant_%zu", graph->graph.n_initializer);
  size_t bytes = bytes_of(type);
  for (int i = 0; i < shape->rank; i++) bytes *= (size_t)shape->dim[i];
  tensor->name = keep_text(graph, name ? name : numbered);
  tensor->has_data_type = tensor->has_raw_data = true;
  tensor->data_type = (int32_t)type;
  tensor->n_dims = (size_t)shape->rank;
  tensor->dims = keep_copy(graph, shape->dim, tensor->n_dims * sizeof(*tensor->dims));
  tensor->raw_data.len = bytes;
  tensor->raw_data.data = keep(graph, bytes);
  *value = tensor->name;
  return tensor->raw_data.data;
}

const char *onnx_scalar(struct onnx_graph *graph, float number) {
  const struct onnx_shape none = {.rank = 0};
  const char *value;
  float *data = onnx_constant(&value, graph, NULL, ONNX_FLOAT, &none);
  *data = number;
  return value;
}

const char *onnx_integers(struct onnx_graph *graph, const int64_t *numbers, int count) {
  const char *value;
  void *data = onnx_constant(&value, graph, NULL, ONNX_INT64, &ONNX_SHAPE(count));
  memcpy(data, numbers, (size_t)count * sizeof(*numbers));
  return value;
}

/* ---- operators */

const char *onnx_operator(struct onnx_graph *graph, const char *type, const char *const *inputs,
                          int count) {
  Onnx__NodeProto *node = NEW(graph, Onnx__NodeProto, ONNX__NODE_PROTO__INIT);
  graph->node[one_more(&graph->graph.n_node, MAX_PARTS)] = node;
  char name[NAME_BYTES];
  snprintf(name, sizeof(name), "/%s_%zu", type, graph->graph.n_node);
  node->name = keep_text(graph, name);
  node->op_type = keep_text(graph, type);
  node->n_input = (size_t)count;
  node->input = keep(graph, node->n_input * sizeof(*node->input));
  for (int i = 0; i < count; i++) node->input[i] = keep_text(graph, inputs[i]);
  node->n_output = 1;
  node->output = keep(graph, sizeof(*node->output));
  node->output[0] = node->name;
  node->attribute = keep(graph, MAX_ATTRIBUTES * sizeof(*node->attribute));
  return node->name;
}

static Onnx__AttributeProto *add_attribute(struct onnx_graph *graph, const char *name) {
  Onnx__NodeProto *node = graph->node[graph->graph.n_node - 1];
  Onnx__AttributeProto *attribute = NEW(graph, Onnx__AttributeProto, ONNX__ATTRIBUTE_PROTO__INIT);
  node->attribute[one_more(&node->n_attribute, MAX_ATTRIBUTES)] = attribute;
  attribute->name = keep_text(graph, name);
  attribute->has_type = true;
  return attribute;
}

void onnx_attribute(struct onnx_graph *graph, const char *name, int64_t number) {
  Onnx__AttributeProto *attribute = add_attribute(graph, name);
  attribute->type = ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INT;
  attribute->has_i = true;
  attribute->i = number;
}

void onnx_attributes(struct onnx_graph *graph, const char *name, const int64_t *numbers,
                     int count) {
  Onnx__AttributeProto *attribute = add_attribute(graph, name);
  attribute->type = ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INTS;
  attribute->n_ints = (size_t)count;
  attribute->ints = keep_copy(graph, numbers, attribute->n_ints * sizeof(*numbers));
}

const char *onnx_columns(struct onnx_graph *graph, const char *x, int first, int count) {
  const char *const inputs[] = {x, onnx_integers(graph, (int64_t[]){first}, 1),
                                onnx_integers(graph, (int64_t[]){first + count}, 1),
                                onnx_integers(graph, (int64_t[]){1}, 1)};
  return onnx_operator(graph, "Slice", inputs, 4);
}

const char *onnx_concat(struct onnx_graph *graph, const char *const *values, int count, int axis) {
  if (count == 1) return values[0];
  const char *joined = onnx_operator(graph, "Concat", values, count);
  onnx_attribute(graph, "axis", axis);
  return joined;
}

const char *onnx_cast(struct onnx_graph *graph, const char *x, enum onnx_type to) {
  const char *cast = onnx_1(graph, "Cast", x);
  onnx_attribute(graph, "to", (int64_t)to);
  return cast;
}

const char *onnx_reshape(struct onnx_graph *graph, const char *x, const struct onnx_shape *shape) {
  return onnx_2(graph, "Reshape", x, onnx_integers(graph, shape->dim, shape->rank));
}

/* ---- the file */

struct file_buffer {
  ProtobufCBuffer base;
  FILE *file;
};

static void append_to_file(ProtobufCBuffer *buffer, size_t bytes, const uint8_t *data) {
  fwrite(data, 1, bytes, ((struct file_buffer *)buffer)->file);
}

enum status onnx_graph_write(const struct onnx_graph *graph, const char *path,
                             struct error *error) {
  if (graph->clash)
    return status_fail(error, STATUS_INVALID,
                       "two inputs would be named '%s': rename a tensor of the observation",
                       graph->clash);
  size_t bytes = onnx__model_proto__get_packed_size(&graph->model);
  if (bytes > INT_MAX)
    return status_fail(error, STATUS_INVALID,
                       "the policy comes to %.1f GiB, and an ONNX file holds less than 2",
                       (double)bytes / 0x1p30);
  struct file_buffer buffer = {{append_to_file}, files_begin(path)};
  if (buffer.file) onnx__model_proto__pack_to_buffer(&graph->model, &buffer.base);
  return files_replace(buffer.file, path, error);
}
