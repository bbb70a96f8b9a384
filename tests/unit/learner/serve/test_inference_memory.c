/* What inference remembers between steps, with a network that has a state: every step that training
 * gets is done over here, one row at a time, with the parameters of the version that it is stamped
 * with. Then its log-probability must be the one that was filed, and the state at a window's start
 * the one before its first step. New parameters come between batches, and while one runs. */
#include "common/base/random.h"
#include "tests/unit/learner/serve/inference_parts.h"
#include "learner/device/shared.h"

enum { CLIENTS = 3, T = 4, N = 2, STEPS = 50, MAX_STATE = 16, SEED = 5 };

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

/* What the network reads of one step. */
struct row {
  float observation[STRIDE / sizeof(float)];
  int32_t previous_action;
  float reward;
  uint8_t flags;
};

struct fixture {
  struct inference_parts parts;
  struct device_shared row;
  struct network_workspace *workspace; /* ours, for one row */
  real *params, *state;                /* ours; state (1, S) */
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
  size_t P = network_num_parameters(f->parts.network);
  float *host = check_alloc(P, sizeof(*host));
  for (size_t i = 0; i < P; i++)
    host[i] = 4 * random_uniform((uint64_t)version, (uint32_t)i, 0, 0, RANDOM_TEST) - 2;
  f->parts.device->ops->upload(f->parts.device, f->params, host, P);
  free(host);
}

static void publish(struct fixture *f, int64_t version) {
  f->newest = version;
  parameters_of(f, version);
  weights_publish(f->parts.weights, f->parts.device, f->params, version);
}

static void publish_while_answering(struct rpc_stream *stream) {
  struct fixture *f = stream->user;
  if (f->publish_in_answers) publish(f, f->newest + 1);
}

static struct fixture *create(const char *network, bool stagger) {
  struct fixture *f = check_alloc(1, sizeof(*f));
  struct inference_parts_config config = {.network = network,
                                          .reads_past = true,
                                          .train_slots = CLIENTS,
                                          .clients = CLIENTS,
                                          .trains = true,
                                          .T = T,
                                          .N = N,
                                          .stagger = stagger,
                                          .inference = {.seed = SEED}};
  struct inference_metrics none = {NULL};
  inference_parts_create(&f->parts, &config, &none);
  f->S = network_state_size(f->parts.network);
  assert_in_range(f->S, 0, MAX_STATE);
  size_t real_bytes = f->parts.device->ops->real_bytes;
  f->params = f->parts.device->ops->alloc(f->parts.device,
                                          network_num_parameters(f->parts.network) * real_bytes);
  f->state = f->parts.device->ops->alloc(f->parts.device, MAX_STATE * real_bytes);
  f->row = device_share(f->parts.device, sizeof(struct row));
  f->workspace = network_workspace_create(f->parts.network, f->parts.device, 1, false);
  for (int i = 0; i < CLIENTS; i++) {
    f->client[i].slot = i;
    f->client[i].stream.user = f;
    f->client[i].stream.on_reply = publish_while_answering;
    batcher_add(f->parts.batcher, i, 1, i, 1, false, true, 0);
  }
  return f;
}

static void destroy(struct fixture *f) {
  struct device *device = f->parts.device;
  network_workspace_destroy(f->workspace);
  device->ops->release(device, f->params);
  device->ops->release(device, f->state);
  device_unshare(device, &f->row);
  inference_parts_destroy(&f->parts);
  free(f);
}

/* Episodes of a few steps, some of which end by truncation. */
static uint8_t next_flags(struct fixture *f, const struct client *client, int t) {
  if (t == 0 || client->flags[t - 1] & STEP_TRUNCATED) return STEP_FIRST;
  int chance = below(f, 8);
  return chance == 0 ? STEP_FIRST | STEP_TERMINATED : chance == 1 ? STEP_TRUNCATED : 0;
}

static void send(struct fixture *f, struct client *client, int t) {
  client->sent[t] = (float)below(f, 1000) / 500 - 1;
  client->flags[t] = next_flags(f, client, t);
  client->reward[t] = client->flags[t] == STEP_FIRST ? 0 : (float)below(f, 100) / 50 - 1;
  inference_parts_send(&f->parts, client->slot, &client->stream, client->sent[t], client->reward[t],
                       client->flags[t], t);
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
  struct row *row = f->row.host;
  *row = (struct row){{client->sent[t]}, before, client->reward[t], client->flags[t]};
  device_shared_upload(f->parts.device, &f->row);
  struct device_inputs inputs = f->parts.inputs;
  inputs.observation = device_shared_at(&f->row, row->observation);
  inputs.previous_action = device_shared_at(&f->row, &row->previous_action);
  inputs.reward = device_shared_at(&f->row, &row->reward);
  inputs.flags = device_shared_at(&f->row, &row->flags);
  struct network_outputs out;
  parameters_of(f, client->version[t]);
  f->parts.device->ops->upload(f->parts.device, f->state, state, (size_t)f->S);
  network_forward(f->workspace, &out, f->state, f->params, &inputs, f->state, 1, 1);
  if (t + 1 < STEPS)
    f->parts.device->ops->download(f->parts.device, client->state[t + 1], f->state, (size_t)f->S);
  f->parts.device->ops->download(f->parts.device, head, out.head, ACTIONS + 1);
  check_action(client, t, head);
}

static void run(struct fixture *f, int t) {
  int64_t began_with = f->newest;
  inference_parts_run(&f->parts, t);
  for (int i = 0; i < CLIENTS; i++) {
    struct client *client = &f->client[i];
    client->heard[t] = inference_parts_heard(&client->stream);
    client->version[t] = began_with;
    do_over(f, client, t);
  }
}

static void expect_near(float is, float should) {
  if (!(fabsf(is - should) < 1e-5f)) fail_msg("%g, not %g", is, should);
}

static void check_start(struct fixture *f, const struct train_batch *batch, int n,
                        const struct client *client, int first) {
  if (client->flags[first] & STEP_FIRST) return; /* then the network takes none */
  const float *state = (const float *)batch->state + n * f->S;
  for (int i = 0; i < f->S; i++) expect_near(state[i], client->state[first][i]);
}

static int check_window(struct fixture *f, const struct train_batch *batch, int n) {
  const struct client *client = &f->client[batch->window[n].slot];
  int first = (int)batch->window[n].first_step;
  if (f->S) check_start(f, batch, n, client, first);
  for (int t = 0; t <= T; t++) {
    int at = t * N + n, step = first + t;
    uint64_t stamp = *train_batch_stamp(batch, t, n);
    assert_int_equal(step_stamp_version(stamp), client->version[step]);
    assert_int_equal(step_stamp_flags(stamp), client->flags[step]);
    assert_int_equal(((const int32_t *)batch->action)[at], client->heard[step]);
    assert_int_equal(batch->flags[at], client->flags[step]);
    expect_near(batch->statistics[at], client->log_prob[step]);
    bool begins = client->flags[step] & STEP_FIRST;
    assert_int_equal(((const int32_t *)batch->previous_action)[at],
                     begins ? -1 : client->heard[step - 1]);
  }
  return !(client->flags[first] & STEP_FIRST);
}

static bool a_batch_is_full(struct fixture *f) {
  struct source_counters counters = source_counters(f->parts.source);
  return counters.windows_given / N > counters.batches_taken;
}

/* Returns how many windows began within an episode. */
static int check_windows(struct fixture *f) {
  int within = 0;
  while (a_batch_is_full(f)) {
    const struct train_batch *batch = inference_parts_take(&f->parts);
    for (int n = 0; n < N; n++) within += check_window(f, batch, n);
  }
  return within;
}

static void play(const char *network, bool stagger, bool publish_in_answers) {
  struct fixture *f = create(network, stagger);
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
  assert_in_range(source_counters(f->parts.source).windows_given, 25, CLIENTS * STEPS / T);
  destroy(f);
}

static void a_step_has_the_version_that_computed_its_action(void **state) {
  (void)state;
  play("mlp", true, false);
}

static void and_not_one_that_came_while_it_was_answered(void **state) {
  (void)state;
  play("mlp", true, true);
}

static void a_window_begins_with_the_state_before_its_first_step(void **state) {
  (void)state;
  play("lstm", true, false);
}

/* Most batches begin no window then, as the first ones that a device records. */
static void also_when_all_windows_begin_at_the_same_step(void **state) {
  (void)state;
  play("lstm", false, false);
}

static void also_when_parameters_come_at_any_time(void **state) {
  (void)state;
  play("lstm", true, true);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_step_has_the_version_that_computed_its_action),
      cmocka_unit_test(and_not_one_that_came_while_it_was_answered),
      cmocka_unit_test(a_window_begins_with_the_state_before_its_first_step),
      cmocka_unit_test(also_when_all_windows_begin_at_the_same_step),
      cmocka_unit_test(also_when_parameters_come_at_any_time),
  };
  int failed = 0;
  for (int i = 0; i < INFERENCE_PARTS_DEVICES; i++) {
    inference_parts_device = inference_parts_devices[i];
    failed += cmocka_run_group_tests_name(inference_parts_device, tests, NULL, NULL);
  }
  return failed;
}
