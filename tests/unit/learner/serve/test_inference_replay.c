/* Inference that acts by values, and a replay: with parameters that stay as they are, the values of
 * a window that is computed again from its stored state are those that were kept while acting, over
 * ends of episodes, truncations and new lives. A burn-in brings the state to the same. So the
 * window's first priority is the one that an update would give it. */
#include "common/base/random.h"
#include "learner/device/shared.h"
#include "learner/learn/q_loss.h"
#include "tests/unit/learner/serve/inference_parts.h"

enum { CLIENTS = 5, N = 4, ROUNDS = 250, MAX_T = 24, MAX_STATE = 16 };

struct client {
  struct rpc_stream stream;
  uint32_t life;
  int steps; /* of the life */
  uint8_t flags;
};

struct fixture {
  struct inference_parts parts;
  int T, burn_in, S;
  struct network_workspace *workspace; /* ours */
  real *params, *state;                /* state (N, S) after the burn-in */
  struct client client[CLIENTS];
  uint32_t draws;
  int64_t windows, inside, borders; /* checked; began inside an episode; first rows within them */
};

static int below(struct fixture *f, int n) {
  return (int)(random_bits(8, 0, 0, f->draws++, RANDOM_TEST) % (uint64_t)n);
}

static struct replay_config replay_config(int T, int burn_in) {
  return (struct replay_config){.N = N,
                                .min_windows = 8,
                                .ratio = 2,
                                .band = 1e6,
                                .exponent = 1,
                                .importance = 1,
                                .burn_in = burn_in,
                                .priority = {.T = T,
                                             .counted = T - 1,
                                             .n_steps = 2,
                                             .discount = 0.9f,
                                             .reward_scale = 0.5f,
                                             .rescaling = 1e-3f,
                                             .eta = 0.9f},
                                .seed = 1};
}

/* Parameters so large that a wrong state shows. */
static void publish(struct fixture *f) {
  struct device *device = f->parts.device;
  size_t P = network_num_parameters(f->parts.network);
  float *host = check_alloc(P, sizeof(*host));
  for (size_t i = 0; i < P; i++)
    host[i] = 3 * random_uniform(4, (uint32_t)i, 0, 0, RANDOM_TEST) - 1.5f;
  f->params = device->ops->alloc(device, P * device->ops->real_bytes);
  device->ops->upload(device, f->params, host, P);
  weights_publish(f->parts.weights, device, f->params, 1);
  free(host);
}

static struct fixture *create(int T, int burn_in) {
  struct fixture *f = check_alloc(1, sizeof(*f));
  struct replay_config replay = replay_config(T, burn_in);
  struct inference_parts_config config = {
      .network = "lstm",
      .policy = &policy_epsilon_greedy,
      .reads_past = true,
      .train_slots = CLIENTS,
      .clients = CLIENTS,
      .trains = true,
      .T = burn_in + T,
      .N = N,
      .stagger = true,
      .replay = &replay,
      .stride = T,
      .inference = {
          .seed = 2,
          .exploration = {
              .kind = EXPLORATION_PER_ENVIRONMENT, .environments = CLIENTS, .start = 0.4}}};
  struct inference_metrics none = {NULL};
  f->T = T;
  f->burn_in = burn_in;
  inference_parts_create(&f->parts, &config, &none);
  f->S = network_state_size(f->parts.network);
  struct device *device = f->parts.device;
  f->workspace = network_workspace_create(f->parts.network, device, (burn_in + T + 1) * N, false);
  f->state = device->ops->alloc(device, (size_t)(N * f->S) * device->ops->real_bytes);
  publish(f);
  return f;
}

static void destroy(struct fixture *f) {
  struct device *device = f->parts.device;
  network_workspace_destroy(f->workspace);
  device->ops->release(device, f->params);
  device->ops->release(device, f->state);
  inference_parts_destroy(&f->parts);
  free(f);
}

/* ---- play */

static void join(struct fixture *f, int i) {
  struct client *client = &f->client[i];
  if (client->life) batcher_remove(f->parts.batcher, i);
  client->life++;
  client->steps = 0;
  batcher_add(f->parts.batcher, i, 1, i, client->life, false, true, 0);
}

/* Episodes of some steps, one in two of which ends by truncation. */
static uint8_t next_flags(struct fixture *f, const struct client *client) {
  if (client->steps == 0 || client->flags & STEP_TRUNCATED) return STEP_FIRST;
  int chance = below(f, 24);
  return chance == 0 ? STEP_FIRST | STEP_TERMINATED : chance == 1 ? STEP_TRUNCATED : 0;
}

/* A step of every client; now and then one is replaced before. */
static void play(struct fixture *f, int64_t now_us) {
  for (int i = 0; i < CLIENTS; i++) {
    struct client *client = &f->client[i];
    if (client->life == 0 || below(f, 150) == 0) join(f, i);
    client->flags = next_flags(f, client);
    client->steps++;
    float reward = client->flags == STEP_FIRST ? 0 : (float)below(f, 100) / 50 - 1;
    inference_parts_send(&f->parts, i, &client->stream, (float)below(f, 1000) / 500 - 1, reward,
                         client->flags, now_us);
  }
  inference_parts_run(&f->parts, now_us);
  for (int i = 0; i < CLIENTS; i++) inference_parts_heard(&f->client[i].stream);
}

/* ---- once more */

static struct device_inputs inputs_from(const struct fixture *f, const struct train_batch *batch,
                                        int t) {
  size_t rows = (size_t)t * N;
  struct device_inputs inputs = f->parts.inputs;
  inputs.observation = batch->observation + rows * STRIDE;
  inputs.previous_action = (const int32_t *)batch->previous_action + rows;
  inputs.reward = batch->reward + rows;
  inputs.flags = batch->flags + rows;
  return inputs;
}

/* Q(x, a) and the largest of a row of values. */
static void expect_values(const float *kept, const float *value, int32_t action) {
  float largest = -INFINITY;
  for (int a = 0; a < ACTIONS; a++) largest = fmaxf(largest, value[a]);
  float should[2] = {value[action], largest};
  for (int k = 0; k < 2; k++)
    if (!(fabsf(kept[k] - should[k]) <= 1e-5f * fmaxf(1, fabsf(should[k]))))
      fail_msg("%s %.7g was kept, computed again it is %.7g", k ? "largest" : "value",
               (double)kept[k], (double)should[k]);
}

/* Computes the heads of steps `first` to T from the state before step `first`. */
static void check_values(struct fixture *f, const struct train_batch *batch, const real *state,
                         int first) {
  struct device *device = f->parts.device;
  int steps = f->burn_in + f->T + 1 - first;
  struct device_inputs inputs = inputs_from(f, batch, first);
  struct network_outputs out;
  float value[(MAX_T + 1) * N * ACTIONS];
  network_forward(f->workspace, &out, NULL, f->params, &inputs, state, steps, N);
  device->ops->download(device, value, out.head, (size_t)(steps * N * ACTIONS));
  const struct train_batch *host = f->parts.host.batch;
  for (int at = 0; at < steps * N; at++) {
    int row = first * N + at;
    expect_values(host->statistics + 2 * row, value + at * ACTIONS,
                  ((const int32_t *)host->action)[row]);
  }
}

/* What an update with the same parameters in both networks gives the windows, from the state before
 * the unroll. */
static void compute_priorities(struct fixture *f, const struct train_batch *batch,
                               const real *state) {
  struct device *device = f->parts.device;
  size_t first = (size_t)f->burn_in * N, rows = (size_t)f->T * N;
  struct device_inputs inputs = inputs_from(f, batch, f->burn_in);
  struct network_outputs out;
  network_forward(f->workspace, &out, NULL, f->params, &inputs, state, f->T + 1, N);
  struct td_priority_config config = replay_config(f->T, f->burn_in).priority;
  const struct q_loss_config loss = {.T = f->T,
                                     .N = N,
                                     .counted = config.counted,
                                     .n_steps = config.n_steps,
                                     .values = *out.of_actions,
                                     .double_q = true,
                                     .discount = config.discount,
                                     .reward_scale = config.reward_scale,
                                     .rescaling = config.rescaling,
                                     .eta = config.eta};
  struct device_schedule *schedule = device->ops->alloc(device, sizeof *schedule);
  const struct q_loss_batch heads = {out.head,
                                     out.head,
                                     (const int32_t *)batch->action + first,
                                     batch->reward + first,
                                     batch->flags + first,
                                     batch->weight.memory,
                                     schedule,
                                     NULL};
  real *room = device->ops->alloc(
      device, (rows * (size_t)(out.stride + 1) + num_sums_of_q_learning) * sizeof(double));
  real *td = device_at(device, room, rows * (size_t)out.stride);
  struct q_loss *self = q_loss_create(device, &loss);
  q_loss_run(self, room, td, batch->priority.memory, device_at(device, td, rows), &heads);
  device_shared_download(device, &batch->priority, batch->priority.bytes);
  device_finish(device);
  q_loss_destroy(self);
  device->ops->release(device, schedule);
  device->ops->release(device, room);
}

/* With exponents of 1 a weight is the smallest priority of the batch over the window's own. The
 * first time that a window is drawn this is its first one. */
static void check_priorities(const struct train_batch *batch) {
  const float *priority = batch->priority.host, *weight = batch->weight.host;
  float least = INFINITY;
  for (int n = 0; n < N; n++) least = fminf(least, priority[n]);
  assert_true(least > 1e-3f);
  for (int n = 0; n < N; n++)
    if (!(fabsf(weight[n] * priority[n] / least - 1) <= 1e-3f))
      fail_msg("weight %.7g and priority %.7g, the least is %.7g", (double)weight[n],
               (double)priority[n], (double)least);
}

static void note_what_was_met(struct fixture *f) {
  const struct train_batch *host = f->parts.host.batch;
  f->windows += N;
  for (int n = 0; n < N; n++) f->inside += !(host->flags[n] & STEP_FIRST);
  for (int at = N; at < (host->T + 1) * N; at++) f->borders += host->flags[at] & STEP_FIRST;
}

static void check_batch(struct fixture *f) {
  struct train_batch *batch = source_take(f->parts.source);
  host_batch_read(&f->parts.host, f->parts.device, batch);
  note_what_was_met(f);
  check_values(f, batch, batch->state, 0);
  const real *state = batch->state;
  if (f->burn_in) {
    struct device_inputs inputs = inputs_from(f, batch, 0);
    struct network_outputs ignored;
    network_forward(f->workspace, &ignored, f->state, f->params, &inputs, batch->state, f->burn_in,
                    N);
    check_values(f, batch, f->state, f->burn_in);
    state = f->state;
  }
  compute_priorities(f, batch, state);
  check_priorities(batch);
  source_release(f->parts.source, batch);
}

static bool is_due(const struct fixture *f) {
  struct source_counters counters = source_counters(f->parts.source);
  return 2 * counters.windows_since - counters.windows_sampled >= N;
}

static void values_follow_from_the_stored_state(void **state) {
  (void)state;
  static const int burn_ins[] = {0, 10};
  for (size_t b = 0; b < sizeof(burn_ins) / sizeof(burn_ins[0]); b++) {
    struct fixture *f = create(8, burn_ins[b]);
    for (int round = 0; round < ROUNDS; round++) {
      play(f, round);
      while (is_due(f)) check_batch(f);
    }
    assert_true(f->windows > 100 && f->inside > 50 && f->borders > 30);
    destroy(f);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(values_follow_from_the_stored_state)};
  int failed = 0;
  for (int i = 0; i < INFERENCE_PARTS_DEVICES; i++) {
    inference_parts_device = inference_parts_devices[i];
    failed += cmocka_run_group_tests_name(inference_parts_device, tests, NULL, NULL);
  }
  return failed;
}
