/* The gradient of the whole loss of q_learning against central finite differences, in double: two
 * networks with a burn-in, n-step targets, dueling values, weights. The loss is the test's own,
 * from its definition: targets and what the burn-in leaves are constants. */
#include "tests/unit/learner/train/fixture.h"
#include "learner/device/create.h"

enum { BURN_IN = 3, WINDOW = BURN_IN + UNROLL, ROWS = (WINDOW + 1) * COLUMNS, OUT = ACTIONS + 1 };

struct kind {
  const char *network;
  int num_layers;
  char *reduction;
  bool double_q, partial_returns;
  double rescaling, huber;
  uint32_t seed;
  bool masked;
};

static const struct kind kinds[] = {
    {"lstm", 1, "sum_over_time", true, true, 0.001, 0, 1, false},
    {"lstm", 0, "mean", true, false, 0, 0.5, 2, false},
    {"lstm", 2, "mean", false, true, 0.01, 1, 3, false},
    {"mlp", 1, "sum_over_time", false, false, 0.001, 0, 4, false},
    {"mlp", 2, "mean", true, true, 0, 0, 5, false},
    {"lstm", 1, "mean", true, true, 0.001, 0, 6, true},
    {"mlp", 1, "sum_over_time", false, true, 0, 0, 7, true},
};

struct problem {
  struct network_config config;
  struct network *network;
  struct device *device;
  struct learner_options options;
  struct train_batch *batch;
  struct update *update;
  size_t P;
  double params[MAX_P], target_params[MAX_P];
  double state[MAX_STATES]; /* after the burn-in, with the parameters as they are */
  double target[STEPS];     /* of each step, on the heads' scale */
};

/* ---- the loss from its definition */

static struct device_inputs inputs_from(const struct problem *p, int t) {
  struct device_inputs inputs = fixture_batch_inputs(p->network, p->batch);
  int rows = t * COLUMNS;
  inputs.observation += rows * STRIDE;
  inputs.previous_action = (const int32_t *)inputs.previous_action + rows;
  inputs.reward += rows;
  inputs.flags += rows;
  return inputs;
}

static void stored_state(double *state, const struct problem *p) {
  int numbers = COLUMNS * network_state_size(p->network);
  float stored[MAX_STATES];
  if (numbers) p->device->ops->download(p->device, stored, p->batch->state, (size_t)numbers);
  for (int i = 0; i < numbers; i++) state[i] = (double)stored[i];
}

/* Heads (UNROLL+1, COLUMNS, OUT) of the unroll from a state before it. */
static void unroll(double *head, const struct problem *p, const double *params,
                   const double *state) {
  double now[MAX_STATES];
  struct device_inputs inputs = inputs_from(p, BURN_IN);
  memcpy(now, state, sizeof(now));
  reference_forward(head, now, p->network, &p->config, params, &inputs, UNROLL + 1, COLUMNS);
}

static void burn_in(double *state, const struct problem *p, const double *params) {
  double ignored[BURN_IN * COLUMNS * OUT];
  struct device_inputs inputs = inputs_from(p, 0);
  stored_state(state, p);
  reference_forward(ignored, state, p->network, &p->config, params, &inputs, BURN_IN, COLUMNS);
}

static double value(const double *row, int action) {
  double mean = 0;
  for (int a = 0; a < ACTIONS; a++) mean += row[a] / ACTIONS;
  return row[ACTIONS] + row[action] - mean;
}

/* Of those that the mask of step `row` of the unroll allows. */
static int best(const struct problem *p, const double *head, int row) {
  int action = -1, i = BURN_IN * COLUMNS + row;
  for (int a = 0; a < ACTIONS; a++) {
    if (p->config.inputs.masked && !fixture_allows(p->batch->observation, i, a)) continue;
    if (action < 0 || value(head, a) > value(head, action)) action = a;
  }
  return action;
}

/* Pohlen et al. 2018. */
static double rescaled(const struct problem *p, double x) {
  double e = (double)(float)p->options.algorithm.q_learning.value_rescaling;
  return e > 0 ? copysign(sqrt(fabs(x) + 1) - 1, x) + e * x : x;
}

static double rescaled_back(const struct problem *p, double x) {
  double e = (double)(float)p->options.algorithm.q_learning.value_rescaling;
  if (e == 0) return x;
  double root = (sqrt(1 + 4 * e * (fabs(x) + 1 + e)) - 1) / (2 * e);
  return copysign(root * root - 1, x);
}

/* Flags and rewards of the unroll. */
static uint8_t flags_of(const struct problem *p, int t, int n) {
  return p->batch->flags[(BURN_IN + t) * COLUMNS + n];
}

static double reward_of(const struct problem *p, int t, int n) {
  return reference_reward(&p->options, p->batch, (BURN_IN + t - 1) * COLUMNS + n);
}

static double target_of(const struct problem *p, const double *online, const double *target, int t,
                        int n) {
  double sum = 0, discount = 1;
  int last = t + (int)p->options.algorithm.q_learning.n_steps < UNROLL
                 ? t + (int)p->options.algorithm.q_learning.n_steps
                 : UNROLL;
  for (int row = t + 1;; row++) {
    sum += discount * reward_of(p, row, n);
    discount *= (float)p->options.algorithm.discount;
    if (flags_of(p, row, n) & STEP_TERMINATED) return rescaled(p, sum);
    if (row < last && !(flags_of(p, row, n) & STEP_TRUNCATED)) continue;
    int at = row * COLUMNS + n;
    const double *by = (p->options.algorithm.q_learning.double_q ? online : target) + at * OUT;
    double after = value(target + at * OUT, best(p, by, at));
    return rescaled(p, sum + discount * rescaled_back(p, after));
  }
}

static bool counts(const struct problem *p, int t, int n) {
  int left = p->options.algorithm.q_learning.partial_returns
                 ? 0
                 : (int)p->options.algorithm.q_learning.n_steps - 1;
  return t < UNROLL - left && !(flags_of(p, t, n) & STEP_TRUNCATED);
}

static double error_of(const struct problem *p, const double *head, int t, int n) {
  int at = t * COLUMNS + n;
  int32_t action = ((const int32_t *)p->batch->action)[BURN_IN * COLUMNS + at];
  return p->target[at] - value(head + at * OUT, action);
}

static double loss_of_error(const struct problem *p, double error) {
  double huber = p->options.algorithm.q_learning.huber, size = fabs(error);
  return huber > 0 && size > huber ? huber * (size - huber / 2) : error * error / 2;
}

static double loss_at(const struct problem *p, const double *params) {
  double head[(STEPS + COLUMNS) * OUT], sum = 0;
  int steps = 0;
  unroll(head, p, params, p->state);
  for (int t = 0; t < UNROLL; t++)
    for (int n = 0; n < COLUMNS; n++) {
      if (!counts(p, t, n)) continue;
      steps++;
      sum += ((const float *)p->batch->weight.host)[n] * loss_of_error(p, error_of(p, head, t, n));
    }
  return sum / (strcmp(p->options.algorithm.loss_reduction, "mean") == 0 ? steps : COLUMNS);
}

/* What is constant: targets, and the state after the burn-in. */
static void fix_constants(struct problem *p) {
  double online[(STEPS + COLUMNS) * OUT], target[(STEPS + COLUMNS) * OUT], state[MAX_STATES];
  burn_in(state, p, p->target_params);
  unroll(target, p, p->target_params, state);
  burn_in(p->state, p, p->params);
  unroll(online, p, p->params, p->state);
  for (int i = 0; i < STEPS; i++)
    p->target[i] = target_of(p, online, target, i / COLUMNS, i % COLUMNS);
}

/* ---- the problem */

static struct learner_options options_of(const struct kind *kind) {
  struct learner_options options = fixture_options();
  options.agent = "r2d2";
  options.optimizer.adam_beta1 = 0; /* then Adam's m is the gradient */
  options.algorithm.q_learning.burn_in = BURN_IN;
  options.algorithm.q_learning.n_steps = 3;
  options.algorithm.q_learning.target_update = 1000;
  options.algorithm.loss_reduction = kind->reduction;
  options.algorithm.q_learning.double_q = kind->double_q;
  options.algorithm.q_learning.partial_returns = kind->partial_returns;
  options.algorithm.q_learning.value_rescaling = kind->rescaling;
  options.algorithm.q_learning.huber = kind->huber;
  options.algorithm.q_learning.priority_eta = 0.9;
  return options;
}

/* Parameters large enough that all units are at work; the target network has those of the start. */
static void randomise(struct problem *p, uint32_t seed) {
  struct stream stream = {seed, 1000000};
  for (size_t i = 0; i < p->P; i++) p->params[i] = stream_between(&stream, -0.8, 0.8);
  fixture_saved(p->target_params, p->update, "target", p->network);
  memcpy((void *)(uintptr_t)update_parameters(p->update), p->params, p->P * sizeof(double));
  for (int n = 0; n < COLUMNS; n++)
    ((float *)p->batch->weight.host)[n] = (float)stream_between(&stream, 0.2, 1);
}

static void open_problem(struct problem *p, const struct kind *kind) {
  *p = (struct problem){.config = fixture_config(kind->network, kind->num_layers, ACTIVATION_TANH),
                        .device = fixture_device("ref_double"),
                        .options = options_of(kind)};
  p->config.values = (struct action_values){.A = ACTIONS, .Z = 1, .dueling = true};
  p->config.inputs.masked = kind->masked;
  p->network = fixture_network(&p->config);
  p->P = network_num_parameters(p->network);
  assert_true(p->P < MAX_P);
  p->batch = fixture_batch(p->device, p->network, WINDOW, COLUMNS, kind->seed);
  p->update = fixture_update(p->device, p->network, &p->options);
  randomise(p, kind->seed);
  fix_constants(p);
}

static void close_problem(struct problem *p) {
  update_destroy(p->update);
  train_batch_destroy(p->device, p->batch);
  device_destroy(p->device);
  network_destroy(p->network);
}

/* The batch must have what makes returns go wrong: ends inside of the unroll, of both kinds. */
static void check_has_borders(const struct problem *p) {
  int terminated = 0, truncated = 0;
  for (int t = 1; t < UNROLL; t++)
    for (int n = 0; n < COLUMNS; n++) {
      terminated += (flags_of(p, t, n) & STEP_TERMINATED) != 0;
      truncated += (flags_of(p, t, n) & STEP_TRUNCATED) != 0;
    }
  assert_true(terminated > 1 && truncated > 1);
}

static void expect_near(double is, double should, double tolerance, const char *what) {
  if (!(fabs(is - should) <= tolerance)) fail_msg("%s is %.10g, not %.10g", what, is, should);
}

static void expect_term(const struct update_stats *stats, const char *name, double should) {
  for (int k = 0; k < algorithm_q_learning.num_terms; k++)
    if (strcmp(algorithm_q_learning.terms[k].name, name) == 0) {
      expect_near(stats->losses.term[k], should, 1e-9, name);
      return;
    }
  fail_msg("there is no %s", name);
}

/* Means over the steps that count, by the names that they are reported under. */
static void check_terms(const struct update_stats *stats, const struct problem *p,
                        const double *head) {
  double reward = 0, target = 0, value = 0, td = 0, loss = 0;
  int steps = 0;
  for (int at = 0; at < STEPS; at++) {
    int t = at / COLUMNS, n = at % COLUMNS;
    if (!counts(p, t, n)) continue;
    steps++;
    double error = error_of(p, head, t, n);
    reward += reward_of(p, t + 1, n);
    target += p->target[at];
    value += p->target[at] - error;
    td += fabs(error);
    loss += (double)((const float *)p->batch->weight.host)[n] * loss_of_error(p, error);
  }
  expect_term(stats, "train/reward", reward / steps);
  expect_term(stats, "q/target", target / steps);
  expect_term(stats, "q/value", value / steps);
  expect_term(stats, "loss/q", loss / steps);
  expect_term(stats, "q/td_error", td / steps);
}

/* Priorities and the loss of the update, whose parameters were these. */
static void check_results(const struct problem *p, const struct update_stats *stats) {
  double head[(STEPS + COLUMNS) * OUT];
  unroll(head, p, p->params, p->state);
  for (int n = 0; n < COLUMNS; n++) {
    double most = 0, total = 0;
    int steps = 0;
    for (int t = 0; t < UNROLL; t++) {
      if (!counts(p, t, n)) continue;
      double error = fabs(error_of(p, head, t, n));
      most = fmax(most, error);
      total += error;
      steps++;
    }
    double priority = steps ? 0.9 * most + 0.1 * total / steps : 0;
    expect_near((double)((const float *)p->batch->priority.host)[n], priority, 1e-6, "a priority");
  }
  bool mean = strcmp(p->options.algorithm.loss_reduction, "mean") == 0;
  if (mean) expect_near(stats->losses.total, loss_at(p, p->params), 1e-9, "the loss");
  check_terms(stats, p, head);
}

static void check_gradient(struct problem *p, const double *gradient) {
  const double e = 1e-5;
  double largest = 0;
  for (size_t i = 0; i < p->P; i++) largest = fmax(largest, fabs(gradient[i]));
  assert_true(largest > 0.01);
  for (size_t i = 0; i < p->P; i++) {
    double at = p->params[i];
    p->params[i] = at + e;
    double above = loss_at(p, p->params);
    p->params[i] = at - e;
    double difference = (above - loss_at(p, p->params)) / (2 * e);
    p->params[i] = at;
    if (fabs(difference - gradient[i]) > 1e-6 * fmax(fabs(difference), 1e-3 * largest))
      fail_msg("parameter %zu: finite difference %.10g, gradient %.10g", i, difference,
               gradient[i]);
  }
}

static void the_gradient_matches_finite_differences(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
    struct problem p;
    double gradient[MAX_P];
    open_problem(&p, &kinds[i]);
    check_has_borders(&p);
    struct update_stats stats = fixture_step(p.update, p.batch, 0);
    check_results(&p, &stats);
    fixture_saved(gradient, p.update, "adam/m", p.network);
    check_gradient(&p, gradient);
    close_problem(&p);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_gradient_matches_finite_differences),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
