/* Learning, without a server: an agent acts in a small memory task and trains on what it did. At
 * the first step of an episode one of four cues is seen; at the last, the action that belongs to
 * the cue is worth 1. Episodes of one step are a contextual bandit; longer ones need memory, so a
 * network without it must stay at chance. */
#include "learner/learn/policy.h"
#include "learner/learn/algorithms.h"
#include "learner/train/update.h"
#include "tests/unit/learner/network/fixture.h"

enum { CUES = 4, T = 12, N = 16, CUE_ROW = 32, EPSILON_PERCENT = 4 };

struct task {
  int length;
  int cue[N], step[N];
  int correct, answers; /* since the last reset of the counters */
  struct stream stream;
};

struct player {
  const struct algorithm_row *agent;
  struct device *device;
  struct network *network;
  struct update *update;
  struct network_workspace *workspace;
  struct train_batch *batch;
  real *state;
};

static struct device_inputs cue_inputs(void) {
  return (struct device_inputs){.row_stride = CUE_ROW,
                                .num_tensors = 1,
                                .tensor = {{DTYPE_FLOAT32, CUES + 1, 0}},
                                .discrete = CUES};
}

static void player_open(struct player *p, const char *agent, const char *network,
                        const char *device) {
  struct network_config config = {.network = network,
                                  .inputs = cue_inputs(),
                                  .head_size = CUES,
                                  .value_size = 1,
                                  .num_layers = 1,
                                  .hidden = {16},
                                  .lstm_size = 16,
                                  .activation = ACTIVATION_TANH};
  struct update_config update = {.algorithm.reward_scale = 1,
                                 .algorithm.unroll_length = T,
                                 .num_windows = N,
                                 .window_steps = T,
                                 .algorithm.discount = 0.95,
                                 .algorithm.actor_critic.lambda = 1,
                                 .algorithm.actor_critic.rho_clip = 1,
                                 .algorithm.actor_critic.c_clip = 1,
                                 .algorithm.actor_critic.pg_rho_clip = 1,
                                 .algorithm.actor_critic.baseline_cost = 0.5,
                                 .algorithm.actor_critic.entropy_cost = 0.005,
                                 .algorithm.actor_critic.target_entropy = -1,
                                 .algorithm.loss_reduction = "mean",
                                 .optimizer.name = "adam",
                                 .optimizer.learning_rate = 0.01,
                                 .optimizer.learning_rate_decay = "none",
                                 .optimizer.adam_beta1 = 0.9,
                                 .optimizer.adam_beta2 = 0.999,
                                 .optimizer.adam_epsilon = 1e-7,
                                 .optimizer.max_gradient_norm = 1,
                                 .algorithm.q_learning.n_steps = 3,
                                 .algorithm.q_learning.partial_returns = true,
                                 .algorithm.q_learning.double_q = true,
                                 .target_updates = 10,
                                 .seed = 1};
  struct error error;
  p->agent = algorithms_find(agent);
  update.policy = p->agent->policies[0];
  if (p->agent->policies[0]->action_values)
    config.values = (struct action_values){.A = CUES, .Z = 1, .dueling = true};
  p->device = fixture_device(device);
  p->network = fixture_network(&config);
  if (update_create(&p->update, p->device, p->network, p->agent->algorithm, &update, &error) !=
      STATUS_OK)
    fail_msg("%s", error.text);
  p->workspace = network_workspace_create(p->network, p->device, N, false);
  int S = network_state_size(p->network);
  struct step_shape shape = discrete_shape(CUE_ROW, S, 0);
  shape.statistics = p->agent->policies[0]->statistics;
  p->batch = train_batch_create(p->device, T, N, &shape);
  for (int n = 0; n < N; n++) ((float *)p->batch->weight.host)[n] = 1;
  p->state =
      S ? p->device->ops->alloc(p->device, (size_t)(N * S) * p->device->ops->real_bytes) : NULL;
}

static void player_close(struct player *p) {
  if (p->state) p->device->ops->release(p->device, p->state);
  train_batch_destroy(p->device, p->batch);
  network_workspace_destroy(p->workspace);
  update_destroy(p->update);
  network_destroy(p->network);
  device_destroy(p->device);
}

static void new_episode(struct task *task, int n) {
  task->step[n] = 0;
  task->cue[n] = stream_below(&task->stream, CUES);
}

/* Row i is what environment n shows now; reward and end are those of the step into it. */
static void observe(struct train_batch *batch, int i, const struct task *task, int n,
                    float reward) {
  float *row = (float *)(batch->observation + (size_t)i * CUE_ROW);
  memset(row, 0, CUE_ROW);
  if (task->step[n] == 0) row[task->cue[n]] = 1;
  row[CUES] = task->step[n] == task->length - 1;
  batch->reward[i] = reward;
  batch->flags[i] = task->step[n] == 0 ? STEP_FIRST | STEP_TERMINATED : 0;
  ((int32_t *)batch->previous_action)[i] = -1;
}

/* Takes the action of row i - N and writes row i. */
static void step(struct train_batch *batch, int i, struct task *task, int n) {
  float reward = 0;
  if (task->step[n]++ == task->length - 1) {
    reward = ((const int32_t *)batch->action)[i - N] == (task->cue[n] + 1) % CUES;
    task->correct += reward > 0;
    task->answers++;
    new_episode(task, n);
  }
  observe(batch, i, task, n, reward);
}

/* Actions of the rows of time t, by the policy as it is. */
static void act(struct player *p, struct task *task, int t) {
  struct train_batch *batch = p->batch;
  struct device_inputs inputs = cue_inputs();
  inputs.observation = batch->observation + (size_t)t * N * CUE_ROW;
  inputs.previous_action = (const int32_t *)batch->previous_action + t * N;
  inputs.reward = batch->reward + t * N;
  inputs.flags = batch->flags + t * N;
  struct network_outputs out;
  float uniform[N], epsilon[N];
  for (int n = 0; n < N; n++) {
    uniform[n] = (float)stream_uniform(&task->stream);
    epsilon[n] = EPSILON_PERCENT / 100.f;
  }
  network_forward(p->workspace, &out, p->state, update_parameters(p->update), &inputs, p->state, 1,
                  N);
  struct policy_rows rows = {.uniform = uniform, .epsilon = epsilon};
  p->agent->policies[0]->choose(p->device, (int32_t *)batch->action + t * N,
                                batch->statistics + t * N * batch->shape.statistics, &out, &rows,
                                N);
}

/* The last row of the batch before becomes the first of this one: observed, but not acted on yet.
 */
static void carry_over(struct train_batch *batch) {
  memmove(batch->observation, batch->observation + (size_t)T * N * CUE_ROW, (size_t)N * CUE_ROW);
  memmove(batch->reward, batch->reward + T * N, N * sizeof(float));
  memmove(batch->flags, batch->flags + T * N, N);
}

static void play_window(struct player *p, struct task *task) {
  struct train_batch *batch = p->batch;
  if (p->state)
    device_copy(p->device, batch->state, p->state, (size_t)(N * batch->shape.state_size));
  for (int t = 0; t < T; t++) {
    act(p, task, t);
    for (int n = 0; n < N; n++) step(batch, (t + 1) * N + n, task, n);
  }
}

/* Share of right answers over the last fifth of the updates. */
static double learn(const char *agent, const char *network, const char *device, int length,
                    int updates) {
  struct player p;
  struct task task = {.length = length, .stream = {9, 0}};
  player_open(&p, agent, network, device);
  for (int n = 0; n < N; n++) {
    new_episode(&task, n);
    observe(p.batch, n, &task, n, 0);
    p.batch->flags[n] = STEP_FIRST;
  }
  for (int u = 0; u < updates; u++) {
    if (u == updates - updates / 5) task.correct = task.answers = 0;
    play_window(&p, &task);
    struct update_stats stats;
    struct error error;
    update_start(p.update, p.batch, 0);
    if (update_finish(p.update, &stats, &error) != STATUS_OK) fail_msg("%s", error.text);
    carry_over(p.batch);
  }
  player_close(&p);
  return (double)task.correct / task.answers;
}

static void learns_what_it_can(void **state) {
  (void)state;
  static const struct {
    const char *agent, *network, *device;
    int length, updates;
    double least, most;
  } table[] = {
      {"vtrace", "mlp", "ref", 1, 150, 0.95, 1},
      {"vtrace", "mlp", "cpu", 1, 150, 0.95, 1},
      {"vtrace", "lstm", "ref", 5, 500, 0.95, 1},
      {"vtrace", "lstm", "cpu", 5, 500, 0.95, 1},
      {"vtrace", "mlp", "cpu", 5, 500, 0.15, 0.35},
      /* of its actions 3 in 100 are random and wrong */
      {"dqn", "mlp", "ref", 1, 150, 0.93, 1},
      {"dqn", "mlp", "cpu", 1, 150, 0.93, 1},
      {"r2d2", "lstm", "ref", 5, 500, 0.9, 1},
      {"r2d2", "lstm", "cpu", 5, 500, 0.9, 1},
      {"r2d2", "mlp", "cpu", 5, 500, 0.15, 0.35},
  };
  for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
    double share =
        learn(table[i].agent, table[i].network, table[i].device, table[i].length, table[i].updates);
    print_message("%s, %s on %s, %d steps, %d updates: %.3f right\n", table[i].agent,
                  table[i].network, table[i].device, table[i].length, table[i].updates, share);
    assert_true(share >= table[i].least && share <= table[i].most);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(learns_what_it_can)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
