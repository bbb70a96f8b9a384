/* An ONNX model: a graph that is put together operator by operator, and the file of it. IR version
 * 8, operator set 17.
 *
 * A value in the graph is known by its name, which is the graph's own: what a function here
 * returns. Names of operators' outputs begin with "/".
 * Upstream: deploy/inspect/export. Downstream: proto/onnx.proto. Thread: one.
 * Errors: onnx_graph_write's; more parts than there is room for abort. */
#ifndef ACORN_DEPLOY_INSPECT_EXPORT_ONNX_GRAPH_H
#define ACORN_DEPLOY_INSPECT_EXPORT_ONNX_GRAPH_H

#include <stddef.h>
#include <stdint.h>

#include "common/base/status.h"

/* ONNX's numbers (TensorProto.DataType). */
enum onnx_type { ONNX_FLOAT = 1, ONNX_UINT8 = 2, ONNX_INT32 = 6, ONNX_INT64 = 7, ONNX_BOOL = 9 };

/* In a shape, symbolic dimensions: "batch"; "one_or_batch", of an input whose default has one row.
 */
enum { ONNX_MAX_RANK = 8, ONNX_BATCH = -1, ONNX_ONE_OR_BATCH = -2 };

struct onnx_shape {
  int rank;
  int64_t dim[ONNX_MAX_RANK];
};
#define ONNX_SHAPE(...) \
  ((struct onnx_shape){sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t), {__VA_ARGS__}})

struct onnx_graph;

/* version: of the program that makes it. All texts are copied. Owner: the caller, with
 * onnx_graph_destroy (NULL: nothing). */
struct onnx_graph *onnx_graph_create(const char *name, const char *about, const char *version);
void onnx_graph_destroy(struct onnx_graph *graph);

/* `about`: one sentence for people. A name that an input has already is an error of the file: see
 * onnx_graph_write. */
const char *onnx_graph_input(struct onnx_graph *graph, const char *name, const char *about,
                             enum onnx_type type, const struct onnx_shape *shape);
/* The value gets that name. */
void onnx_graph_output(struct onnx_graph *graph, const char *name, const char *about,
                       enum onnx_type type, const struct onnx_shape *shape, const char *value);
void onnx_graph_metadata(struct onnx_graph *graph, const char *key, const char *value);

/* Room for a constant of that name, zeroed, for the caller to fill; NULL: named by number. With the
 * name of an input it is what this is unless it is given. */
void *onnx_constant(const char **value, struct onnx_graph *graph, const char *name,
                    enum onnx_type type, const struct onnx_shape *shape);
const char *onnx_scalar(struct onnx_graph *graph, float number);
const char *onnx_integers(struct onnx_graph *graph, const int64_t *numbers, int count);

/* The output of an operator of `count` inputs. */
const char *onnx_operator(struct onnx_graph *graph, const char *type, const char *const *inputs,
                          int count);
static inline const char *onnx_1(struct onnx_graph *graph, const char *type, const char *x) {
  return onnx_operator(graph, type, (const char *const[]){x}, 1);
}
static inline const char *onnx_2(struct onnx_graph *graph, const char *type, const char *x,
                                 const char *y) {
  return onnx_operator(graph, type, (const char *const[]){x, y}, 2);
}
static inline const char *onnx_3(struct onnx_graph *graph, const char *type, const char *x,
                                 const char *y, const char *z) {
  return onnx_operator(graph, type, (const char *const[]){x, y, z}, 3);
}

/* Attributes of the newest operator. */
void onnx_attribute(struct onnx_graph *graph, const char *name, int64_t number);
void onnx_attributes(struct onnx_graph *graph, const char *name, const int64_t *numbers, int count);

/* Columns [first, first + count) of x (B, ...). */
const char *onnx_columns(struct onnx_graph *graph, const char *x, int first, int count);
/* Side by side along an axis; of one value that itself. */
const char *onnx_concat(struct onnx_graph *graph, const char *const *values, int count, int axis);
const char *onnx_cast(struct onnx_graph *graph, const char *x, enum onnx_type to);
/* A dimension of 0 is that of x. */
const char *onnx_reshape(struct onnx_graph *graph, const char *x, const struct onnx_shape *shape);

/* A file that is there already is replaced once the new one is whole. The same graph gives the same
 * bytes. Errors: IO, with the path and the reason; INVALID: two inputs of a name; 2 GiB or more,
 * which no ONNX file holds. */
MUST_CHECK enum status onnx_graph_write(const struct onnx_graph *graph, const char *path,
                                        struct error *error);

#endif
