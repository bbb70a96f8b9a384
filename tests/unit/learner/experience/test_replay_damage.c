/* Damaged files of a replay: cut short, with wrong bits, or with content that no replay has. Each
 * is refused with a reason, and leaves an empty replay that works, or is as good as any other. */
#include <stdio.h>

#include "common/base/crc32c.h"
#include "tests/unit/learner/experience/replay_file_world.h"
#include "tests/unit/support/temporary_folder.h"

enum { WITH_CHECKSUM = BLOCK_FILE_BYTES + 4, STEPS = 400, RESTART = 1 << 12 };

/* A file of one block, of a device whose memory the host cannot touch, and one of several. */
static const struct world_config small = {"ref",           12, 3,   5,  3, 2, 4, 20, 16,
                                          PAGES_STAGGERED, 20, 0.7, 0.6};
static const struct world_config guarded = {"guarded",       12, 3,   5,  3, 2, 4, 20, 16,
                                            PAGES_STAGGERED, 20, 0.7, 0.6};
static const struct world_config large = {"guarded",       12, 3,   5,  3, 0, 4, 20, 8192,
                                          PAGES_STAGGERED, 20, 0.7, 0.6};

struct file {
  char path[TEMPORARY_PATH_BYTES];
  uint8_t *bytes;
  size_t size;
};

static struct file make(const struct world_config *config) {
  struct file file;
  strcpy(file.path, temporary_folder_path(temporary_folder(), "replay"));
  struct world *world = world_create(config);
  world_begin(world, 1);
  world_play(world, STEPS);
  assert_true(world->batches > 3);
  world_save(world, file.path);
  world_destroy(world);
  file.bytes = world_read_file(file.path, &file.size);
  return file;
}

/* The replay is empty, and can be trained from. */
static void assert_works(struct world *world) {
  assert_int_equal(world_windows(world), 0);
  assert_int_equal(pages_held(world->pages), 0);
  world_begin(world, RESTART);
  world_play(world, STEPS);
  assert_true(world->batches > 0);
}

static void assert_refused(struct world *world, const struct file *file) {
  struct error error = {""};
  assert_int_equal(world_try_load(world, file->path, &error), STATUS_CORRUPT);
  if (!strstr(error.text, "is damaged: ")) fail_msg("it says: %s", error.text);
  assert_int_equal(world_windows(world), 0);
  assert_int_equal(pages_held(world->pages), 0);
}

/* After all that was refused the whole file can still be loaded. */
static void assert_loads(struct world *world, const struct file *file) {
  world_write_file(file->path, file->bytes, file->size);
  world_load(world, file->path);
  world_begin(world, RESTART);
  world_play(world, STEPS);
  assert_true(world->batches > 0);
}

static void a_file_may_end_anywhere(void **state) {
  (void)state;
  struct file file = make(&small);
  struct world *world = world_create(&small);
  for (size_t size = 0; size < file.size; size += size % 97 == 0 ? 1 : 7) {
    world_write_file(file.path, file.bytes, size);
    assert_refused(world, &file);
  }
  assert_loads(world, &file);
  world_destroy(world);
  free(file.bytes);
}

static void any_bit_may_be_wrong(void **state) {
  (void)state;
  struct file file = make(&small);
  struct world *world = world_create(&small);
  for (size_t at = 0; at < file.size; at += 11) {
    file.bytes[at] ^= (uint8_t)(1 << at % 8);
    world_write_file(file.path, file.bytes, file.size);
    assert_refused(world, &file);
    file.bytes[at] ^= (uint8_t)(1 << at % 8);
  }
  assert_loads(world, &file);
  world_destroy(world);
  free(file.bytes);
}

/* What was whole before the damage has been loaded by then. */
static void a_large_file_may_be_damaged_in_any_block(void **state) {
  (void)state;
  struct file file = make(&large);
  assert_true(file.size > 2 * WITH_CHECKSUM);
  struct world *world = world_create(&large);
  for (size_t block = 0; block * WITH_CHECKSUM < file.size; block++) {
    size_t at = block * WITH_CHECKSUM, sizes[] = {at, at + 3, at + 4, at + 5, at + 1000};
    for (int i = 0; i < 5; i++) {
      world_write_file(file.path, file.bytes, sizes[i]);
      assert_refused(world, &file);
    }
    for (int i = 1; i < 5; i++) {
      file.bytes[sizes[i]] ^= 16;
      world_write_file(file.path, file.bytes, file.size);
      assert_refused(world, &file);
      file.bytes[sizes[i]] ^= 16;
    }
  }
  world_write_file(file.path, file.bytes, file.size - WITH_CHECKSUM);
  assert_refused(world, &file);
  assert_works(world);
  world_destroy(world);
  world = world_create(&large);
  assert_loads(world, &file);
  world_destroy(world);
  free(file.bytes);
}

/* ---- content that no replay has, with the right checksums */

/* As one block; content has room for its checksum. */
static void write_content(const char *path, uint8_t *content, size_t size) {
  uint32_t crc = crc32c(content, size);
  memcpy(content + size, &crc, sizeof(crc));
  world_write_file(path, content, size + sizeof(crc));
}

/* What the losses and networks take as given of the batch that was taken last. */
static void assert_trainable(const struct world *world) {
  const struct train_batch *batch = world->host.batch;
  for (int i = 0; i < (batch->T + 1) * batch->N; i++) {
    int32_t action = ((int32_t *)batch->action)[i], before = ((int32_t *)batch->previous_action)[i];
    assert_true(fabsf(batch->reward[i]) <= STEP_MAX_NUMBER);
    assert_true(batch->flags[i] == 0 || batch->flags[i] == STEP_FIRST || batch->flags[i] == 3 ||
                batch->flags[i] == STEP_TRUNCATED);
    assert_true(action >= 0 && action < WORLD_ACTIONS);
    assert_true(before >= -1 && before < WORLD_ACTIONS);
  }
  for (int n = 0; n < batch->N; n++) assert_true(isfinite(world->weight[n]));
}

/* Whatever it is: refused, or a replay that can be trained from. */
static enum status assert_harmless(const struct world_config *config, const char *path) {
  struct error error = {""};
  struct world *world = world_create(config);
  enum status status = world_try_load(world, path, &error);
  if (status == STATUS_OK) {
    struct source_counters counters = source_counters(world->source);
    bool waits = counters.windows_since > 1000000; /* acting would, for so many batches */
    world_begin(world, RESTART);
    for (int i = 0; i < 100 && !waits; i++) {
      if (!world_step(world, (int)world_draw(world, WORLD_SLOTS))) continue;
      world_train(world);
      assert_trainable(world);
    }
  } else {
    assert_true(status == STATUS_CORRUPT || status == STATUS_MISMATCH);
    assert_non_null(strstr(error.text, path));
    assert_works(world);
  }
  world_destroy(world);
  return status;
}

static uint64_t draw(uint64_t below) {
  static uint32_t draws;
  return random_bits(9, 0, 0, draws++, RANDOM_TEST) % below;
}

/* Numbers that are likely to be looked at: extreme, or near others. */
static const int64_t numbers[] = {
    0,         1,       -1, INT32_MAX, INT32_MIN,          INT64_MAX,
    INT64_MIN, 1 << 20, 12, 59,        0x7ff8000000000000, 0x7ff0000000000000};
enum { NUMBERS = sizeof(numbers) / sizeof(numbers[0]) };

static void change(uint8_t *content, size_t size) {
  size_t bytes = draw(2) ? 4 : 8, at = draw(size / 4 - 1) * 4;
  int64_t number = draw(3) ? numbers[draw(NUMBERS)] : (int64_t)draw(100);
  memcpy(content + at, &number, bytes);
}

static void content_may_be_anything(void **state) {
  (void)state;
  struct file file = make(&small);
  size_t size = file.size - 4;
  assert_true(size < BLOCK_FILE_BYTES);
  int refused = 0, accepted = 0;
  for (int i = 0; i < 1500; i++) {
    uint8_t *content = malloc(file.size);
    memcpy(content, file.bytes, size);
    size_t head = i % 3 == 0 ? 200 : i % 3 == 1 ? 6000 : size;
    for (uint64_t k = 1 + draw(3); k > 0; k--) change(content, head < size ? head : size);
    write_content(file.path, content, i % 50 ? size : 1 + draw(size - 1));
    if (assert_harmless(&small, file.path) == STATUS_OK)
      accepted++;
    else
      refused++;
    free(content);
  }
  assert_true(refused > 300 && accepted > 100);
  free(file.bytes);
}

/* Records of pages stand behind the head, the leaves and a number, each of 48 bytes, in which the
 * page before is at 40. */
enum { HEAD = 168, NUM_PAGES = 80, RECORD = 48, PREVIOUS = 40 };

/* The same 4 bytes of all records from a drawn one on. */
static void records_of_pages_may_be_anything(void **state) {
  (void)state;
  struct file file = make(&guarded);
  int64_t num_pages;
  memcpy(&num_pages, file.bytes + NUM_PAGES, sizeof(num_pages));
  size_t pages = (size_t)num_pages, starts = (size_t)(guarded.page_steps / guarded.stride);
  size_t first = HEAD + (pages * starts + 1) * 8;
  for (size_t at = 0; at < RECORD; at += 4)
    for (int i = 0; i < NUMBERS; i++) {
      uint8_t *content = malloc(file.size);
      memcpy(content, file.bytes, file.size);
      for (size_t page = draw(pages / 4); page < pages; page++)
        memcpy(content + first + page * RECORD + at, &numbers[i], 4);
      write_content(file.path, content, file.size - 4);
      enum status status = assert_harmless(&guarded, file.path);
      if (at == PREVIOUS && numbers[i] == -1) assert_int_equal(status, STATUS_CORRUPT);
      free(content);
    }
  free(file.bytes);
}

/* ---- content that a replay may have, but not be trained on */

/* In all steps that are filed from the middle on. */
static void assert_named(enum world_fault fault, const char *what) {
  bool is_of_floats = fault == FAULT_OBSERVATION_NAN || fault == FAULT_OBSERVATION_LARGE;
  const char *path = temporary_folder_path(temporary_folder(), "replay");
  struct error error = {""};
  struct world *from = world_create(&small), *to = world_create(&small);
  struct device_inputs floats = from->inputs;
  floats.tensor[0].dtype = DTYPE_FLOAT32, floats.tensor[0].count = 4;
  if (is_of_floats) from->inputs = to->inputs = floats;
  world_begin(from, 1);
  for (int i = 0; i < STEPS; i++) {
    if (i == STEPS / 2) from->fault = fault;
    world_step(from, i % WORLD_SLOTS);
  }
  world_save(from, path);
  assert_int_equal(world_try_load(to, path, &error), fault ? STATUS_CORRUPT : STATUS_OK);
  if (fault && (!strstr(error.text, what) || !strstr(error.text, path)))
    fail_msg("it says: %s", error.text);
  assert_int_equal(world_windows(to), fault ? 0 : world_windows(from));
  if (fault && !is_of_floats) assert_works(to);
  world_destroy(to);
  world_destroy(from);
}

static void values_out_of_bounds_are_named(void **state) {
  (void)state;
  static const char *const what[FAULTS] = {
      [FAULT_NONE] = "",
      [FAULT_REWARD_NAN] = "is damaged: a step in it has reward nan",
      [FAULT_REWARD_LARGE] = "a step in it has reward -1.1e+09",
      [FAULT_FLAGS_UNKNOWN] = "a step in it has flags 0x10",
      [FAULT_FLAGS_ABSENT] = "a step in it has flags 0x8",
      [FAULT_FLAGS_TERMINATED] = "a step in it has flags 0x2",
      [FAULT_FLAGS_TRUNCATED] = "a step in it has flags 0x5",
      [FAULT_ACTION_LARGE] = "a step in it has action 256 of 256",
      [FAULT_ACTION_NONE] = "a step in it has action -1 of 256",
      [FAULT_PREVIOUS_LARGE] = "a step in it has action 256 of 256",
      [FAULT_PREVIOUS_BELOW_NONE] = "a step in it has action -2 of 256",
      [FAULT_STATE] = "a step in it has a recurrent state with inf",
      [FAULT_OBSERVATION_NAN] = "a step in it has an observation with nan",
      [FAULT_OBSERVATION_LARGE] = "a step in it has an observation with 1.1e+09",
  };
  for (int fault = 0; fault < FAULTS; fault++) assert_named(fault, what[fault]);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_file_may_end_anywhere),
      cmocka_unit_test(any_bit_may_be_wrong),
      cmocka_unit_test(a_large_file_may_be_damaged_in_any_block),
      cmocka_unit_test(content_may_be_anything),
      cmocka_unit_test(records_of_pages_may_be_anything),
      cmocka_unit_test(values_out_of_bounds_are_named),
  };
  return cmocka_run_group_tests(tests, temporary_folder_setup, temporary_folder_teardown);
}
