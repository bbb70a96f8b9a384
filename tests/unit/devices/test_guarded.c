/* The device `guarded` must be able to fail: each test but the last does what a learner must not do
 * with a GPU's memory, and sees the process end. */
#include "tests/unit/learner/device/device_testing.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "learner/device/shared.h"
#include "tests/unit/support/aborts.h"

/* ---- the host and the device's memory */

/* The signal that ended a child which read the memory, or wrote it; 0: none did. */
static int signal_of_access(volatile uint8_t *memory, bool write) {
  pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) {
    setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
    signal(SIGSEGV, SIG_DFL); /* a sanitizer's handler would end it by another */
    if (write)
      *memory = 1;
    else
      (void)*memory;
    _exit(0);
  }
  int status;
  assert_int_equal(waitpid(child, &status, 0), child);
  return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

static void test_host_access(void **state) {
  (void)state;
  struct testing t = {.device = device_guarded_create()};
  static const uint8_t bytes[3] = {1, 2, 3};
  uint8_t *memory = testing_bytes(&t, bytes, sizeof bytes);
  assert_int_equal(signal_of_access(memory, false), SIGSEGV);
  assert_int_equal(signal_of_access(memory, true), SIGSEGV);
  uint8_t *fresh = t.device->ops->alloc(t.device, 10000);
  assert_int_equal(signal_of_access(fresh + 9999, false), SIGSEGV);
  t.device->ops->release(t.device, fresh);
  uint8_t *host = t.device->ops->alloc_host(t.device, 100);
  assert_int_equal(signal_of_access(host, true), 0);
  t.device->ops->release_host(t.device, host);
  testing_release(&t);
  device_destroy(t.device);
}

/* Memory that another device of the kind allocated, and that was used before, is zeroed. */
static void test_memory_is_shared_and_zeroed(void **state) {
  (void)state;
  struct device *a = device_guarded_create(), *b = device_guarded_create();
  real *x = a->ops->alloc(a, 64), *y = a->ops->alloc(a, 1 << 20);
  device_fill(b, x, 3, 16);
  device_fill(b, y, 5, 1 << 18);
  a->ops->release(a, y);
  float back[16];
  for (int i = 0; i < 2; i++) {
    real *z = b->ops->alloc(b, (size_t)4 << (16 + i));
    b->ops->download(b, back, z, 16);
    for (int k = 0; k < 16; k++) assert_true(back[k] == 0);
    device_fill(b, z, 1, 16);
    b->ops->release(b, z);
  }
  a->ops->download(a, back, x, 16);
  for (int k = 0; k < 16; k++) assert_true(back[k] == 3);
  b->ops->release(b, x);
  device_destroy(a);
  device_destroy(b);
}

/* ---- operations and the host's memory */

static void misuse(void *subject, int what) {
  struct testing *t = subject;
  const struct device_ops *ops = t->device->ops;
  static float host[16];
  switch (what) {
    case 0:
      device_fill(t->device, (real *)host, 0, 16);
      break;
    case 1:
      device_copy(t->device, t->memory[0], (const real *)host, 16);
      break;
    case 2: {
      struct device_inputs in = {.observation = t->memory[0], .reward = host};
      ops->embed(t->device, t->memory[0], &in, 0);
      break;
    }
    case 3:
      ops->upload_bytes(t->device, t->memory[0], host, sizeof host);
      host[3] = 1;
      device_finish(t->device);
      break;
    default:
      ops->release(t->device, host);
  }
}

static void test_misuse(void **state) {
  (void)state;
  struct testing t = {.device = device_guarded_create()};
  testing_room(&t, 16);
  for (int what = 0; what < 5; what++)
    if (!aborts(misuse, &t, what)) fail_msg("misuse %d passes", what);
  testing_release(&t);
  device_destroy(t.device);
}

/* ---- transfers arrive when they are waited for */

static void test_downloads_arrive_in_order(void **state) {
  (void)state;
  struct device *d = device_guarded_create();
  const struct device_ops *ops = d->ops;
  assert_true(ops->asynchronous && !ops->unified);
  float *host = ops->alloc_host(d, 2 * sizeof(float));
  real *x = ops->alloc(d, sizeof(float));
  uint64_t mark[2];
  for (int i = 0; i < 2; i++) {
    device_fill(d, x, (float)(i + 1), 1);
    ops->download_bytes(d, &host[i], x, sizeof(float));
    mark[i] = ops->mark(d);
  }
  assert_true(host[0] != 1 && host[1] != 2);
  ops->wait(d, mark[0]);
  assert_true(host[0] == 1 && host[1] != 2);
  ops->wait(d, mark[1]);
  assert_true(host[0] == 1 && host[1] == 2);
  ops->wait(d, mark[0]);
  ops->download_bytes(d, &host[0], x, sizeof(float));
  device_finish(d);
  assert_true(host[0] == 2);
  ops->download_bytes(d, &host[1], x, sizeof(float)); /* nobody waits for it */
  ops->release(d, x);
  ops->release_host(d, host);
  device_destroy(d);
}

/* What is staged: the host's memory itself on a unified device, otherwise a copy. */
static void check_stage(struct testing *t) {
  struct device *d = t->device;
  float *host = d->ops->alloc_host(d, 4 * sizeof(float));
  for (int i = 0; i < 4; i++) host[i] = (float)i;
  void *staging = testing_bytes_room(t, 4 * sizeof(float));
  void *staged = device_stage(d, staging, host, 4 * sizeof(float));
  assert_ptr_equal(staged, d->ops->unified ? (void *)host : staging);
  float *back = testing_bytes_back(t, staged, 4 * sizeof(float));
  for (int i = 0; i < 4; i++) assert_true(back[i] == (float)i);
  free(back);
  d->ops->release_host(d, host);
}

static void test_stage(void **state) {
  (void)state;
  testing_each_device(check_stage);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_host_access), cmocka_unit_test(test_memory_is_shared_and_zeroed),
      cmocka_unit_test(test_misuse),      cmocka_unit_test(test_downloads_arrive_in_order),
      cmocka_unit_test(test_stage),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
