/* What a network normalises of an observation with vectors, bytes, integers and an image: on every
 * device it computes what one that does not computes of rows that were normalised before; and what
 * its statistics are of. The image is normalised where that is asked for, too. */
#include "tests/unit/learner/network/head_world.h"
#include "tests/unit/support/emulated_cuda.h"

enum {
  VECTOR = 3,
  BYTES_AT = 16,
  INTEGERS_AT = 32,
  NUMBER_AT = 48,
  IMAGE_AT = 64,
  ROW = IMAGE_AT + 4 * SIDE * SIDE,
  PLACES = VECTOR + 1,
  PIXELS = SIDE * SIDE
};
static const char *const devices[] = {"ref_double", "ref", "cpu", "guarded", "cuda"};

static const float mean[PLACES] = {0.5f, -20, 3, 1000}, variance[PLACES] = {4, 100, 0, 1e-4f};

/* Of pixel k: one in seven never varies, of one in eleven what is not the mean is beyond the limit.
 */
static float pixel_mean(int k) {
  return (float)(k % 5) / 10;
}

static float pixel_variance(int k) {
  return k % 7 == 0 ? 0 : k % 11 == 0 ? 1e-6f : 0.09f;
}

static uint8_t rows[ROWS][ROW] __attribute__((aligned(16)));

/* Where number k of a row's vectors is. */
static float *number(uint8_t *row, int k) {
  return k < VECTOR ? (float *)row + k : (float *)(row + NUMBER_AT);
}

/* Of the third vector's number what is not the mean is beyond the limit. */
static void fill_rows(void) {
  struct stream stream = {31, 0};
  for (int i = 0; i < ROWS; i++) {
    float *image = (float *)(rows[i] + IMAGE_AT);
    int32_t *integers = (int32_t *)(rows[i] + INTEGERS_AT);
    for (int k = 0; k < PLACES; k++)
      *number(rows[i], k) =
          mean[k] + (float)(stream_between(&stream, -3, 3) * sqrt(variance[k] + 1e-4f));
    for (int k = 0; k < 2; k++) rows[i][BYTES_AT + k] = (uint8_t)stream_below(&stream, 256);
    for (int k = 0; k < 2; k++) integers[k] = stream_below(&stream, 5);
    for (int k = 0; k < PIXELS; k++)
      image[k] = k % 7 == 0 ? pixel_mean(k) : (float)stream_between(&stream, 0, 1);
  }
}

static void normalize_number(float *x, float number_mean, float number_variance, double limit) {
  double y = ((double)*x - (double)number_mean) / sqrt((double)number_variance + 1e-8);
  *x = (float)fmax(-limit, fmin(limit, y));
}

/* What is normalised. */
enum what { NOTHING = 0, VECTORS = 1, IMAGES = 2 };

static size_t statistics_of(int what) {
  return 3 * (size_t)((what & VECTORS ? PLACES : 0) + (what & IMAGES ? PIXELS : 0));
}

static void normalize_rows(int what) {
  for (int i = 0; i < ROWS; i++) {
    for (int k = 0; k < PLACES && what & VECTORS; k++)
      normalize_number(number(rows[i], k), mean[k], variance[k], 10);
    for (int k = 0; k < PIXELS && what & IMAGES; k++)
      normalize_number((float *)(rows[i] + IMAGE_AT) + k, pixel_mean(k), pixel_variance(k), 5);
  }
}

static struct network_config config_of(const char *network, int what) {
  struct network_config config = config_with("impala_shallow", 0, &forms[0]);
  config.network = network;
  config.normalize = what & VECTORS;
  config.normalize_images = what & IMAGES;
  config.lstm_size = strcmp(network, "lstm") == 0 ? 5 : 0;
  config.inputs.row_stride = ROW;
  config.inputs.num_tensors = 5;
  static const struct {
    enum dtype dtype;
    int count, offset;
  } parts[] = {{DTYPE_FLOAT32, VECTOR, 0},
               {DTYPE_UINT8, 2, BYTES_AT},
               {DTYPE_INT32, 2, INTEGERS_AT},
               {DTYPE_FLOAT32, 1, NUMBER_AT},
               {DTYPE_FLOAT32, SIDE * SIDE, IMAGE_AT}};
  for (int k = 0; k < 5; k++) {
    int side = k == 4 ? SIDE : 0;
    config.inputs.tensor[k].dtype = parts[k].dtype;
    config.inputs.tensor[k].count = parts[k].count;
    config.inputs.tensor[k].row_offset = (size_t)parts[k].offset;
    config.inputs.tensor[k].height = config.inputs.tensor[k].width = side;
    config.inputs.tensor[k].channels = k == 4;
  }
  return config;
}

static void set_statistics(struct world *w, int what) {
  float *host = malloc(w->P * sizeof(*host)), *statistics = host + w->P - statistics_of(what);
  w->device->ops->download(w->device, host, w->params, w->P);
  for (int k = 0; k < PLACES && what & VECTORS; k++) {
    statistics[k] = 100;
    statistics[PLACES + k] = mean[k];
    statistics[2 * PLACES + k] = variance[k];
  }
  statistics = host + w->P - statistics_of(what & IMAGES);
  for (int k = 0; k < PIXELS && what & IMAGES; k++) {
    statistics[k] = 100;
    statistics[PIXELS + k] = pixel_mean(k);
    statistics[2 * PIXELS + k] = pixel_variance(k);
  }
  w->device->ops->upload(w->device, w->params, host, w->P);
  for (size_t i = 0; i < w->P; i++) host[i] = NAN;
  w->device->ops->upload(w->device, w->gradient, host, w->P);
  free(host);
}

/* A network of the rows as they are now; statistics come last. */
static void *open_rows(struct world *w, const char *network, int what, const char *device) {
  struct network_config config = config_of(network, what);
  world_open(w, &config, device);
  uint8_t *on_device = w->device->ops->alloc(w->device, sizeof(rows));
  w->device->ops->upload_bytes(w->device, on_device, rows, sizeof(rows));
  device_finish(w->device);
  w->inputs.observation = on_device;
  if (what) set_statistics(w, what);
  return on_device;
}

static void close_rows(struct world *w, void *on_device) {
  w->device->ops->release(w->device, on_device);
  world_close(w);
}

static void check_network(const char *network, int what, const char *device) {
  struct world by_itself, before;
  float heads[2][MAX_NUMBERS];
  fill_rows();
  void *raw = open_rows(&by_itself, network, what, device);
  normalize_rows(what);
  void *normalized = open_rows(&before, network, NOTHING, device);
  size_t P = before.P;
  assert_int_equal(by_itself.P, P + statistics_of(what));
  float *gradients[2] = {malloc(by_itself.P * sizeof(float)), malloc(P * sizeof(float))};
  world_run(&by_itself, heads[0], gradients[0]);
  world_run(&before, heads[1], gradients[1]);
  world_expect_close(heads[0], heads[1], (size_t)(ROWS * before.stride), 1e-4, network);
  world_expect_close(gradients[0], gradients[1], P, 1e-4, device);
  for (size_t i = P; i < by_itself.P; i++) assert_true(gradients[0][i] == 0);
  free(gradients[0]);
  free(gradients[1]);
  close_rows(&by_itself, raw);
  close_rows(&before, normalized);
}

static void vectors_are_normalised_and_nothing_else(void **state) {
  (void)state;
  emulated_cuda_use();
  for (int i = 0; i < 5; i++) {
    check_network("mlp", VECTORS, devices[i]);
    check_network("lstm", VECTORS, devices[i]);
    check_network("nature", VECTORS, devices[i]);
  }
}

static void images_are_normalised(void **state) {
  (void)state;
  emulated_cuda_use();
  for (int i = 0; i < 5; i++) {
    check_network("nature", IMAGES, devices[i]);
    check_network("impala_shallow", VECTORS | IMAGES, devices[i]);
  }
}

/* One that does not read it as an image. */
static void images_of_other_networks_stay(void **state) {
  (void)state;
  struct network_config config = config_of("mlp", IMAGES);
  struct network *network = fixture_network(&config);
  struct device *device = fixture_device("ref");
  assert_null(network_observer_create(network, device, ROWS, 1));
  device_destroy(device);
  network_destroy(network);
}

/* ---- statistics */

static void expect_statistics(const float *statistics, int updates, int observed) {
  for (int k = 0; k < PLACES; k++) {
    double sum = 0, squares = 0;
    for (int i = 0; i < observed; i++) sum += (double)*number(rows[i], k);
    for (int i = 0; i < observed; i++)
      squares += pow((double)*number(rows[i], k) - sum / observed, 2);
    assert_true(statistics[k] == (float)(updates * observed));
    assert_true(fabs((double)statistics[PLACES + k] - sum / observed) <= 1e-6 * fabs(sum));
    double expected = squares / observed, got = (double)statistics[2 * PLACES + k];
    if (!(fabs(got - expected) <= 1e-3 * expected))
      fail_msg("variance of place %d: %g, not %g", k, got, expected);
  }
}

static void expect_image_statistics(const float *statistics, int updates, int observed) {
  for (int k = 0; k < PIXELS; k++) {
    double sum = 0, squares = 0, x[ROWS];
    for (int i = 0; i < observed; i++)
      sum += x[i] = (double)((const float *)(rows[i] + IMAGE_AT))[k];
    for (int i = 0; i < observed; i++) squares += pow(x[i] - sum / observed, 2);
    assert_true(statistics[k] == (float)(updates * observed));
    assert_true(fabs((double)statistics[PIXELS + k] - sum / observed) <= 1e-6);
    assert_true(fabs((double)statistics[2 * PIXELS + k] - squares / observed) <= 1e-6);
  }
}

/* The last rows are not observed; other parameters do not change. */
static void check_observed(const char *device) {
  enum { OBSERVED = ROWS - N };
  struct world w;
  fill_rows();
  void *on_device = open_rows(&w, "nature", VECTORS | IMAGES, device);
  const size_t others = w.P - statistics_of(VECTORS | IMAGES);
  float *before = malloc(w.P * sizeof(float)), *after = malloc(w.P * sizeof(float));
  network_init_parameters(w.network, before, 1);
  w.device->ops->upload(w.device, w.params, before, w.P);
  const float zero = 0;
  real *skipped = world_reals(&w, 1);
  w.device->ops->upload(w.device, skipped, &zero, 1);
  struct network_observer *observer = network_observer_create(w.network, w.device, OBSERVED, 1);
  for (int updates = 1; updates <= 3; updates++) {
    network_observe(observer, w.params, skipped, &w.inputs);
    w.device->ops->download(w.device, after, w.params, w.P);
    assert_memory_equal(before, after, others * sizeof(float));
    expect_statistics(after + others, updates, OBSERVED);
    expect_image_statistics(after + others + 3 * PLACES, updates, OBSERVED);
  }
  network_observer_destroy(observer);
  w.device->ops->release(w.device, skipped);
  free(before);
  free(after);
  close_rows(&w, on_device);
}

static void statistics_are_of_what_was_observed(void **state) {
  (void)state;
  emulated_cuda_use();
  for (int i = 0; i < 5; i++) check_observed(devices[i]);
}

/* Of a batch with more rows than count every so many are seen, of all its windows as many. */
static void check_images_seen(int steps, int windows, int stride) {
  int batch = steps * windows, seen = (batch + stride - 1) / stride;
  struct world w;
  void *on_device = open_rows(&w, "nature", IMAGES, "ref");
  uint8_t *rows_here = check_alloc((size_t)batch, ROW);
  double sum = 0;
  for (int i = 0; i < batch; i++) {
    ((float *)(rows_here + (size_t)i * ROW + IMAGE_AT))[1] = (float)i;
    if (i % stride == 0) sum += i;
  }
  uint8_t *rows_there = w.device->ops->alloc(w.device, (size_t)batch * ROW);
  w.device->ops->upload_bytes(w.device, rows_there, rows_here, (size_t)batch * ROW);
  device_finish(w.device);
  w.inputs.observation = rows_there;
  real *skipped = world_reals(&w, 1);
  float *after = malloc(w.P * sizeof(float));
  network_init_parameters(w.network, after, 1);
  w.device->ops->upload(w.device, w.params, after, w.P);
  struct network_observer *observer = network_observer_create(w.network, w.device, steps, windows);
  network_observe(observer, w.params, skipped, &w.inputs);
  w.device->ops->download(w.device, after, w.params, w.P);
  const float *statistics = after + w.P - statistics_of(IMAGES);
  assert_true(statistics[1] == (float)seen);
  assert_true(fabs((double)statistics[PIXELS + 1] - sum / seen) < 1e-3);
  network_observer_destroy(observer);
  w.device->ops->release(w.device, skipped);
  w.device->ops->release(w.device, rows_there);
  free(after);
  free(rows_here);
  close_rows(&w, on_device);
}

static void images_from_all_over_a_batch_are_seen(void **state) {
  (void)state;
  check_images_seen(2 * NETWORK_IMAGES_SEEN, 1, 3);
  check_images_seen(64, 16, 3);
  check_images_seen(64, 24, 5); /* every third row is of the same windows */
  check_images_seen(64, 30, 7);
}

static void without_vectors_there_are_none(void **state) {
  (void)state;
  struct network_config config = config_with("impala_shallow", 0, &forms[0]);
  config.normalize = true;
  struct network *network = fixture_network(&config);
  struct device *device = fixture_device("ref");
  int count;
  const struct network_parameter *parameter = network_parameters(network, &count);
  assert_string_equal(parameter[count - 1].name, "head/b");
  assert_null(network_observer_create(network, device, ROWS, 1));
  device_destroy(device);
  network_destroy(network);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(vectors_are_normalised_and_nothing_else),
      cmocka_unit_test(images_are_normalised),
      cmocka_unit_test(images_of_other_networks_stay),
      cmocka_unit_test(statistics_are_of_what_was_observed),
      cmocka_unit_test(images_from_all_over_a_batch_are_seen),
      cmocka_unit_test(without_vectors_there_are_none),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
