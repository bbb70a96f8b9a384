#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/cluster/platform.h"

#define TF                                                        \
  "{\"cluster\": {\"chief\": [\"c:1\"], \"worker\": [\"w:2\"]}, " \
  "\"task\": {\"type\": \"worker\", \"index\": 0}}"
#define SPEC(pool, index)                                                                   \
  "{\"cluster\": {\"workerpool0\": [\"p0:1\"], \"workerpool1\": [\"p1:1\", \"p1:2\"], "     \
  "\"workerpool2\": [\"p2:1\"], \"workerpool3\": [\"p3:1\"]}, \"task\": {\"type\": \"" pool \
  "\", "                                                                                    \
  "\"index\": " index ", \"trial\": \"1\"}, \"job\": \"{}\"}"
#define HOSTS "[\"algo-2\", \"algo-1\", \"algo-3\"]"
#define RESOURCES "{\"current_host\": \"algo-3\", \"hosts\": " HOSTS "}"

static void the_first_that_is_set_decides(void **state) {
  (void)state;
  static const struct {
    struct platform_words words;
    const char *source;
    enum tf_role role;
    int index;
    const char *learner;
  } rows[] = {
      {{.tf_config = TF, .cluster_spec = SPEC("workerpool0", "0"), .sm_resource_config = RESOURCES},
       "TF_CONFIG",
       TF_ROLE_ACTOR,
       0,
       "c:1"},
      {{.tf_config = "", .cluster_spec = SPEC("workerpool0", "0"), .sm_hosts = HOSTS},
       "CLUSTER_SPEC",
       TF_ROLE_LEARNER,
       0,
       "p0:1"},
      {{.cluster_spec = SPEC("workerpool1", "1")}, "CLUSTER_SPEC", TF_ROLE_ACTOR, 1, "p0:1"},
      {{.cluster_spec = SPEC("workerpool2", "0")}, "CLUSTER_SPEC", TF_ROLE_PS, 0, "p0:1"},
      {{.cluster_spec = SPEC("workerpool3", "0")}, "CLUSTER_SPEC", TF_ROLE_EVALUATOR, 0, "p0:1"},
      {{.sm_resource_config = RESOURCES, .sm_hosts = "x"},
       "SageMaker",
       TF_ROLE_ACTOR,
       1,
       "algo-1:77"},
      {{.sm_hosts = HOSTS, .sm_current_host = "algo-1"},
       "SageMaker",
       TF_ROLE_LEARNER,
       0,
       "algo-1:77"},
      {{.sm_hosts = HOSTS, .sm_current_host = "algo-2"},
       "SageMaker",
       TF_ROLE_ACTOR,
       0,
       "algo-1:77"},
      {{.task = "learner", .learner = "a-0.b", .workers = "0", .tf_config = TF},
       "ACORN_TASK",
       TF_ROLE_LEARNER,
       0,
       "a-0.b:77"},
      {{.task = "3", .learner = "a:5", .workers = "4"}, "ACORN_TASK", TF_ROLE_ACTOR, 3, "a:5"},
      {{.task = "0", .learner = "[::1]", .workers = "1"},
       "ACORN_TASK",
       TF_ROLE_ACTOR,
       0,
       "[::1]:77"},
  };
  for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
    struct tf_config config;
    struct error error = {""};
    const char *source;
    if (platform_find(&config, &source, &rows[i].words, 77, &error) != STATUS_OK)
      fail_msg("row %zu: %s", i, error.text);
    assert_string_equal(source, rows[i].source);
    assert_int_equal(config.role, rows[i].role);
    assert_int_equal(config.index, rows[i].index);
    assert_string_equal(config.learner, rows[i].learner);
  }
}

static void mistakes_name_the_variable(void **state) {
  (void)state;
  static const struct {
    struct platform_words words;
    enum status status;
    const char *sentence;
  } rows[] = {
      {{.tf_config = NULL}, STATUS_NOT_FOUND, "no platform's variables describe this task"},
      {{.sm_resource_file = "/nowhere"}, STATUS_NOT_FOUND, "no platform"},
      {{.task = "0", .learner = "a"}, STATUS_INVALID, "ACORN_WORKERS, how many tasks"},
      {{.task = "0", .learner = "a", .workers = "4x"}, STATUS_INVALID, "is '4x': a whole number"},
      {{.task = "0", .learner = "a", .workers = "70000"}, STATUS_INVALID, "from 0 to 65536"},
      {{.task = "0", .workers = "1"}, STATUS_INVALID, "ACORN_LEARNER, the learner's HOST"},
      {{.task = "0", .learner = "a b", .workers = "1"},
       STATUS_INVALID,
       "is 'a b': address 'a b:77'"},
      {{.task = "4", .learner = "a", .workers = "4"}, STATUS_INVALID, "ACORN_WORKERS - 1 = 3"},
      {{.task = "actor", .learner = "a", .workers = "4"}, STATUS_INVALID, "ACORN_TASK is 'actor'"},
      {{.task = "learner-2", .learner = "a,b", .workers = "4"},
       STATUS_INVALID,
       "ACORN_TASK is 'learner-2': \"learner\" (one of 2"},
      {{.task = "learner-", .learner = "a,b", .workers = "4"}, STATUS_INVALID, "'learner-'"},
      {{.task = "learner", .learner = "a,b,a:77", .workers = "4"},
       STATUS_INVALID,
       "ACORN_LEARNER: learners 0 and 2 have the same address a:77"},
      {{.task = "learner", .learner = "a,", .workers = "4"}, STATUS_INVALID, "is '': address"},
      {{.tf_config = "{"}, STATUS_INVALID, "TF_CONFIG is not JSON: line 1"},
      {{.cluster_spec = "{"}, STATUS_INVALID, "CLUSTER_SPEC is not JSON: line 1"},
      {{.cluster_spec = SPEC("workerpool1", "7")},
       STATUS_INVALID,
       "CLUSTER_SPEC: task.index 7 is out of range"},
      {{.sm_resource_config = "["}, STATUS_INVALID, "SM_RESOURCE_CONFIG is not JSON"},
      {{.sm_resource_config = "[]"}, STATUS_INVALID, "SageMaker: the hosts are not a list"},
      {{.sm_resource_config = "{\"hosts\": []}"}, STATUS_INVALID, "are not a list of names"},
      {{.sm_hosts = "algo-1"}, STATUS_INVALID, "SM_HOSTS is not JSON"},
      {{.sm_hosts = HOSTS}, STATUS_INVALID, "is '', which is not among the hosts"},
      {{.sm_hosts = "[\"algo-1\", 5]", .sm_current_host = "algo-1"},
       STATUS_INVALID,
       "the hosts are not a list of names"},
      {{.sm_hosts = "[\"a b\"]", .sm_current_host = "a b"},
       STATUS_INVALID,
       "SageMaker: address 'a b:77'"},
      {{.sm_hosts = "[\"a\", \"a\"]", .sm_current_host = "a"},
       STATUS_INVALID,
       "have the same name a"},
  };
  for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
    struct tf_config config;
    struct error error = {""};
    const char *source;
    assert_int_equal(platform_find(&config, &source, &rows[i].words, 77, &error), rows[i].status);
    if (!strstr(error.text, rows[i].sentence)) fail_msg("row %zu says: %s", i, error.text);
  }
}

static void a_learner_listens_on_its_port(void **state) {
  (void)state;
  const struct platform_words words = {.task = "learner", .learner = "a:5", .workers = "3"};
  struct tf_config config;
  struct error error = {""};
  const char *source;
  assert_int_equal(platform_find(&config, &source, &words, 77, &error), STATUS_OK);
  assert_string_equal(config.listen, "0.0.0.0:5");
  assert_int_equal(config.num_actors, 3);
}

static void each_of_several_learners_listens_on_its_own(void **state) {
  (void)state;
  const struct platform_words words = {
      .task = "learner-1", .learner = "a:5,[::1],c", .workers = "3"};
  struct tf_config config;
  struct error error = {""};
  const char *source;
  assert_int_equal(platform_find(&config, &source, &words, 77, &error), STATUS_OK);
  assert_int_equal(config.role, TF_ROLE_LEARNER);
  assert_int_equal(config.index, 1);
  assert_int_equal(config.num_learners, 3);
  assert_string_equal(config.listen, "[::]:77");
  assert_string_equal(config.learner, "a:5");
  assert_string_equal(config.learners[2], "c:77");
}

static void sagemakers_file_is_read_last(void **state) {
  (void)state;
  char path[] = "/tmp/platform-XXXXXX";
  int file = mkstemp(path);
  assert_int_equal(write(file, RESOURCES, strlen(RESOURCES)), strlen(RESOURCES));
  close(file);
  struct platform_words words = {.sm_resource_file = path};
  struct tf_config config;
  struct error error = {""};
  const char *source;
  assert_int_equal(platform_find(&config, &source, &words, 77, &error), STATUS_OK);
  assert_int_equal(config.role, TF_ROLE_ACTOR);
  assert_int_equal(config.num_actors, 2);
  unlink(path);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_first_that_is_set_decides),
      cmocka_unit_test(mistakes_name_the_variable),
      cmocka_unit_test(a_learner_listens_on_its_port),
      cmocka_unit_test(each_of_several_learners_listens_on_its_own),
      cmocka_unit_test(sagemakers_file_is_read_last),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
