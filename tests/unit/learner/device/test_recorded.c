/* Operations that are recorded and played again give what direct calls give, on every device. */
#include "learner/device/recorded.h"

#include "tests/unit/learner/device/device_testing.h"
#include "tests/unit/support/aborts.h"
#include "learner/device/shared.h"

enum { B = 37, I = 19, O = 24 };

/* A layer and its gradient, for an input that the host uploads. */
struct work {
  struct testing *t;
  struct device_shared x; /* (B, I) floats */
  real *y, *w, *b, *dw, *db, *sum;
  int calls;
};

static void make_work(struct work *work, struct testing *t) {
  uint64_t state = 7;
  float *w = testing_floats(&state, I * O, 1), *b = testing_floats(&state, O, 1);
  *work = (struct work){.t = t, .x = device_share(t->device, sizeof(double[B * I]))};
  work->w = testing_upload(t, w, I * O);
  work->b = testing_upload(t, b, O);
  work->y = testing_room(t, B * O);
  work->dw = testing_room(t, I * O);
  work->db = testing_room(t, O);
  work->sum = testing_room(t, I * O);
  free(w);
  free(b);
}

static void give(void *context) {
  struct work *work = context;
  struct device *d = work->t->device;
  const struct device_ops *ops = d->ops;
  device_shared_upload(d, &work->x);
  const real *x = work->x.memory;
  ops->linear_forward(d, work->y, x, I, work->w, work->b, ACTIVATION_TANH, B, I, O);
  ops->linear_backward(d, NULL, work->dw, work->db, work->y, work->y, x, I, work->w,
                       ACTIVATION_TANH, B, I, O);
  testing_add(d, work->sum, work->dw, I * O);
  work->calls++;
}

/* Input k, from the host. */
static void set_input(struct work *work, int k) {
  uint64_t state = 100 + (uint64_t)k;
  bool wide = work->t->device->ops->real_bytes == sizeof(double);
  for (int i = 0; i < B * I; i++) {
    float number = 2 * testing_uniform(&state) - 1;
    if (wide)
      ((double *)work->x.host)[i] = (double)number;
    else
      ((float *)work->x.host)[i] = number;
  }
}

enum { RUNS = 5 };

/* The sum over all runs, and the last output. */
static void run(struct testing *t, bool directly, float sum[I * O], float y[B * O]) {
  struct work work;
  struct recorded recorded = {0};
  make_work(&work, t);
  for (int k = 0; k < RUNS; k++) {
    set_input(&work, k);
    if (directly)
      give(&work);
    else
      recorded_run(&recorded, t->device, give, &work);
    device_finish(t->device);
  }
  t->device->ops->download(t->device, sum, work.sum, I * O);
  t->device->ops->download(t->device, y, work.y, B * O);
  assert_int_equal(work.calls, directly || !t->device->ops->record ? RUNS : 2);
  recorded_forget(&recorded, t->device);
  device_unshare(t->device, &work.x);
}

static void check_same_bits(struct testing *t) {
  static float sum[2][I * O], y[2][B * O];
  for (int directly = 0; directly < 2; directly++) run(t, directly, sum[directly], y[directly]);
  assert_memory_equal(sum[0], sum[1], sizeof sum[0]);
  assert_memory_equal(y[0], y[1], sizeof y[0]);
}

static void played_is_as_given(void **state) {
  (void)state;
  testing_each_device(check_same_bits);
}

static void forgotten_runs_directly_again(void **state) {
  (void)state;
  struct testing t = {.device = emulated_cuda_create("float32")};
  struct work work;
  struct recorded recorded = {0};
  make_work(&work, &t);
  for (int k = 0; k < 3; k++) recorded_run(&recorded, t.device, give, &work);
  assert_int_equal(work.calls, 2);
  recorded_forget(&recorded, t.device);
  assert_null(recorded.recording);
  recorded_run(&recorded, t.device, give, &work);
  assert_int_equal(work.calls, 3);
  device_finish(t.device);
  device_unshare(t.device, &work.x);
  testing_release(&t);
  device_destroy(t.device);
}

/* ---- one device behind another */

static void following_sees_what_was_done(struct testing *t) {
  struct device *leader = t->device, *follower;
  struct error error;
  bool cuda = strcmp(leader->ops->name, "cuda") == 0;
  if (!cuda) {
    leader->ops->follow(leader, leader, leader->ops->mark(leader));
    return;
  }
  assert_int_equal(device_create(&follower, "cuda", &error), STATUS_OK);
  enum { N = 1 << 16, ROUNDS = 20 };
  real *x = testing_room(t, N), *y = testing_room(t, N);
  for (int k = 0; k < ROUNDS; k++) {
    device_fill(leader, x, (float)k, N);
    follower->ops->follow(follower, leader, leader->ops->mark(leader));
    device_copy(follower, y, x, N);
    leader->ops->follow(leader, follower, follower->ops->mark(follower));
  }
  float *host = check_alloc(N, sizeof *host);
  leader->ops->download(leader, host, y, N);
  for (int i = 0; i < N; i++) assert_float_equal(host[i], ROUNDS - 1, 0);
  free(host);
  device_finish(follower);
  device_destroy(follower);
}

static void devices_follow_each_other(void **state) {
  (void)state;
  testing_each_device(following_sees_what_was_done);
}

/* ---- what must not be done */

enum misuse {
  GROWING_SCRATCH,
  ALLOCATING,
  MARKING,
  FINISHING,
  RECORDING_TWICE,
  ENDING_WITHOUT,
  MISUSES
};

/* In a process of its own, so with a device of its own. */
static void misuse(void *subject, int what) {
  (void)subject;
  struct testing t = {.device = emulated_cuda_create("float32")};
  struct device *d = t.device;
  struct work work;
  make_work(&work, &t);
  if (what != ENDING_WITHOUT) d->ops->record(d);
  switch ((enum misuse)what) {
    case GROWING_SCRATCH:
      d->ops->global_norm(d, work.sum, work.w, I * O);
      break;
    case ALLOCATING:
      d->ops->alloc(d, 64);
      break;
    case MARKING:
      d->ops->mark(d);
      break;
    case FINISHING:
      device_finish(d);
      break;
    case RECORDING_TWICE:
      d->ops->record(d);
      break;
    case ENDING_WITHOUT:
      d->ops->recorded(d);
      break;
    case MISUSES:
      break;
  }
}

static void misuse_fails(void **state) {
  (void)state;
  for (int what = 0; what < MISUSES; what++)
    if (!aborts(misuse, NULL, what)) fail_msg("misuse %d passes", what);
}

int main(void) {
  emulated_cuda_use();
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(misuse_fails),
      cmocka_unit_test(played_is_as_given),
      cmocka_unit_test(forgotten_runs_directly_again),
      cmocka_unit_test(devices_follow_each_other),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
