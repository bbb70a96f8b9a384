/* The threads of a CPU device: every part is done once, by several threads, and what they compute
 * is what one thread computes, to the last bit. */
#include "tests/unit/learner/device/device_testing.h"

#include <immintrin.h>
#include <pthread.h>
#include <stdatomic.h>

#include "common/base/clock.h"
#include "learner/device/cpu/cpu_pool.h"

/* ---- the pool */

enum { MOST_PARTS = 70 };

static void count_part(void *counts, int part) {
  atomic_fetch_add(&((atomic_int *)counts)[part], 1);
}

static void test_every_part_is_done_once(void **state) {
  (void)state;
  static atomic_int counts[MOST_PARTS];
  for (int threads = 2; threads <= 4; threads++) {
    struct cpu_pool *pool = cpu_pool_create(threads);
    assert_int_equal(cpu_pool_threads(pool), threads);
    for (int operation = 0; operation < testing_cases(3000); operation++) {
      int parts = operation % (MOST_PARTS + 1);
      for (int i = 0; i < MOST_PARTS; i++) atomic_store(&counts[i], 0);
      cpu_pool_run(pool, count_part, counts, parts);
      for (int i = 0; i < MOST_PARTS; i++)
        assert_int_equal(atomic_load(&counts[i]), i < parts ? 1 : 0);
    }
    cpu_pool_destroy(pool);
  }
}

struct meeting {
  pthread_barrier_t barrier;
  unsigned modes[3];
  pthread_t caller;
  atomic_int returned;
};

/* Each waits for the others; the caller of the pool returns first. */
static void meet(void *meeting_, int part) {
  struct meeting *meeting = meeting_;
  meeting->modes[part] = _mm_getcsr();
  pthread_barrier_wait(&meeting->barrier);
  if (!pthread_equal(pthread_self(), meeting->caller)) clock_sleep_us(20000);
  atomic_fetch_add(&meeting->returned, 1);
}

/* Also by threads that have gone to sleep, and with the caller's mode for tiny numbers. */
static void test_parts_are_done_at_once(void **state) {
  (void)state;
  for (int asleep = 0; asleep < 2; asleep++) {
    struct cpu_pool *pool = cpu_pool_create(3);
    struct meeting meeting = {.caller = pthread_self()};
    pthread_barrier_init(&meeting.barrier, NULL, 3);
    if (asleep) clock_sleep_us(20000);
    const unsigned flush = 0x8040, before = _mm_getcsr();
    _mm_setcsr(before | flush);
    cpu_pool_run(pool, meet, &meeting, 3);
    _mm_setcsr(before);
    assert_int_equal(atomic_load(&meeting.returned), 3);
    for (int i = 0; i < 3; i++) assert_int_equal(meeting.modes[i] & flush, flush);
    pthread_barrier_destroy(&meeting.barrier);
    cpu_pool_destroy(pool);
  }
}

/* ---- a device with threads */

struct layer {
  int B, I, O, x_stride;
  enum activation act;
};

/* y, dy, dx, dw, db and dx without dw, of a layer large enough to be shared. */
enum { ARRAYS = 6 };

static void run_layer(struct testing *t, real *array[ARRAYS], size_t count[ARRAYS],
                      const struct layer *l) {
  uint64_t random = 3;
  size_t B = (size_t)l->B, I = (size_t)l->I, O = (size_t)l->O, x_count = B * (size_t)l->x_stride;
  const size_t counts[ARRAYS] = {B * O, B * O, B * I, I * O, O, B * I};
  float *x = testing_floats(&random, x_count, 1), *w = testing_floats(&random, I * O, 1),
        *dy = testing_floats(&random, B * O, 1e-30f); /* their products are tiny numbers */
  real *on_x = testing_upload(t, x, x_count), *on_w = testing_upload(t, w, I * O),
       *again = testing_upload(t, dy, B * O), *db = testing_room(t, O);
  for (int i = 0; i < ARRAYS; i++) {
    count[i] = counts[i];
    array[i] = i == 1 ? testing_upload(t, dy, B * O) : testing_room(t, counts[i]);
  }
  const struct device_ops *ops = t->device->ops;
  ops->linear_forward(t->device, array[0], on_x, l->x_stride, on_w, on_w, l->act, l->B, l->I, l->O);
  ops->linear_backward(t->device, array[2], array[3], array[4], array[1], array[0], on_x,
                       l->x_stride, on_w, l->act, l->B, l->I, l->O);
  ops->linear_backward(t->device, array[5], NULL, db, again, array[0], on_x, l->x_stride, on_w,
                       l->act, l->B, l->I, l->O);
  free(x);
  free(w);
  free(dy);
}

static void compare_layers(struct testing *several, struct testing *one) {
  static const struct layer layers[] = {
      {256, 256, 256, 256, ACTIVATION_RELU}, {257, 129, 131, 140, ACTIVATION_TANH},
      {100, 600, 520, 600, ACTIVATION_NONE}, {3000, 300, 3, 300, ACTIVATION_RELU},
      {3, 700, 600, 700, ACTIVATION_RELU},   {16, 270000, 3, 270000, ACTIVATION_NONE},
  };
  for (size_t k = 0; k < sizeof layers / sizeof *layers; k++) {
    real *got[ARRAYS], *expected[ARRAYS];
    size_t count[ARRAYS];
    run_layer(several, got, count, &layers[k]);
    run_layer(one, expected, count, &layers[k]);
    for (int i = 0; i < ARRAYS; i++)
      if (memcmp(got[i], expected[i], count[i] * sizeof(float)) != 0)
        fail_msg("%s, layer %zu: array %d differs with threads", one->device->description, k, i);
    testing_release(several);
    testing_release(one);
  }
}

enum { PARAMETERS = 100003 };

static real *run_adam(struct testing *t) {
  uint64_t random = 5;
  real *array[4];
  for (int i = 0; i < 4; i++) {
    float *values = testing_floats(&random, PARAMETERS, i == 3 ? 1e-20f : 1);
    for (int k = 0; i == 2 && k < PARAMETERS; k++) values[k] *= values[k]; /* mean squares */
    array[i] = testing_upload(t, values, PARAMETERS);
    free(values);
  }
  float norm = 3;
  struct device_schedule schedule = {.step = 7, .learning_rate = 1e-3f};
  t->device->ops->adam(t->device, array[0], array[1], array[2], array[3],
                       testing_upload(t, &norm, 1), &schedule, 0.5f, 0.9f, 0.999f, 1e-8f, false,
                       PARAMETERS);
  return array[0];
}

static void compare_adam(struct testing *several, struct testing *one) {
  assert_memory_equal(run_adam(several), run_adam(one), PARAMETERS * sizeof(float));
  testing_release(several);
  testing_release(one);
}

static void test_threads_change_no_bit(void **state) {
  (void)state;
  static const char *const sets[] = {"v2", "v3", "v4"};
  for (int i = 0; i < (TESTING_FOR_RACES ? 1 : 3); i++) {
    struct testing several = {0}, one = {0};
    struct error error;
    if (cpu_create(&one.device, sets[i], &error) != STATUS_OK ||
        cpu_create(&several.device, sets[i], &error) != STATUS_OK) {
      print_message("SKIP %s: %s\n", sets[i], error.text);
      continue;
    }
    device_cpu_use_threads(several.device, 3);
    compare_layers(&several, &one);
    compare_adam(&several, &one);
    device_destroy(several.device);
    device_destroy(one.device);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_every_part_is_done_once),
      cmocka_unit_test(test_parts_are_done_at_once),
      cmocka_unit_test(test_threads_change_no_bit),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
