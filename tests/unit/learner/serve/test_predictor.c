/* A policy for rows of a program's own: what a row gets does not depend on the batch that it is in,
 * nor on the device, on which rows may be padding; a row without a slot leaves nothing; the head's
 * outputs and the values of actions are those that the action was chosen from. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "common/base/check.h"
#include "learner/learn/algorithms.h"
#include "learner/run/run_network.h"
#include "learner/serve/predictor.h"
#include "tests/unit/support/any_device.h"
#include "tests/unit/support/emulated_cuda.h"

enum { ROWS = 5, STEPS = 6, ACTIONS = 3, BOX = 2, MOST_HEAD = 8 };

static const char *device_name;
static const struct space discrete = {
    .num_tensors = 2,
    .tensor = {{"a", DTYPE_FLOAT32, 1, {2}}, {"b", DTYPE_FLOAT32, 0, {0}}},
    .discrete = ACTIONS};

struct fixture {
  struct device *device;
  struct network *network;
  real *params;
  struct predictor predictor;
};

/* So large that the recurrent state, previous action and reward show in the outputs. */
static void set_params(struct fixture *f) {
  size_t P = network_num_parameters(f->network);
  float *host = check_alloc(P, sizeof(*host));
  for (size_t i = 0; i < P; i++) host[i] = 5 * ((float)(i * 7919 % 1009) / 1009 - 0.5f);
  f->params = f->device->ops->alloc(f->device, P * f->device->ops->real_bytes);
  f->device->ops->upload(f->device, f->params, host, P);
  acting_set_params(&f->predictor.acting, f->params);
  free(host);
}

static struct fixture open_predictor(const char *agent, const char *network,
                                     const struct space *space, int slots) {
  struct fixture f = {.device = NULL};
  struct learner_options options;
  struct device_inputs inputs = {.stack = 1};
  struct error error;
  options_init(&learner_options_table, &options);
  const char *const set[][2] = {
      {"agent", agent},         {"network", network},     {"hidden", "6"}, {"lstm_size", "5"},
      {"previous_action", "1"}, {"previous_reward", "1"}, {"atoms", "1"},  {"atoms", "4"}};
  bool has_atoms = strcmp(agent, "rainbow") == 0;
  for (size_t i = 0; i < sizeof(set) / sizeof(set[0]) - !has_atoms; i++)
    assert_int_equal(
        options_set(&learner_options_table, &options, set[i][0], set[i][1], "", &error), STATUS_OK);
  assert_int_equal(any_device_create(&f.device, device_name, &error), STATUS_OK);
  const struct policy *policy = algorithms_policy(algorithms_find(agent), space);
  run_network_inputs(&inputs, space, &options);
  assert_int_equal(run_network_create(&f.network, &inputs, space, policy, &options, &error),
                   STATUS_OK);
  options_deinit(&learner_options_table, &options);
  const struct acting acting = {.device = f.device,
                                .network = f.network,
                                .policy = policy,
                                .shape = run_network_shape(f.network, space, policy),
                                .max_rows = ROWS};
  predictor_init(&f.predictor, &acting, space, slots);
  set_params(&f);
  return f;
}

static void close_predictor(struct fixture *f) {
  predictor_deinit(&f->predictor);
  predictor_deinit(&f->predictor); /* nothing more */
  f->device->ops->release(f->device, f->params);
  network_destroy(f->network);
  device_destroy(f->device);
}

/* Step t of an environment's episode, in this row. */
static void enter(struct fixture *f, int row, int slot, int environment, int t) {
  float a[2] = {(float)environment / 4, (float)t / 3}, b = (float)(environment * t % 5) / 5 - 0.4f;
  memcpy(predictor_tensor(&f->predictor, row, 0), a, sizeof(a));
  memcpy(predictor_tensor(&f->predictor, row, 1), &b, sizeof(b));
  predictor_enter(&f->predictor, row, slot, t ? 0 : STEP_FIRST, (float)t / 2, true);
}

static void keep_head(const struct fixture *f, int row, float head[MOST_HEAD]) {
  int stride = network_head_stride(f->network);
  assert_in_range(stride, 1, MOST_HEAD);
  memcpy(head, f->predictor.head + (size_t)row * (size_t)stride, (size_t)stride * sizeof(float));
}

static void expect_head(const float *a, const float *b) {
  for (int i = 0; i < ACTIONS + 1; i++) assert_true(fabsf(a[i] - b[i]) < 1e-3f);
}

static int32_t action_of(const struct fixture *f, int row) {
  int32_t action;
  memcpy(&action, acting_action(&f->predictor.acting, &f->predictor.batch, row), sizeof(action));
  return action;
}

static int largest(const float *x, int count) {
  int best = 0;
  for (int i = 1; i < count; i++)
    if (x[i] > x[best]) best = i;
  return best;
}

/* ---- tests */

static void a_row_gets_the_same_in_any_batch(void **state) {
  static float alone[STEPS][ROWS][MOST_HEAD], together[MOST_HEAD], of_ref[STEPS][ROWS][MOST_HEAD];
  (void)state;
  for (int batched = 0; batched < 2; batched++) {
    struct fixture f = open_predictor("vtrace", "lstm", &discrete, ROWS);
    for (int t = 0; t < STEPS; t++) {
      if (batched) predictor_begin(&f.predictor, ROWS);
      for (int i = 0; i < ROWS; i++) {
        int row = batched ? ROWS - 1 - i : 0;
        if (!batched) predictor_begin(&f.predictor, 1);
        enter(&f, row, i, i, t);
        if (batched) continue;
        predictor_choose(&f.predictor);
        keep_head(&f, row, alone[t][i]);
        assert_int_equal(action_of(&f, row), largest(alone[t][i], ACTIONS));
      }
      if (!batched) continue;
      predictor_choose(&f.predictor);
      for (int i = 0; i < ROWS; i++) {
        keep_head(&f, ROWS - 1 - i, together);
        expect_head(together, alone[t][i]);
      }
    }
    close_predictor(&f);
  }
  assert_true(fabsf(alone[2][1][0] - alone[2][2][0]) > 1e-2f);
  if (strcmp(device_name, "ref") == 0) memcpy(of_ref, alone, sizeof(of_ref));
  for (int t = 0; t < STEPS; t++)
    for (int i = 0; i < ROWS; i++) expect_head(alone[t][i], of_ref[t][i]);
}

/* Step after step with the same observation: from the second on what is behind it differs. */
static void what_a_slot_remembers_shows(void **state) {
  float head[3][MOST_HEAD];
  int32_t action[3];
  (void)state;
  struct fixture f = open_predictor("vtrace", "lstm", &discrete, 1);
  for (int t = 0; t < 3; t++) {
    predictor_begin(&f.predictor, 1);
    enter(&f, 0, 0, 1, 1);
    predictor_enter(&f.predictor, 0, 0, t ? 0 : STEP_FIRST, 0.5f, true);
    predictor_choose(&f.predictor);
    keep_head(&f, 0, head[t]);
    action[t] = action_of(&f, 0);
  }
  assert_int_equal(action[0], action[1]); /* so the previous action is none of the difference */
  assert_true(fabsf(head[2][0] - head[1][0]) > 1e-3f);
  close_predictor(&f);
}

/* It has no past, whatever was in the batch before, and slots go on as if it had not been there. */
static void a_row_without_a_slot_leaves_nothing(void **state) {
  float first[MOST_HEAD], plain[STEPS][MOST_HEAD], head[MOST_HEAD];
  (void)state;
  for (int beside = 0; beside < 2; beside++) {
    struct fixture f = open_predictor("vtrace", "lstm", &discrete, 1);
    for (int t = 0; t < STEPS; t++) {
      int own = beside ? t % 3 : 0, other = (own + 1) % 3;
      predictor_begin(&f.predictor, 1 + 2 * beside);
      for (int k = 0; k < 2 * beside; k++) {
        enter(&f, (own + 1 + k) % 3, -1, 1, 0);
        predictor_enter(&f.predictor, (own + 1 + k) % 3, -1, 0, 0, true);
      }
      enter(&f, own, 0, 1, t);
      predictor_choose(&f.predictor);
      keep_head(&f, own, beside ? head : plain[t]);
      if (beside) expect_head(head, plain[t]);
      keep_head(&f, beside ? other : 0, head);
      if (t == 0) memcpy(first, head, sizeof(first));
      if (beside) expect_head(head, first);
    }
    close_predictor(&f);
  }
  assert_true(fabsf(plain[1][0] - plain[0][0]) > 1e-2f);
}

/* A network without a state has the reward of a row without a slot, but of a first one. */
static void a_row_without_a_slot_has_its_reward(void **state) {
  static const struct {
    uint8_t flags;
    float reward;
  } rows[] = {{0, 0}, {0, 1}, {0, -1}, {STEP_FIRST, 1}};
  float head[4][MOST_HEAD];
  (void)state;
  struct fixture f = open_predictor("vtrace", "mlp", &discrete, 1);
  predictor_begin(&f.predictor, 4);
  for (int i = 0; i < 4; i++) {
    enter(&f, i, -1, 1, 1);
    predictor_enter(&f.predictor, i, -1, rows[i].flags, rows[i].reward, true);
  }
  predictor_choose(&f.predictor);
  for (int i = 0; i < 4; i++) keep_head(&f, i, head[i]);
  assert_true(fabsf(head[1][0] - head[0][0]) > 1e-2f);
  assert_true(fabsf(head[2][0] - head[0][0]) > 1e-2f);
  assert_true(fabsf(head[2][0] - head[1][0]) > 1e-2f);
  expect_head(head[3], head[0]);
  close_predictor(&f);
}

/* A new episode in the same slot is as the first one. */
static void a_first_row_begins_an_episode(void **state) {
  float first[STEPS][MOST_HEAD], head[MOST_HEAD];
  (void)state;
  struct fixture f = open_predictor("vtrace", "lstm", &discrete, 1);
  for (int t = 0; t < 2 * STEPS; t++) {
    predictor_begin(&f.predictor, 1);
    enter(&f, 0, 0, 2, t % STEPS);
    predictor_choose(&f.predictor);
    keep_head(&f, 0, t < STEPS ? first[t] : head);
    if (t >= STEPS) expect_head(head, first[t - STEPS]);
  }
  close_predictor(&f);
}

static void the_action_is_that_of_the_largest_value(void **state) {
  (void)state;
  struct fixture f = open_predictor("rainbow", "mlp", &discrete, ROWS);
  int seen[ACTIONS] = {0}, kinds = 0;
  assert_non_null(f.predictor.values);
  for (int t = 0; t < STEPS; t++) {
    predictor_begin(&f.predictor, ROWS);
    for (int i = 0; i < ROWS; i++) enter(&f, i, i, 3 * i, t);
    predictor_choose(&f.predictor);
    for (int i = 0; i < ROWS; i++) {
      assert_int_equal(action_of(&f, i), largest(f.predictor.values + i * ACTIONS, ACTIONS));
      seen[action_of(&f, i)]++;
    }
  }
  for (int a = 0; a < ACTIONS; a++) kinds += seen[a] > 0;
  assert_in_range(kinds, 2, ACTIONS);
  close_predictor(&f);
}

/* The mean of a greedy row on the scale of the bounds, and within them. */
static void a_box_is_sent_on_its_scale(void **state) {
  (void)state;
  struct space box = discrete;
  box.discrete = 0;
  box.box = BOX;
  for (int i = 0; i < BOX; i++) box.low[i] = 10, box.high[i] = 10 + 4 * (float)(i + 1);
  struct fixture f = open_predictor("ppo", "mlp", &box, 1);
  assert_null(f.predictor.values);
  predictor_begin(&f.predictor, 1);
  enter(&f, 0, 0, 1, 0);
  predictor_choose(&f.predictor);
  float sent[BOX];
  predictor_send(&f.predictor, sent, 0);
  for (int i = 0; i < BOX; i++) {
    float mean = fminf(1, fmaxf(-1, f.predictor.head[i]));
    assert_true(fabsf(sent[i] - (10 + (mean + 1) * 2 * (float)(i + 1))) < 1e-3f);
  }
  close_predictor(&f);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_row_gets_the_same_in_any_batch),
      cmocka_unit_test(what_a_slot_remembers_shows),
      cmocka_unit_test(a_row_without_a_slot_leaves_nothing),
      cmocka_unit_test(a_row_without_a_slot_has_its_reward),
      cmocka_unit_test(a_first_row_begins_an_episode),
      cmocka_unit_test(the_action_is_that_of_the_largest_value),
      cmocka_unit_test(a_box_is_sent_on_its_scale),
  };
  int failed = 0;
  emulated_cuda_use();
  for (int i = 0; (device_name = any_device_name(i)); i++)
    failed += cmocka_run_group_tests_name(device_name, tests, NULL, NULL);
  return failed;
}
