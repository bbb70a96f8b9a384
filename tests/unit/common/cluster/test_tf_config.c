#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "common/cluster/tf_config.h"

#define CHIEF_CLUSTER                                                                 \
  "{'chief': ['c:1'], 'worker': ['w:1', 'w:2'], 'evaluator': ['e:1'], 'ps': ['p:1']," \
  " 'tpu_worker': 7}"
#define WORKER_CLUSTER "{'worker': ['a:1', 'b:1', 'c:1'], 'ps': ['a:2']}"
#define MIXED_CLUSTER "{'worker': ['w:1', 'w:2'], 'actor': ['a:1', 'a:2'], 'learner': ['l:1']}"
#define SPARSE_CLUSTER "{'worker': {'7': 'g:1', '0': 'a:1', '12': 'l:1', '2': 'b:1'}}"

// Single quotes keep the tables readable; JSON wants double ones.
static enum status parse(struct tf_config *config, const char *text, struct error *error) {
  char json[2048];
  assert_true(strlen(text) < sizeof json);
  strcpy(json, text);
  for (char *c = json; *c; c++) {
    if (*c == '\'') *c = '"';
  }
  return tf_config_parse(config, json, error);
}

struct expected {
  enum tf_role role;
  int index, num_actors, num_evaluators;
  const char *learner, *listen;
};

static void test_roles(void **state) {
  (void)state;
  static const struct {
    const char *cluster, *type;
    int index;
    struct expected expected;
  } rows[] = {
      // role, index, actors, evaluators, learner, listen
      {CHIEF_CLUSTER, "chief", 0, {TF_ROLE_LEARNER, 0, 2, 1, "c:1", "0.0.0.0:1"}},
      {CHIEF_CLUSTER, "worker", 0, {TF_ROLE_ACTOR, 0, 2, 1, "c:1", "0.0.0.0:1"}},
      {CHIEF_CLUSTER, "worker", 1, {TF_ROLE_ACTOR, 1, 2, 1, "c:1", "0.0.0.0:2"}},
      {CHIEF_CLUSTER, "evaluator", 0, {TF_ROLE_EVALUATOR, 0, 2, 1, "c:1", "0.0.0.0:1"}},
      {CHIEF_CLUSTER, "ps", 0, {TF_ROLE_PS, 0, 2, 1, "c:1", "0.0.0.0:1"}},
      {"{'master': ['m:5'], 'worker': ['w:1']}",
       "master",
       0,
       {TF_ROLE_LEARNER, 0, 1, 0, "m:5", "0.0.0.0:5"}},
      {WORKER_CLUSTER, "worker", 0, {TF_ROLE_LEARNER, 0, 2, 0, "a:1", "0.0.0.0:1"}},
      {WORKER_CLUSTER, "worker", 1, {TF_ROLE_ACTOR, 0, 2, 0, "a:1", "0.0.0.0:1"}},
      {WORKER_CLUSTER, "worker", 2, {TF_ROLE_ACTOR, 1, 2, 0, "a:1", "0.0.0.0:1"}},
      {WORKER_CLUSTER, "ps", 0, {TF_ROLE_PS, 0, 2, 0, "a:1", "0.0.0.0:2"}},
      {WORKER_CLUSTER, "evaluator", 3, {TF_ROLE_EVALUATOR, 3, 2, 0, "a:1", ""}},
      {MIXED_CLUSTER, "learner", 0, {TF_ROLE_LEARNER, 0, 4, 0, "l:1", "0.0.0.0:1"}},
      {MIXED_CLUSTER, "actor", 1, {TF_ROLE_ACTOR, 1, 4, 0, "l:1", "0.0.0.0:2"}},
      {MIXED_CLUSTER, "worker", 0, {TF_ROLE_ACTOR, 2, 4, 0, "l:1", "0.0.0.0:1"}},
      {SPARSE_CLUSTER, "worker", 0, {TF_ROLE_LEARNER, 0, 3, 0, "a:1", "0.0.0.0:1"}},
      {SPARSE_CLUSTER, "worker", 7, {TF_ROLE_ACTOR, 1, 3, 0, "a:1", "0.0.0.0:1"}},
      {SPARSE_CLUSTER, "worker", 12, {TF_ROLE_ACTOR, 2, 3, 0, "a:1", "0.0.0.0:1"}},
      {"{'chief': {'0': '[::1]:9'}}", "chief", 0, {TF_ROLE_LEARNER, 0, 0, 0, "[::1]:9", "[::]:9"}},
  };
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    char text[1024];
    snprintf(text, sizeof text,
             "{'cluster': %s, 'task': {'type': '%s', 'index': %d, 'trial': 'x'}, 'environment': "
             "'cloud'}",
             rows[i].cluster, rows[i].type, rows[i].index);
    struct tf_config config;
    struct error error = {""};
    const struct expected *expected = &rows[i].expected;
    if (parse(&config, text, &error) != STATUS_OK) fail_msg("row %zu: %s", i, error.text);
    if (config.role != expected->role || config.index != expected->index) {
      fail_msg("row %zu: %s %d", i, tf_role_name(config.role), config.index);
    }
    assert_int_equal(config.num_actors, expected->num_actors);
    assert_int_equal(config.num_evaluators, expected->num_evaluators);
    assert_string_equal(config.learner, expected->learner);
    assert_string_equal(config.listen, expected->listen);
    assert_int_equal(config.num_learners, 1);
  }
}

static void test_refused(void **state) {
  (void)state;
#define TASK(type, index) "'task': {'type': '" type "', 'index': " index "}"
  static const struct {
    const char *text;
    enum status status;
    const char *why;
  } rows[] = {
      {"", STATUS_INVALID, "not JSON: line 1"},
      {"{\n'cluster': {\n'chief': [}", STATUS_INVALID, "not JSON: line 3"},
      {"{'cluster': {}, 'cluster': {}}", STATUS_INVALID, "not JSON: line 1"},
      {"[]", STATUS_INVALID, "no \"cluster\""},
      {"{" TASK("worker", "0") "}", STATUS_INVALID, "no \"cluster\""},
      {"{'cluster': " WORKER_CLUSTER "}", STATUS_INVALID, "no \"task\""},
      {"{'cluster': " WORKER_CLUSTER ", 'task': {'index': 0}}", STATUS_INVALID,
       "task.type is missing"},
      {"{'cluster': " WORKER_CLUSTER ", 'task': {'type': 'worker'}}", STATUS_INVALID,
       "task.index is missing"},
      {"{'cluster': " WORKER_CLUSTER ", " TASK("worker", "'0'") "}", STATUS_INVALID,
       "not a whole number"},
      {"{'cluster': " WORKER_CLUSTER ", " TASK("worker", "1.5") "}", STATUS_INVALID,
       "not a whole number"},
      {"{'cluster': " WORKER_CLUSTER ", " TASK("boss", "0") "}", STATUS_INVALID,
       "'boss' is unknown; it is one of"},
      {"{'cluster': " WORKER_CLUSTER ", " TASK("worker", "3") "}", STATUS_INVALID,
       "3 is out of range: the cluster has 3 tasks"},
      {"{'cluster': " WORKER_CLUSTER ", " TASK("worker", "-1") "}", STATUS_INVALID,
       "-1 is out of range"},
      {"{'cluster': " WORKER_CLUSTER ", " TASK("worker", "4294967296") "}", STATUS_INVALID,
       "out of range"},
      {"{'cluster': " WORKER_CLUSTER ", " TASK("chief", "0") "}", STATUS_INVALID,
       "has 0 tasks of type chief"},
      {"{'cluster': " CHIEF_CLUSTER ", " TASK("evaluator", "1") "}", STATUS_INVALID,
       "1 is out of range"},
      {"{'cluster': " SPARSE_CLUSTER ", " TASK("worker", "1") "}", STATUS_INVALID,
       "1 is out of range"},
      {"{'cluster': {'worker': ['a:1', 'b:1', 'A:1']}, " TASK("worker", "0") "}", STATUS_INVALID,
       "have the same address"},
      {"{'cluster': {'chief': ['a:1'], 'ps': ['a:1']}, " TASK("ps", "0") "}", STATUS_INVALID,
       "chief 0 and ps 0 have the same"},
      {"{'cluster': {'worker': ['a:1', 'b']}, " TASK("worker", "0") "}", STATUS_INVALID,
       "worker 1 of the cluster: address 'b' has no port"},
      {"{'cluster': {'worker': ['a:1', 5]}, " TASK("worker", "0") "}", STATUS_INVALID,
       "worker 1 of the cluster is not a string"},
      {"{'cluster': {'worker': 'a:1'}, " TASK("worker", "0") "}", STATUS_INVALID, "neither a list"},
      {"{'cluster': {'worker': {'x': 'a:1'}}, " TASK("worker", "0") "}", STATUS_INVALID,
       "'x' is not the index"},
      {"{'cluster': {'worker': {'01': 'a:1'}}, " TASK("worker", "0") "}", STATUS_INVALID,
       "'01' is not the index"},
      {"{'cluster': {'worker': {'5000000000': 'a:1'}}, " TASK("worker", "0") "}", STATUS_INVALID,
       "is not the index"},
      {"{'cluster': {'actor': ['a:1']}, " TASK("actor", "0") "}", STATUS_INVALID,
       "the cluster has no learner"},
      {"{'cluster': {'worker': {'1': 'a:1'}}, " TASK("worker", "1") "}", STATUS_INVALID,
       "the cluster has no learner"},
  };
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    struct tf_config config;
    struct error error = {""};
    assert_int_equal(parse(&config, rows[i].text, &error), rows[i].status);
    if (strncmp(error.text, "TF_CONFIG", 9) != 0 || !strstr(error.text, rows[i].why)) {
      fail_msg("row %zu: %s", i, error.text);
    }
  }
}

// A chief is the first, whatever the order in the text.
static void test_several_learners(void **state) {
  (void)state;
  static const struct {
    const char *type, *listen;
    int index, rank;
    enum tf_role role;
  } rows[] = {{"chief", "0.0.0.0:1", 0, 0, TF_ROLE_LEARNER},
              {"learner", "0.0.0.0:2", 0, 1, TF_ROLE_LEARNER},
              {"learner", "0.0.0.0:3", 1, 2, TF_ROLE_LEARNER},
              {"worker", "0.0.0.0:4", 0, 0, TF_ROLE_ACTOR}};
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    struct tf_config config;
    struct error error = {""};
    char text[256];
    snprintf(text, sizeof text,
             "{'cluster': {'learner': ['a:2', 'b:3'], 'chief': ['c:1'], 'worker': ['w:4']},"
             " 'task': {'type': '%s', 'index': %d}}",
             rows[i].type, rows[i].index);
    assert_int_equal(parse(&config, text, &error), STATUS_OK);
    assert_int_equal(config.role, rows[i].role);
    assert_int_equal(config.index, rows[i].rank);
    assert_string_equal(config.listen, rows[i].listen);
    assert_int_equal(config.num_learners, 3);
    assert_string_equal(config.learner, "c:1");
    assert_string_equal(config.learners[0], "c:1");
    assert_string_equal(config.learners[2], "b:3");
  }
}

static void test_too_many_learners(void **state) {
  (void)state;
  char text[2048] = "{'cluster': {'learner': [";
  for (int i = 0; i <= TF_MAX_LEARNERS; i++)
    snprintf(text + strlen(text), sizeof text - strlen(text), "%s'a:%d'", i ? "," : "", i + 1);
  strcat(text, "]}, 'task': {'type': 'learner', 'index': 0}}");
  struct tf_config config;
  struct error error = {""};
  assert_int_equal(parse(&config, text, &error), STATUS_INVALID);
  assert_non_null(strstr(error.text, "has 65 learners"));
}

// Same port on two hosts, and two ports on one host, are different addresses.
static void test_distinct_addresses(void **state) {
  (void)state;
  struct tf_config config;
  struct error error = {""};
  assert_int_equal(
      parse(&config,
            "{'cluster': {'worker': ['machine-a.example.com:2222', 'machine-b.example.com:2222'],"
            " 'ps': ['machine-a.example.com:2221']}, 'task': {'type': 'worker', 'index': 1}}",
            &error),
      STATUS_OK);
  assert_int_equal(config.role, TF_ROLE_ACTOR);
  assert_string_equal(config.learner, "machine-a.example.com:2222");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_roles),
      cmocka_unit_test(test_refused),
      cmocka_unit_test(test_several_learners),
      cmocka_unit_test(test_too_many_learners),
      cmocka_unit_test(test_distinct_addresses),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
