/* A publisher and two readers: every snapshot is whole, versions never go back, publishing never
 * waits. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/base/check.h"
#include "common/base/clock.h"
#include "learner/device/create.h"
#include "learner/params/weights.h"
#include "tests/unit/support/aborts.h"
#include "tests/unit/support/emulated_cuda.h"

enum { P = 1000, READERS = 2, SNAPSHOTS = 3000 };

struct world {
  struct device *device;
  struct weights *weights;
  float host[P];
  real *parameters;
};

static const char *device_name = "ref";

/* Of each thread its own. */
static struct device *make_device(void) {
  struct device *device;
  struct error error;
  CHECK(device_create(&device, device_name, &error) == STATUS_OK, "%s", error.text);
  return device;
}

static struct world *world_create(void) {
  struct world *world = calloc(1, sizeof *world);
  world->device = make_device();
  world->weights = weights_create(world->device, P);
  world->parameters = world->device->ops->alloc(world->device, P * sizeof(float));
  return world;
}

static void world_destroy(struct world *world) {
  weights_destroy(world->weights);
  world->device->ops->release(world->device, world->parameters);
  device_destroy(world->device);
  free(world);
}

/* All parameters equal the version. */
static void publish(struct world *world, int64_t version) {
  for (int i = 0; i < P; i++) world->host[i] = (float)version;
  world->device->ops->upload(world->device, world->parameters, world->host, P);
  weights_publish(world->weights, world->device, world->parameters, version);
}

static bool is_uniform(struct device *device, const real *parameters, int64_t version) {
  float host[P];
  device->ops->download(device, host, parameters, P);
  for (int i = 0; i < P; i++)
    if (host[i] != (float)version) return false;
  return true;
}

static void test_zeros_before_the_first_publish(void **state) {
  (void)state;
  struct world *world = world_create();
  int64_t version = -1;
  assert_int_equal(weights_version(world->weights), 0);
  const real *parameters = weights_acquire(world->weights, &version);
  assert_int_equal(version, 0);
  assert_true(is_uniform(world->device, parameters, 0));
  weights_release(world->weights, parameters);
  world_destroy(world);
}

/* The worst case: two readers on different old snapshots, a newest that nobody took, and still room
 * to publish. */
static void test_held_snapshots_stay_while_others_are_published(void **state) {
  (void)state;
  struct world *world = world_create();
  int64_t version;
  publish(world, 1);
  const real *first = weights_acquire(world->weights, &version);
  assert_int_equal(version, 1);
  publish(world, 2);
  const real *second = weights_acquire(world->weights, &version);
  assert_int_equal(version, 2);
  for (int64_t next = 3; next < 40; next++) {
    publish(world, next);
    assert_int_equal(weights_version(world->weights), next);
    assert_true(is_uniform(world->device, first, 1));
    assert_true(is_uniform(world->device, second, 2));
  }
  weights_release(world->weights, first);
  first = weights_acquire(world->weights, &version);
  assert_int_equal(version, 39);
  assert_true(is_uniform(world->device, first, 39));
  weights_release(world->weights, first);
  weights_release(world->weights, second);
  world_destroy(world);
}

static void test_what_is_written_can_be_taken_once_announced(void **state) {
  (void)state;
  struct world *world = world_create();
  int64_t version;
  publish(world, 1);
  for (int64_t next = 2; next <= 3; next++) {
    for (int i = 0; i < P; i++) world->host[i] = (float)next;
    world->device->ops->upload(world->device, world->parameters, world->host, P);
    weights_write(world->weights, world->device, world->parameters, next);
  }
  for (int64_t newest = 1; newest <= 3; newest++) {
    const real *parameters = weights_acquire(world->weights, &version);
    assert_int_equal(version, newest);
    assert_true(is_uniform(world->device, parameters, newest));
    weights_release(world->weights, parameters);
    if (newest < 3) weights_announce(world->weights, world->device);
  }
  world_destroy(world);
}

/* The third lies where the first did. */
static void test_snapshots_of_one_version_differ_by_their_serial(void **state) {
  (void)state;
  struct world *world = world_create();
  const real *taken[3];
  int64_t serial[3], version;
  for (int i = 0; i < 3; i++) {
    publish(world, 5);
    taken[i] = weights_acquire(world->weights, &version);
    assert_int_equal(version, 5);
    serial[i] = weights_serial(world->weights, taken[i]);
    assert_int_equal(weights_serial(world->weights, taken[i]), serial[i]);
    weights_release(world->weights, taken[i]);
  }
  assert_ptr_equal(taken[0], taken[2]);
  assert_true(serial[0] < serial[1] && serial[1] < serial[2]);
  world_destroy(world);
}

static void test_two_readers_may_hold_the_same(void **state) {
  (void)state;
  struct world *world = world_create();
  int64_t version;
  publish(world, 5);
  const real *first = weights_acquire(world->weights, &version);
  const real *second = weights_acquire(world->weights, &version);
  assert_ptr_equal(first, second);
  weights_release(world->weights, first);
  for (int64_t next = 6; next < 20; next++) publish(world, next);
  assert_true(is_uniform(world->device, second, 5));
  weights_release(world->weights, second);
  world_destroy(world);
}

/* ---- threads */

struct reader {
  struct world *world;
  atomic_bool *stopping;
  pthread_t thread;
  atomic_llong seen; /* distinct versions */
  bool torn, went_back, version_went_back;
};

static void *read_snapshots(void *argument) {
  struct reader *reader = argument;
  struct device *device = make_device();
  int64_t last = 0, last_asked = 0;
  while (!atomic_load(reader->stopping)) {
    int64_t version, asked = weights_version(reader->world->weights);
    const real *parameters = weights_acquire(reader->world->weights, &version);
    reader->torn |= !is_uniform(device, parameters, version);
    reader->went_back |= version < last || version < asked;
    reader->version_went_back |= asked < last_asked;
    if (version != last) atomic_fetch_add(&reader->seen, 1);
    last = version;
    last_asked = asked;
    weights_release(reader->world->weights, parameters);
  }
  device_destroy(device);
  return NULL;
}

static bool all_have_seen(struct reader reader[READERS]) {
  bool all = true;
  for (int i = 0; i < READERS; i++) all &= atomic_load(&reader[i].seen) > 10;
  return all;
}

static void test_readers_see_whole_snapshots_that_grow(void **state) {
  (void)state;
  struct world *world = world_create();
  atomic_bool stopping = false;
  struct reader reader[READERS] = {{.world = world, .stopping = &stopping},
                                   {.world = world, .stopping = &stopping}};
  for (int i = 0; i < READERS; i++)
    pthread_create(&reader[i].thread, NULL, read_snapshots, &reader[i]);
  // On a busy machine readers may get their turn late.
  int64_t version = 1, deadline_us = clock_now_us() + 60 * 1000000;
  for (; version <= SNAPSHOTS || (!all_have_seen(reader) && clock_now_us() < deadline_us);
       version++) {
    publish(world, version);
    if (version % 64 == 0) clock_sleep_us(100);
  }
  atomic_store(&stopping, true);
  for (int i = 0; i < READERS; i++) {
    pthread_join(reader[i].thread, NULL);
    assert_false(reader[i].torn);
    assert_false(reader[i].went_back);
    assert_false(reader[i].version_went_back);
    assert_true(atomic_load(&reader[i].seen) > 10);
  }
  world_destroy(world);
}

/* ---- what must not be done */

enum misuse {
  RELEASE_TWICE,
  RELEASE_FOREIGN,
  GO_BACK,
  TOO_MANY_READERS,
  WRITE_THREE,
  ANNOUNCE_NOTHING
};

static void misuse(void *subject, int what) {
  struct world *world = subject;
  int64_t version;
  publish(world, 7);
  const real *parameters = weights_acquire(world->weights, &version);
  if (what == RELEASE_FOREIGN) weights_release(world->weights, world->parameters);
  if (what == GO_BACK) publish(world, 6);
  for (int64_t next = 8; what == TOO_MANY_READERS && next < 13; next++) {
    publish(world, next);
    weights_acquire(world->weights, &version);
  }
  for (int64_t next = 8; what == WRITE_THREE && next < 11; next++)
    weights_write(world->weights, world->device, world->parameters, next);
  if (what == ANNOUNCE_NOTHING) weights_announce(world->weights, world->device);
  weights_release(world->weights, parameters);
  if (what == RELEASE_TWICE) weights_release(world->weights, parameters);
}

static void test_misuse_is_a_check(void **state) {
  (void)state;
  for (int what = RELEASE_TWICE; what <= ANNOUNCE_NOTHING; what++) {
    struct world *world = world_create();
    assert_true(aborts(misuse, world, what));
    world_destroy(world);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_zeros_before_the_first_publish),
      cmocka_unit_test(test_held_snapshots_stay_while_others_are_published),
      cmocka_unit_test(test_what_is_written_can_be_taken_once_announced),
      cmocka_unit_test(test_snapshots_of_one_version_differ_by_their_serial),
      cmocka_unit_test(test_two_readers_may_hold_the_same),
      cmocka_unit_test(test_readers_see_whole_snapshots_that_grow),
      cmocka_unit_test(test_misuse_is_a_check),
  };
  /* On streams of their own. */
  const struct CMUnitTest between_streams[] = {
      cmocka_unit_test(test_held_snapshots_stay_while_others_are_published),
      cmocka_unit_test(test_readers_see_whole_snapshots_that_grow),
  };
  int failed = cmocka_run_group_tests_name(device_name, tests, NULL, NULL);
  emulated_cuda_use();
  device_name = "cuda";
  return failed + cmocka_run_group_tests_name(device_name, between_streams, NULL, NULL);
}
