/* V-trace and the actor-critic loss on it, on every device, against PyTorch in float64
 * (tests/golden/algorithms/vtrace.py): advantages, targets, the loss, and its gradients at the
 * heads. */
#include "tests/unit/learner/device/golden_cases.h"

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
  return (struct arrays){
      .flags = golden_bytes(golden, "flags", rows),
      .action = golden_integers(golden, "action", steps),
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
      .sums = testing_room(t, 8),
  };
}

/* policy, baseline and entropy are sums over the unmasked steps, of which sums[0] is the number. */
static void compare_losses(const struct golden_cases *golden, struct testing *t, const real *sums,
                           double tolerance) {
  const double *expected = golden_numbers(golden, "loss_mean", 4);
  float got[8];
  t->device->ops->download(t->device, got, sums, 8);
  for (int i = 1; i < 4; i++) {
    double mean = (double)got[i] / (double)got[0];
    if (!(fabs(mean - expected[i]) <= tolerance * (1 + fabs(expected[i]))))
      fail_msg("case %s, %s: mean loss %d is %.9g, expected %.12g", golden->name,
               device_describe(t->device), i, mean, expected[i]);
  }
}

static void check_case(const struct golden_cases *golden, struct testing *t, double tolerance) {
  const struct device_ops *ops = t->device->ops;
  int T = (int)golden_scalar(golden, "T"), N = (int)golden_scalar(golden, "N"),
      A = (int)golden_scalar(golden, "A");
  size_t steps = (size_t)(T * N), rows = steps + (size_t)N, logits = steps * (size_t)A;
  struct arrays a = make_arrays(t, golden, steps, rows, (size_t)A);
  struct device_vtrace v = {.T = T,
                            .N = N,
                            .discount = golden_scalar(golden, "discount"),
                            .lambda = golden_scalar(golden, "lambda"),
                            .rho_clip = golden_scalar(golden, "rho_clip"),
                            .c_clip = golden_scalar(golden, "c_clip"),
                            .pg_rho_clip = golden_scalar(golden, "pg_rho_clip"),
                            .reward_scale = golden_scalar(golden, "reward_scale"),
                            .reward_clip = golden_scalar(golden, "reward_clip"),
                            .log_prob = a.log_prob,
                            .behaviour = golden_floats(golden, "behaviour", steps),
                            .value = a.value,
                            .reward = golden_floats(golden, "reward", rows),
                            .flags = a.flags};
  ops->categorical_evaluate(t->device, a.log_prob, a.entropy, a.logits, A, a.action, T * N, A);
  ops->vtrace(t->device, a.vs, a.advantage, &v);
  ops->vtrace_loss(t->device, a.d_log_prob, a.d_entropy, a.d_value, a.sums, &v, a.vs, a.advantage,
                   a.entropy, golden_scalar(golden, "baseline_cost"),
                   golden_scalar(golden, "entropy_cost"), 0);
  ops->categorical_backward(t->device, a.d_logits, A, a.logits, A, a.action, a.d_log_prob,
                            a.d_entropy, T * N, A);
  golden_compare(golden, "advantage", steps, t, a.advantage, steps, tolerance);
  golden_compare(golden, "target", steps, t, a.vs, steps, tolerance);
  golden_compare(golden, "d_logits_mean", logits, t, a.d_logits, logits, tolerance);
  golden_compare(golden, "d_value_mean", rows, t, a.d_value, steps, tolerance);
  compare_losses(golden, t, a.sums, tolerance);
  testing_release(t);
  free(a.flags);
  free(a.action);
}

static void check_file(struct testing *t, double tolerance) {
  static struct golden_cases golden;
  int cases = 0;
  golden_open(&golden, "tests/golden/algorithms/vtrace.txt");
  for (; golden_next(&golden); cases++) check_case(&golden, t, tolerance);
  assert_int_equal(cases, 9);
}

static void check_both(struct testing *cpu, struct testing *ref) {
  check_file(cpu, 5e-6);
  check_file(ref, 5e-6);
}

static void the_devices_compute_what_pytorch_computes(void **state) {
  (void)state;
  testing_each_set(check_both);
}

/* What is downloaded has a float's 7 digits. */
static void the_reference_in_double_is_closer(void **state) {
  (void)state;
  struct testing t = {.device = device_ref_double_create()};
  check_file(&t, 1e-7);
  device_destroy(t.device);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_devices_compute_what_pytorch_computes),
      cmocka_unit_test(the_reference_in_double_is_closer),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
