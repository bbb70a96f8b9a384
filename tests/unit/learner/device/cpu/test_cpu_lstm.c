/* The CPU device's LSTM against the reference device: odd sizes, resets at any step. */
#include "tests/unit/learner/device/device_testing.h"

struct shape {
  int T, N, H;
  int reset_percent;
};

struct lstm_arrays {
  real *h, *c, *gates, *dgates, *dwh;
};

static uint8_t *random_resets(uint64_t *random, const struct shape *s) {
  size_t count = (size_t)s->T * (size_t)s->N;
  uint8_t *reset = check_alloc(count, 1);
  for (size_t i = 0; i < count; i++) {
    reset[i] = (uint8_t)(testing_below(random, 100) < s->reset_percent);
    reset[i] |= (uint8_t)(testing_bits(random) & 6); /* other flags mean nothing here */
  }
  return reset;
}

static struct lstm_arrays run_lstm(struct testing *t, const struct shape *s, uint64_t seed) {
  uint64_t random = seed;
  size_t state = (size_t)s->N * (size_t)s->H, steps = state * (size_t)s->T,
         weights = 4 * (size_t)s->H * (size_t)s->H;
  float *gates = testing_floats(&random, 4 * steps, 2), *dh = testing_floats(&random, steps, 1);
  float *wh = testing_floats(&random, weights, 1 / sqrtf((float)s->H)),
        *start = testing_floats(&random, 2 * state, 1);
  uint8_t *reset = random_resets(&random, s);
  real *wh_d = testing_upload(t, wh, weights), *dh_d = testing_upload(t, dh, steps);
  real *h0 = testing_upload(t, start, state), *c0 = testing_upload(t, start + state, state);
  struct lstm_arrays a = {.h = testing_room(t, steps),
                          .c = testing_room(t, steps),
                          .gates = testing_upload(t, gates, 4 * steps),
                          .dgates = testing_room(t, 4 * steps),
                          .dwh = testing_room(t, weights)};
  const uint8_t *reset_d = testing_bytes(t, reset, (size_t)s->T * (size_t)s->N);
  const struct device_ops *ops = t->device->ops;
  ops->lstm_forward(t->device, a.h, a.c, a.gates, wh_d, h0, c0, reset_d, s->T, s->N, s->H);
  ops->lstm_backward(t->device, a.dgates, a.dwh, dh_d, a.h, a.c, a.gates, wh_d, h0, c0, reset_d,
                     s->T, s->N, s->H);
  free(gates);
  free(dh);
  free(wh);
  free(start);
  free(reset);
  return a;
}

static void compare_lstm(struct testing *cpu, struct testing *ref, const struct shape *s,
                         uint64_t seed) {
  struct lstm_arrays got = run_lstm(cpu, s, seed), expected = run_lstm(ref, s, seed);
  size_t steps = (size_t)s->T * (size_t)s->N * (size_t)s->H;
  testing_compare("h", cpu, got.h, ref, expected.h, steps, 5e-6);
  testing_compare("c", cpu, got.c, ref, expected.c, steps, 5e-6);
  testing_compare("gates", cpu, got.gates, ref, expected.gates, 4 * steps, 5e-6);
  testing_compare("dgates", cpu, got.dgates, ref, expected.dgates, 4 * steps, 2e-5);
  testing_compare("dwh", cpu, got.dwh, ref, expected.dwh, 4 * (size_t)s->H * (size_t)s->H, 2e-5);
  testing_release(cpu);
  testing_release(ref);
}

static void shapes(struct testing *cpu, struct testing *ref) {
  static const struct shape table[] = {
      {1, 1, 1, 0},   {1, 17, 7, 50},   {3, 1, 3, 30},   {7, 3, 17, 20},  {20, 7, 64, 5},
      {5, 64, 64, 0}, {4, 33, 100, 10}, {2, 3, 257, 50}, {6, 5, 64, 100}, {3, 70, 128, 3},
  };
  for (size_t i = 0; i < sizeof table / sizeof *table; i++)
    compare_lstm(cpu, ref, &table[i], 31 + i);
}

/* From where products are in bf16 (cpu_low.h). */
static void shapes_in_bf16(struct testing *cpu, struct testing *ref) {
  static const struct shape table[] = {{20, 7, 64, 5}, {5, 64, 64, 0}, {3, 70, 128, 3}};
  for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
    const struct shape *s = &table[i];
    struct lstm_arrays got = run_lstm(cpu, s, 51 + i), expected = run_lstm(ref, s, 51 + i);
    size_t H = (size_t)s->H, steps = (size_t)s->T * (size_t)s->N * H;
    testing_compare_norm("h", cpu, got.h, ref, expected.h, steps, 0x1p-7);
    testing_compare_norm("c", cpu, got.c, ref, expected.c, steps, 0x1p-7);
    testing_compare_norm("gates", cpu, got.gates, ref, expected.gates, 4 * steps, 0x1p-7);
    testing_compare_norm("dgates", cpu, got.dgates, ref, expected.dgates, 4 * steps, 0x1p-6);
    testing_compare_norm("dwh", cpu, got.dwh, ref, expected.dwh, 4 * H * H, 0x1p-6);
    testing_release(cpu);
    testing_release(ref);
  }
}

/* What lies before a reset must not matter, whatever it is. */
static void a_reset_forgets_even_nan(struct testing *cpu, struct testing *ref) {
  (void)ref;
  enum { H = 17 };
  const uint8_t first = 1;
  float nan[H], h[H], gates[4 * H] = {0}, wh[4 * H * H] = {0};
  for (int i = 0; i < H; i++) nan[i] = NAN;
  real *bad = testing_upload(cpu, nan, H), *out = testing_room(cpu, H), *c = testing_room(cpu, H);
  real *gates_d = testing_upload(cpu, gates, 4 * H), *wh_d = testing_upload(cpu, wh, 4 * H * H);
  const uint8_t *reset = testing_bytes(cpu, &first, 1);
  cpu->device->ops->lstm_forward(cpu->device, out, c, gates_d, wh_d, bad, bad, reset, 1, 1, H);
  cpu->device->ops->download(cpu->device, h, out, H);
  for (int i = 0; i < H; i++) assert_true(isfinite(h[i]));
  testing_release(cpu);
}

static void test_shapes(void **state) {
  (void)state;
  testing_each_set(shapes);
}
static void test_shapes_in_bf16(void **state) {
  (void)state;
  testing_cpu_in_bf16(shapes_in_bf16);
}
static void test_a_reset_forgets_even_nan(void **state) {
  (void)state;
  testing_each_set(a_reset_forgets_even_nan);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_shapes),
      cmocka_unit_test(test_shapes_in_bf16),
      cmocka_unit_test(test_a_reset_forgets_even_nan),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
