/* Heads of noisy layers: names and initial values, which noise they get when, gradients against
 * finite differences, devices against each other. */
#include "tests/unit/learner/network/head_world.h"
#include "tests/unit/support/skip.h"
#include "learner/device/create.h"

enum { SEED = 9 };

static struct network_config noisy_config(const char *network, int num_layers,
                                          const struct form *form) {
  struct network_config config = config_with(network, num_layers, form);
  config.noisy = true;
  return config;
}

static const struct form *const one_layer = &forms[0];
static const struct form *const streams = &forms[3];

static void set_noise(struct world *w, uint64_t seed, uint32_t number) {
  struct network_noise noise = {.on = true, .seed = seed, .number = number};
  network_set_noise(w->workspace, &noise);
}

static void no_noise(struct world *w) {
  struct network_noise noise = {.on = false, .seed = SEED, .number = 1};
  network_set_noise(w->workspace, &noise);
}

static size_t num_heads(const struct world *w) {
  return (size_t)(ROWS * w->stride);
}

static const struct network_parameter *find(const struct network *network, const char *name) {
  int count;
  const struct network_parameter *parameter = network_parameters(network, &count);
  for (int i = 0; i < count; i++)
    if (strcmp(parameter[i].name, name) == 0) return &parameter[i];
  fail_msg("no parameter %s", name);
  return NULL;
}

/* ---- parameters */

static void expect_layer(const struct network_parameter *parameter, const char *name, int inputs,
                         int outputs) {
  static const char *const parts[] = {"w", "b", "w_deviation", "b_deviation"};
  for (int i = 0; i < 4; i++) {
    char full[NETWORK_NAME_BYTES];
    snprintf(full, sizeof(full), "%s/%s", name, parts[i]);
    assert_string_equal(parameter[i].name, full);
    assert_int_equal(parameter[i].rank, i % 2 ? 1 : 2);
    assert_int_equal(parameter[i].shape[0], i % 2 ? outputs : inputs);
    assert_int_equal(parameter[i].shape[1], i % 2 ? 1 : outputs);
  }
}

static void names_its_parameters(void **state) {
  (void)state;
  int count;
  struct network_config config = noisy_config("mlp", 0, one_layer);
  struct network *network = fixture_network(&config);
  expect_layer(network_parameters(network, &count), "head", 9, 4);
  assert_int_equal(count, 4);
  network_destroy(network);
  config = noisy_config("mlp", 0, streams);
  network = fixture_network(&config);
  const struct network_parameter *parameter = network_parameters(network, &count);
  expect_layer(parameter, "head/advantage_hidden", 9, HEAD_HIDDEN);
  expect_layer(parameter + 4, "head/advantage", HEAD_HIDDEN, 3);
  expect_layer(parameter + 8, "head/value_hidden", 9, HEAD_HIDDEN);
  expect_layer(parameter + 12, "head/value", HEAD_HIDDEN, 1);
  assert_int_equal(count, 16);
  network_destroy(network);
}

/* The one with the most parameter arrays and buffers. */
static void the_largest_network_fits(void **state) {
  (void)state;
  int count;
  struct network_config config = noisy_config("impala_shallow", 0, streams);
  config.network = "impala_deep";
  struct network *network = fixture_network(&config);
  network_parameters(network, &count);
  assert_int_equal(count, 51);
  struct device *device = fixture_device("cpu");
  network_workspace_destroy(network_workspace_create(network, device, 1, true));
  device_destroy(device);
  network_destroy(network);
}

/* Uniform in +-limit: none outside, and the deviation of such numbers. */
static void expect_uniform(const struct network *network, const float *host, const char *name,
                           double limit) {
  const struct network_parameter *parameter = find(network, name);
  double sum = 0, squares = 0, count = (double)parameter->count;
  for (size_t i = 0; i < parameter->count; i++) {
    double x = host[parameter->offset + i];
    assert_true(fabs(x) <= limit);
    sum += x;
    squares += x * x;
  }
  assert_true(fabs(sum / count) < 0.2 * limit);
  assert_true(fabs(sqrt(squares / count) * sqrt(3) / limit - 1) < 0.2);
}

static void expect_constant(const struct network *network, const float *host, const char *name,
                            double value) {
  const struct network_parameter *parameter = find(network, name);
  for (size_t i = 0; i < parameter->count; i++)
    assert_true(host[parameter->offset + i] == (float)value);
}

static void initial_parameters_are_as_described(void **state) {
  (void)state;
  static const struct {
    const char *name;
    int inputs;
  } layers[] = {{"head/advantage_hidden", 100},
                {"head/advantage", 64},
                {"head/value_hidden", 100},
                {"head/value", 64}};
  static const struct form wide = {60, 60, 64, 0};
  struct network_config config = noisy_config("mlp", 1, &wide);
  config.hidden[0] = 100;
  struct network *network = fixture_network(&config);
  float *host = malloc(network_num_parameters(network) * sizeof(*host));
  network_init_parameters(network, host, 7);
  for (int i = 0; i < 4; i++) {
    char name[NETWORK_NAME_BYTES];
    double limit = 1 / sqrt(layers[i].inputs);
    snprintf(name, sizeof(name), "%s/w", layers[i].name);
    expect_uniform(network, host, name, limit);
    snprintf(name, sizeof(name), "%s/b", layers[i].name);
    expect_uniform(network, host, name, limit);
    snprintf(name, sizeof(name), "%s/w_deviation", layers[i].name);
    expect_constant(network, host, name, 0.5 * limit);
    snprintf(name, sizeof(name), "%s/b_deviation", layers[i].name);
    expect_constant(network, host, name, 0.5 * limit);
  }
  free(host);
  network_destroy(network);
}

/* ---- which noise */

static void the_noise_is_that_of_seed_and_number(void **state) {
  (void)state;
  static const struct form *const both[] = {&forms[0], &forms[3]};
  for (int f = 0; f < 2; f++) {
    struct network_config config = noisy_config("mlp", 1, both[f]);
    struct world w, other;
    float first[MAX_NUMBERS], again[MAX_NUMBERS];
    world_open(&w, &config, "ref");
    world_open(&other, &config, "ref");
    size_t bytes = num_heads(&w) * sizeof(float);
    set_noise(&w, SEED, 1);
    world_heads(&w, first);
    world_heads(&w, again);
    assert_memory_equal(first, again, bytes);
    set_noise(&w, SEED, 2);
    world_heads(&w, again);
    assert_memory_not_equal(first, again, bytes);
    set_noise(&w, SEED + 1, 1);
    world_heads(&w, again);
    assert_memory_not_equal(first, again, bytes);
    set_noise(&other, SEED, 1);
    world_heads(&other, again);
    assert_memory_equal(first, again, bytes);
    world_close(&w);
    world_close(&other);
  }
}

/* The parameters of a network without noise that has the means of this one. */
static void copy_means(struct world *to, const struct world *from) {
  int count;
  const struct network_parameter *parameter = network_parameters(to->network, &count);
  for (int i = 0; i < count; i++) {
    size_t offset = find(from->network, parameter[i].name)->offset;
    device_copy(to->device, device_at(to->device, to->params, parameter[i].offset),
                device_at(from->device, from->params, offset), parameter[i].count);
  }
}

static void without_noise_the_weights_are_the_means(void **state) {
  (void)state;
  for (int f = 0; f < NUM_FORMS; f++) {
    struct network_config config = noisy_config("lstm", 1, &forms[f]),
                          plain_config = config_with("lstm", 1, &forms[f]);
    struct world w, plain;
    float expected[MAX_NUMBERS], got[MAX_NUMBERS];
    world_open(&w, &config, "ref");
    world_open(&plain, &plain_config, "ref");
    copy_means(&plain, &w);
    world_heads(&plain, expected);
    size_t bytes = num_heads(&w) * sizeof(float);
    world_heads(&w, got); /* no call yet */
    assert_memory_equal(got, expected, bytes);
    set_noise(&w, SEED, 1);
    world_heads(&w, got);
    assert_memory_not_equal(got, expected, bytes);
    no_noise(&w);
    world_heads(&w, got);
    assert_memory_equal(got, expected, bytes);
    world_close(&w);
    world_close(&plain);
  }
}

static void without_noise_deviations_have_no_gradient(void **state) {
  (void)state;
  struct network_config config = noisy_config("mlp", 1, streams);
  struct world w;
  int count;
  world_open(&w, &config, "ref");
  const float *gradient = (const float *)w.gradient;
  const struct network_parameter *parameter = network_parameters(w.network, &count);
  device_fill(w.device, w.gradient, 7, w.P);
  world_forward(&w);
  world_backward(&w);
  for (int j = 0; j < count; j++)
    for (size_t i = 0; i < parameter[j].count; i++) {
      float x = gradient[parameter[j].offset + i];
      if (strstr(parameter[j].name, "_deviation")) assert_true(x == 0);
      assert_true(x != 7);
    }
  world_close(&w);
}

static void networks_without_noise_ignore_it(void **state) {
  (void)state;
  struct network_config config = config_with("mlp", 1, streams);
  struct world w;
  float expected[MAX_NUMBERS], got[MAX_NUMBERS];
  world_open(&w, &config, "ref");
  world_heads(&w, expected);
  set_noise(&w, SEED, 1);
  world_heads(&w, got);
  assert_memory_equal(got, expected, num_heads(&w) * sizeof(float));
  world_close(&w);
  struct network_config random = fixture_config("random", 0, ACTIVATION_NONE);
  world_open(&w, &random, "ref");
  set_noise(&w, SEED, 1);
  world_close(&w);
}

/* ---- what the noise is */

/* All parameters 0 but the named array, which is `value`. ref_double. */
static double *only(struct world *w, const char *name, double value) {
  double *params = (double *)w->params;
  const struct network_parameter *parameter = find(w->network, name);
  memset(params, 0, w->P * sizeof(*params));
  for (size_t i = 0; i < parameter->count; i++) params[parameter->offset + i] = value;
  return params + parameter->offset;
}

/* The noise of weight (i, o): what a deviation of 1 adds to the output, over the input, in the row
 * where that is largest. */
static double noise_of_weight(struct world *w, int i, int o) {
  double *deviation = only(w, "head/w_deviation", 0), largest = 0, noise = 0;
  deviation[i * w->stride + o] = 1;
  const double *head = (const double *)world_forward(w).head;
  for (int row = 0; row < ROWS; row++) {
    double x[MAX_WIDTH];
    reference_embed(x, &w->inputs, row);
    if (fabs(x[i]) <= largest) continue;
    largest = fabs(x[i]);
    noise = head[row * w->stride + o] / x[i];
  }
  assert_true(largest > 0);
  return noise;
}

static void the_noise_is_factorised(void **state) {
  (void)state;
  struct network_config config = noisy_config("mlp", 0, one_layer);
  struct world w;
  double of_outputs[ACTIONS + 1];
  world_open(&w, &config, "ref_double");
  int I = device_inputs_size(network_inputs(w.network));
  set_noise(&w, SEED, 3);
  only(&w, "head/b_deviation", 1);
  memcpy(of_outputs, world_forward(&w).head, sizeof(of_outputs));
  for (int i = 0; i < I; i++) {
    double of_input = noise_of_weight(&w, i, 0) / of_outputs[0];
    assert_true(fabs(of_input) > 1e-3);
    for (int o = 0; o < w.stride; o++) {
      assert_true(fabs(noise_of_weight(&w, i, o) - of_input * of_outputs[o]) < 1e-12);
      assert_true(fabs(of_input - of_outputs[o]) > 1e-9); /* another number */
    }
  }
  world_close(&w);
}

/* Over many numbers: mean 0, mean square E|normal| = sqrt(2 / pi), and no correlation between one
 * number and the next, one output and the next, one layer and another. */
static void the_noise_is_distributed_and_independent(void **state) {
  (void)state;
  enum { DRAWS = 4000 };
  struct network_config config = noisy_config("mlp", 0, streams);
  struct world w;
  double mean = 0, square = 0, number = 0, output = 0, layer = 0, before = 0;
  world_open(&w, &config, "ref_double");
  double *advantage = only(&w, "head/advantage/b_deviation", 1);
  double *value = (double *)w.params + find(w.network, "head/value/b_deviation")->offset;
  advantage[0] = value[0] = 1;
  for (uint32_t k = 0; k < DRAWS; k++) {
    set_noise(&w, SEED, k);
    const double *head = (const double *)world_forward(&w).head;
    mean += head[0] / DRAWS;
    square += head[0] * head[0] / DRAWS;
    number += head[0] * before / DRAWS;
    output += head[0] * head[1] / DRAWS;
    layer += head[0] * head[ACTIONS] / DRAWS;
    before = head[0];
  }
  /* Four deviations of each estimate. */
  assert_true(fabs(mean) < 4 * sqrt(0.8 / DRAWS));
  assert_true(fabs(square - sqrt(2 / M_PI)) < 4 * 0.61 / sqrt(DRAWS));
  double products[] = {number, output, layer};
  for (int i = 0; i < 3; i++) assert_true(fabs(products[i]) < 4 * 0.8 / sqrt(DRAWS));
  world_close(&w);
}

/* Both hidden layers have the same sizes and the same inputs, and yet not the same noise. */
static void the_streams_have_noise_of_their_own(void **state) {
  (void)state;
  struct network_config config = noisy_config("mlp", 0, streams);
  struct world w;
  float head[MAX_NUMBERS];
  world_open(&w, &config, "ref_double");
  only(&w, "head/advantage_hidden/b_deviation", 1);
  double *params = (double *)w.params;
  static const char *const ones[] = {"head/value_hidden/b_deviation", "head/advantage/w",
                                     "head/value/w"};
  for (int k = 0; k < 3; k++) {
    const struct network_parameter *parameter = find(w.network, ones[k]);
    for (size_t i = 0; i < parameter->count; i++) params[parameter->offset + i] = 1;
  }
  set_noise(&w, SEED, 1);
  world_heads(&w, head);
  assert_true(head[0] > 0 && head[0] == head[1] && head[ACTIONS] > 0);
  assert_true(head[0] != head[ACTIONS]);
  world_close(&w);
}

/* ---- gradients, devices */

static const struct {
  const char *network;
  int num_layers;
} networks[] = {{"mlp", 0}, {"mlp", 1}, {"lstm", 1}, {"impala_shallow", 0}};
enum { NUM_NETWORKS = sizeof(networks) / sizeof(networks[0]) };

static void gradients_match_finite_differences(void **state) {
  (void)state;
  for (int i = 0; i < NUM_NETWORKS * NUM_FORMS; i++) {
    int n = i / NUM_FORMS, f = i % NUM_FORMS;
    struct network_config config =
        noisy_config(networks[n].network, networks[n].num_layers, &forms[f]);
    struct world w;
    char what[64];
    snprintf(what, sizeof(what), "%s of %d layers, form %d", networks[n].network,
             networks[n].num_layers, f);
    world_open(&w, &config, "ref_double");
    set_noise(&w, SEED, 4);
    world_check_gradient(&w, what);
    world_close(&w);
  }
}

static void devices_agree(void **state) {
  (void)state;
  static const char *const devices[] = {"ref_double", "ref", "cpu", "guarded"};
  for (int i = 0; i < 3 * NUM_FORMS; i++) {
    float head[2][MAX_NUMBERS], *gradient[2];
    struct network_config config = noisy_config(
        networks[i / NUM_FORMS].network, networks[i / NUM_FORMS].num_layers, &forms[i % NUM_FORMS]);
    for (int d = 0; d < 4; d++) {
      struct world w;
      world_open(&w, &config, devices[d]);
      gradient[d > 0] = malloc(w.P * sizeof(float));
      set_noise(&w, SEED, 5);
      world_run(&w, head[d > 0], gradient[d > 0]);
      if (d) {
        world_expect_close(head[1], head[0], num_heads(&w), 1e-5, devices[d]);
        world_expect_close(gradient[1], gradient[0], w.P, 1e-5, devices[d]);
        free(gradient[1]);
      }
      world_close(&w);
    }
    free(gradient[0]);
  }
}

/* In bf16 the CPU keeps weights in another form, by their address: here those of one noise must not
 * be used for the next. */
static void kept_weights_change_with_the_noise(void **state) {
  (void)state;
  static const struct form wide = {ACTIONS, 1, 128, 0};
  struct network_config config = noisy_config("mlp", 1, &wide);
  config.hidden[0] = 128;
  struct device *device;
  struct error error;
  if (device_create_by(&device, &(struct device_options){.name = "cpu", .precision = "bf16"},
                       &error) != STATUS_OK)
    SKIP(error.text);
  device_destroy(device);
  struct world w, fresh;
  float got[MAX_NUMBERS], expected[MAX_NUMBERS];
  world_open_with(&w, &config, "cpu", "bf16");
  world_open_with(&fresh, &config, "cpu", "bf16");
  float *gradient = malloc(2 * w.P * sizeof(float));
  set_noise(&w, SEED, 1);
  world_run(&w, got, gradient);
  set_noise(&w, SEED, 2);
  world_run(&w, got, gradient);
  set_noise(&fresh, SEED, 2);
  world_run(&fresh, expected, gradient + w.P);
  assert_memory_equal(got, expected, num_heads(&w) * sizeof(float));
  assert_memory_equal(gradient, gradient + w.P, w.P * sizeof(float));
  free(gradient);
  world_close(&w);
  world_close(&fresh);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(names_its_parameters),
      cmocka_unit_test(the_largest_network_fits),
      cmocka_unit_test(initial_parameters_are_as_described),
      cmocka_unit_test(the_noise_is_that_of_seed_and_number),
      cmocka_unit_test(without_noise_the_weights_are_the_means),
      cmocka_unit_test(without_noise_deviations_have_no_gradient),
      cmocka_unit_test(networks_without_noise_ignore_it),
      cmocka_unit_test(the_noise_is_factorised),
      cmocka_unit_test(the_noise_is_distributed_and_independent),
      cmocka_unit_test(the_streams_have_noise_of_their_own),
      cmocka_unit_test(gradients_match_finite_differences),
      cmocka_unit_test(devices_agree),
      cmocka_unit_test(kept_weights_change_with_the_noise),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
