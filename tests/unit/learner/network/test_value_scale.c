/* Values on a scale of running statistics: what they stand for, gradients by finite differences,
 * and that outputs stay where the statistics move, or follow them, on every device and with every
 * form of a head.
 */
#include "tests/unit/learner/network/head_world.h"
#include "tests/unit/support/emulated_cuda.h"

static const float now[NETWORK_VALUE_STATISTICS] = {100, -3, 0.25f},
                   next[NETWORK_VALUE_STATISTICS] = {135, 40, 12.5f};

static double tolerance_of(const char *device) {
  return strcmp(device, "ref_double") == 0 ? 1e-6 : 1e-5;
}

static bool has_a_value(const struct form *form) {
  return form->value_size == 1;
}

/* Statistics come last. */
static void set_statistics(struct world *w, const float *statistics) {
  real *last = device_at(w->device, w->params, w->P - NETWORK_VALUE_STATISTICS);
  w->device->ops->upload(w->device, last, statistics, NETWORK_VALUE_STATISTICS);
}

static void open_scaled(struct world *w, const char *network, const struct form *form, bool scaled,
                        const char *device) {
  struct network_config config = config_with(network, 1, form);
  config.scale_value = scaled;
  world_open(w, &config, device);
  if (scaled) set_statistics(w, now);
}

/* Two networks with the same weights: what one gives for v is deviation v + mean of the other's. */
static void check_outputs(const struct form *form, const char *device) {
  struct world scaled, plain;
  float heads[2][MAX_NUMBERS];
  open_scaled(&scaled, "mlp", form, true, device);
  open_scaled(&plain, "mlp", form, false, device);
  assert_int_equal(scaled.P, plain.P + NETWORK_VALUE_STATISTICS);
  world_heads(&scaled, heads[0]);
  world_heads(&plain, heads[1]);
  for (int i = form->head_size; i < ROWS * plain.stride; i += plain.stride)
    heads[1][i] = now[2] * heads[1][i] + now[1];
  world_expect_close(heads[0], heads[1], (size_t)(ROWS * plain.stride), tolerance_of(device),
                     device);
  world_close(&scaled);
  world_close(&plain);
}

static void check_preserved(const struct form *form, const char *device) {
  struct world w;
  float before[MAX_NUMBERS], after[MAX_NUMBERS], statistics[NETWORK_VALUE_STATISTICS];
  open_scaled(&w, "lstm", form, true, device);
  world_heads(&w, before);
  real *to = world_reals(&w, NETWORK_VALUE_STATISTICS), *skipped = world_reals(&w, 1);
  w.device->ops->upload(w.device, to, next, NETWORK_VALUE_STATISTICS);
  for (int skips = 1; skips >= 0; skips--) {
    device_fill(w.device, skipped, skips ? NAN : 0, 1);
    network_rescale_value(w.network, w.device, w.params, to, skipped);
    w.device->ops->weights_changed(w.device);
    world_heads(&w, after);
    size_t numbers = (size_t)(ROWS * w.stride);
    if (skips) assert_memory_equal(before, after, numbers * sizeof(*after));
    world_expect_close(after, before, numbers, tolerance_of(device), device);
    w.device->ops->download(w.device, statistics,
                            network_value_statistics(w.network, w.device, w.params),
                            NETWORK_VALUE_STATISTICS);
    assert_memory_equal(statistics, skips ? now : next, sizeof(now));
  }
  w.device->ops->release(w.device, to);
  w.device->ops->release(w.device, skipped);
  world_close(&w);
}

/* What a value stood for in the deviations before, it stands for in the next ones. Where there were
 * none before and it is rescaled, it follows their mean beyond three deviations. */
static void check_followed(const struct form *form, bool are_first, const char *device) {
  static const float none[NETWORK_VALUE_STATISTICS] = {0, 0, 1};
  struct world w;
  float expected[MAX_NUMBERS], after[MAX_NUMBERS];
  open_scaled(&w, "mlp", form, true, device);
  if (are_first) set_statistics(&w, none);
  world_heads(&w, expected);
  for (int i = form->head_size; i < ROWS * w.stride; i += w.stride)
    expected[i] = are_first ? expected[i] + next[1] - 3 * next[2]
                            : next[2] * (expected[i] - now[1]) / now[2] + next[1];
  real *to = world_reals(&w, NETWORK_VALUE_STATISTICS), *skipped = world_reals(&w, 1);
  w.device->ops->upload(w.device, to, next, NETWORK_VALUE_STATISTICS);
  device_fill(w.device, skipped, 0, 1);
  (are_first ? network_rescale_value : network_set_value_statistics)(w.network, w.device, w.params,
                                                                     to, skipped);
  w.device->ops->weights_changed(w.device);
  world_heads(&w, after);
  world_expect_close(after, expected, (size_t)(ROWS * w.stride), tolerance_of(device), device);
  w.device->ops->release(w.device, to);
  w.device->ops->release(w.device, skipped);
  world_close(&w);
}

static void values_stand_for_more_and_stay(void **state) {
  (void)state;
  static const char *const devices[] = {"ref_double", "ref", "cpu", "guarded", "cuda"};
  emulated_cuda_use();
  for (int i = 0; i < 5 * NUM_FORMS; i++) {
    if (!has_a_value(&forms[i / 5])) continue;
    check_outputs(&forms[i / 5], devices[i % 5]);
    check_preserved(&forms[i / 5], devices[i % 5]);
    check_followed(&forms[i / 5], false, devices[i % 5]);
    check_followed(&forms[i / 5], true, devices[i % 5]);
  }
}

/* The statistics' own is none. */
static void gradients_match_finite_differences(void **state) {
  (void)state;
  for (int f = 0; f < NUM_FORMS; f++) {
    if (!has_a_value(&forms[f])) continue;
    struct world w;
    open_scaled(&w, "mlp", &forms[f], true, "ref_double");
    double *gradient = (double *)w.gradient;
    for (size_t i = 0; i < w.P; i++) gradient[i] = NAN;
    world_forward(&w);
    world_backward(&w);
    for (size_t i = 0; i < w.P - NETWORK_VALUE_STATISTICS; i++) {
      double got = gradient[i], difference = world_difference(&w, i);
      if (!(fabs(difference - got) <= 1e-7 * (1 + fabs(got))))
        fail_msg("form %d, parameter %zu: finite difference %.10g, gradient %.10g", f, i,
                 difference, got);
    }
    for (int k = 1; k <= NETWORK_VALUE_STATISTICS; k++) assert_true(gradient[w.P - (size_t)k] == 0);
    world_close(&w);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(values_stand_for_more_and_stay),
      cmocka_unit_test(gradients_match_finite_differences),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
