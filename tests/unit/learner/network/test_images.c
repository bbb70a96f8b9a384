/* Images in any form, and what is no image beside them: which part of an observation is what, the
 * gradient against finite differences, and that devices agree. */
#include "learner/network/images.h"
#include "tests/unit/learner/network/head_world.h"
#include "tests/unit/support/any_device.h"
#include "tests/unit/support/emulated_cuda.h"

/* ---- what is an image */

static struct space_tensor tensor_of(enum dtype dtype, int rank, const int *shape) {
  struct space_tensor tensor = {.dtype = dtype, .rank = rank};
  for (int d = 0; d < rank; d++) tensor.shape[d] = shape[d];
  return tensor;
}

static void shapes_are_read(void **state) {
  (void)state;
  static const struct {
    enum dtype dtype;
    int rank, shape[4], planes, height, width, channels;
    bool is_image;
  } cases[] = {
      {DTYPE_UINT8, 2, {84, 80}, 1, 84, 80, 1, true},
      {DTYPE_UINT8, 3, {64, 60, 3}, 1, 64, 60, 3, true},
      {DTYPE_UINT8, 3, {3, 64, 60}, 3, 64, 60, 1, true},
      {DTYPE_FLOAT32, 3, {1, 36, 36}, 1, 36, 36, 1, true},
      {DTYPE_FLOAT32, 3, {36, 36, 1}, 1, 36, 36, 1, true},
      {DTYPE_UINT8, 4, {4, 64, 60, 3}, 4, 64, 60, 3, true},
      {DTYPE_UINT8, 4, {4, 3, 64, 60}, 12, 64, 60, 1, true},
      {DTYPE_UINT8, 3, {64, 64, 64}, 1, 64, 64, 64, true},
      {DTYPE_UINT8, 2, {10, 5}, 1, 10, 5, 1, false},
      {DTYPE_UINT8, 3, {7, 7, 3}, 1, 7, 7, 3, false},
      {DTYPE_UINT8, 2, {84, 35}, 1, 84, 35, 1, false},
      {DTYPE_INT32, 2, {84, 84}, 1, 84, 84, 1, false},
      {DTYPE_FLOAT32, 1, {100}, 1, 0, 0, 0, false},
      {DTYPE_FLOAT32, 0, {0}, 1, 0, 0, 0, false},
      {DTYPE_UINT8, 4, {2, 3, 4, 5}, 1, 0, 0, 0, false},
  };
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
    struct space_tensor tensor = tensor_of(cases[i].dtype, cases[i].rank, cases[i].shape);
    struct device_inputs in = {.num_tensors = 1, .tensor = {{cases[i].dtype}}};
    images_describe(&in, 0, &tensor);
    assert_int_equal(in.tensor[0].planes, cases[i].planes);
    assert_int_equal(in.tensor[0].height, cases[i].height);
    assert_int_equal(in.tensor[0].width, cases[i].width);
    assert_int_equal(in.tensor[0].channels, cases[i].channels);
    assert_int_equal(images_split(NULL, NULL, &in), cases[i].is_image);
  }
}

/* ---- a world of them: a channel-first image of bytes, a vector, an image of floats */

enum { PIXELS = SIDE * SIDE, VECTOR = 3, CHANNELS = 2 + 3 };
enum { VECTOR_AT = 2 * PIXELS, FLOATS_AT = VECTOR_AT + 16, ROW = FLOATS_AT + 4 * 3 * PIXELS };

static struct network_config mixed_config(const char *network, int lstm) {
  struct network_config config = config_with("impala_shallow", 0, &forms[0]);
  config.network = network;
  config.lstm_size = lstm;
  config.inputs.row_stride = ROW;
  config.inputs.num_tensors = 3;
  static const struct {
    enum dtype dtype;
    int rank, shape[4], offset;
  } parts[] = {{DTYPE_UINT8, 3, {2, SIDE, SIDE}, 0},
               {DTYPE_FLOAT32, 1, {VECTOR}, VECTOR_AT},
               {DTYPE_FLOAT32, 3, {SIDE, SIDE, 3}, FLOATS_AT}};
  for (int k = 0; k < 3; k++) {
    struct space_tensor tensor = tensor_of(parts[k].dtype, parts[k].rank, parts[k].shape);
    config.inputs.tensor[k].dtype = parts[k].dtype;
    config.inputs.tensor[k].row_offset = (size_t)parts[k].offset;
    config.inputs.tensor[k].count =
        (int)(space_tensor_bytes(&tensor) / dtype_bytes(parts[k].dtype));
    images_describe(&config.inputs, k, &tensor);
  }
  return config;
}

static uint8_t mixed_rows[ROWS][ROW] __attribute__((aligned(16)));

static void fill_rows(void) {
  struct stream stream = {23, 0};
  for (int row = 0; row < ROWS; row++) {
    float *vector = (float *)(mixed_rows[row] + VECTOR_AT);
    float *floats = (float *)(mixed_rows[row] + FLOATS_AT);
    for (int i = 0; i < 2 * PIXELS; i++) mixed_rows[row][i] = (uint8_t)stream_below(&stream, 256);
    for (int i = 0; i < VECTOR; i++) vector[i] = (float)stream_between(&stream, -2, 2);
    for (int i = 0; i < 3 * PIXELS; i++) floats[i] = (float)stream_between(&stream, 0, 1);
  }
}

/* Returns what the rows are on the device; the caller releases it. */
static void *open_mixed(struct world *w, const char *network, int lstm, const char *device) {
  struct network_config config = mixed_config(network, lstm);
  fill_rows();
  w->network = fixture_network(&config);
  struct error error;
  if (any_device_create(&w->device, device, &error) != STATUS_OK) fail_msg("%s", error.text);
  w->P = network_num_parameters(w->network);
  w->stride = network_head_stride(w->network);
  w->params = world_reals(w, w->P);
  w->gradient = world_reals(w, w->P);
  w->d_head = world_reals(w, MAX_NUMBERS);
  w->batch = fixture_batch(w->device, w->network, T - 1, N, 5);
  w->inputs = fixture_batch_inputs(w->network, w->batch);
  uint8_t *rows = w->device->ops->alloc(w->device, sizeof(mixed_rows));
  w->device->ops->upload_bytes(w->device, rows, mixed_rows, sizeof(mixed_rows));
  w->inputs.observation = rows;
  w->workspace = network_workspace_create(w->network, w->device, ROWS, true);
  world_randomise(w, 3);
  return rows;
}

static void close_mixed(struct world *w, void *rows) {
  device_finish(w->device);
  w->device->ops->release(w->device, rows);
  world_close(w);
}

static void what_is_no_image_stands_beside_the_hidden_layer(void **state) {
  (void)state;
  struct network_config config = mixed_config("impala_shallow", 0);
  struct network *network = fixture_network(&config);
  int count;
  const struct network_parameter *parameter = network_parameters(network, &count);
  for (int j = 0; j < count; j++) {
    if (strcmp(parameter[j].name, "conv0/w") == 0)
      assert_int_equal(parameter[j].shape[0], 8 * 8 * CHANNELS);
    if (strcmp(parameter[j].name, "head/w") == 0)
      assert_int_equal(parameter[j].shape[0], 256 + VECTOR + ACTIONS + 1);
  }
  network_destroy(network);
}

static void gradients_match_finite_differences(void **state) {
  (void)state;
  static const struct {
    const char *network;
    int lstm;
  } cases[] = {{"impala_shallow", 5}, {"nature", 0}};
  for (int i = 0; i < 2; i++) {
    struct world w;
    void *rows = open_mixed(&w, cases[i].network, cases[i].lstm, "ref_double");
    world_check_gradient(&w, cases[i].network);
    close_mixed(&w, rows);
  }
}

static void devices_agree(void **state) {
  (void)state;
  static const char *const devices[] = {"ref_double", "ref", "cpu", "guarded", "cuda"};
  emulated_cuda_use();
  float head[2][MAX_NUMBERS], *gradient[2];
  for (int d = 0; d < 5; d++) {
    struct world w;
    void *rows = open_mixed(&w, "impala_shallow", 5, devices[d]);
    gradient[d > 0] = malloc(w.P * sizeof(float));
    world_run(&w, head[d > 0], gradient[d > 0]);
    if (d) {
      world_expect_close(head[1], head[0], (size_t)(ROWS * w.stride), 1e-5, devices[d]);
      world_expect_close(gradient[1], gradient[0], w.P, 1e-4, devices[d]);
      free(gradient[1]);
    }
    close_mixed(&w, rows);
  }
  free(gradient[0]);
}

/* The vector must reach the head, not only the gradient of its weights. */
static void every_part_is_seen(void **state) {
  (void)state;
  struct world w;
  void *rows = open_mixed(&w, "impala_shallow", 0, "ref");
  static const size_t places[] = {17, PIXELS + 17, VECTOR_AT + 2, FLOATS_AT + 4 * 2000 + 2};
  float before[MAX_NUMBERS], after[MAX_NUMBERS];
  world_heads(&w, before);
  for (int i = 0; i < 4; i++) {
    uint8_t *byte = (uint8_t *)rows + places[i]; /* ref's memory is the host's */
    *byte ^= 0x40;
    world_heads(&w, after);
    assert_memory_not_equal(before, after, (size_t)w.stride * sizeof(float));
    *byte ^= 0x40;
  }
  close_mixed(&w, rows);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(shapes_are_read),
      cmocka_unit_test(what_is_no_image_stands_beside_the_hidden_layer),
      cmocka_unit_test(gradients_match_finite_differences),
      cmocka_unit_test(devices_agree),
      cmocka_unit_test(every_part_is_seen),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
