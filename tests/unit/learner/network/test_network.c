/* Networks: what is refused, the parameter table, initial parameters, forward against plain double
 * arithmetic. */
#include "tests/unit/learner/device/categorical_testing.h"
#include "tests/unit/learner/network/fixture.h"

/* ---- create */

static void refuses_what_makes_no_sense(void **state) {
  (void)state;
  static const struct {
    const char *network;
    int num_actions, num_tensors, count, num_layers, hidden, lstm_size;
    const char *says;
  } table[] = {
      {"lsmt", 2, 1, 4, 1, 8, 8, "unknown network 'lsmt' (did you mean 'lstm'?)"},
      {"qqqqqqqq", 2, 1, 4, 1, 8, 8, "there are mlp, lstm, impala_shallow"},
      {"mlp", 0, 1, 4, 1, 8, 8, "0 actions"},
      {"mlp", 2, 0, 4, 1, 8, 8, "0 tensors"},
      {"mlp", 2, SPACE_MAX_TENSORS + 1, 4, 1, 8, 8, "9 tensors"},
      {"mlp", 2, 1, 0, 1, 8, 8, "tensor 0 has 0 elements"},
      {"mlp", 2, 1, 4, NETWORK_MAX_LAYERS + 1, 8, 8, "5 hidden layers"},
      {"mlp", 2, 1, 4, 1, 0, 8, "hidden layer 0 has size 0"},
      {"lstm", 2, 1, 4, 1, 8, 0, "--lstm_size=0: network lstm has 1 to 4096 units"},
      {"scripted", 3, 1, 4, 1, 8, 8, "CartPole only"},
      {"scripted", 2, 1, 2, 1, 8, 8, "CartPole only"},
  };
  for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
    struct network_config config = {.network = table[i].network,
                                    .head_size = table[i].num_actions,
                                    .value_size = 1,
                                    .inputs = {.row_stride = 16,
                                               .num_tensors = table[i].num_tensors,
                                               .tensor = {{DTYPE_FLOAT32, table[i].count, 0}},
                                               .discrete = table[i].num_actions},
                                    .num_layers = table[i].num_layers,
                                    .hidden = {table[i].hidden},
                                    .lstm_size = table[i].lstm_size};
    struct network *network;
    struct error error = {""};
    assert_int_equal(network_create(&network, &config, &error), STATUS_INVALID);
    assert_null(network);
    if (!strstr(error.text, table[i].says))
      fail_msg("'%s' does not say '%s'", error.text, table[i].says);
  }
}

static void names_its_parameters(void **state) {
  (void)state;
  static const struct network_parameter expected[] = {
      {"hidden0/w", 2, {9, 6}, 0, 54},   {"hidden0/b", 1, {6, 1}, 54, 6},
      {"lstm/w", 2, {6, 20}, 60, 120},   {"lstm/b", 1, {20, 1}, 180, 20},
      {"lstm/wh", 2, {5, 20}, 200, 100}, {"head/w", 2, {5, 4}, 300, 20},
      {"head/b", 1, {4, 1}, 320, 4},
  };
  struct network_config config = fixture_config("lstm", 1, ACTIVATION_RELU);
  struct network *network = fixture_network(&config);
  int count;
  const struct network_parameter *parameter = network_parameters(network, &count);
  assert_int_equal(count, sizeof(expected) / sizeof(expected[0]));
  for (int i = 0; i < count; i++) {
    assert_string_equal(parameter[i].name, expected[i].name);
    assert_int_equal(parameter[i].rank, expected[i].rank);
    assert_int_equal(parameter[i].shape[0], expected[i].shape[0]);
    assert_int_equal(parameter[i].shape[1], expected[i].shape[1]);
    assert_int_equal(parameter[i].offset, expected[i].offset);
    assert_int_equal(parameter[i].count, expected[i].count);
  }
  assert_int_equal(network_num_parameters(network), 324);
  assert_int_equal(network_state_size(network), 10);
  assert_int_equal(network_head_size(network), ACTIONS);
  network_destroy(network);
}

/* ---- initial parameters */

struct moments {
  double mean, deviation, largest;
};

/* Over columns [first, last) of one parameter. */
static struct moments moments_of(const struct network *network, const float *host, const char *name,
                                 int first, int last) {
  int count;
  const struct network_parameter *p = network_parameters(network, &count);
  while (strcmp(p->name, name) != 0) p++;
  int columns = p->rank == 2 ? p->shape[1] : 1;
  double sum = 0, squares = 0, n = 0, largest = 0;
  for (int i = 0; i < p->shape[0]; i++)
    for (int j = first; j < (last ? last : columns); j++) {
      double x = host[p->offset + (size_t)i * (size_t)columns + (size_t)j];
      sum += x, squares += x * x, n += 1;
      largest = fmax(largest, fabs(x));
    }
  return (struct moments){sum / n, sqrt(squares / n), largest};
}

static void initial_parameters_have_their_sizes(void **state) {
  (void)state;
  static const struct {
    const char *name;
    int first, last;
    double deviation, largest; /* 0: any */
  } table[] = {
      {"hidden0/w", 0, 0, 0.4714, 0},    /* sqrt(2 / 9) */
      {"hidden1/w", 0, 0, 0.0884, 0},    /* sqrt(2 / 256) */
      {"lstm/w", 0, 0, 0.0510, 0.08839}, /* 1 / sqrt(128), over sqrt(3) for the deviation */
      {"lstm/wh", 0, 0, 0.0510, 0.08839},
      {"head/w", 0, ACTIONS, 0.000884, 0}, /* 0.01 / sqrt(128) */
      {"head/w", ACTIONS, ACTIONS + 1, 0.0884, 0},
  };
  struct network_config config = fixture_config("lstm", 2, ACTIVATION_TANH);
  config.hidden[0] = config.hidden[1] = 256;
  config.lstm_size = 128;
  struct network *network = fixture_network(&config);
  float *host = malloc(network_num_parameters(network) * sizeof(float));
  network_init_parameters(network, host, 7);
  for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
    struct moments m = moments_of(network, host, table[i].name, table[i].first, table[i].last);
    double tolerance =
        table[i].first == ACTIONS ? 0.2 : 0.08; /* a few deviations of the estimate */
    assert_true(fabs(m.deviation / table[i].deviation - 1) < tolerance);
    assert_true(fabs(m.mean) < 0.3 * table[i].deviation);
    if (table[i].largest > 0) assert_true(m.largest <= table[i].largest);
  }
  const char *biases[] = {"hidden0/b", "hidden1/b", "lstm/b", "head/b"};
  for (int i = 0; i < 4; i++) assert_true(moments_of(network, host, biases[i], 0, 0).largest == 0);
  free(host);
  network_destroy(network);
}

static void initial_parameters_depend_on_the_seed_only(void **state) {
  (void)state;
  struct network_config config = fixture_config("lstm", 2, ACTIVATION_RELU);
  struct network *network = fixture_network(&config), *again = fixture_network(&config);
  float a[1000] = {0}, b[1000] = {1}, c[1000] = {0};
  assert_true(network_num_parameters(network) < 1000);
  size_t bytes = network_num_parameters(network) * sizeof(float);
  network_init_parameters(network, a, 7);
  network_init_parameters(again, b, 7);
  network_init_parameters(network, c, 8);
  assert_memory_equal(a, b, bytes);
  assert_memory_not_equal(a, c, bytes);
  network_destroy(network);
  network_destroy(again);
}

/* ---- forward */

struct case_ {
  const char *network;
  int num_layers;
  enum activation activation;
  bool previous_action, reward, masked;
};

static const struct case_ cases[] = {
    {"mlp", 0, ACTIVATION_NONE, true, true, false},
    {"mlp", 1, ACTIVATION_RELU, true, true, false},
    {"mlp", 4, ACTIVATION_TANH, false, true, false},
    {"mlp", 2, ACTIVATION_TANH, true, false, false},
    {"lstm", 0, ACTIVATION_NONE, true, true, false},
    {"lstm", 2, ACTIVATION_RELU, true, true, false},
    {"lstm", 1, ACTIVATION_TANH, false, false, false},
    {"mlp", 1, ACTIVATION_TANH, true, true, true},
    {"lstm", 1, ACTIVATION_RELU, true, true, true},
};
enum {
  NUM_CASES = sizeof(cases) / sizeof(cases[0]),
  T = 6,
  N = 4,
  ROWS = T * N,
  MAX_STATE = 16,
  MAX_P = 2000
};

struct world {
  struct network_config config;
  struct network *network;
  struct device *device;
  real *params;
  double host[MAX_P];
  struct train_batch *batch;
  struct device_inputs inputs;
  struct host_batch copy; /* of the batch, for the computation here */
};

static void world_open(struct world *w, const struct case_ *c, const char *device) {
  w->config = fixture_config(c->network, c->num_layers, c->activation);
  w->config.inputs.use_previous_action = c->previous_action;
  w->config.inputs.use_reward = c->reward;
  w->config.inputs.masked = c->masked;
  w->network = fixture_network(&w->config);
  w->device = fixture_device(device);
  size_t P = network_num_parameters(w->network);
  assert_true(P < MAX_P);
  w->params = w->device->ops->alloc(w->device, P * w->device->ops->real_bytes);
  struct stream stream = {3, 0};
  for (size_t i = 0; i < P; i++) {
    float x = (float)stream_between(&stream, -0.7, 0.7);
    w->host[i] = x;
    w->device->ops->upload(w->device, device_at(w->device, w->params, i), &x, 1);
  }
  w->batch = fixture_batch(w->device, w->network, T - 1, N, 5);
  w->inputs = fixture_batch_inputs(w->network, w->batch);
  w->copy = fixture_host_batch(w->device, w->batch);
}

static void world_close(struct world *w) {
  host_batch_destroy(&w->copy);
  train_batch_destroy(w->device, w->batch);
  w->device->ops->release(w->device, w->params);
  device_destroy(w->device);
  network_destroy(w->network);
}

static void forward_is_the_plain_computation(void **state) {
  (void)state;
  static const struct {
    const char *device;
    double tolerance;
  } devices[] = {{"ref_double", 1e-6}, {"ref", 1e-5}, {"cpu", 1e-5}, {"guarded", 1e-5}};
  enum { DEVICES = sizeof(devices) / sizeof(devices[0]) };
  for (int i = 0; i < DEVICES * NUM_CASES; i++) {
    struct world w;
    world_open(&w, &cases[i / DEVICES], devices[i % DEVICES].device);
    struct device_inputs seen = fixture_batch_inputs(w.network, w.copy.batch);
    int S = network_state_size(w.network);
    float state_in[N * MAX_STATE], state_got[N * MAX_STATE], got[ROWS * (ACTIONS + 1)];
    double moving[N * MAX_STATE], head[ROWS * (ACTIONS + 1)];
    if (S) w.device->ops->download(w.device, state_in, w.batch->state, (size_t)(N * S));
    for (int k = 0; k < N * S; k++) moving[k] = state_in[k];
    reference_forward(head, moving, w.network, &w.config, w.host, &seen, T, N);

    /* A workspace larger than needed, and the state moved on in place. */
    struct network_workspace *workspace =
        network_workspace_create(w.network, w.device, ROWS + 5, false);
    struct network_outputs out;
    network_forward(workspace, &out, S ? w.batch->state : NULL, w.params, &w.inputs, w.batch->state,
                    T, N);
    assert_int_equal(out.stride, ACTIONS + 1);
    w.device->ops->download(w.device, got, out.head, ROWS * (ACTIONS + 1));
    for (int k = 0; k < ROWS * (ACTIONS + 1); k++)
      assert_true(fabs(got[k] - head[k]) < devices[i % DEVICES].tolerance * (1 + fabs(head[k])));
    if (S) w.device->ops->download(w.device, state_got, w.batch->state, (size_t)(N * S));
    for (int k = 0; k < N * S; k++)
      assert_true(fabs(state_got[k] - moving[k]) < devices[i % DEVICES].tolerance);
    network_workspace_destroy(workspace);
    world_close(&w);
  }
}

/* The inputs of step t alone. */
static struct device_inputs step_of(const struct device_inputs *inputs, int t) {
  struct device_inputs step = *inputs;
  step.observation += (size_t)t * N * STRIDE;
  step.previous_action = (const int32_t *)step.previous_action + t * N;
  step.reward += t * N;
  step.flags += t * N;
  return step;
}

static void unrolled_equals_step_by_step(void **state) {
  (void)state;
  for (int i = 0; i < NUM_CASES; i++) {
    struct world w;
    world_open(&w, &cases[i], "ref_double");
    struct network_workspace *unrolled = network_workspace_create(w.network, w.device, ROWS, true);
    struct network_workspace *single = network_workspace_create(w.network, w.device, N, false);
    struct network_outputs all, one;
    double moved[2][N * MAX_STATE];
    size_t row = N * (ACTIONS + 1) * sizeof(double),
           bytes = (size_t)(N * network_state_size(w.network)) * sizeof(double);
    network_forward(unrolled, &all, bytes ? (real *)moved[0] : NULL, w.params, &w.inputs,
                    w.batch->state, T, N);
    for (int t = 0; t < T; t++) {
      struct device_inputs step = step_of(&w.inputs, t);
      network_forward(single, &one, w.batch->state, w.params, &step, w.batch->state, 1, N);
      assert_memory_equal(one.head, (char *)all.head + (size_t)t * row, row);
    }
    if (bytes) assert_memory_equal(w.batch->state, moved[0], bytes);
    network_workspace_destroy(unrolled);
    network_workspace_destroy(single);
    world_close(&w);
  }
}

/* What units of another layer add: an output, and its gradient with backward; of an LSTM all that
 * an unroll keeps. */
static size_t added(const char *name, int hidden, int lstm_size, bool backward) {
  struct device *device = fixture_device("ref");
  size_t bytes[2];
  for (int i = 0; i < 2; i++) {
    struct network_config config = fixture_config(name, 1, ACTIVATION_TANH);
    config.hidden[0] = i ? hidden : 1;
    config.lstm_size = i ? lstm_size : 1;
    struct network *network = fixture_network(&config);
    bytes[i] = network_workspace_bytes(network, device, ROWS, backward);
    network_destroy(network);
  }
  size_t real_bytes = device->ops->real_bytes;
  device_destroy(device);
  return (bytes[1] - bytes[0]) / (ROWS * real_bytes);
}

static void a_workspace_is_counted_before_there_is_memory(void **state) {
  (void)state;
  assert_int_equal(added("mlp", 1 << 16, 1, false), (1 << 16) - 1);
  assert_int_equal(added("mlp", 1 << 16, 1, true), 2 * ((1 << 16) - 1));
  assert_int_equal(added("lstm", 1, 101, false), 8 * 100);
  assert_int_equal(added("lstm", 1, 101, true), 13 * 100);
}

/* ---- policies without parameters */

static void random_is_uniform(void **state) {
  (void)state;
  struct network_config config = fixture_config("random", 0, ACTIVATION_NONE);
  struct network *network = fixture_network(&config);
  struct device *device = fixture_device("ref");
  struct train_batch *batch = fixture_batch(device, network, 1, 3, 1);
  struct network_workspace *workspace = network_workspace_create(network, device, 3, false);
  struct device_inputs inputs = fixture_batch_inputs(network, batch);
  struct network_outputs out;
  float head[3 * (ACTIONS + 1)];
  assert_int_equal(network_num_parameters(network), 0);
  assert_int_equal(network_state_size(network), 0);
  network_forward(workspace, &out, NULL, NULL, &inputs, NULL, 1, 3);
  device->ops->download(device, head, out.head, 3 * (ACTIONS + 1));
  for (int i = 0; i < 3 * (ACTIONS + 1); i++) assert_true(head[i] == 0);
  network_workspace_destroy(workspace);
  train_batch_destroy(device, batch);
  device_destroy(device);
  network_destroy(network);
}

static void scripted_pushes_towards_the_angle(void **state) {
  (void)state;
  static const float angle[] = {-0.1f, 0.1f, 0, -1e-30f};
  static const int action[] = {0, 1, 1, 0};
  struct network_config config = {.network = "scripted",
                                  .head_size = 2,
                                  .value_size = 1,
                                  .inputs = {.row_stride = 16,
                                             .num_tensors = 1,
                                             .tensor = {{DTYPE_FLOAT32, 4, 0}},
                                             .discrete = 2,
                                             .use_previous_action = true,
                                             .use_reward = true}};
  struct network *network = fixture_network(&config);
  struct device *device = fixture_device("ref");
  struct step_shape shape = discrete_shape(16, 0, 0);
  struct train_batch *batch = train_batch_create(device, 1, 4, &shape);
  for (int i = 0; i < 4; i++) ((float *)(batch->observation + 16 * i))[2] = angle[i];
  struct network_workspace *workspace = network_workspace_create(network, device, 9, false);
  struct device_inputs inputs = fixture_batch_inputs(network, batch);
  struct network_outputs out;
  network_forward(workspace, &out, NULL, NULL, &inputs, NULL, 1, 4);
  for (int k = 0; k < 3; k++) { /* the argmax, and samples from both ends */
    float uniform[4], log_prob[4], u[] = {-1, 0x1p-24f, 0.9999999f};
    int32_t got[4];
    for (int i = 0; i < 4; i++) uniform[i] = u[k];
    categorical_sample(device, got, log_prob, out.head, out.stride, uniform, 4, 2);
    for (int i = 0; i < 4; i++) assert_int_equal(got[i], action[i]);
  }
  network_workspace_destroy(workspace);
  train_batch_destroy(device, batch);
  device_destroy(device);
  network_destroy(network);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(refuses_what_makes_no_sense),
      cmocka_unit_test(names_its_parameters),
      cmocka_unit_test(initial_parameters_have_their_sizes),
      cmocka_unit_test(initial_parameters_depend_on_the_seed_only),
      cmocka_unit_test(forward_is_the_plain_computation),
      cmocka_unit_test(unrolled_equals_step_by_step),
      cmocka_unit_test(a_workspace_is_counted_before_there_is_memory),
      cmocka_unit_test(random_is_uniform),
      cmocka_unit_test(scripted_pushes_towards_the_angle),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
