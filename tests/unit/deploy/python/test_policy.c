/* A policy of a file made by hand: its actions by a computation that one can follow, what it
 * remembers, and files that are none. That every kind of network acts as the learner does is
 * tests/integration/export.sh. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/base/random.h"
#include "common/base/safetensors.h"
#include "deploy/python/acorn_policy.h"
#include "tests/unit/support/temporary_folder.h"

#define OPTIONS                                                              \
  "agent = ppo\nhidden = none\nprevious_action = %s\nprevious_reward = %s\n" \
  "curiosity = none\nintrinsic_discount = 0.9\n"
#define SPACE \
  "{\"observation\":[{\"name\":\"x\",\"dtype\":\"float32\",\"shape\":[2]}],\"discrete\":2}"

static char error[512];

/* Logits and value of x0, x1, then whether action 0 or 1 was the last, then the last reward. */
static const float weights[5 * 3] = {1, 0, 0, 0, 1, 0, 0, 9, 0, 9, 0, 0, 0, 99, 0};
static const float biases[3];

static const char *write_file(const char *options, const char *space, int inputs) {
  const char *path = temporary_folder_path(temporary_folder(), "p.safetensors");
  const int w[] = {inputs, 3}, b[] = {3};
  const struct safetensor tensors[] = {{"head/w", 2, w, weights}, {"head/b", 1, b, biases}};
  json_t *metadata =
      json_pack("{s:s*, s:s, s:s*}", "options", options, "network", "mlp", "space", space);
  assert_int_equal(safetensors_write(path, tensors, 2, metadata, NULL), STATUS_OK);
  json_decref(metadata);
  return path;
}

static struct acorn_policy *open_example(const char *previous_action, const char *previous_reward,
                                         int inputs) {
  char options[256];
  snprintf(options, sizeof(options), OPTIONS, previous_action, previous_reward);
  struct acorn_policy *policy =
      acorn_policy_open(write_file(options, SPACE, inputs), error, sizeof(error));
  if (!policy) fail_msg("%s", error);
  return policy;
}

static int act(struct acorn_policy *policy, uint8_t *state, float x0, float x1, float reward) {
  const float x[2] = {x0, x1};
  int32_t action = -1;
  assert_int_equal(acorn_policy_act(policy, &action, state, (const void *const[]){x}, &reward, 1,
                                    error, sizeof(error)),
                   0);
  return action;
}

static void each_row_gets_its_action(void **state) {
  (void)state;
  enum { ROWS = 37 };
  float x[ROWS][2];
  int32_t action[ROWS];
  struct acorn_policy *policy = open_example("false", "false", 2);
  uint8_t *memory = calloc(ROWS, acorn_policy_state_bytes(policy));
  for (int b = 0; b < ROWS; b++) x[b][0] = (float)(b % 5), x[b][1] = 2.5f;
  for (int rows = 1; rows <= ROWS; rows += 12) {
    memset(action, -1, sizeof(action));
    assert_int_equal(acorn_policy_act(policy, action, memory, (const void *const[]){x}, NULL, rows,
                                      error, sizeof(error)),
                     0);
    for (int b = 0; b < ROWS; b++) assert_int_equal(action[b], b >= rows ? -1 : b % 5 < 3);
  }
  assert_string_equal(acorn_policy_text(policy, "network"), "mlp");
  assert_null(acorn_policy_text(policy, "nothing"));
  assert_int_equal(acorn_policy_action_bytes(policy), 4);
  free(memory);
  acorn_policy_close(policy);
}

/* The other action than the last, whatever x says; the first by x. */
static void the_last_action_is_remembered(void **state) {
  (void)state;
  struct acorn_policy *policy = open_example("true", "false", 4);
  uint8_t *memory = calloc(1, acorn_policy_state_bytes(policy));
  assert_int_equal(act(policy, memory, 1, 0, 0), 0);
  assert_int_equal(act(policy, memory, 1, 0, 0), 1);
  assert_int_equal(act(policy, memory, 1, 0, 0), 0);
  memset(memory, 0, acorn_policy_state_bytes(policy));
  assert_int_equal(act(policy, memory, 1, 0, 0), 0);
  assert_int_equal(act(policy, memory, 0, 1, 0), 1);
  free(memory);
  acorn_policy_close(policy);
}

/* A reward means 1 here, but not where an episode begins. */
static void the_last_reward_is_read(void **state) {
  (void)state;
  struct acorn_policy *policy = open_example("true", "true", 5);
  uint8_t *memory = calloc(1, acorn_policy_state_bytes(policy));
  assert_int_equal(act(policy, memory, 1, 0, 1), 0);
  assert_int_equal(act(policy, memory, 9, 0, 0), 0);
  assert_int_equal(act(policy, memory, 9, 0, 1), 1);
  free(memory);
  acorn_policy_close(policy);
}

static void refuses(const char *path, const char *words) {
  error[0] = '\0';
  assert_null(acorn_policy_open(path, error, sizeof(error)));
  if (!strstr(error, words) || !strstr(error, path)) fail_msg("'%s' and not: %s", words, error);
}

static void other_files_are_refused(void **state) {
  (void)state;
  static const char options[] =
      "agent = ppo\nhidden = none\nprevious_action = false\n"
      "previous_reward = false\n";
  refuses("/nowhere/p.safetensors", "cannot be read");
  refuses(write_file(NULL, SPACE, 2), "metadata have no options: export");
  refuses(write_file(options, NULL, 2), "metadata have no space: export");
  refuses(write_file("agent = ppo\nhidden_in_2031 = 7\n", SPACE, 2), "another version of Acorn");
  refuses(write_file("agent = sac2\n", SPACE, 2), "another version of Acorn");
  refuses(write_file("agent = random\n", SPACE, 2), "agent random");
  refuses(write_file("agent = dqn\nhidden = none\n", "{}", 2), "observation");
  refuses(write_file(options, SPACE, 4), "bytes of parameters, its network 36");
  refuses(write_file("agent = ppo\nhidden = 65536,65536,65536\n", SPACE, 2), "its network");
}

static void too_many_rows_are_refused(void **state) {
  (void)state;
  struct acorn_policy *policy = open_example("false", "false", 2);
  assert_int_equal(acorn_policy_act(policy, NULL, NULL, NULL, NULL, 0, error, sizeof(error)), -1);
  assert_non_null(strstr(error, "0 rows"));
  assert_int_equal(acorn_policy_act(policy, NULL, NULL, NULL, NULL, 1 << 21, error, sizeof(error)),
                   -1);
  acorn_policy_close(policy);
}

/* Bytes of a whole file are changed at random: each is opened or refused. */
static void damaged_files_do_no_harm(void **state) {
  (void)state;
  enum { FILES = 3000 };
  char options[256], text[4096];
  snprintf(options, sizeof(options), OPTIONS, "false", "false");
  const char *path = write_file(options, SPACE, 2);
  FILE *file = fopen(path, "rb");
  size_t bytes = fread(text, 1, sizeof(text), file);
  fclose(file);
  int opened = 0;
  for (uint64_t i = 0; i < FILES; i++) {
    char damaged[sizeof(text)];
    memcpy(damaged, text, bytes);
    for (uint64_t k = 0; k <= i % 4; k++) {
      uint64_t word = random_bits(1, (uint32_t)i, 0, (uint32_t)k, RANDOM_TEST);
      damaged[word % bytes] = (char)(word >> 32);
    }
    file = fopen(path, "wb");
    fwrite(damaged, 1, bytes, file);
    fclose(file);
    struct acorn_policy *policy = acorn_policy_open(path, error, sizeof(error));
    opened += policy != NULL;
    acorn_policy_close(policy);
  }
  assert_in_range(opened, 1, FILES - 1);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(each_row_gets_its_action),  cmocka_unit_test(the_last_action_is_remembered),
      cmocka_unit_test(the_last_reward_is_read),   cmocka_unit_test(other_files_are_refused),
      cmocka_unit_test(too_many_rows_are_refused), cmocka_unit_test(damaged_files_do_no_harm),
  };
  return cmocka_run_group_tests(tests, temporary_folder_setup, temporary_folder_teardown);
}
