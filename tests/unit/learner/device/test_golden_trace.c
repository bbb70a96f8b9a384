/* V-trace and generalised advantage estimation with the actor-critic loss on them, on every device,
 * against PyTorch in float64 (tests/golden/algorithms): advantages, targets, the loss in both
 * reductions, and its gradients at the heads. */
#include "tests/unit/learner/device/categorical_testing.h"
#include "tests/unit/learner/device/device_testing.h"
#include "tests/unit/support/golden_cases.h"
#include "tests/unit/learner/device/actor_critic_testing.h"

/* Shapes: flags, reward, value (T+1, N); the others (T, N), logits and d_logits (T, N, A). */
struct arrays {
  uint8_t *flags;
  int32_t *action;
  real *logits, *value;
  real *log_prob, *entropy, *vs, *advantage;
  real *d_log_prob, *d_entropy, *d_value, *d_logits, *sums;
};

static struct arrays make_arrays(struct testing *t, const struct golden_cases *golden, size_t steps,
                                 size_t rows, size_t A) {
  uint8_t *flags = golden_bytes(golden, "flags", rows);
  int32_t *action = golden_integers(golden, "action", steps);
  struct arrays a = {
      .flags = testing_bytes(t, flags, rows),
      .action = testing_bytes(t, action, steps * sizeof *action),
      .logits = testing_upload(t, golden_floats(golden, "logits", steps * A), steps * A),
      .value = testing_upload(t, golden_floats(golden, "value", rows), rows),
      .log_prob = testing_room(t, steps),
      .entropy = testing_room(t, steps),
      .vs = testing_room(t, steps),
      .advantage = testing_room(t, steps),
      .d_log_prob = testing_room(t, steps),
      .d_entropy = testing_room(t, steps),
      .d_value = testing_room(t, steps),
      .d_logits = testing_room(t, steps * A),
      .sums = testing_room(t, ACTOR_CRITIC_SUMS),
  };
  free(flags);
  free(action);
  return a;
}

/* Checks the first n numbers of a device array against the golden array of `count`: each within
 * tolerance * (1 + |expected|). */
static void golden_compare(const struct golden_cases *golden, const char *name, size_t count,
                           struct testing *t, const real *x, size_t n, double tolerance) {
  const double *expected = golden_numbers(golden, name, count);
  float *got = check_alloc(n, sizeof(*got));
  t->device->ops->download(t->device, got, x, n);
  for (size_t i = 0; i < n; i++)
    if (!(fabs((double)got[i] - expected[i]) <= tolerance * (1 + fabs(expected[i]))))
      fail_msg("%s, case %s, %s: element %zu of %s is %.9g, expected %.12g", golden->path,
               golden->name, t->device->description, i, name, (double)got[i], expected[i]);
  free(got);
}

/* policy, baseline and entropy are sums over the unmasked steps. */
static void compare_losses(const struct golden_cases *golden, struct testing *t, const char *name,
                           const real *sums, double scale, double tolerance) {
  const double *expected = golden_numbers(golden, name, 4);
  float got[ACTOR_CRITIC_SUMS];
  t->device->ops->download(t->device, got, sums, ACTOR_CRITIC_SUMS);
  if (scale == 0) scale = 1 / (double)got[SUM_STEPS];
  for (int i = SUM_POLICY_LOSS; i <= SUM_ENTROPY; i++) {
    double loss = scale * (double)got[i];
    if (!(fabs(loss - expected[i]) <= tolerance * (1 + fabs(expected[i]))))
      fail_msg("case %s, %s: %s %d is %.9g, expected %.12g", golden->name, t->device->description,
               name, i, loss, expected[i]);
  }
}

/* Losses and gradients in one reduction. */
static void check_loss(const struct golden_cases *golden, struct testing *t,
                       const struct device_trace *v, const struct arrays *a, int A,
                       enum loss_reduction reduction, double tolerance) {
  bool mean = reduction == LOSS_MEAN;
  size_t steps = (size_t)(v->T * v->N), logits = steps * (size_t)A;
  const float entropy_cost = golden_scalar(golden, "entropy_cost");
  const struct device_schedule costs = {.entropy_cost = entropy_cost},
                               *schedule = testing_bytes(t, &costs, sizeof costs);
  run_actor_critic(
      t->device, (real *[]){a->d_log_prob, a->d_entropy, a->d_value}, a->sums, v,
      (const real *[]){a->vs, a->advantage, a->entropy}, schedule,
      (struct actor_critic_costs){golden_scalar(golden, "baseline_cost"), 0, reduction, 1});
  categorical_backward(t->device, a->d_logits, A, a->logits, A, a->action, a->d_log_prob,
                       a->d_entropy, v->T * v->N, A);
  golden_compare(golden, mean ? "d_logits_mean" : "d_logits_sum_over_time", logits, t, a->d_logits,
                 logits, tolerance);
  golden_compare(golden, mean ? "d_value_mean" : "d_value_sum_over_time", steps + (size_t)v->N, t,
                 a->d_value, steps, tolerance);
  compare_losses(golden, t, mean ? "loss_mean" : "loss_sum_over_time", a->sums,
                 mean ? 0 : 1.0 / v->N, tolerance);
}

static void check_case(const struct golden_cases *golden, struct testing *t, enum trace_kind kind,
                       double tolerance) {
  const struct device_ops *ops = t->device->ops;
  int T = (int)golden_scalar(golden, "T"), N = (int)golden_scalar(golden, "N"),
      A = (int)golden_scalar(golden, "A");
  size_t steps = (size_t)(T * N), rows = steps + (size_t)N;
  struct arrays a = make_arrays(t, golden, steps, rows, (size_t)A);
  bool vtrace = kind == TRACE_VTRACE;
  const float *behaviour =
      vtrace ? golden_floats(golden, "behaviour", steps) : golden_floats(golden, "value", rows);
  struct device_trace v = {
      .kind = kind,
      .T = T,
      .N = N,
      .discount = golden_scalar(golden, "discount"),
      .lambda = golden_scalar(golden, "lambda"),
      .rho_clip = vtrace ? golden_scalar(golden, "rho_clip") : 0,
      .c_clip = vtrace ? golden_scalar(golden, "c_clip") : 0,
      .pg_rho_clip = vtrace ? golden_scalar(golden, "pg_rho_clip") : 0,
      .reward_scale = golden_scalar(golden, "reward_scale"),
      .reward_clip = golden_scalar(golden, "reward_clip"),
      .log_prob = a.log_prob,
      .behaviour = testing_bytes(t, behaviour, steps * sizeof(float)),
      .value = a.value,
      .reward = testing_bytes(t, golden_floats(golden, "reward", rows), rows * sizeof(float)),
      .flags = a.flags};
  categorical_evaluate(t->device, a.log_prob, a.entropy, a.logits, A, a.action, T * N, A);
  ops->trace(t->device, a.vs, a.advantage, &v);
  golden_compare(golden, "advantage", steps, t, a.advantage, steps, tolerance);
  golden_compare(golden, "target", steps, t, a.vs, steps, tolerance);
  check_loss(golden, t, &v, &a, A, LOSS_MEAN, tolerance);
  check_loss(golden, t, &v, &a, A, LOSS_SUM_OVER_TIME, tolerance);
  testing_release(t);
}

static void check_files(struct testing *t, double tolerance) {
  static const char *const paths[] = {"tests/golden/algorithms/vtrace.txt",
                                      "tests/golden/algorithms/gae.txt"};
  static const enum trace_kind kinds[] = {TRACE_VTRACE, TRACE_GAE};
  for (int i = 0; i < 2; i++) {
    static struct golden_cases golden;
    int cases = 0;
    golden_open(&golden, paths[i]);
    for (; golden_next(&golden); cases++) check_case(&golden, t, kinds[i], tolerance);
    assert_int_equal(cases, 9);
  }
}

static void check_both(struct testing *cpu, struct testing *ref) {
  check_files(cpu, 5e-6);
  check_files(ref, 5e-6);
}

static void the_devices_compute_what_pytorch_computes(void **state) {
  (void)state;
  testing_each_set(check_both);
}

/* What is downloaded has a float's 7 digits. */
static void the_reference_in_double_is_closer(void **state) {
  (void)state;
  struct testing t = {.device = device_ref_double_create()};
  check_files(&t, 1e-7);
  device_destroy(t.device);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_devices_compute_what_pytorch_computes),
      cmocka_unit_test(the_reference_in_double_is_closer),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
