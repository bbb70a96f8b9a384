/* Actions of several numbers through all of inference: a policy that only this test has chooses
 * them from the row's random numbers, one for each, and from the previous action, and sends others
 * than it chose. What each client is sent, and what training gets, must be what the clients compute
 * over from what was chosen before. */
#include "common/base/random.h"
#include "tests/unit/learner/serve/inference_parts.h"

enum { BOX = 3, STATISTICS = 2, CLIENTS = 3, EVALUATOR = CLIENTS, T = 4, N = 2, STEPS = 60 };
enum { SEED = 11 };

/* The last number has no bounds. */
static const struct space space = {.box = BOX, .low = {-2, 0, -INFINITY}, .high = {2, 4, INFINITY}};

/* ---- the policy */

/* Number i of the action, within its bounds, and what is kept with it. */
static float number(float uniform, float previous, int i) {
  static const float least[BOX] = {-2, 0, -7};
  float free = least[i] + 4 * uniform + previous / 4;
  return fminf(space.high[i], fmaxf(space.low[i], free));
}

static float statistic(const float action[BOX], int i) {
  return i == 0 ? action[0] + action[1] : action[2] - 1;
}

static int head_size(const struct space *of) {
  return of->box;
}

enum { MAX_ROWS = 64 };

/* The head is the previous action: see set_parameters. The devices' reals are floats. */
static void choose(struct device *device, void *action, float *statistics,
                   const struct network_outputs *out, const struct policy_rows *rows, int B) {
  const struct device_ops *ops = device->ops;
  float uniform[MAX_ROWS][BOX], head[MAX_ROWS * (BOX + 1)], chosen[MAX_ROWS][BOX];
  float kept[MAX_ROWS][STATISTICS];
  assert_true(B <= MAX_ROWS && out->size == BOX && out->stride == BOX + 1);
  ops->download(device, head, out->head, (size_t)(B * out->stride));
  ops->download(device, uniform[0], (const real *)rows->uniform, (size_t)(B * BOX));
  for (int b = 0; b < B; b++) {
    for (int i = 0; i < BOX; i++) chosen[b][i] = number(uniform[b][i], head[b * (BOX + 1) + i], i);
    for (int i = 0; i < STATISTICS; i++) kept[b][i] = statistic(chosen[b], i);
  }
  ops->upload(device, (real *)action, chosen[0], (size_t)(B * BOX));
  ops->upload(device, (real *)statistics, kept[0], (size_t)(B * STATISTICS));
}

static void turn_over(void *sent, const void *chosen, const struct space *of) {
  for (int i = 0; i < of->box; i++) ((float *)sent)[i] = -((const float *)chosen)[i];
}

static const struct policy policy = {.name = "scripted_box",
                                     .actions = "continuous",
                                     .head_size = head_size,
                                     .draws = head_size,
                                     .statistics = STATISTICS,
                                     .choose = choose,
                                     .send = turn_over};

/* ---- a client, which computes over what it should be sent */

struct client {
  struct rpc_stream stream;
  int slot;
  bool present; /* a row was sent and is not answered yet */
  int steps;
  float sent[STEPS], reward[STEPS];
  uint8_t flags[STEPS];
  float previous[STEPS][BOX], action[STEPS][BOX];
};

struct fixture {
  struct inference_parts parts;
  uint64_t random;
  struct client client[CLIENTS + 1];
};

static int below(struct fixture *f, int n) {
  f->random = f->random * 6364136223846793005u + 1442695040888963407u;
  return (int)((f->random >> 33) % (uint64_t)n);
}

/* What a network sees of number i of the previous action. */
static float seen(const struct client *client, int t, int i) {
  return client->flags[t] & STEP_FIRST ? 0 : client->previous[t][i];
}

static void expect_action(const struct client *client, int t) {
  bool greedy = client->slot == EVALUATOR;
  for (int i = 0; i < BOX; i++) {
    enum random_purpose purpose = (enum random_purpose)(RANDOM_ACTION + 256 * i);
    float uniform =
        greedy ? -1 : random_uniform(SEED, (uint32_t)client->slot, 1, (uint32_t)t, purpose);
    assert_true(client->action[t][i] == number(uniform, seen(client, t, i), i));
  }
}

static uint8_t next_flags(struct fixture *f, const struct client *client, int t) {
  if (t == 0 || client->flags[t - 1] & STEP_TRUNCATED) return STEP_FIRST;
  int chance = below(f, 8);
  return chance == 0 ? STEP_FIRST | STEP_TERMINATED : chance == 1 ? STEP_TRUNCATED : 0;
}

static void send(struct fixture *f, struct client *client, int64_t now_us) {
  int t = client->steps;
  client->sent[t] = (float)(1000 * client->slot + t);
  client->flags[t] = next_flags(f, client, t);
  client->reward[t] = client->flags[t] == STEP_FIRST ? 0 : (float)below(f, 9) / 4;
  if (t && !(client->flags[t] & STEP_FIRST))
    memcpy(client->previous[t], client->action[t - 1], sizeof(client->previous[t]));
  client->present = true;
  inference_parts_send(&f->parts, client->slot, &client->stream, client->sent[t], client->reward[t],
                       client->flags[t], now_us);
}

/* The answer is the action's bytes, nothing more. */
static void hear(struct client *client) {
  int t = client->steps++;
  client->present = false;
  assert_false(client->stream.in_hand);
  assert_int_equal(client->stream.answer_bytes, 2 + BOX * sizeof(float));
  memcpy(client->action[t], client->stream.answer + 2, sizeof(client->action[t]));
  turn_over(client->action[t], client->action[t], &space);
  expect_action(client, t);
}

/* ---- what training gets */

static void check_step(const struct train_batch *batch, size_t at, const struct client *client,
                       int t) {
  float observation;
  const float *action = (const float *)batch->action + at * BOX;
  const float *previous = (const float *)batch->previous_action + at * BOX;
  memcpy(&observation, batch->observation + at * STRIDE, sizeof(observation));
  assert_true(observation == client->sent[t]);
  assert_true(batch->reward[at] == client->reward[t]);
  assert_int_equal(batch->flags[at], client->flags[t]);
  assert_memory_equal(action, client->action[t], sizeof(client->action[t]));
  assert_memory_equal(previous, client->previous[t], sizeof(client->previous[t]));
  for (int i = 0; i < STATISTICS; i++)
    assert_true(batch->statistics[at * STATISTICS + (size_t)i] == statistic(client->action[t], i));
}

/* Returns how many windows began within an episode. */
static int check_windows(struct fixture *f) {
  struct source_counters counters = source_counters(f->parts.source);
  if (counters.windows_given / N == counters.batches_taken) return 0;
  const struct train_batch *batch = inference_parts_take(&f->parts);
  int within = 0;
  for (int n = 0; n < N; n++) {
    const struct client *client = &f->client[batch->window[n].slot];
    int first = (int)batch->window[n].first_step;
    for (int t = 0; t <= T; t++) check_step(batch, (size_t)(t * N + n), client, first + t);
    within += !(client->flags[first] & STEP_FIRST);
  }
  return within;
}

/* ---- the test */

/* The head is the network's inputs after the observation: weights of 0 and 1, inputs then outputs.
 */
static void set_parameters(struct fixture *f) {
  struct device *device = f->parts.device;
  int count;
  const struct network_parameter *parameter = network_parameters(f->parts.network, &count);
  size_t P = network_num_parameters(f->parts.network);
  float *host = check_alloc(P, sizeof(*host));
  assert_int_equal(parameter[0].shape[0], 1 + BOX + 1); /* the reward is the last */
  assert_int_equal(parameter[0].shape[1], BOX + 1);
  for (size_t i = 0; i < BOX; i++) host[parameter[0].offset + (1 + i) * (BOX + 1) + i] = 1;
  real *params = device->ops->alloc(device, P * device->ops->real_bytes);
  device->ops->upload(device, params, host, P);
  weights_publish(f->parts.weights, device, params, 1);
  device->ops->release(device, params);
  free(host);
}

static struct fixture *create(void) {
  struct fixture *f = check_alloc(1, sizeof(*f));
  struct inference_parts_config config = {
      .network = "mlp",
      .policy = &policy,
      .space = &space,
      .no_layers = true,
      .reads_past = true,
      .train_slots = CLIENTS,
      .clients = CLIENTS + 1,
      .trains = true,
      .T = T,
      .N = N,
      .stagger = true,
      .inference = {.seed = SEED, .num_train_slots = CLIENTS, .greedy_eval = true}};
  struct inference_metrics none = {NULL};
  inference_parts_create(&f->parts, &config, &none);
  set_parameters(f);
  for (int i = 0; i <= CLIENTS; i++) {
    f->client[i].slot = i;
    batcher_add(f->parts.batcher, i, 1, i, 1, i == EVALUATOR, true, 0);
  }
  return f;
}

/* In some rounds a client has nothing to send, so that its rows change their places in batches. */
static void a_box_goes_through_inference_to_training(void **state) {
  (void)state;
  struct fixture *f = create();
  int within = 0;
  for (int round = 0, left = 1; left; round++) {
    int sent = 0;
    left = 0;
    for (int i = 0; i <= CLIENTS; i++) {
      struct client *client = &f->client[i];
      if (client->steps < STEPS && below(f, 4)) send(f, client, round), sent++;
      left += client->steps < STEPS;
    }
    if (!sent) continue;
    inference_parts_run(&f->parts, round + 2000000);
    for (int i = 0; i <= CLIENTS; i++)
      if (f->client[i].present) hear(&f->client[i]);
    within += check_windows(f);
  }
  struct source_counters counters = source_counters(f->parts.source);
  assert_in_range(counters.windows_given, CLIENTS * (STEPS / T - 2), CLIENTS * STEPS / T);
  assert_int_equal(counters.batches_taken, counters.windows_given / N);
  assert_true(within > 10);
  inference_parts_destroy(&f->parts);
  free(f);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_box_goes_through_inference_to_training),
  };
  int failed = 0;
  /* The policy computes on the host, so that what it does cannot be recorded: not on cuda. */
  for (int i = 0; i < INFERENCE_PARTS_DEVICES - 1; i++) {
    inference_parts_device = inference_parts_devices[i];
    failed += cmocka_run_group_tests_name(inference_parts_device, tests, NULL, NULL);
  }
  return failed;
}
