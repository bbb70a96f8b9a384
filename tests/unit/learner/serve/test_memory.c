/* What is remembered of each environment between two steps: a slot's life begins with nothing, an
 * older life does not touch it, and a row enters with what the rows before it left. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "learner/serve/memory.h"
#include "tests/unit/support/any_device.h"
#include "tests/unit/support/discrete_shape.h"
#include "tests/unit/support/emulated_cuda.h"
#include "tests/unit/support/skip.h"

enum { SLOTS = 3, ROWS = 4, STRIDE = 16, BOX = 2 };

struct fixture {
  struct device *device;
  struct memory *memory;
  struct memory_rows rows;
};

enum { RANK = 3 }; /* of the learner */

static const char *device_name;

static struct fixture open_memory(struct step_shape shape) {
  struct fixture f;
  struct error error;
  assert_int_equal(any_device_create(&f.device, device_name, &error), STATUS_OK);
  struct memory_config config = {.num_slots = SLOTS, .rank = RANK, .shape = shape, .draws = 1};
  f.memory = memory_create(f.device, &config);
  f.rows = memory_rows_create(f.memory, ROWS);
  return f;
}

static void close_memory(struct fixture *f) {
  memory_rows_destroy(f->memory, &f->rows);
  memory_destroy(f->memory);
  memory_destroy(NULL);
  device_destroy(f->device);
}

static struct step_shape box_shape(void) {
  struct step_shape shape = discrete_shape(STRIDE, 0, 0);
  shape.action_bytes = BOX * (int)sizeof(float);
  shape.box = true;
  return shape;
}

static void enter(struct fixture *f, int row, int slot, uint8_t flags) {
  memory_enter_row(f->memory, &f->rows, row, slot, flags, false);
}

static void leave(struct fixture *f, int slot, const void *action) {
  memory_leave(f->memory, slot, action);
}

/* The previous action of a row, where actions are one int32. */
static int32_t previous(const struct fixture *f, int row) {
  int32_t action;
  memcpy(&action, f->rows.previous_action + (size_t)row * sizeof(action), sizeof(action));
  return action;
}

static void a_new_life_begins_with_nothing(void **state) {
  (void)state;
  struct fixture f = open_memory(discrete_shape(STRIDE, 0, 0));
  assert_null(f.memory->state);
  assert_int_equal(memory_enter_life(f.memory, 1, 7), MEMORY_NEW_LIFE);
  enter(&f, 0, 1, STEP_FIRST);
  assert_int_equal(previous(&f, 0), -1);
  assert_int_equal(f.memory->steps[1], 0);
  leave(&f, 1, &(int32_t){2});
  assert_int_equal(memory_enter_life(f.memory, 1, 7), MEMORY_SAME_LIFE);
  enter(&f, 3, 1, 0);
  assert_int_equal(previous(&f, 3), 2);
  assert_int_equal(f.memory->steps[1], 1);
  leave(&f, 1, &(int32_t){3});
  assert_int_equal(memory_enter_life(f.memory, 1, 8), MEMORY_NEW_LIFE);
  assert_int_equal(f.memory->life[1], 8);
  assert_int_equal(f.memory->steps[1], 0);
  enter(&f, 2, 1, 0);
  assert_int_equal(previous(&f, 2), -1);
  close_memory(&f);
}

static void an_older_life_changes_nothing(void **state) {
  (void)state;
  struct fixture f = open_memory(discrete_shape(STRIDE, 0, 0));
  assert_int_equal(memory_enter_life(f.memory, 0, 9), MEMORY_NEW_LIFE);
  leave(&f, 0, &(int32_t){1});
  assert_int_equal(memory_enter_life(f.memory, 0, 8), MEMORY_OLD_LIFE);
  assert_int_equal(f.memory->life[0], 9);
  assert_int_equal(f.memory->steps[0], 1);
  enter(&f, 0, 0, 0);
  assert_int_equal(previous(&f, 0), 1);
  close_memory(&f);
}

/* The highest life is newer than all others. */
static void slots_are_apart(void **state) {
  (void)state;
  struct fixture f = open_memory(discrete_shape(STRIDE, 0, 0));
  assert_int_equal(memory_enter_life(f.memory, 0, UINT32_MAX), MEMORY_NEW_LIFE);
  assert_int_equal(memory_enter_life(f.memory, 1, 1), MEMORY_NEW_LIFE);
  leave(&f, 0, &(int32_t){3});
  assert_int_equal(memory_enter_life(f.memory, 1, 2), MEMORY_NEW_LIFE);
  assert_int_equal(memory_enter_life(f.memory, 0, UINT32_MAX), MEMORY_SAME_LIFE);
  enter(&f, 0, 0, 0);
  enter(&f, 1, 1, 0);
  assert_int_equal(previous(&f, 0), 3);
  assert_int_equal(previous(&f, 1), -1);
  close_memory(&f);
}

/* All bytes of a box's action come back; on a first row, and for a row without a slot, zeros. */
static void a_box_of_numbers_is_remembered_whole(void **state) {
  (void)state;
  struct fixture f = open_memory(box_shape());
  const float actions[SLOTS][BOX] = {{0.25f, -1}, {7, 1e9f}, {-0.5f, 3}}, zeros[BOX] = {0};
  for (int slot = 0; slot < SLOTS; slot++) {
    memory_enter_life(f.memory, slot, 1);
    enter(&f, slot, slot, STEP_FIRST);
    leave(&f, slot, actions[slot]);
  }
  for (int slot = 0; slot < SLOTS; slot++) enter(&f, SLOTS - slot, slot, 0);
  memory_clear_row(f.memory, &f.rows, 0);
  for (int slot = 0; slot < SLOTS; slot++)
    assert_memory_equal(f.rows.previous_action + (size_t)(SLOTS - slot) * sizeof(zeros),
                        actions[slot], sizeof(zeros));
  assert_memory_equal(f.rows.previous_action, zeros, sizeof(zeros));
  enter(&f, 2, 1, STEP_FIRST | STEP_TERMINATED);
  assert_memory_equal(f.rows.previous_action + 2 * sizeof(zeros), zeros, sizeof(zeros));
  close_memory(&f);
}

/* The state after a slot's step is the one before its next, in whatever rows they are. A row
 * without a slot changes none. */
static void a_state_goes_from_row_to_row(void **state) {
  (void)state;
  enum { S = 4 };
  struct fixture f = open_memory(discrete_shape(STRIDE, S, 0));
  const struct device_ops *ops = f.device->ops;
  struct device_inputs inputs = {.row_stride = STRIDE};
  float out[ROWS * S], in[ROWS * S];
  for (int i = 0; i < ROWS * S; i++) out[i] = (float)i + 0.5f;
  for (int batch = 0; batch < 2; batch++) {
    memory_clear_row(f.memory, &f.rows, batch ? ROWS - 1 : 0);
    for (int slot = 0; slot < SLOTS; slot++) enter(&f, batch ? slot : slot + 1, slot, 0);
    memory_rows_begin(f.memory, &f.rows, &inputs, 1, ROWS);
    if (batch == 0) ops->upload(f.device, f.rows.state_out, out, ROWS * S);
    memory_rows_end(f.memory, &f.rows, NULL, ROWS);
    device_finish(f.device);
  }
  ops->download(f.device, in, f.rows.state_in, ROWS * S);
  assert_memory_equal(in, out + S, SLOTS * S * sizeof(float));
  close_memory(&f);
}

/* Each row's number is that of its slot, life and step; a greedy row has none. */
static void a_row_draws_its_own_number(void **state) {
  (void)state;
  struct fixture f = open_memory(discrete_shape(STRIDE, 0, 0));
  struct device_inputs inputs = {.row_stride = STRIDE};
  float got[ROWS];
  for (int slot = 0; slot < SLOTS; slot++) {
    memory_enter_life(f.memory, slot, 7 + (uint32_t)slot);
    for (int step = 0; step < 2 * slot; step++) leave(&f, slot, &(int32_t){0});
    memory_enter_row(f.memory, &f.rows, ROWS - 1 - slot, slot, 0, slot == 1);
  }
  memory_clear_row(f.memory, &f.rows, 0);
  memory_rows_begin(f.memory, &f.rows, &inputs, 12, ROWS);
  f.device->ops->download(f.device, got, (const real *)f.rows.uniform, ROWS);
  for (int slot = 0; slot < SLOTS; slot++) {
    float expected = random_uniform(12, random_environment(RANK, (uint32_t)slot),
                                    7 + (uint32_t)slot, 2 * (uint32_t)slot, RANDOM_ACTION);
    assert_true(got[ROWS - 1 - slot] == (slot == 1 ? -1 : expected));
  }
  close_memory(&f);
}

/* ---- frames */

enum { STACK = 3, STEPS = 12 };

/* One step of a slot in row 1, whose observation is filled with `shown`; what the row sees besides
 * itself must be the episode's steps before. */
static void show(struct fixture *f, int slot, int t, int begin, struct device_shared *rows) {
  uint8_t *host = rows->host;
  struct device_inputs inputs = {.row_stride = STRIDE};
  memset(host, 0xee, ROWS * STRIDE);
  memset(host + STRIDE, t, STRIDE);
  device_shared_upload(f->device, rows);
  for (int row = 0; row < ROWS; row++) memory_clear_row(f->memory, &f->rows, row);
  enter(f, 1, slot, t == begin ? STEP_FIRST : 0);
  memory_rows_begin(f->memory, &f->rows, &inputs, 1, ROWS);
  for (int k = 1; k < STACK; k++) {
    int32_t row = f->rows.frame[STACK - 1 + k - 1];
    uint8_t seen[STRIDE];
    assert_int_equal(row < 0, t - k < begin);
    if (row < 0) continue;
    f->device->ops->download_bytes(f->device, seen, inputs.history + (size_t)row * STRIDE, STRIDE);
    device_finish(f->device);
    for (int i = 0; i < STRIDE; i++) assert_int_equal(seen[i], t - k);
  }
  memory_rows_end(f->memory, &f->rows, rows->memory, ROWS);
  device_finish(f->device);
  leave(f, slot, &(int32_t){0});
}

/* Without pages: as many earlier frames of the episode as the network stacks, newest first, while
 * another slot plays too. */
static void frames_of_an_episode_are_stacked(void **state) {
  (void)state;
  struct fixture f = open_memory(discrete_shape(STRIDE, 0, STACK - 1));
  struct device_shared rows = device_share(f.device, ROWS * STRIDE);
  for (int slot = 0; slot < SLOTS; slot++) memory_enter_life(f.memory, slot, 1);
  for (int t = 0, begin = 0; t < STEPS; t++) {
    if (t % 5 == 0) begin = t;
    show(&f, 2, t, begin, &rows);
    show(&f, 0, t + 100, 100, &rows);
  }
  device_unshare(f.device, &rows);
  close_memory(&f);
}

/* ---- slots that are kept elsewhere */

enum { S_KEPT = 2 };

/* A step of the slot whose bytes these are, in a slot that another one had before: the row's past
 * must be that of the episode, which began at `begin`. */
static void step_of_kept(struct fixture *f, uint8_t *kept, int slot, int t, int begin,
                         struct device_shared *rows) {
  float *own = (float *)f->memory->state + slot * S_KEPT;
  int32_t action = t;
  memory_load_slot(f->memory, kept, slot);
  assert_int_equal(f->memory->steps[slot] == 0, t == begin);
  for (int i = 0; i < S_KEPT && t > begin; i++) assert_true(own[i] == (float)(t - 1 + i));
  show(f, slot, t, begin, rows);
  if (t != begin) assert_int_equal(previous(f, 1), t - 1);
  for (int i = 0; i < S_KEPT; i++) own[i] = (float)(t + i);
  memcpy(f->memory->previous_action + (size_t)slot * sizeof(action), &action, sizeof(action));
  memory_save_slot(f->memory, kept, slot);
}

/* Episodes in turn in slots that change; what a program may make of the bytes does no harm. */
static void a_slot_goes_on_from_its_bytes(void **state) {
  (void)state;
  struct fixture f = open_memory(discrete_shape(STRIDE, S_KEPT, STACK - 1));
  if (!f.device->ops->unified) {
    close_memory(&f);
    SKIP("for devices whose memory is the host's");
  }
  struct device_shared rows = device_share(f.device, ROWS * STRIDE);
  size_t bytes = memory_slot_bytes(f.memory);
  assert_int_equal(bytes, 4 + 4 + S_KEPT * sizeof(float) + (STACK - 1) * STRIDE);
  uint8_t *kept[2] = {calloc(1, bytes), calloc(1, bytes)};
  for (int t = 0; t < STEPS; t++) {
    if (t == 5) memset(kept[0], 0, bytes);
    step_of_kept(&f, kept[0], t % SLOTS, t, t < 5 ? 0 : 5, &rows);
    if (t % 2 == 0) step_of_kept(&f, kept[1], t % SLOTS, t / 2, 0, &rows);
  }
  memset(kept[0], 0xff, bytes);
  memory_load_slot(f.memory, kept[0], 1);
  enter(&f, 1, 1, 0);
  for (int k = 0; k < STACK - 1; k++)
    assert_in_range(f.rows.frame[STACK - 1 + k], 0, SLOTS * (STACK - 1) - 1);
  for (int i = 0; i < 2; i++) free(kept[i]);
  device_unshare(f.device, &rows);
  close_memory(&f);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_new_life_begins_with_nothing),
      cmocka_unit_test(an_older_life_changes_nothing),
      cmocka_unit_test(slots_are_apart),
      cmocka_unit_test(a_box_of_numbers_is_remembered_whole),
      cmocka_unit_test(a_state_goes_from_row_to_row),
      cmocka_unit_test(a_row_draws_its_own_number),
      cmocka_unit_test(frames_of_an_episode_are_stacked),
      cmocka_unit_test(a_slot_goes_on_from_its_bytes),
  };
  int failed = 0;
  emulated_cuda_use();
  for (int i = 0; (device_name = any_device_name(i)); i++)
    failed += cmocka_run_group_tests_name(device_name, tests, NULL, NULL);
  return failed;
}
