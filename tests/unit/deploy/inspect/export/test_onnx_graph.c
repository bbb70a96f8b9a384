/* A small graph, read back from its file. What onnx and onnxruntime make of such files is
 * tests/integration/export.sh. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "deploy/inspect/export/onnx_graph.h"
#include "onnx.pb-c.h"

static char folder[] = "/tmp/test_onnx_graph_XXXXXX";
static char path[64];

static int make_folder(void **state) {
  (void)state;
  if (!mkdtemp(folder)) return -1;
  snprintf(path, sizeof(path), "%s/a.onnx", folder);
  return 0;
}

static int remove_folder(void **state) {
  (void)state;
  unlink(path);
  return rmdir(folder);
}

/* y (batch, 2) = x (batch, 3) w, and `flag`, which is 1 unless it is given. */
static struct onnx_graph *example(void) {
  struct onnx_graph *graph = onnx_graph_create("example", "about it", "1.2");
  const char *x, *w, *flag, *value;
  x = onnx_graph_input(graph, "x", "numbers", ONNX_FLOAT, &ONNX_SHAPE(ONNX_BATCH, 3));
  flag = onnx_graph_input(graph, "flag", "optional", ONNX_UINT8, &ONNX_SHAPE(ONNX_ONE_OR_BATCH, 1));
  *(uint8_t *)onnx_constant(&value, graph, flag, ONNX_UINT8, &ONNX_SHAPE(1, 1)) = 1;
  float *numbers = onnx_constant(&w, graph, "w", ONNX_FLOAT, &ONNX_SHAPE(3, 2));
  for (int i = 0; i < 6; i++) numbers[i] = (float)i;
  const char *y = onnx_concat(graph, (const char *const[]){onnx_2(graph, "MatMul", x, w)}, 1, 0);
  onnx_graph_output(graph, "y", "the result", ONNX_FLOAT, &ONNX_SHAPE(ONNX_BATCH, 2), y);
  onnx_1(graph, "Flatten", x);
  onnx_attribute(graph, "axis", 0);
  onnx_attributes(graph, "some", (const int64_t[]){0, -1}, 2);
  onnx_graph_metadata(graph, "key", "value");
  return graph;
}

static Onnx__ModelProto *read_back(void) {
  static uint8_t bytes[1 << 16];
  FILE *file = fopen(path, "rb");
  assert_non_null(file);
  size_t size = fread(bytes, 1, sizeof(bytes), file);
  fclose(file);
  Onnx__ModelProto *model = onnx__model_proto__unpack(NULL, size, bytes);
  assert_non_null(model);
  return model;
}

static void a_file_has_what_was_put_together(void **state) {
  (void)state;
  struct onnx_graph *graph = example();
  assert_int_equal(onnx_graph_write(graph, path, NULL), STATUS_OK);
  onnx_graph_destroy(graph);
  Onnx__ModelProto *model = read_back();
  assert_int_equal(model->ir_version, 8);
  assert_int_equal(model->opset_import[0]->version, 17);
  assert_string_equal(model->producer_version, "1.2");
  assert_string_equal(model->metadata_props[0]->value, "value");
  const Onnx__GraphProto *read = model->graph;
  assert_int_equal(read->n_input, 2);
  assert_string_equal(read->input[0]->type->tensor_type->shape->dim[0]->dim_param, "batch");
  assert_int_equal(read->input[0]->type->tensor_type->shape->dim[1]->dim_value, 3);
  assert_string_equal(read->input[1]->type->tensor_type->shape->dim[0]->dim_param, "one_or_batch");
  assert_string_equal(read->initializer[0]->name, "flag");
  assert_int_equal(read->initializer[1]->raw_data.len, 6 * sizeof(float));
  assert_int_equal(read->initializer[1]->dims[0], 3);
  assert_int_equal(read->n_node, 3);
  assert_string_equal(read->node[0]->op_type, "MatMul");
  assert_string_equal(read->node[1]->input[0], read->node[0]->output[0]);
  assert_string_equal(read->node[1]->output[0], "y");
  onnx__model_proto__free_unpacked(model, NULL);
}

/* An attribute of 0 is there: readers take one without a number for damaged. */
static void attributes_of_0_are_written(void **state) {
  (void)state;
  Onnx__ModelProto *model = read_back();
  Onnx__AttributeProto *const *attribute = model->graph->node[2]->attribute;
  assert_true(attribute[0]->has_i && attribute[0]->i == 0);
  assert_int_equal(attribute[0]->type, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INT);
  assert_int_equal(attribute[1]->n_ints, 2);
  assert_int_equal(attribute[1]->ints[1], -1);
  onnx__model_proto__free_unpacked(model, NULL);
}

static void two_inputs_of_a_name_are_refused(void **state) {
  (void)state;
  struct onnx_graph *graph = example();
  struct error error;
  onnx_graph_input(graph, "x", "", ONNX_FLOAT, &ONNX_SHAPE(1));
  assert_int_equal(onnx_graph_write(graph, path, &error), STATUS_INVALID);
  assert_string_equal(error.text,
                      "two inputs would be named 'x': rename a tensor of the observation");
  onnx_graph_destroy(graph);
}

static void what_cannot_be_written_leaves_nothing(void **state) {
  (void)state;
  struct onnx_graph *graph = example();
  struct error error;
  char in_the_way[80], left[96];
  struct stat about;
  snprintf(in_the_way, sizeof(in_the_way), "%s/folder", folder);
  snprintf(left, sizeof(left), "%s.new", in_the_way);
  assert_int_equal(mkdir(in_the_way, 0755), 0);
  assert_int_equal(onnx_graph_write(graph, in_the_way, &error), STATUS_IO);
  assert_non_null(strstr(error.text, "cannot write "));
  assert_non_null(strstr(error.text, "Is a directory"));
  assert_int_not_equal(stat(left, &about), 0);
  assert_int_equal(rmdir(in_the_way), 0);
  onnx_graph_destroy(graph);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_file_has_what_was_put_together),
      cmocka_unit_test(attributes_of_0_are_written),
      cmocka_unit_test(two_inputs_of_a_name_are_refused),
      cmocka_unit_test(what_cannot_be_written_leaves_nothing),
  };
  return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
