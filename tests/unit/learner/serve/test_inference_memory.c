/* What inference remembers between steps, with a network that has a state: every step that training
 * gets is done over here, one row at a time, with the parameters of the version that it is stamped
 * with. Then its log-probability must be the one that was filed, and the state at a window's start
 * the one before its first step. New parameters come between batches, and while one runs. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include "common/base/random.h"
#include "learner/serve/inference.h"
#include "tests/unit/learner/serve/loopback.h"

enum { CLIENTS = 3, T = 4, N = 2, STRIDE = 16, ACTIONS = 3, STEPS = 50, MAX_STATE = 16, SEED = 5 };

struct client {
  struct rpc_stream stream;
  int slot;
  float sent[STEPS], reward[STEPS];
  uint8_t flags[STEPS];
  int32_t heard[STEPS];
  int64_t version[STEPS];        /* of the newest parameters when the batch began */
  float state[STEPS][MAX_STATE]; /* before the step, done over */
  float log_prob[STEPS];         /* of what was heard, done over */
};

struct fixture {
  struct device *device;
  struct agent *agent;
  struct device_inputs inputs;
  struct weights *weights;
  struct batcher *batcher;
  struct pages *pages;
  struct fifo *fifo;
  struct progress *progress;
  struct inference *inference;
  struct agent_workspace *workspace; /* ours, for one row */
  real *params, *state;              /* ours; state (1, S) */
  int S;
  int64_t newest; /* version */
  bool publish_in_answers;
  uint64_t random;
  struct client client[CLIENTS];
};

static int below(struct fixture *f, int n) {
  f->random = f->random * 6364136223846793005u + 1442695040888963407u;
  return (int)((f->random >> 33) % (uint64_t)n);
}

/* Parameters that can be told from those of every other version. */
static void parameters_of(struct fixture *f, int64_t version) {
  size_t P = agent_num_parameters(f->agent);
  float *host = check_alloc(P, sizeof(*host));
  for (size_t i = 0; i < P; i++)
    host[i] = 4 * random_uniform((uint64_t)version, (uint32_t)i, 0, 0, RANDOM_TEST) - 2;
  f->device->ops->upload(f->device, f->params, host, P);
  free(host);
}

static void publish(struct fixture *f, int64_t version) {
  f->newest = version;
  parameters_of(f, version);
  weights_publish(f->weights, f->device, f->params, version);
}

static void publish_while_answering(struct rpc_stream *stream) {
  struct fixture *f = stream->user;
  if (f->publish_in_answers) publish(f, f->newest + 1);
}

static void create_parts(struct fixture *f) {
  struct batcher_config batcher = {
      .max_clients = CLIENTS, .max_rows = 2 * CLIENTS, .row_stride = STRIDE, .max_wait_us = 1000};
  f->batcher = batcher_create(&batcher);
  struct pages_config pages = {.num_slots = CLIENTS,
                               .num_pages = pages_needed(CLIENTS),
                               .page_steps = T,
                               .row_stride = STRIDE,
                               .state_size = f->S,
                               .stagger = true};
  f->pages = pages_create(f->device, &pages);
  struct fifo_config fifo = {.T = T, .N = N, .row_stride = STRIDE, .state_size = f->S};
  f->fifo = fifo_create(f->device, &fifo);
  struct progress_config progress = {.target_return = NAN};
  f->progress = progress_create(&progress);
  f->weights = weights_create(f->device, agent_num_parameters(f->agent));
  struct inference_config config = {.num_slots = CLIENTS, .max_rows = 2 * CLIENTS, .seed = SEED};
  struct inference_metrics none = {NULL};
  f->inference = inference_create(&config, f->device, f->agent, &f->inputs, f->weights, f->batcher,
                                  f->pages, f->fifo, f->progress, &none);
}

static struct fixture *create(const char *network) {
  struct fixture *f = check_alloc(1, sizeof(*f));
  struct error error;
  assert_int_equal(device_create(&f->device, "ref", &error), STATUS_OK);
  f->inputs = (struct device_inputs){.row_stride = STRIDE,
                                     .num_tensors = 1,
                                     .tensor = {{DEVICE_FLOAT32, 1, 0}},
                                     .num_actions = ACTIONS,
                                     .use_previous_action = true,
                                     .use_reward = true};
  struct agent_config agent = {
      .network = network, .inputs = f->inputs, .num_layers = 1, .hidden = {6}, .lstm_size = 5};
  assert_int_equal(agent_create(&f->agent, &agent, &error), STATUS_OK);
  f->S = agent_state_size(f->agent);
  assert_in_range(f->S, 0, MAX_STATE);
  size_t real_bytes = f->device->ops->real_bytes;
  f->params = f->device->ops->alloc(f->device, agent_num_parameters(f->agent) * real_bytes);
  f->state = f->device->ops->alloc(f->device, MAX_STATE * real_bytes);
  f->workspace = agent_workspace_create(f->agent, f->device, 1, false);
  create_parts(f);
  for (int i = 0; i < CLIENTS; i++) {
    f->client[i].slot = i;
    f->client[i].stream.user = f;
    f->client[i].stream.on_reply = publish_while_answering;
    batcher_add(f->batcher, i, 1, i, 1, false, true, 0);
  }
  return f;
}

static void destroy(struct fixture *f) {
  inference_destroy(f->inference);
  weights_destroy(f->weights);
  progress_destroy(f->progress);
  fifo_destroy(f->fifo);
  pages_destroy(f->pages);
  batcher_destroy(f->batcher);
  agent_workspace_destroy(f->workspace);
  f->device->ops->release(f->device, f->params);
  f->device->ops->release(f->device, f->state);
  agent_destroy(f->agent);
  device_destroy(f->device);
  free(f);
}

/* Episodes of a few steps, some of which end by truncation. */
static uint8_t next_flags(struct fixture *f, const struct client *client, int t) {
  if (t == 0 || client->flags[t - 1] & STEP_TRUNCATED) return STEP_FIRST;
  int chance = below(f, 8);
  return chance == 0 ? STEP_FIRST | STEP_TERMINATED : chance == 1 ? STEP_TRUNCATED : 0;
}

static void send(struct fixture *f, struct client *client, int t) {
  int segment;
  struct row_batch *batch = batcher_reserve(f->batcher, client->slot, &segment, t);
  int row = batch->segment[segment].first_row;
  client->sent[t] = (float)below(f, 1000) / 500 - 1;
  client->flags[t] = next_flags(f, client, t);
  client->reward[t] = client->flags[t] == STEP_FIRST ? 0 : (float)below(f, 100) / 50 - 1;
  memcpy(batch->observation + (size_t)row * STRIDE, &client->sent[t], sizeof(float));
  batch->reward[row] = client->reward[t];
  batch->flags[row] = client->flags[t];
  client->stream.in_hand = true;
  batcher_commit(f->batcher, batch, segment, &client->stream, t);
}

/* What was heard is where the uniform number of seed, slot, life and step falls among the
 * probabilities; its log-probability is noted. */
static void check_action(struct client *client, int t, const float *head) {
  double total = 0, below = 0, margin = 1e-6;
  for (int a = 0; a < ACTIONS; a++) total += exp(head[a]);
  for (int a = 0; a < client->heard[t]; a++) below += exp(head[a]) / total;
  double above = below + exp(head[client->heard[t]]) / total;
  float uniform = random_uniform(SEED, (uint32_t)client->slot, 1, (uint32_t)t, RANDOM_ACTION);
  assert_true(below - margin <= uniform && uniform <= above + margin);
  client->log_prob[t] = (float)(head[client->heard[t]] - log(total));
}

/* One step of the network, from the state and the action that the client itself remembers. */
static void do_over(struct fixture *f, struct client *client, int t) {
  const bool first = client->flags[t] & STEP_FIRST;
  int32_t before = first ? -1 : client->heard[t - 1];
  float state[MAX_STATE] = {0}, head[ACTIONS + 1];
  if (!first) memcpy(state, client->state[t], sizeof(state));
  uint8_t row[STRIDE] = {0};
  memcpy(row, &client->sent[t], sizeof(float));
  struct device_inputs inputs = f->inputs;
  inputs.observation = row;
  inputs.previous_action = &before;
  inputs.reward = &client->reward[t];
  inputs.flags = &client->flags[t];
  struct agent_outputs out;
  parameters_of(f, client->version[t]);
  f->device->ops->upload(f->device, f->state, state, (size_t)f->S);
  agent_forward(f->workspace, &out, f->state, f->params, &inputs, f->state, 1, 1);
  if (t + 1 < STEPS)
    f->device->ops->download(f->device, client->state[t + 1], f->state, (size_t)f->S);
  f->device->ops->download(f->device, head, out.head, ACTIONS + 1);
  check_action(client, t, head);
}

static void run(struct fixture *f, int t) {
  int64_t deadline, began_with = f->newest;
  struct row_batch *batch = batcher_try_take(f->batcher, t, &deadline);
  assert_non_null(batch);
  inference_run(f->inference, batch);
  for (int i = 0; i < CLIENTS; i++) {
    struct client *client = &f->client[i];
    memcpy(&client->heard[t], client->stream.answer + 2, sizeof(int32_t));
    client->version[t] = began_with;
    do_over(f, client, t);
  }
}

static void expect_near(float is, float should) {
  if (!(fabsf(is - should) < 1e-5f)) fail_msg("%g, not %g", is, should);
}

static void check_start(struct fixture *f, const struct train_batch *batch, int n,
                        const struct client *client, int first) {
  float state[MAX_STATE];
  if (client->flags[first] & STEP_FIRST) return; /* then the network takes none */
  size_t at = (size_t)n * (size_t)f->S;
  f->device->ops->download(f->device, state, device_at_const(f->device, batch->state, at),
                           (size_t)f->S);
  for (int i = 0; i < f->S; i++) expect_near(state[i], client->state[first][i]);
}

static int check_window(struct fixture *f, const struct train_batch *batch, int n) {
  const struct client *client = &f->client[batch->window[n].slot];
  int first = (int)batch->window[n].first_step;
  if (f->S) check_start(f, batch, n, client, first);
  for (int t = 0; t <= T; t++) {
    int at = t * N + n, step = first + t;
    assert_int_equal(batch->version[at], client->version[step]);
    assert_int_equal(batch->action[at], client->heard[step]);
    assert_int_equal(batch->flags[at], client->flags[step]);
    expect_near(batch->behaviour[at], client->log_prob[step]);
    bool begins = client->flags[step] & STEP_FIRST;
    assert_int_equal(batch->previous_action[at], begins ? -1 : client->heard[step - 1]);
  }
  return !(client->flags[first] & STEP_FIRST);
}

static bool a_batch_is_full(struct fixture *f) {
  struct fifo_counters counters = fifo_counters(f->fifo);
  return counters.windows_given / N > counters.batches_taken;
}

/* Returns how many windows began within an episode. */
static int check_windows(struct fixture *f) {
  int within = 0;
  while (a_batch_is_full(f)) {
    struct train_batch *batch = fifo_take(f->fifo);
    for (int n = 0; n < N; n++) within += check_window(f, batch, n);
    fifo_release(f->fifo, batch);
  }
  return within;
}

static void play(const char *network, bool publish_in_answers) {
  struct fixture *f = create(network);
  f->publish_in_answers = publish_in_answers;
  publish(f, 1);
  int within = 0;
  for (int t = 0; t < STEPS; t++) {
    for (int i = 0; i < CLIENTS; i++) send(f, &f->client[i], t);
    if (below(f, 3) == 0) publish(f, f->newest + 1 + below(f, 5));
    run(f, t);
    within += check_windows(f);
  }
  assert_true(within > 10);
  assert_in_range(fifo_counters(f->fifo).windows_given, 25, CLIENTS * STEPS / T);
  destroy(f);
}

static void a_step_has_the_version_that_computed_its_action(void **state) {
  (void)state;
  play("mlp", false);
}

static void and_not_one_that_came_while_it_was_answered(void **state) {
  (void)state;
  play("mlp", true);
}

static void a_window_begins_with_the_state_before_its_first_step(void **state) {
  (void)state;
  play("lstm", false);
}

static void also_when_parameters_come_at_any_time(void **state) {
  (void)state;
  play("lstm", true);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_step_has_the_version_that_computed_its_action),
      cmocka_unit_test(and_not_one_that_came_while_it_was_answered),
      cmocka_unit_test(a_window_begins_with_the_state_before_its_first_step),
      cmocka_unit_test(also_when_parameters_come_at_any_time),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
