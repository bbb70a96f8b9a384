/* What is remembered of each environment between two steps: a slot's life begins with nothing, and
 * an older life does not touch it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "learner/experience/slots.h"

static struct device *open_device(void) {
  struct device *device;
  struct error error;
  assert_int_equal(device_create(&device, "ref", &error), STATUS_OK);
  return device;
}

static void a_new_life_begins_with_nothing(void **state) {
  (void)state;
  struct device *device = open_device();
  struct slots *slots = slots_create(device, 3, 0);
  assert_int_equal(slots->num_slots, 3);
  assert_null(slots->state);
  assert_int_equal(slots_enter(slots, 1, 7), SLOTS_NEW_LIFE);
  assert_int_equal(slots->previous_action[1], -1);
  assert_int_equal(slots->steps[1], 0);
  slots->previous_action[1] = 2;
  slots->steps[1] = 40;
  assert_int_equal(slots_enter(slots, 1, 7), SLOTS_SAME_LIFE);
  assert_int_equal(slots->previous_action[1], 2);
  assert_int_equal(slots->steps[1], 40);
  assert_int_equal(slots_enter(slots, 1, 8), SLOTS_NEW_LIFE);
  assert_int_equal(slots->life[1], 8);
  assert_int_equal(slots->previous_action[1], -1);
  assert_int_equal(slots->steps[1], 0);
  slots_destroy(device, slots);
  device_destroy(device);
}

static void an_older_life_changes_nothing(void **state) {
  (void)state;
  struct device *device = open_device();
  struct slots *slots = slots_create(device, 2, 0);
  assert_int_equal(slots_enter(slots, 0, 9), SLOTS_NEW_LIFE);
  slots->previous_action[0] = 1;
  slots->steps[0] = 5;
  assert_int_equal(slots_enter(slots, 0, 8), SLOTS_OLD_LIFE);
  assert_int_equal(slots->life[0], 9);
  assert_int_equal(slots->previous_action[0], 1);
  assert_int_equal(slots->steps[0], 5);
  slots_destroy(device, slots);
  device_destroy(device);
}

/* The highest life is newer than all others. */
static void slots_are_apart(void **state) {
  (void)state;
  struct device *device = open_device();
  struct slots *slots = slots_create(device, 2, 0);
  assert_int_equal(slots_enter(slots, 0, UINT32_MAX), SLOTS_NEW_LIFE);
  assert_int_equal(slots_enter(slots, 1, 1), SLOTS_NEW_LIFE);
  slots->previous_action[0] = 3;
  assert_int_equal(slots_enter(slots, 1, 2), SLOTS_NEW_LIFE);
  assert_int_equal(slots_enter(slots, 0, UINT32_MAX), SLOTS_SAME_LIFE);
  assert_int_equal(slots->previous_action[0], 3);
  slots_destroy(device, slots);
  device_destroy(device);
}

/* Room for every slot's state: the last row can be written and read back. */
static void there_is_a_state_for_each_slot(void **state) {
  (void)state;
  enum { SLOTS = 3, S = 4 };
  struct device *device = open_device();
  struct slots *slots = slots_create(device, SLOTS, S);
  float in[SLOTS * S], out[SLOTS * S];
  for (int i = 0; i < SLOTS * S; i++) in[i] = (float)i + 0.5f;
  device->ops->upload(device, slots->state, in, SLOTS * S);
  device->ops->download(device, out, slots->state, SLOTS * S);
  assert_memory_equal(in, out, sizeof(in));
  slots_destroy(device, slots);
  slots_destroy(device, NULL);
  device_destroy(device);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_new_life_begins_with_nothing),
      cmocka_unit_test(an_older_life_changes_nothing),
      cmocka_unit_test(slots_are_apart),
      cmocka_unit_test(there_is_a_state_for_each_slot),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
