/* The rule of PPO: its gradients against central finite differences of its loss, in double, on both
 * sides of every clip; and what its figures count. */
#include "tests/unit/learner/network/fixture.h"

enum { T = 20, N = 5, STEPS = T * N };
enum input { LOG_PROB, VALUE, ENTROPY, OLD_VALUE, TARGET, ADVANTAGE, NUM_INPUTS };
enum output { D_LOG_PROB, D_VALUE, D_ENTROPY, NUM_OUTPUTS };

struct world {
  struct device *device; /* ref_double, whose memory the host can read */
  double in[NUM_INPUTS][STEPS], out[NUM_OUTPUTS][STEPS];
  float behaviour[STEPS], reward[STEPS];
  uint8_t flags[STEPS];
  struct device_schedule schedule;
  double mean[num_sums_of_step_mean], spread[num_sums_of_step_spread];
  double sums[num_sums_of_ppo], deviation;
  struct ppo_rule rule;
};

static real *reals(double *x) {
  return (real *)x;
}

static void open_world(struct world *w, float normalize, float value_clip) {
  struct stream stream = {7, 0};
  *w = (struct world){
      .device = fixture_device("ref_double"), .schedule.entropy_cost = 0.125f, .deviation = 1};
  for (int i = 0; i < STEPS; i++) {
    for (int k = 0; k < NUM_INPUTS; k++) w->in[k][i] = stream_between(&stream, -2, 2);
    w->behaviour[i] = (float)(w->in[LOG_PROB][i] + stream_between(&stream, -0.6, 0.6));
    w->reward[i] = (float)stream_between(&stream, -3, 3);
    w->flags[i] = stream_uniform(&stream) < 0.2 ? STEP_TRUNCATED : 0;
  }
  w->rule =
      (struct ppo_rule){.run = {.rows = STEPS, .N = N, .schedule = &w->schedule, .flags = w->flags},
                        .log_prob = reals(w->in[LOG_PROB]),
                        .behaviour = w->behaviour,
                        .value = reals(w->in[VALUE]),
                        .old_value = reals(w->in[OLD_VALUE]),
                        .target = reals(w->in[TARGET]),
                        .advantage = reals(w->in[ADVANTAGE]),
                        .entropy = reals(w->in[ENTROPY]),
                        .reward = w->reward,
                        .steps = reals(&w->mean[SUM_STEPS]),
                        .total = reals(&w->mean[SUM_TOTAL]),
                        .squares = reals(&w->spread[SUM_SPREAD]),
                        .deviation = reals(&w->deviation),
                        .d_log_prob = reals(w->out[D_LOG_PROB]),
                        .d_value = reals(w->out[D_VALUE]),
                        .d_entropy = reals(w->out[D_ENTROPY]),
                        .clip_ratio = 0.25f,
                        .value_clip = value_clip,
                        .normalize = normalize,
                        .baseline_cost = 0.5f,
                        .kl_cost = 0.25f,
                        .reward_scale = 1,
                        .reward_limit = 2};
  w->rule.run.sums = reals(w->sums);
}

static void run(struct world *w) {
  const struct device_ops *ops = w->device->ops;
  struct step_mean_rule mean = {.run = w->rule.run, .number = w->rule.advantage};
  mean.run.sums = reals(w->mean);
  ops->run_rule(w->device, RULE_step_mean, &mean.run);
  struct step_spread_rule spread = {.run = w->rule.run,
                                    .number = w->rule.advantage,
                                    .steps = w->rule.steps,
                                    .total = w->rule.total};
  spread.run.sums = reals(w->spread);
  ops->run_rule(w->device, RULE_step_spread, &spread.run);
  ops->run_rule(w->device, RULE_ppo, &w->rule.run);
}

static double loss(struct world *w) {
  run(w);
  double sum = w->sums[PPO_POLICY_LOSS] +
               (double)w->rule.baseline_cost * w->sums[PPO_BASELINE_LOSS] -
               (double)w->schedule.entropy_cost * w->sums[PPO_ENTROPY] +
               (double)w->rule.kl_cost * w->sums[PPO_KL];
  return sum / (w->rule.run.reduction == LOSS_MEAN ? w->sums[SUM_STEPS] : N);
}

/* The gradients of all steps at input k. */
static void check_gradients(struct world *w, enum input k) {
  const double e = 1e-6;
  double gradient[STEPS];
  int zeros = 0;
  run(w);
  memcpy(gradient, w->out[k], sizeof(gradient)); /* inputs and outputs begin in the same order */
  for (int i = 0; i < STEPS; i++) {
    double at = w->in[k][i];
    w->in[k][i] = at + e;
    double above = loss(w);
    w->in[k][i] = at - e;
    double difference = (above - loss(w)) / (2 * e);
    w->in[k][i] = at;
    zeros += gradient[i] == 0;
    if (!(fabs(difference - gradient[i]) < 1e-8))
      fail_msg("step %d of input %d: finite difference %.10g, gradient %.10g", i, (int)k,
               difference, gradient[i]);
  }
  assert_true(zeros > 0 && zeros < STEPS / 2); /* those that are truncated, and those clipped */
}

static void gradients_match_finite_differences(void **state) {
  (void)state;
  static const struct {
    float normalize, value_clip;
    enum loss_reduction reduction;
    double deviation;
  } cases[] = {{1, 0.5f, LOSS_MEAN, 1},
               {0, INFINITY, LOSS_SUM_OVER_TIME, 1},
               {1, INFINITY, LOSS_MEAN, 1},
               {0, 0.5f, LOSS_MEAN, 1.25},
               {1, INFINITY, LOSS_MEAN, 0.75}};
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
    struct world w;
    open_world(&w, cases[i].normalize, cases[i].value_clip);
    w.rule.run.reduction = cases[i].reduction;
    w.deviation = cases[i].deviation;
    check_gradients(&w, LOG_PROB);
    check_gradients(&w, VALUE);
    check_gradients(&w, ENTROPY);
    device_destroy(w.device);
  }
}

static void advantages_are_normalised_over_the_steps_that_count(void **state) {
  (void)state;
  struct world w;
  open_world(&w, 1, INFINITY);
  for (int i = 0; i < STEPS; i++) w.behaviour[i] = (float)(w.in[LOG_PROB][i] = 0);
  run(&w); /* ratios of 1: the policy loss is less the sum of what advantages became */
  assert_true(fabs(w.sums[PPO_POLICY_LOSS]) < 1e-9);
  double squares = 0;
  for (int i = 0; i < STEPS; i++) {
    double advantage = -w.out[D_LOG_PROB][i] * w.sums[SUM_STEPS];
    if (!w.flags[i]) squares += advantage * advantage;
  }
  assert_true(fabs(squares / (w.sums[SUM_STEPS] - 1) - 1) < 1e-6);
  device_destroy(w.device);
}

/* Those of no reward: they differ by no more than values err. */
static void small_advantages_stay_small(void **state) {
  (void)state;
  struct world w, divided;
  open_world(&w, 1, INFINITY);
  open_world(&divided, 1, INFINITY);
  w.rule.kl_cost = divided.rule.kl_cost = 0;
  for (int i = 0; i < STEPS; i++) divided.in[ADVANTAGE][i] *= 1e-4;
  run(&w);
  run(&divided);
  double spread = sqrt(w.spread[SUM_SPREAD] / (w.sums[SUM_STEPS] - 1));
  assert_true(spread > 0.01 && spread * 1e-4 < 0.01);
  for (int i = 0; i < STEPS; i++) {
    double expected = w.out[D_LOG_PROB][i] * spread * 1e-4 / 0.01;
    assert_true(fabs(divided.out[D_LOG_PROB][i] - expected) <= 1e-6 * fabs(expected));
  }
  device_destroy(w.device);
  device_destroy(divided.device);
}

/* What is divided by the deviation is what has been divided before. */
static void a_deviation_is_a_unit(void **state) {
  (void)state;
  struct world w, divided;
  open_world(&w, 0, 0.5f);
  open_world(&divided, 0, 0.5f);
  w.deviation = 4;
  static const enum input inputs[] = {VALUE, OLD_VALUE, TARGET, ADVANTAGE};
  for (int k = 0; k < 4; k++)
    for (int i = 0; i < STEPS; i++) divided.in[inputs[k]][i] /= w.deviation;
  run(&w);
  run(&divided);
  for (int i = 0; i < STEPS; i++) {
    assert_true(w.out[D_LOG_PROB][i] == divided.out[D_LOG_PROB][i]);
    assert_true(w.out[D_VALUE][i] == divided.out[D_VALUE][i] / w.deviation);
  }
  assert_true(w.sums[PPO_BASELINE_LOSS] == divided.sums[PPO_BASELINE_LOSS]);
  assert_true(w.sums[PPO_ERROR_SQUARED] == divided.sums[PPO_ERROR_SQUARED] * 16);
  device_destroy(w.device);
  device_destroy(divided.device);
}

/* One step has no deviation, so that its advantage counts as it is; none has no mean. */
static void few_steps_are_finite(void **state) {
  (void)state;
  for (int count = 0; count <= 1; count++) {
    struct world w;
    open_world(&w, 1, INFINITY);
    for (int i = 0; i < STEPS; i++) w.flags[i] = i < count ? 0 : STEP_TRUNCATED;
    run(&w);
    for (int i = 0; i < STEPS; i++) assert_true(isfinite(w.out[D_LOG_PROB][i]));
    for (int k = 0; k < num_sums_of_ppo; k++) assert_true(isfinite(w.sums[k]));
    assert_true(w.sums[SUM_STEPS] == count);
    double ratio = exp(w.in[LOG_PROB][0] - (double)w.behaviour[0]);
    double inside = fmax(0.75, fmin(1.25, ratio)), advantage = w.in[ADVANTAGE][0];
    double loss = fmax(-advantage * ratio, -advantage * inside);
    assert_true(fabs(w.sums[PPO_POLICY_LOSS] - (count ? loss : 0)) < 1e-9);
    device_destroy(w.device);
  }
}

/* A minibatch with one step that counts has no deviation of its own: that of the targets counts. */
static void an_advantage_alone_is_divided_by_the_deviation(void **state) {
  (void)state;
  struct world w;
  open_world(&w, 1, INFINITY);
  for (int i = 0; i < STEPS; i++) w.flags[i] = i ? STEP_TRUNCATED : 0;
  w.deviation = 1e6;
  w.in[ADVANTAGE][0] = 3e6;
  run(&w);
  double ratio = exp(w.in[LOG_PROB][0] - (double)w.behaviour[0]);
  double inside = fmin(fmax(ratio, 0.75), 1.25);
  assert_true(fabs(w.sums[PPO_POLICY_LOSS] + 3 * fmin(ratio, inside)) < 1e-9);
  device_destroy(w.device);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(gradients_match_finite_differences),
      cmocka_unit_test(advantages_are_normalised_over_the_steps_that_count),
      cmocka_unit_test(small_advantages_stay_small),
      cmocka_unit_test(a_deviation_is_a_unit),
      cmocka_unit_test(an_advantage_alone_is_divided_by_the_deviation),
      cmocka_unit_test(few_steps_are_finite),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
