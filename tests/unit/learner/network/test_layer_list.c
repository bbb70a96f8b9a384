/* The list of a network's layers names each of its weights and biases once, in an order in which
 * sizes fit. What the layers compute from it is tests/integration/export.sh. */
#include "tests/unit/learner/network/fixture.h"

#include "learner/network/layer_list.h"

enum { SIDE = 40 };

static int uses[NETWORK_MAX_PARAMETERS];

static void count_use(int index) {
  assert_in_range(index, 0, NETWORK_MAX_PARAMETERS - 1);
  uses[index]++;
}

static void count_uses(const struct network_layer *layer) {
  switch (layer->kind) {
    case NETWORK_DENSE:
    case NETWORK_CONV:
      count_use(layer->weight[0]), count_use(layer->bias[0]);
      break;
    case NETWORK_BLOCK:
      for (int i = 0; i < 2; i++) count_use(layer->weight[i]), count_use(layer->bias[i]);
      break;
    case NETWORK_LSTM:
      count_use(layer->weight[0]), count_use(layer->weight[1]), count_use(layer->bias[0]);
      break;
    default:
      break;
  }
}

static bool ends_with(const char *text, const char *end) {
  size_t length = strlen(text), of_end = strlen(end);
  return length >= of_end && strcmp(text + length - of_end, end) == 0;
}

/* A deviation of noise, a statistic and a log_std are no weight of a layer. */
static bool is_of_layer(const char *name) {
  return ends_with(name, "/w") || ends_with(name, "/b") || ends_with(name, "/wh");
}

static void check(const struct network_config *config) {
  struct network *network = fixture_network(config);
  struct network_layer_list list;
  int count;
  const struct network_parameter *parameter = network_parameters(network, &count);
  memset(uses, 0, sizeof(uses));
  network_list_layers(network, &list);
  for (int l = 0; l < list.count; l++) count_uses(&list.layer[l]);
  for (int i = 0; i < count; i++)
    if (uses[i] != is_of_layer(parameter[i].name))
      fail_msg("%s: %s is listed %d times", config->network, parameter[i].name, uses[i]);
  assert_true(list.layer[0].kind == NETWORK_INPUTS || list.layer[0].kind == NETWORK_IMAGES);
  assert_true(list.layer[list.count - 1].stream > 0);
  network_destroy(network);
}

/* The same with a plain head, streams, noise, normalisation. */
static void check_heads(struct network_config config) {
  check(&config);
  config.normalize = config.scale_value = true;
  config.log_stds = 2;
  check(&config);
  config.scale_value = false;
  config.head_hidden = 8;
  config.noisy = true;
  check(&config);
}

static void each_parameter_is_listed_once(void **state) {
  (void)state;
  for (int layers = 0; layers < 3; layers++) {
    check_heads(fixture_config("mlp", layers, ACTIVATION_TANH));
    check_heads(fixture_config("lstm", layers, ACTIVATION_RELU));
  }
  static const char *const of_images[] = {"impala_shallow", "impala_deep", "nature"};
  for (int i = 0; i < 3; i++)
    for (int lstm = 0; lstm < 2; lstm++) {
      struct network_config config = fixture_config(of_images[i], 0, ACTIVATION_NONE);
      config.inputs.num_tensors = 1;
      config.inputs.row_stride = SIDE * SIDE;
      config.inputs.tensor[0].dtype = DTYPE_UINT8;
      config.inputs.tensor[0].count = SIDE * SIDE;
      config.inputs.tensor[0].height = config.inputs.tensor[0].width = SIDE;
      config.inputs.tensor[0].channels = 1;
      config.lstm_size = lstm ? 8 : 0;
      check_heads(config);
    }
}

static void streams_follow_the_body(void **state) {
  (void)state;
  struct network_config config = fixture_config("mlp", 1, ACTIVATION_TANH);
  config.head_hidden = 8;
  struct network *network = fixture_network(&config);
  struct network_layer_list list;
  static const int streams[] = {0, 0, 1, 1, 2, 2};
  network_list_layers(network, &list);
  assert_int_equal(list.count, 6);
  for (int l = 0; l < list.count; l++) assert_int_equal(list.layer[l].stream, streams[l]);
  assert_int_equal(list.layer[1].activation, ACTIVATION_TANH);
  assert_int_equal(list.layer[2].activation, ACTIVATION_RELU);
  assert_int_equal(list.layer[3].activation, ACTIVATION_NONE);
  network_destroy(network);
}

static void none_without_parameters(void **state) {
  (void)state;
  struct network_config config = fixture_config("random", 0, ACTIVATION_NONE);
  struct network *network = fixture_network(&config);
  struct network_layer_list list = {.count = 7};
  network_list_layers(network, &list);
  assert_int_equal(list.count, 0);
  network_destroy(network);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(each_parameter_is_listed_once),
      cmocka_unit_test(streams_follow_the_body),
      cmocka_unit_test(none_without_parameters),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
