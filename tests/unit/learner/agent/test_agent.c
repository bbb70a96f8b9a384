/* Networks: what is refused, the parameter table, initial parameters, forward against plain double
 * arithmetic. */
#include "tests/unit/learner/agent/fixture.h"

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
      {"mlp", 2, DEVICE_MAX_TENSORS + 1, 4, 1, 8, 8, "9 tensors"},
      {"mlp", 2, 1, 0, 1, 8, 8, "tensor 0 has 0 elements"},
      {"mlp", 2, 1, 4, AGENT_MAX_LAYERS + 1, 8, 8, "5 hidden layers"},
      {"mlp", 2, 1, 4, 1, 0, 8, "hidden layer 0 has size 0"},
      {"lstm", 2, 1, 4, 1, 8, 0, "lstm size 0"},
      {"scripted", 3, 1, 4, 1, 8, 8, "CartPole only"},
      {"scripted", 2, 1, 2, 1, 8, 8, "CartPole only"},
  };
  for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
    struct agent_config config = {.network = table[i].network,
                                  .inputs = {.row_stride = 16,
                                             .num_tensors = table[i].num_tensors,
                                             .tensor = {{DEVICE_FLOAT32, table[i].count, 0}},
                                             .num_actions = table[i].num_actions},
                                  .num_layers = table[i].num_layers,
                                  .hidden = {table[i].hidden},
                                  .lstm_size = table[i].lstm_size};
    struct agent *agent;
    struct error error = {""};
    assert_int_equal(agent_create(&agent, &config, &error), STATUS_INVALID);
    assert_null(agent);
    if (!strstr(error.text, table[i].says))
      fail_msg("'%s' does not say '%s'", error.text, table[i].says);
  }
}

static void names_its_parameters(void **state) {
  (void)state;
  static const struct agent_parameter expected[] = {
      {"hidden0/w", 2, {9, 6}, 0, 54},   {"hidden0/b", 1, {6, 1}, 54, 6},
      {"lstm/w", 2, {6, 20}, 60, 120},   {"lstm/b", 1, {20, 1}, 180, 20},
      {"lstm/wh", 2, {5, 20}, 200, 100}, {"head/w", 2, {5, 4}, 300, 20},
      {"head/b", 1, {4, 1}, 320, 4},
  };
  struct agent_config config = fixture_config("lstm", 1, ACTIVATION_RELU);
  struct agent *agent = fixture_agent(&config);
  int count;
  const struct agent_parameter *parameter = agent_parameters(agent, &count);
  assert_int_equal(count, sizeof(expected) / sizeof(expected[0]));
  for (int i = 0; i < count; i++) {
    assert_string_equal(parameter[i].name, expected[i].name);
    assert_int_equal(parameter[i].rank, expected[i].rank);
    assert_int_equal(parameter[i].shape[0], expected[i].shape[0]);
    assert_int_equal(parameter[i].shape[1], expected[i].shape[1]);
    assert_int_equal(parameter[i].offset, expected[i].offset);
    assert_int_equal(parameter[i].count, expected[i].count);
  }
  assert_int_equal(agent_num_parameters(agent), 324);
  assert_int_equal(agent_state_size(agent), 10);
  assert_int_equal(agent_num_actions(agent), ACTIONS);
  agent_destroy(agent);
}

/* ---- initial parameters */

struct moments {
  double mean, deviation, largest;
};

/* Over columns [first, last) of one parameter. */
static struct moments moments_of(const struct agent *agent, const float *host, const char *name,
                                 int first, int last) {
  int count;
  const struct agent_parameter *p = agent_parameters(agent, &count);
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
  struct agent_config config = fixture_config("lstm", 2, ACTIVATION_TANH);
  config.hidden[0] = config.hidden[1] = 256;
  config.lstm_size = 128;
  struct agent *agent = fixture_agent(&config);
  float *host = malloc(agent_num_parameters(agent) * sizeof(float));
  agent_init_parameters(agent, host, 7);
  for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
    struct moments m = moments_of(agent, host, table[i].name, table[i].first, table[i].last);
    double tolerance =
        table[i].first == ACTIONS ? 0.2 : 0.08; /* a few deviations of the estimate */
    assert_true(fabs(m.deviation / table[i].deviation - 1) < tolerance);
    assert_true(fabs(m.mean) < 0.3 * table[i].deviation);
    if (table[i].largest > 0) assert_true(m.largest <= table[i].largest);
  }
  const char *biases[] = {"hidden0/b", "hidden1/b", "lstm/b", "head/b"};
  for (int i = 0; i < 4; i++) assert_true(moments_of(agent, host, biases[i], 0, 0).largest == 0);
  free(host);
  agent_destroy(agent);
}

static void initial_parameters_depend_on_the_seed_only(void **state) {
  (void)state;
  struct agent_config config = fixture_config("lstm", 2, ACTIVATION_RELU);
  struct agent *agent = fixture_agent(&config), *again = fixture_agent(&config);
  float a[1000] = {0}, b[1000] = {1}, c[1000] = {0};
  assert_true(agent_num_parameters(agent) < 1000);
  size_t bytes = agent_num_parameters(agent) * sizeof(float);
  agent_init_parameters(agent, a, 7);
  agent_init_parameters(again, b, 7);
  agent_init_parameters(agent, c, 8);
  assert_memory_equal(a, b, bytes);
  assert_memory_not_equal(a, c, bytes);
  agent_destroy(agent);
  agent_destroy(again);
}

/* ---- forward */

struct case_ {
  const char *network;
  int num_layers;
  enum activation activation;
  bool previous_action, reward;
};

static const struct case_ cases[] = {
    {"mlp", 0, ACTIVATION_NONE, true, true},    {"mlp", 1, ACTIVATION_RELU, true, true},
    {"mlp", 4, ACTIVATION_TANH, false, true},   {"mlp", 2, ACTIVATION_TANH, true, false},
    {"lstm", 0, ACTIVATION_NONE, true, true},   {"lstm", 2, ACTIVATION_RELU, true, true},
    {"lstm", 1, ACTIVATION_TANH, false, false},
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
  struct agent_config config;
  struct agent *agent;
  struct device *device;
  real *params;
  double host[MAX_P];
  struct train_batch *batch;
  struct device_inputs inputs;
};

static void world_open(struct world *w, const struct case_ *c, const char *device) {
  w->config = fixture_config(c->network, c->num_layers, c->activation);
  w->config.inputs.use_previous_action = c->previous_action;
  w->config.inputs.use_reward = c->reward;
  w->agent = fixture_agent(&w->config);
  w->device = fixture_device(device);
  size_t P = agent_num_parameters(w->agent);
  assert_true(P < MAX_P);
  w->params = w->device->ops->alloc(w->device, P * w->device->ops->real_bytes);
  struct stream stream = {3, 0};
  for (size_t i = 0; i < P; i++) {
    float x = (float)stream_between(&stream, -0.7, 0.7);
    w->host[i] = x;
    w->device->ops->upload(w->device, device_at(w->device, w->params, i), &x, 1);
  }
  w->batch = fixture_batch(w->device, w->agent, T - 1, N, 5);
  w->inputs = fixture_batch_inputs(w->agent, w->batch);
}

static void world_close(struct world *w) {
  train_batch_destroy(w->device, w->batch);
  w->device->ops->release(w->device, w->params);
  device_destroy(w->device);
  agent_destroy(w->agent);
}

static void forward_is_the_plain_computation(void **state) {
  (void)state;
  static const struct {
    const char *device;
    double tolerance;
  } devices[] = {{"ref_double", 1e-6}, {"ref", 1e-5}, {"cpu", 1e-5}};
  for (int i = 0; i < 3 * NUM_CASES; i++) {
    struct world w;
    world_open(&w, &cases[i / 3], devices[i % 3].device);
    int S = agent_state_size(w.agent);
    float state_in[N * MAX_STATE], state_got[N * MAX_STATE], got[ROWS * (ACTIONS + 1)];
    double moving[N * MAX_STATE], head[ROWS * (ACTIONS + 1)];
    if (S) w.device->ops->download(w.device, state_in, w.batch->state, (size_t)(N * S));
    for (int k = 0; k < N * S; k++) moving[k] = state_in[k];
    reference_forward(head, moving, w.agent, &w.config, w.host, &w.inputs, T, N);

    /* A workspace larger than needed, and the state moved on in place. */
    struct agent_workspace *workspace = agent_workspace_create(w.agent, w.device, ROWS + 5, false);
    struct agent_outputs out;
    agent_forward(workspace, &out, S ? w.batch->state : NULL, w.params, &w.inputs, w.batch->state,
                  T, N);
    assert_int_equal(out.stride, ACTIONS + 1);
    w.device->ops->download(w.device, got, out.head, ROWS * (ACTIONS + 1));
    for (int k = 0; k < ROWS * (ACTIONS + 1); k++)
      assert_true(fabs(got[k] - head[k]) < devices[i % 3].tolerance * (1 + fabs(head[k])));
    if (S) w.device->ops->download(w.device, state_got, w.batch->state, (size_t)(N * S));
    for (int k = 0; k < N * S; k++)
      assert_true(fabs(state_got[k] - moving[k]) < devices[i % 3].tolerance);
    agent_workspace_destroy(workspace);
    world_close(&w);
  }
}

/* The inputs of step t alone. */
static struct device_inputs step_of(const struct device_inputs *inputs, int t) {
  struct device_inputs step = *inputs;
  step.observation += (size_t)t * N * STRIDE;
  step.previous_action += t * N;
  step.reward += t * N;
  step.flags += t * N;
  return step;
}

static void unrolled_equals_step_by_step(void **state) {
  (void)state;
  for (int i = 0; i < NUM_CASES; i++) {
    struct world w;
    world_open(&w, &cases[i], "ref_double");
    struct agent_workspace *unrolled = agent_workspace_create(w.agent, w.device, ROWS, true);
    struct agent_workspace *single = agent_workspace_create(w.agent, w.device, N, false);
    struct agent_outputs all, one;
    double moved[2][N * MAX_STATE];
    size_t row = N * (ACTIONS + 1) * sizeof(double),
           bytes = (size_t)(N * agent_state_size(w.agent)) * sizeof(double);
    agent_forward(unrolled, &all, bytes ? (real *)moved[0] : NULL, w.params, &w.inputs,
                  w.batch->state, T, N);
    for (int t = 0; t < T; t++) {
      struct device_inputs step = step_of(&w.inputs, t);
      agent_forward(single, &one, w.batch->state, w.params, &step, w.batch->state, 1, N);
      assert_memory_equal(one.head, (char *)all.head + (size_t)t * row, row);
    }
    if (bytes) assert_memory_equal(w.batch->state, moved[0], bytes);
    agent_workspace_destroy(unrolled);
    agent_workspace_destroy(single);
    world_close(&w);
  }
}

/* ---- policies without parameters */

static void random_is_uniform(void **state) {
  (void)state;
  struct agent_config config = fixture_config("random", 0, ACTIVATION_NONE);
  struct agent *agent = fixture_agent(&config);
  struct device *device = fixture_device("ref");
  struct train_batch *batch = fixture_batch(device, agent, 1, 3, 1);
  struct agent_workspace *workspace = agent_workspace_create(agent, device, 3, false);
  struct device_inputs inputs = fixture_batch_inputs(agent, batch);
  struct agent_outputs out;
  float head[3 * (ACTIONS + 1)];
  assert_int_equal(agent_num_parameters(agent), 0);
  assert_int_equal(agent_state_size(agent), 0);
  agent_forward(workspace, &out, NULL, NULL, &inputs, NULL, 1, 3);
  device->ops->download(device, head, out.head, 3 * (ACTIONS + 1));
  for (int i = 0; i < 3 * (ACTIONS + 1); i++) assert_true(head[i] == 0);
  agent_workspace_destroy(workspace);
  train_batch_destroy(device, batch);
  device_destroy(device);
  agent_destroy(agent);
}

static void scripted_pushes_towards_the_angle(void **state) {
  (void)state;
  static const float angle[] = {-0.1f, 0.1f, 0, -1e-30f};
  static const int action[] = {0, 1, 1, 0};
  struct agent_config config = {.network = "scripted",
                                .inputs = {.row_stride = 16,
                                           .num_tensors = 1,
                                           .tensor = {{DEVICE_FLOAT32, 4, 0}},
                                           .num_actions = 2,
                                           .use_previous_action = true,
                                           .use_reward = true}};
  struct agent *agent = fixture_agent(&config);
  struct device *device = fixture_device("ref");
  struct train_batch *batch = train_batch_create(device, 1, 4, 16, 0);
  for (int i = 0; i < 4; i++) ((float *)(batch->observation + 16 * i))[2] = angle[i];
  struct agent_workspace *workspace = agent_workspace_create(agent, device, 9, false);
  struct device_inputs inputs = fixture_batch_inputs(agent, batch);
  struct agent_outputs out;
  agent_forward(workspace, &out, NULL, NULL, &inputs, NULL, 1, 4);
  for (int k = 0; k < 3; k++) { /* the argmax, and samples from both ends */
    float uniform[4], log_prob[4], u[] = {-1, 0x1p-24f, 0.9999999f};
    int32_t got[4];
    for (int i = 0; i < 4; i++) uniform[i] = u[k];
    device->ops->categorical_sample(device, got, log_prob, out.head, out.stride, uniform, 4, 2);
    for (int i = 0; i < 4; i++) assert_int_equal(got[i], action[i]);
  }
  agent_workspace_destroy(workspace);
  train_batch_destroy(device, batch);
  device_destroy(device);
  agent_destroy(agent);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(refuses_what_makes_no_sense),
      cmocka_unit_test(names_its_parameters),
      cmocka_unit_test(initial_parameters_have_their_sizes),
      cmocka_unit_test(initial_parameters_depend_on_the_seed_only),
      cmocka_unit_test(forward_is_the_plain_computation),
      cmocka_unit_test(unrolled_equals_step_by_step),
      cmocka_unit_test(random_is_uniform),
      cmocka_unit_test(scripted_pushes_towards_the_angle),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
