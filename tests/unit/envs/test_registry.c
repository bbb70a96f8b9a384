#include "tests/unit/envs/play.h"

#include <math.h>

static void finds_every_environment(void **state) {
  (void)state;
  static const char *const names[] = {"cartpole", "catch", "tmaze", "synthetic"};
  for (int i = 0; i < 4; i++) {
    const struct acorn_env *env;
    struct error error;
    assert_int_equal(registry_find(&env, names[i], &error), STATUS_OK);
    assert_string_equal(env->name, names[i]);
    assert_int_equal(env->abi, ACORN_ENV_ABI);
    assert_int_equal(env->struct_bytes, sizeof(struct acorn_env));
    assert_true(strlen(env->about) > 10);
  }
}

static void names_the_nearest(void **state) {
  (void)state;
  const struct acorn_env *env;
  struct error error;
  assert_int_equal(registry_find(&env, "cartpol", &error), STATUS_NOT_FOUND);
  assert_non_null(strstr(error.text, "'cartpol'"));
  assert_non_null(strstr(error.text, "did you mean 'cartpole'"));
  assert_non_null(strstr(error.text, "cartpole, catch, tmaze, synthetic"));
  assert_int_equal(registry_find(&env, "zzzzzzzzzzzz", &error), STATUS_NOT_FOUND);
  assert_null(strstr(error.text, "did you mean"));
}

/* Those in Python too. */
static void names_the_nearest_of_all(void **state) {
  (void)state;
  static const struct {
    const char *word, *meant;
  } cases[] = {
      {"atary", "'atari'"},
      {"Atari", "'atari'"},
      {"footbal", "'football'"},
      {"dmlab2", "'dmlab'"},
      {"gymnasium:CartPole-v1", "'gym:CartPole-v1'"},
      {"gmy:my_module:My-v0", "'gym:my_module:My-v0'"},
      {"CartPole-v1", "'gym:CartPole-v1'"},
      {"ALE/Pong-v5", "'gym:ALE/Pong-v5'"},
      {"cart-v", NULL},
      {"tmaze:3", NULL},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    const struct acorn_env *env;
    struct error error;
    char words[100] = "did you mean ";
    assert_int_equal(registry_find(&env, cases[i].word, &error), STATUS_NOT_FOUND);
    if (cases[i].meant) strcat(words, cases[i].meant);
    if (!cases[i].meant != !strstr(error.text, words)) fail_msg("%s", error.text);
  }
}

/* What --env_args gives, and the words its error must hold. */
static const struct {
  const char *env, *json;
  double first; // the first option's value, if it is right
  const char *words[3];
} cases[] = {
    {"cartpole", "", 500, {NULL}},
    {"cartpole", "{}", 500, {NULL}},
    {"cartpole", "{\"max_steps\": 200}", 200, {NULL}},
    {"cartpole", "{\"max_steps\": 2e2}", 200, {NULL}},
    {"synthetic", "{\"actions\": 5, \"bytes\": 1e4}", 10000, {NULL}},
    {"synthetic", "{\"bytes\": true}", 1, {NULL}},
    {"cartpole", "{\"max_step\": 200}", 0, {"'max_step'", "did you mean 'max_steps'", "cartpole"}},
    {"cartpole", "{\"max_steps\": 0}", 0, {"'max_steps'", " 0,", "1..1e+09"}},
    {"cartpole", "{\"max_steps\": 2.5}", 0, {"'max_steps'", "2.5", "whole number"}},
    {"cartpole", "{\"hide_velocity\": 1}", 500, {NULL}},
    {"cartpole", "{\"hide_velocity\": true}", 500, {NULL}},
    {"cartpole", "{\"hide_velocity\": 2}", 0, {"'hide_velocity'", " 2,", "0..1"}},
    {"cartpole", "{\"hide_velocity\": -1}", 0, {"'hide_velocity'", "-1,", "0..1"}},
    {"cartpole", "{\"hide_velocity\": 0.5}", 0, {"'hide_velocity'", "0.5", "whole number"}},
    {"cartpole", "{\"hide_velocity\": \"yes\"}", 0, {"'hide_velocity'", "number", NULL}},
    {"cartpole", "{\"hide_velocities\": 1}", 0, {"did you mean 'hide_velocity'", NULL}},
    {"cartpole", "{\"max_steps\": \"200\"}", 0, {"'max_steps'", "number", NULL}},
    {"cartpole", "{\"max_steps\": 1, \"max_steps\": 2}", 0, {"max_steps", "duplicate", NULL}},
    {"cartpole", "{\"max_steps\"", 0, {"not a JSON object", "{\"max_steps\"", "max_steps\": 500"}},
    {"cartpole", "[200]", 0, {"not a JSON object", "[200]", NULL}},
    {"cartpole", "max_steps=200", 0, {"not a JSON object", "max_steps=200", NULL}},
};

static void reads_env_args(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
    const struct acorn_env *env;
    struct acorn_config config;
    struct error error = {""};
    assert_int_equal(registry_find(&env, cases[i].env, &error), STATUS_OK);
    enum status status = registry_config(&config, env, cases[i].json, &error);
    assert_int_equal(status, cases[i].words[0] ? STATUS_INVALID : STATUS_OK);
    for (int w = 0; w < 3 && cases[i].words[w]; w++) {
      if (!strstr(error.text, cases[i].words[w])) {
        fail_msg("%s: '%s' is not in: %s", cases[i].json, cases[i].words[w], error.text);
      }
    }
    if (status == STATUS_OK) assert_true(config.option[0].value == cases[i].first);
    registry_config_deinit(&config);
    registry_config_deinit(&config); // harmless
  }
}

/* ---- what both sides must agree on */

static void identifies_by_what_differs(void **state) {
  (void)state;
  static const struct {
    const char *env, *json, *identity;
  } table[] = {
      {"cartpole", "", "cartpole"},
      {"cartpole", "{\"hide_velocity\": 0}", "cartpole"},
      {"cartpole", "{\"hide_velocity\": 1}", "cartpole(hide_velocity=1)"},
      {"tmaze", "{\"length\": 20}", "tmaze(length=20)"},
      {"catch", "{\"columns\": 7, \"rows\": 12}", "catch(rows=12,columns=7)"},
      {"cartpole", "{\"max_steps\": 1000000}", "cartpole(max_steps=1e+06)"},
      {"cartpole", "{\"max_steps\": 1234567}", "cartpole(max_steps=1234567)"},
  };
  for (size_t i = 0; i < sizeof(table) / sizeof(*table); i++) {
    const struct acorn_env *env;
    struct acorn_config config;
    char identity[WIRE_ENVIRONMENT_BYTES];
    assert_int_equal(registry_find(&env, table[i].env, NULL), STATUS_OK);
    assert_int_equal(registry_config(&config, env, table[i].json, NULL), STATUS_OK);
    registry_identity(identity, sizeof identity, env, &config);
    assert_string_equal(identity, table[i].identity);
    registry_config_deinit(&config);
  }
}

/* What differs behind the place where a long one is cut. */
static void a_long_one_ends_with_a_hash_of_the_whole(void **state) {
  (void)state;
  static const struct acorn_env any = {.struct_bytes = sizeof any, .name = "any", .any_option = 1};
  char identity[3][WIRE_ENVIRONMENT_BYTES], json[400];
  for (int i = 0; i < 3; i++) {
    struct acorn_config config;
    snprintf(json, sizeof json, "{\"pad\": \"%0280d\", \"z\": %d}", 0, i / 2);
    assert_int_equal(registry_config(&config, &any, json, NULL), STATUS_OK);
    registry_identity(identity[i], sizeof identity[i], &any, &config);
    registry_config_deinit(&config);
  }
  assert_int_equal(strlen(identity[0]), WIRE_ENVIRONMENT_BYTES - 1);
  assert_string_equal(identity[0], identity[1]);
  assert_string_not_equal(identity[0], identity[2]);
  assert_memory_equal(identity[0], identity[2], WIRE_ENVIRONMENT_BYTES - 10);
}

static void any_option_is_kept_where_it_may_be(void **state) {
  (void)state;
  struct acorn_env any = {.struct_bytes = sizeof any, .name = "any", .any_option = 1};
  struct acorn_env older = any; // from before there was such a member
  older.struct_bytes = offsetof(struct acorn_env, any_option);
  struct acorn_config config;
  struct error error;
  const char *json = "{\"word\": \"two words\", \"deep\": {\"x\": [1, 2]}}";
  assert_int_equal(registry_config(&config, &any, json, &error), STATUS_OK);
  assert_ptr_equal(config.env, &any);
  assert_string_equal(config.json, "{\"deep\":{\"x\":[1,2]},\"word\":\"two words\"}");
  char identity[WIRE_ENVIRONMENT_BYTES];
  registry_identity(identity, sizeof identity, &any, &config);
  assert_string_equal(identity, "any({\"deep\":{\"x\":[1,2]},\"word\":\"two\\u0020words\"})");
  registry_config_deinit(&config);

  assert_int_equal(registry_config(&config, &any, "", &error), STATUS_OK);
  registry_identity(identity, sizeof identity, &any, &config);
  assert_string_equal(identity, "any");
  registry_config_deinit(&config);
  assert_int_equal(registry_config(&config, &older, json, &error), STATUS_INVALID);
  registry_config_deinit(&config);
}

/* An older plugin ends before the members that came later, and they are not looked at. */
static void a_member_that_an_older_plugin_lacks(void **state) {
  (void)state;
  struct acorn_env now = {.struct_bytes = sizeof now}, older = now, oldest = now;
  older.struct_bytes = offsetof(struct acorn_env, render);
  oldest.struct_bytes = offsetof(struct acorn_env, any_option);
  assert_true(registry_has(&now, any_option) && registry_has(&now, render) &&
              registry_has(&now, action_name));
  assert_true(registry_has(&older, any_option));
  assert_false(registry_has(&older, render) || registry_has(&older, action_name));
  assert_false(registry_has(&oldest, any_option));
}

static void leaves_out_a_default_that_is_written_out(void **state) {
  (void)state;
  const struct acorn_env *env;
  struct acorn_config config;
  char json[128], identity[WIRE_ENVIRONMENT_BYTES];
  assert_int_equal(registry_find(&env, "tmaze", NULL), STATUS_OK);
  snprintf(json, sizeof json, "{\"%s\": %g}", env->options[0].name, env->options[0].value);
  assert_int_equal(registry_config(&config, env, json, NULL), STATUS_OK);
  registry_identity(identity, sizeof identity, env, &config);
  assert_string_equal(identity, "tmaze");
  registry_config_deinit(&config);
}

/* ---- spaces that a third party may get wrong */

static struct acorn_space told;

static int tell_space(struct acorn_space *space, const struct acorn_config *config, char *error,
                      size_t error_bytes) {
  (void)config;
  *space = told;
  snprintf(error, error_bytes, "no simulator");
  return told.struct_bytes == 0 ? -1 : 0;
}

struct space_case {
  struct acorn_space space;
  const char *words; // NULL: right
};

static void check_spaces(const struct space_case *table, size_t count) {
  const struct acorn_env env = {.name = "theirs", .space = tell_space};
  for (size_t i = 0; i < count; i++) {
    struct space space;
    struct error error = {""};
    told = table[i].space;
    enum status status = registry_space(&space, &env, NULL, &error);
    assert_int_equal(status, table[i].words ? STATUS_INVALID : STATUS_OK);
    if (table[i].words) {
      assert_non_null(strstr(error.text, "theirs"));
      assert_non_null(strstr(error.text, table[i].words));
      continue;
    }
    assert_string_equal(space.tensor[0].name, told.tensor[0].name);
    assert_int_equal(space.tensor[0].shape[0], 3);
    assert_int_equal(space.box, told.box);
    assert_int_equal(space.choices.count, told.choices == 1 ? 0 : told.choices);
    assert_true(told.choices == 0 || space.choices.among[0] == told.among[0]);
    assert_true(space.low[1] == told.low[1] && space.high[1] == told.high[1]);
  }
}

static void checks_spaces(void **state) {
  (void)state;
  static const struct acorn_tensor good = {"x", ACORN_FLOAT32, 1, {3}},
                                   bad_shape = {"x", ACORN_FLOAT32, 1, {0}},
                                   bad_dtype = {"x", 9, 1, {3}},
                                   no_name = {NULL, ACORN_FLOAT32, 1, {3}},
                                   bad_rank = {"x", ACORN_FLOAT32, 5, {1, 1, 1, 1}},
                                   long_name = {"a_name_of_thirty-two_characters.",
                                                ACORN_INT32,
                                                0,
                                                {0}},
                                   blank = {"a b", ACORN_INT32, 0, {0}},
                                   huge = {"x", ACORN_UINT8, 2, {1 << 14, (1 << 12) + 1}};
  const struct space_case table[] = {
      {{.struct_bytes = 1, .num_tensors = 1, .tensor = {good}, .discrete = 2}, NULL},
      {{.struct_bytes = 1,
        .num_tensors = 1,
        .tensor = {good},
        .box = 2,
        .low = {-1, -2},
        .high = {1, 2}},
       NULL},
      {{.struct_bytes = 0}, "no simulator"},
      {{.struct_bytes = 1, .num_tensors = 0, .discrete = 2}, "0 observation tensors"},
      {{.struct_bytes = 1, .num_tensors = 9, .discrete = 2}, "9 observation tensors"},
      {{.struct_bytes = 1, .num_tensors = 1, .tensor = {good}}, "exactly one"},
      {{.struct_bytes = 1, .num_tensors = 1, .tensor = {good}, .discrete = 2, .box = 2},
       "exactly one"},
      {{.struct_bytes = 1, .num_tensors = 1, .tensor = {good}, .box = 65}, "box at most 64"},
      {{.struct_bytes = 1, .num_tensors = 1, .tensor = {bad_shape}, .discrete = 2},
       "tensor 0 has a shape"},
      {{.struct_bytes = 1, .num_tensors = 1, .tensor = {bad_dtype}, .discrete = 2},
       "tensor 0 has a dtype"},
      {{.struct_bytes = 1, .num_tensors = 2, .tensor = {good, no_name}, .discrete = 2},
       "tensor 1 has no name"},
      {{.struct_bytes = 1, .num_tensors = 1, .tensor = {bad_rank}, .discrete = 2},
       "tensor 0 has a rank"},
      {{.struct_bytes = 1, .num_tensors = 2, .tensor = {good, good}, .discrete = 2},
       "tensor 1 has the name of an earlier one"},
      {{.struct_bytes = 1, .num_tensors = 1, .tensor = {long_name}, .discrete = 2},
       "tensor 0 has a name of more than 31"},
      {{.struct_bytes = 1, .num_tensors = 1, .tensor = {blank}, .discrete = 2},
       "tensor 0 has a name that is not visible"},
      {{.struct_bytes = 1, .num_tensors = 1, .tensor = {huge}, .discrete = 2},
       "tensor 0 has more than 64 MiB"},
      {{.struct_bytes = 1, .num_tensors = 1, .tensor = {good}, .discrete = 65537},
       "discrete at most 65536"},
      {{.struct_bytes = 1, .num_tensors = 1, .tensor = {good}, .box = 1, .low = {1}, .high = {0}},
       "action 0 of the box is in 1..0"},
      {{.struct_bytes = 1, .num_tensors = 1, .tensor = {good}, .box = 1, .high = {INFINITY}},
       "action 0 of the box is in 0..inf"},
  };
  check_spaces(table, sizeof(table) / sizeof(*table));
}

static void checks_choices(void **state) {
  (void)state;
  static const struct acorn_tensor good = {"x", ACORN_FLOAT32, 1, {3}};
  const struct space_case table[] = {
      {{.struct_bytes = 1, .num_tensors = 1, .tensor = {good}, .choices = 3, .among = {3, 2, 4}},
       NULL},
      {{.struct_bytes = 1, .num_tensors = 1, .tensor = {good}, .choices = 1, .among = {3}}, NULL},
      {{.struct_bytes = 1,
        .num_tensors = 1,
        .tensor = {good},
        .discrete = 3,
        .choices = 1,
        .among = {3}},
       "discrete actions and choices; only one of"},
      {{.struct_bytes = 1,
        .num_tensors = 1,
        .tensor = {good},
        .discrete = 3,
        .choices = 2,
        .among = {3, 2}},
       "discrete actions and choices; only one of"},
      {{.struct_bytes = 1,
        .num_tensors = 1,
        .tensor = {good},
        .box = 1,
        .high = {1},
        .choices = 2,
        .among = {3, 2}},
       "choices and a box; only one of"},
      {{.struct_bytes = 1, .num_tensors = 1, .tensor = {good}, .choices = 1},
       "choice 0 of the action is among 0"},
      {{.struct_bytes = 1, .num_tensors = 1, .tensor = {good}, .choices = -1},
       "an action of -1 choices"},
      {{.struct_bytes = 1, .num_tensors = 1, .tensor = {good}, .choices = 65, .among = {1}},
       "an action of 65 choices"},
      {{.struct_bytes = 1, .num_tensors = 1, .tensor = {good}, .choices = 2, .among = {3, 0}},
       "choice 1 of the action is among 0"},
      {{.struct_bytes = 1, .num_tensors = 1, .tensor = {good}, .choices = 2, .among = {65536, 1}},
       "all together have at most 65536"},
  };
  check_spaces(table, sizeof(table) / sizeof(*table));
}

static void checks_masks(void **state) {
  (void)state;
  static const struct acorn_tensor good = {"x", ACORN_FLOAT32, 1, {3}},
                                   mask = {"action_mask", ACORN_UINT8, 1, {3}},
                                   wide_mask = {"action_mask", ACORN_INT32, 1, {3}};
  const struct space_case table[] = {
      {{.struct_bytes = 1, .num_tensors = 2, .tensor = {mask, good}, .discrete = 3}, NULL},
      {{.struct_bytes = 1, .num_tensors = 2, .tensor = {mask, good}, .discrete = 4},
       "'action_mask' is uint8[3], beside 1 others: a mask is uint8[4]"},
      {{.struct_bytes = 1, .num_tensors = 1, .tensor = {mask}, .discrete = 3},
       "beside at least one other"},
      {{.struct_bytes = 1, .num_tensors = 2, .tensor = {good, wide_mask}, .discrete = 3},
       "'action_mask' is int32[3]"},
      {{.struct_bytes = 1,
        .num_tensors = 1,
        .tensor = {wide_mask},
        .box = 1,
        .low = {0},
        .high = {1}},
       NULL},
  };
  check_spaces(table, sizeof(table) / sizeof(*table));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(finds_every_environment),
      cmocka_unit_test(names_the_nearest),
      cmocka_unit_test(names_the_nearest_of_all),
      cmocka_unit_test(reads_env_args),
      cmocka_unit_test(identifies_by_what_differs),
      cmocka_unit_test(a_long_one_ends_with_a_hash_of_the_whole),
      cmocka_unit_test(any_option_is_kept_where_it_may_be),
      cmocka_unit_test(a_member_that_an_older_plugin_lacks),
      cmocka_unit_test(leaves_out_a_default_that_is_written_out),
      cmocka_unit_test(checks_spaces),
      cmocka_unit_test(checks_choices),
      cmocka_unit_test(checks_masks),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
