// What the actor takes from TF_CONFIG, and what it does not.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "actor/options.h"

#define CLUSTER                                                                            \
  "{\"cluster\": {\"chief\": [\"a:2222\"], \"worker\": [\"b:2222\", \"c:2222\"], \"ps\": " \
  "[\"d:1\"]}, \"task\": "

#define SEVERAL                                                                                    \
  "{\"cluster\": {\"chief\": [\"a:2222\"], \"learner\": [\"d:2222\"], \"worker\": [\"b:2222\"]}, " \
  "\"task\": "

static const struct {
  const char *argument; // of the command line, or NULL
  const char *json;
  const char *learner, *name, *role;
  int task;
  const char *words; // of the error, or NULL
} cases[] = {
    {NULL, NULL, "127.0.0.1:8686", "actor", "train", 0, NULL},
    {NULL, "", "127.0.0.1:8686", "actor", "train", 0, NULL},
    {NULL, CLUSTER "{\"type\": \"worker\", \"index\": 1}}", "a:2222", "actor", "train", 1, NULL},
    {"--task=7", CLUSTER "{\"type\": \"worker\", \"index\": 1}}", "a:2222", "actor", "train", 7,
     NULL},
    {NULL, CLUSTER "{\"type\": \"evaluator\", \"index\": 0}}", "a:2222", "evaluator", "eval", 0,
     NULL},
    {"--learner=x:1", CLUSTER "{\"type\": \"chief\", \"index\": 0}}", "x:1", "actor", "train", 0,
     NULL},
    {NULL, CLUSTER "{\"type\": \"chief\", \"index\": 0}}", NULL, NULL, NULL, 0,
     "learner 0, but this program is the actor: run build/learner"},
    {NULL, CLUSTER "{\"type\": \"ps\", \"index\": 0}}", NULL, NULL, NULL, 0,
     "ps 0, but this program is the actor"},
    {NULL, SEVERAL "{\"type\": \"worker\", \"index\": 0}}", NULL, NULL, NULL, 0,
     "TF_CONFIG has 2 learners"},
    {"--learner=x:1", SEVERAL "{\"type\": \"worker\", \"index\": 0}}", "x:1", "actor", "train", 0,
     NULL},
    {NULL, SEVERAL "{\"type\": \"evaluator\", \"index\": 0}}", "a:2222", "evaluator", "eval", 0,
     NULL},
    {NULL, CLUSTER "{\"type\": \"worker\", \"index\": 9}}", NULL, NULL, NULL, 0, "TF_CONFIG"},
    {NULL, "{", NULL, NULL, NULL, 0, "TF_CONFIG"},
};

static void tf_config_fills_the_gaps(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
    struct actor_options options;
    struct error error = {""};
    char *argv[] = {"actor", (char *)cases[i].argument};
    options_init(&actor_options_table, &options);
    assert_int_equal(options_parse(&actor_options_table, &options, cases[i].argument ? 2 : 1, argv,
                                   NULL, NULL, &error),
                     STATUS_OK);
    enum status status = actor_options_apply_tf_config(&options, cases[i].json, &error);
    if (cases[i].words) {
      assert_int_not_equal(status, STATUS_OK);
      assert_non_null(strstr(error.text, cases[i].words));
    } else {
      assert_int_equal(status, STATUS_OK);
      assert_string_equal(options.learner, cases[i].learner);
      assert_string_equal(options.name, cases[i].name);
      assert_string_equal(options.role, cases[i].role);
      assert_int_equal(options.task, cases[i].task);
    }
    options_deinit(&actor_options_table, &options);
  }
}

static void a_learner_needs_an_address(void **state) {
  (void)state;
  static const struct {
    const char *learner, *words; // of the error, or NULL
  } addresses[] = {
      {"127.0.0.1:8686", NULL},      {"machine-a:1", NULL},
      {"[::1]:8686", NULL},          {"unix:/tmp/x", NULL},
      {"nonsense", "has no port"},   {"", "has no port"},
      {"host:0", "not in 1..65535"}, {"host:port", "not in 1..65535"},
      {"unix:", "path is missing"},
  };
  for (size_t i = 0; i < sizeof(addresses) / sizeof(*addresses); i++) {
    struct actor_options options = {.learner = (char *)addresses[i].learner};
    struct error error = {""};
    enum status status = actor_options_check_learner(&options, &error);
    assert_int_equal(status, addresses[i].words ? STATUS_INVALID : STATUS_OK);
    if (!addresses[i].words) continue;
    assert_non_null(strstr(error.text, addresses[i].words));
    assert_non_null(strstr(error.text, "for example --learner=10.0.0.1:8686"));
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(tf_config_fills_the_gaps),
                                     cmocka_unit_test(a_learner_needs_an_address)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
