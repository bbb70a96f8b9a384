/* Copies of rows and steps, uniforms by row, and stacked frames by row numbers: every device
 * against expectations written by hand, and against ref on random shapes. */
#include "tests/unit/learner/device/device_testing.h"

/* ---- by hand, on every device */

static void compare_bytes(const char *what, struct testing *t, const void *x, const void *expected,
                          size_t bytes) {
  uint8_t *got = testing_bytes_back(t, x, bytes);
  for (size_t i = 0; i < bytes; i++)
    if (got[i] != ((const uint8_t *)expected)[i])
      fail_msg("%s, %s: byte %zu is %d, expected %d", t->device->description, what, i, got[i],
               ((const uint8_t *)expected)[i]);
  free(got);
}

static void check_rows(struct testing *t) {
  static const uint8_t host[4][3] = {{1, 2, 3}, {4, 5, 6}, {7, 8, 9}, {10, 11, 12}};
  static const int32_t row[3] = {2, -1, 0};
  static const uint8_t gathered[3][3] = {{7, 8, 9}, {0, 0, 0}, {1, 2, 3}};
  static const uint8_t scattered[4][3] = {{7, 8, 9}, {0, 0, 0}, {1, 2, 3}, {0, 0, 0}};
  const struct device_ops *ops = t->device->ops;
  void *x = testing_bytes(t, host, sizeof host), *y = testing_bytes_zeros(t, 12);
  void *z = testing_bytes_zeros(t, 12);
  int32_t *rows = testing_bytes(t, row, sizeof row);
  ops->gather_rows(t->device, y, x, rows, 3, 3);
  compare_bytes("gather_rows", t, y, gathered, sizeof gathered);
  ops->scatter_rows(t->device, z, x, rows, 3, 3);
  /* Row 0 of x goes to row 2, row 2 to row 0. */
  compare_bytes("scatter_rows", t, z, scattered, sizeof scattered);
}

static void test_rows(void **state) {
  (void)state;
  testing_each_device(check_rows);
}

/* A slot's six steps, each with two statistics and an action of two numbers. In the pool the page
 * of steps 2, 3 and 4 is rows 1 to 3; step 3 starts an episode. */
enum { STEPS = 6, STRIDE = 16, ROWS = 10, STATISTICS = 2, NUMBERS = 2 };
static const int32_t ROW[STEPS] = {0, 6, 1, 2, 3, 8};

struct filed {
  uint8_t observation[STEPS][STRIDE];
  float reward[STEPS];
  uint8_t flags[STEPS];
  float statistics[STEPS][STATISTICS];
  float action[STEPS][NUMBERS];
};

static struct filed filed_steps(void) {
  struct filed f = {0};
  for (int i = 0; i < STEPS; i++) {
    for (int k = 0; k < STRIDE; k++) f.observation[i][k] = (uint8_t)(10 * i + k);
    f.reward[i] = (float)i;
    f.flags[i] = i == 3 ? STEP_FIRST : i == 5 ? STEP_TRUNCATED : 0;
    f.statistics[i][0] = (float)i + 0.25f;
    f.statistics[i][1] = (float)i + 0.5f;
    f.action[i][0] = (float)i + 100;
    f.action[i][1] = (float)i + 200;
  }
  return f;
}

static struct device_pool pool_for(struct testing *t, int statistics, int action_bytes,
                                   size_t stride, int rows, uint8_t no_action) {
  size_t record = device_record_bytes(statistics, action_bytes);
  return (struct device_pool){.observation = testing_bytes_zeros(t, (size_t)rows * stride),
                              .record = testing_bytes_zeros(t, (size_t)rows * record),
                              .row_stride = stride,
                              .record_bytes = record,
                              .statistics = statistics,
                              .action_bytes = action_bytes,
                              .no_action = no_action};
}

static struct device_pool file_steps(struct testing *t, const struct filed *f) {
  struct device_pool pool = pool_for(t, STATISTICS, NUMBERS * sizeof(float), STRIDE, ROWS, 0);
  struct device_steps steps = {
      .observation = testing_bytes(t, f->observation, sizeof f->observation),
      .reward = testing_bytes(t, f->reward, sizeof f->reward),
      .flags = testing_bytes(t, f->flags, sizeof f->flags),
      .statistics = testing_bytes(t, f->statistics, sizeof f->statistics),
      .action = testing_bytes(t, f->action, sizeof f->action)};
  int32_t *row = testing_bytes(t, ROW, sizeof ROW);
  t->device->ops->scatter_steps(t->device, &pool, row, &steps, STEPS);
  return pool;
}

static void check_scatter(struct testing *t) {
  struct filed f = filed_steps();
  struct device_pool pool = file_steps(t, &f);
  assert_int_equal(pool.record_bytes, 8 + 8 + 8);
  uint8_t *record = testing_bytes_back(t, pool.record, ROWS * pool.record_bytes);
  uint8_t *observation = testing_bytes_back(t, pool.observation, ROWS * STRIDE);
  for (int i = 0; i < STEPS; i++) {
    const uint8_t *at = record + (size_t)ROW[i] * pool.record_bytes;
    assert_memory_equal(at, &f.reward[i], 4);
    assert_int_equal(at[DEVICE_RECORD_FLAGS], f.flags[i]);
    assert_memory_equal(at + DEVICE_RECORD_STATISTICS, f.statistics[i], 8);
    assert_memory_equal(at + DEVICE_RECORD_STATISTICS + 8, f.action[i], 8);
    assert_memory_equal(observation + ROW[i] * STRIDE, f.observation[i], STRIDE);
  }
  static const uint8_t nothing[24];
  assert_memory_equal(record + 5 * pool.record_bytes, nothing, sizeof nothing);
  assert_memory_equal(observation + 5 * STRIDE, nothing, STRIDE);
  free(record);
  free(observation);
}

static void test_scatter_steps(void **state) {
  (void)state;
  testing_each_device(check_scatter);
}

/* Column 1 of 2 becomes steps 2 to 5, with step 1 as its footprint, in a row in front. */
static void check_gather(struct testing *t) {
  enum { T = 3, N = 2, FOOTPRINT = 1, BATCH = (T + 1) * N };
  struct filed f = filed_steps();
  struct device_pool pool = file_steps(t, &f);
  uint8_t *observation = testing_bytes_zeros(t, (FOOTPRINT * N + BATCH) * STRIDE);
  struct device_steps to = {.observation = observation + FOOTPRINT * N * STRIDE,
                            .reward = testing_bytes_zeros(t, BATCH * 4),
                            .flags = testing_bytes_zeros(t, BATCH),
                            .statistics = testing_bytes_zeros(t, BATCH * 8),
                            .action = testing_bytes_zeros(t, BATCH * 8),
                            .previous_action = testing_bytes_zeros(t, BATCH * 8)};
  struct device_unroll unroll = {
      .num_spans = 2,
      .span = {{ROW[2], T}, {ROW[5], 1}},
      .depth = FOOTPRINT,
      .before = {ROW[1]},
      .previous_action = testing_bytes(t, f.action[1], sizeof f.action[1])};
  const struct device_unroll *table = testing_bytes(t, &unroll, sizeof unroll);
  t->device->ops->gather_steps(t->device, &to, N, 1, &pool, table, 1, T + 1, FOOTPRINT);

  float previous[BATCH][NUMBERS] = {{0}};
  uint8_t seen[FOOTPRINT * N + BATCH][STRIDE] = {{0}};
  float reward[BATCH] = {0}, statistics[BATCH][2] = {{0}}, action[BATCH][2] = {{0}};
  uint8_t flags[BATCH] = {0};
  memcpy(seen[1], f.observation[1], STRIDE);
  for (int k = 0; k <= T; k++) {
    int at = k * N + 1, step = k + 2;
    memcpy(seen[FOOTPRINT * N + at], f.observation[step], STRIDE);
    reward[at] = f.reward[step];
    flags[at] = f.flags[step];
    memcpy(statistics[at], f.statistics[step], 8);
    memcpy(action[at], f.action[step], 8);
    if (step != 3) memcpy(previous[at], f.action[step - 1], 8);
  }
  compare_bytes("observation", t, observation, seen, sizeof seen);
  compare_bytes("reward", t, to.reward, reward, sizeof reward);
  compare_bytes("flags", t, to.flags, flags, sizeof flags);
  compare_bytes("statistics", t, to.statistics, statistics, sizeof statistics);
  compare_bytes("action", t, to.action, action, sizeof action);
  compare_bytes("previous action", t, to.previous_action, previous, sizeof previous);
}

static void test_gather_steps(void **state) {
  (void)state;
  testing_each_device(check_gather);
}

static void check_uniforms(struct testing *t) {
  enum { B = 37, COUNT = 3 };
  uint32_t environment[B], life[B], step[B];
  uint8_t greedy[B];
  float expected[B][COUNT];
  for (uint32_t b = 0; b < B; b++) {
    environment[b] = 3 * b + 1;
    life[b] = b / 5 + (b % 7 << 16);
    step[b] = 1000 - b;
    greedy[b] = b % 4 == 1;
    for (int k = 0; k < COUNT; k++)
      expected[b][k] = greedy[b] ? -1
                                 : random_uniform(77, environment[b], life[b], step[b],
                                                  (enum random_purpose)(RANDOM_ACTION + 256 * k));
  }
  struct device_draws draws = {.count = COUNT,
                               .environment = testing_bytes(t, environment, sizeof environment),
                               .life = testing_bytes(t, life, sizeof life),
                               .step = testing_bytes(t, step, sizeof step),
                               .greedy = testing_bytes(t, greedy, sizeof greedy)};
  float *uniform = testing_bytes_room(t, sizeof expected);
  t->device->ops->random_uniforms(t->device, uniform, 77, &draws, RANDOM_ACTION, B);
  compare_bytes("random_uniforms", t, uniform, expected, sizeof expected);
}

static void test_uniforms(void **state) {
  (void)state;
  testing_each_device(check_uniforms);
}

/* Two rows of 1 x 2 pixels: the first shows history's rows 3 and 1, the second nothing older. */
static void check_frames(struct testing *t) {
  static const uint8_t newest[2][16] = {{255, 0}, {51, 102}};
  static const uint8_t history[4][16] = {{1, 1}, {0, 204}, {2, 2}, {153, 255}};
  static const int32_t row[2][2] = {{3, 1}, {-1, -1}};
  static const float expected[] = {1, 0.6f, 0, 0, 1, 0.8f, 0.2f, 0, 0, 0.4f, 0, 0};
  struct device_inputs in = {
      .observation = testing_bytes(t, newest, sizeof newest),
      .row_stride = 16,
      .num_tensors = 1,
      .tensor = {{DTYPE_UINT8, 2, 0, .height = 1, .width = 2, .channels = 1}},
      .stack = 3,
      .history = testing_bytes(t, history, sizeof history),
      .frame = testing_bytes(t, row, sizeof row)};
  pixel *y = testing_pixel_room(t, 12);
  t->device->ops->image(t->device, y, &in, 2);
  float got[12];
  device_download_pixels(t->device, got, y, 12);
  for (int i = 0; i < 12; i++)
    if (fabsf(got[i] - expected[i]) > 1e-6f)
      fail_msg("%s: number %d is %g, expected %g", t->device->description, i, (double)got[i],
               (double)expected[i]);
}

static void test_frames(void **state) {
  (void)state;
  testing_each_device(check_frames);
}

/* ---- random shapes, against ref */

struct shape {
  int B, T, N, rows, statistics, action_bytes;
  size_t stride;
  uint8_t no_action;
};

/* What a device makes of one shape's random bytes: all that it wrote, one after the other. */
static uint8_t *file_and_gather(struct testing *t, const struct shape *s, size_t *bytes) {
  uint64_t seed = 99;
  size_t B = (size_t)s->B, batch = (size_t)(s->T + 1) * (size_t)s->N, stride = s->stride;
  size_t sizes[] = {B * stride, B * 4, B, B * 4 * (size_t)s->statistics,
                    B * (size_t)s->action_bytes};
  void *given[5];
  for (int i = 0; i < 5; i++) {
    uint8_t *host = check_alloc(sizes[i] ? sizes[i] : 1, 1);
    for (size_t k = 0; k < sizes[i]; k++) host[k] = (uint8_t)testing_bits(&seed);
    given[i] = testing_bytes(t, host, sizes[i]);
    free(host);
  }
  struct device_steps steps = {.observation = given[0],
                               .reward = given[1],
                               .flags = given[2],
                               .statistics = given[3],
                               .action = given[4]};
  int32_t *row = check_alloc(B, sizeof *row);
  for (int b = 0; b < s->B; b++) row[b] = b % 5 == 3 ? -1 : s->rows - 1 - b;
  struct device_pool pool =
      pool_for(t, s->statistics, s->action_bytes, stride, s->rows, s->no_action);
  const struct device_ops *ops = t->device->ops;
  ops->scatter_steps(t->device, &pool, testing_bytes(t, row, B * sizeof *row), &steps, s->B);
  free(row);

  size_t older = (size_t)s->N * 2;
  size_t out[] = {(older + batch) * stride,
                  batch * 4,
                  batch,
                  batch * 4 * (size_t)s->statistics,
                  batch * (size_t)s->action_bytes,
                  batch * (size_t)s->action_bytes};
  uint8_t *room[6];
  for (int i = 0; i < 6; i++) room[i] = testing_bytes_room(t, out[i]);
  struct device_steps to = {.observation = room[0] + older * stride,
                            .reward = (float *)(void *)room[1],
                            .flags = room[2],
                            .statistics = (float *)(void *)room[3],
                            .action = room[4],
                            .previous_action = room[5]};
  /* In two parts: as many columns as the seed says, then the others. */
  struct device_unroll unroll[8];
  for (int column = 0; column < s->N; column++)
    unroll[column] = (struct device_unroll){.num_spans = 2,
                                            .span = {{column + 2, s->T}, {s->rows - 1 - column, 1}},
                                            .depth = column % 3,
                                            .before = {column + 1, column},
                                            .previous_action = given[4]};
  const struct device_unroll *table = testing_bytes(t, unroll, sizeof unroll);
  int part = testing_below(&seed, s->N + 1);
  ops->gather_steps(t->device, &to, s->N, 0, &pool, table, part, s->T + 1, 2);
  ops->gather_steps(t->device, &to, s->N, part, &pool, table + part, s->N - part, s->T + 1, 2);

  *bytes = 0;
  for (int i = 0; i < 6; i++) *bytes += out[i];
  uint8_t *all = check_alloc(*bytes, 1), *at = all;
  for (int i = 0; i < 6; i++) {
    uint8_t *got = testing_bytes_back(t, room[i], out[i]);
    memcpy(at, got, out[i]);
    at += out[i];
    free(got);
  }
  testing_release(t);
  return all;
}

static void check_shape(struct testing *t, const struct shape *s) {
  struct testing ref = {.device = device_ref_float_create()};
  size_t bytes, expected_bytes;
  uint8_t *got = file_and_gather(t, s, &bytes);
  uint8_t *expected = file_and_gather(&ref, s, &expected_bytes);
  for (size_t i = 0; i < bytes; i++)
    if (got[i] != expected[i])
      fail_msg("%s: B %d, T %d, N %d, %d statistics, actions of %d, rows of %zu: byte %zu differs",
               t->device->description, s->B, s->T, s->N, s->statistics, s->action_bytes, s->stride,
               i);
  free(got);
  free(expected);
  device_destroy(ref.device);
}

static void check_shapes(struct testing *t) {
  static const struct shape shapes[] = {
      {40, 7, 3, 40, 1, 4, 16, 0xff}, {40, 7, 3, 40, 1, 4, 32, 0xff},
      {40, 5, 4, 40, 2, 4, 48, 0xff}, {33, 1, 2, 33, 1, 24, 16, 0},
      {33, 9, 5, 33, 0, 12, 7056, 0}, {17, 3, 1, 17, 3, 4, 16, 0xff},
  };
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) check_shape(t, &shapes[i]);
}

static void test_shapes(void **state) {
  (void)state;
  testing_each_device(check_shapes);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_rows),         cmocka_unit_test(test_scatter_steps),
      cmocka_unit_test(test_gather_steps), cmocka_unit_test(test_uniforms),
      cmocka_unit_test(test_frames),       cmocka_unit_test(test_shapes),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
