/* Heads of one layer and of two streams: names, initial values, forward against plain double
 * arithmetic, gradients against finite differences, devices against each other. */
#include "tests/unit/learner/network/head_world.h"

/* ---- parameters */

static void expect_shape(const struct network_parameter *parameter, const char *name, int rows,
                         int columns) {
  assert_string_equal(parameter->name, name);
  assert_int_equal(parameter->rank, columns ? 2 : 1);
  assert_int_equal(parameter->shape[0], rows);
  assert_int_equal(parameter->shape[1], columns ? columns : 1);
}

static void names_its_parameters(void **state) {
  (void)state;
  static const struct {
    const char *name;
    int rows, columns;
  } expected[NUM_FORMS][10] = {
      {{"head/w", 5, 4}, {"head/b", 4, 0}},
      {{"head/w", 5, 3}, {"head/b", 3, 0}},
      {{"head/w", 5, 20}, {"head/b", 20, 0}},
      {{"head/advantage_hidden/w", 5, 6},
       {"head/advantage_hidden/b", 6, 0},
       {"head/advantage/w", 6, 3},
       {"head/advantage/b", 3, 0},
       {"head/value_hidden/w", 5, 6},
       {"head/value_hidden/b", 6, 0},
       {"head/value/w", 6, 1},
       {"head/value/b", 1, 0}},
      {{"head/advantage_hidden/w", 5, 6},
       {"head/advantage_hidden/b", 6, 0},
       {"head/advantage/w", 6, 3},
       {"head/advantage/b", 3, 0}},
      {{"head/advantage_hidden/w", 5, 6},
       {"head/advantage_hidden/b", 6, 0},
       {"head/advantage/w", 6, 15},
       {"head/advantage/b", 15, 0},
       {"head/value_hidden/w", 5, 6},
       {"head/value_hidden/b", 6, 0},
       {"head/value/w", 6, 5},
       {"head/value/b", 5, 0}},
      {{"head/w", 5, 4}, {"head/b", 4, 0}, {"head/log_std", 3, 0}},
      {{"head/advantage_hidden/w", 5, 6},
       {"head/advantage_hidden/b", 6, 0},
       {"head/advantage/w", 6, 3},
       {"head/advantage/b", 3, 0},
       {"head/value_hidden/w", 5, 6},
       {"head/value_hidden/b", 6, 0},
       {"head/value/w", 6, 1},
       {"head/value/b", 1, 0},
       {"head/log_std", 3, 0}},
  };
  enum { BELOW = 3 }; /* arrays of the LSTM */
  for (int f = 0; f < NUM_FORMS; f++) {
    struct network_config config = config_with("lstm", 0, &forms[f]);
    struct network *network = fixture_network(&config);
    int count, i = 0;
    const struct network_parameter *parameter = network_parameters(network, &count);
    for (; expected[f][i].name; i++)
      expect_shape(&parameter[BELOW + i], expected[f][i].name, expected[f][i].rows,
                   expected[f][i].columns);
    assert_int_equal(count, BELOW + i);
    assert_int_equal(network_head_size(network), forms[f].head_size);
    assert_int_equal(network_head_stride(network),
                     forms[f].head_size + forms[f].value_size + forms[f].log_stds);
    network_destroy(network);
  }
}

static void refuses_sizes_that_make_no_sense(void **state) {
  (void)state;
  static const int sizes[] = {-1, (1 << 20) + 1};
  for (int i = 0; i < 2; i++) {
    struct network_config config = config_with("mlp", 1, &forms[0]);
    struct network *network;
    struct error error;
    config.head_hidden = sizes[i];
    assert_int_equal(network_create(&network, &config, &error), STATUS_INVALID);
    assert_non_null(strstr(error.text, i ? "size 1048577" : "size -1"));
  }
}

/* Normal, with deviation gain / sqrt(inputs), in columns [first, last) of a weight array. */
static void expect_normal(const struct network *network, const float *host, const char *name,
                          int first, int last, double gain) {
  int count, index = 0;
  const struct network_parameter *parameter = network_parameters(network, &count);
  while (index < count && strcmp(parameter[index].name, name) != 0) index++;
  assert_true(index < count);
  int columns = parameter[index].shape[1];
  for (int i = 0; i < parameter[index].shape[0]; i++)
    for (int j = first; j < last; j++) {
      int k = i * columns + j;
      double normal = random_normal(7, (uint32_t)index, (uint32_t)k, RANDOM_PARAMETERS);
      float expected = (float)(gain / sqrt(parameter[index].shape[0]) * normal);
      assert_true(host[parameter[index].offset + (size_t)k] == expected);
    }
}

static void expect_zeros(const struct network *network, const float *host) {
  int count;
  const struct network_parameter *parameter = network_parameters(network, &count);
  for (int j = 0; j < count; j++)
    for (size_t i = 0; parameter[j].rank == 1 && i < parameter[j].count; i++)
      assert_true(host[parameter[j].offset + i] == 0);
}

static void initial_parameters_are_as_described(void **state) {
  (void)state;
  enum { MAX_P = 1000 };
  for (int f = 0; f < NUM_FORMS; f++) {
    struct network_config config = config_with("mlp", 1, &forms[f]);
    struct network *network = fixture_network(&config);
    float host[MAX_P];
    int A = forms[f].head_size, V = forms[f].value_size, H = forms[f].head_hidden;
    assert_true(network_num_parameters(network) < MAX_P);
    for (int i = 0; i < MAX_P; i++) host[i] = 9;
    network_init_parameters(network, host, 7);
    expect_zeros(network, host);
    if (!H) {
      expect_normal(network, host, "head/w", 0, A, 0.01);
      expect_normal(network, host, "head/w", A, A + V, 1);
    } else {
      expect_normal(network, host, "head/advantage_hidden/w", 0, H, sqrt(2));
      expect_normal(network, host, "head/advantage/w", 0, A, 0.01);
      if (V) expect_normal(network, host, "head/value_hidden/w", 0, H, sqrt(2));
      if (V) expect_normal(network, host, "head/value/w", 0, V, 1);
    }
    network_destroy(network);
  }
}

/* ---- forward */

/* x (width) becomes the outputs of the head's layers. */
static void reference_layers(double *x, const struct network *network, const double *params,
                             const struct form *form, int width) {
  double other[MAX_WIDTH];
  int A = form->head_size, V = form->value_size, H = form->head_hidden;
  if (!H) {
    reference_dense(x, network, params, "head", ACTIVATION_NONE, width, A + V);
    return;
  }
  memcpy(other, x, sizeof(other));
  reference_dense(x, network, params, "head/advantage_hidden", ACTIVATION_RELU, width, H);
  reference_dense(x, network, params, "head/advantage", ACTIVATION_NONE, H, A);
  if (!V) return;
  reference_dense(other, network, params, "head/value_hidden", ACTIVATION_RELU, width, H);
  reference_dense(other, network, params, "head/value", ACTIVATION_NONE, H, V);
  memcpy(x + A, other, (size_t)V * sizeof(double));
}

/* x (width) becomes the head (stride). */
static void reference_head(double *x, const struct network *network, const double *params,
                           const struct form *form, int width) {
  int count;
  const struct network_parameter *last = network_parameters(network, &count) + count - 1;
  reference_layers(x, network, params, form, width);
  for (int k = 0; k < form->log_stds; k++)
    x[form->head_size + form->value_size + k] = params[last->offset + (size_t)k];
}

static void forward_is_the_plain_computation(void **state) {
  (void)state;
  for (int i = 0; i < 2 * NUM_FORMS; i++) {
    const struct form *form = &forms[i / 2];
    struct network_config config = config_with("mlp", i % 2, form);
    struct world w;
    world_open(&w, &config, "ref_double");
    const double *head = (const double *)world_forward(&w).head;
    for (int row = 0; row < ROWS; row++) {
      double x[MAX_WIDTH];
      int width = reference_embed(x, &w.inputs, row);
      if (config.num_layers)
        width = reference_dense(x, w.network, (const double *)w.params, "hidden0", ACTIVATION_TANH,
                                width, config.hidden[0]);
      reference_head(x, w.network, (const double *)w.params, form, width);
      for (int k = 0; k < w.stride; k++)
        if (fabs(head[row * w.stride + k] - x[k]) > 1e-12)
          fail_msg("form %d, row %d: %g, expected %g", i / 2, row, head[row * w.stride + k], x[k]);
    }
    world_close(&w);
  }
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
        config_with(networks[n].network, networks[n].num_layers, &forms[f]);
    struct world w;
    char what[64];
    snprintf(what, sizeof(what), "%s of %d layers, form %d", networks[n].network,
             networks[n].num_layers, f);
    world_open(&w, &config, "ref_double");
    world_check_gradient(&w, what);
    world_close(&w);
  }
}

static void devices_agree(void **state) {
  (void)state;
  static const char *const devices[] = {"ref_double", "ref", "cpu", "guarded"};
  for (int i = 0; i < 3 * NUM_FORMS; i++) {
    float head[2][MAX_NUMBERS], *gradient[2];
    struct network_config config = config_with(
        networks[i / NUM_FORMS].network, networks[i / NUM_FORMS].num_layers, &forms[i % NUM_FORMS]);
    for (int d = 0; d < 4; d++) {
      struct world w;
      world_open(&w, &config, devices[d]);
      gradient[d > 0] = malloc(w.P * sizeof(float));
      world_run(&w, head[d > 0], gradient[d > 0]);
      if (d) {
        world_expect_close(head[1], head[0], (size_t)(ROWS * w.stride), 1e-5, devices[d]);
        world_expect_close(gradient[1], gradient[0], w.P, 1e-5, devices[d]);
        free(gradient[1]);
      }
      world_close(&w);
    }
    free(gradient[0]);
  }
}

/* ---- policies without parameters */

static void random_and_scripted_have_any_value(void **state) {
  (void)state;
  static const char *const names[] = {"random", "scripted"};
  for (int i = 0; i < 4; i++) {
    struct network_config config = fixture_config(names[i % 2], 0, ACTIVATION_NONE);
    config.head_size = config.inputs.discrete = 2;
    config.value_size = i / 2 * ATOMS;
    struct world w;
    float head[MAX_NUMBERS];
    world_open(&w, &config, "ref");
    world_heads(&w, head);
    for (int row = 0; row < ROWS; row++) {
      const float *angle = (const float *)(w.inputs.observation + (size_t)row * STRIDE) + 2;
      for (int k = 0; k < w.stride; k++) {
        bool unlikely = i % 2 && k == (*angle < 0);
        assert_true(head[row * w.stride + k] == (unlikely ? -100 : 0));
      }
    }
    world_close(&w);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(names_its_parameters),
      cmocka_unit_test(refuses_sizes_that_make_no_sense),
      cmocka_unit_test(initial_parameters_are_as_described),
      cmocka_unit_test(forward_is_the_plain_computation),
      cmocka_unit_test(gradients_match_finite_differences),
      cmocka_unit_test(devices_agree),
      cmocka_unit_test(random_and_scripted_have_any_value),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
