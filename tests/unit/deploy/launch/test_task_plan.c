/* Which evaluators the tasks of a cluster run; roles, numbers and addresses are those of the
 * integration tests. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "deploy/launch/task_plan.h"
#include "learner/learn/algorithms.h"

#define LEARNER "\"chief\": [\"c:1\"]"
#define WORKERS LEARNER ", \"worker\": [\"w0:1\", \"w1:1\"]"
#define EVALUATORS WORKERS ", \"evaluator\": [\"e0:1\", \"e1:1\"]"

static struct plan *plan;
static struct error error;

/* The plan of one task; words end with NULL. It lives as long as the program, as words do. */
static enum status make(const char *agent, const char *cluster, const char *type, ...) {
  char *argv[16] = {(char *)"run_task", (char *)"cartpole", (char *)agent}, text[512];
  int argc = 3;
  va_list words;
  va_start(words, type);
  for (const char *word; (word = va_arg(words, const char *));) argv[argc++] = (char *)word;
  va_end(words);
  snprintf(text, sizeof(text), "{\"cluster\": {%s}, \"task\": {\"type\": \"%s\", \"index\": 0}}",
           cluster, type);
  setenv("TF_CONFIG", text, 1);
  static struct task_plan plans[64];
  static int num_plans;
  assert_true(num_plans < 64);
  struct task_plan *task = &plans[num_plans++];
  plan = &task->plan;
  enum status status = plan_parse(plan, &task_form, argc, argv, &error);
  return status == STATUS_OK ? task_plan_make(task, &error) : status;
}

static bool has(char *const *command, const char *word) {
  for (int i = 1; command[i]; i++)
    if (strcmp(command[i], word) == 0) return true;
  return false;
}

/* The last word of an option, which counts. */
static const char *last(char *const *command, const char *option) {
  const char *value = "";
  for (int i = 1; command[i]; i++)
    if (strncmp(command[i], option, strlen(option)) == 0) value = command[i] + strlen(option);
  return value;
}

/* Of every agent, on the learner's task and no other. */
static void those_that_suit_the_agent_are_beside_the_learner(void **state) {
  (void)state;
  static const struct {
    const char *name;
    int evaluators;
  } agents[] = {
#define AGENT(name, algorithm, policy, network, pace, evaluators, options, help) \
  {#name, evaluators},
      ALGORITHMS(AGENT)
#undef AGENT
  };
  for (size_t i = 0; i < sizeof(agents) / sizeof(agents[0]); i++) {
    assert_int_equal(make(agents[i].name, WORKERS, "chief", NULL), STATUS_OK);
    assert_int_equal(plan->part.num_evaluators, agents[i].evaluators);
    assert_true(plan->run.actors_elsewhere);
    assert_int_equal(make(agents[i].name, WORKERS, "worker", NULL), STATUS_OK);
    assert_int_equal(plan->part.num_evaluators, 0);
    assert_false(plan->run.actors_elsewhere);
    assert_int_equal(make(agents[i].name, EVALUATORS, "chief", NULL), STATUS_OK);
    assert_int_equal(plan->part.num_evaluators, 0);
  }
}

static void they_come_after_the_actors(void **state) {
  (void)state;
  assert_int_equal(make("vtrace", LEARNER, "chief", "--evaluators=2", "--actors_per_worker=3",
                        "--eval_envs=5", "--name=mine", NULL),
                   STATUS_OK);
  assert_int_equal(plan->part.num_actors, 3);
  assert_int_equal(plan->part.num_evaluators, 2);
  assert_false(plan->run.actors_elsewhere);
  assert_string_equal(last(plan->run.actors[2], "--task="), "2");
  assert_false(has(plan->run.actors[2], "--role=eval"));
  for (int i = 0; i < 2; i++) {
    char *const *command = plan->run.actors[3 + i];
    assert_string_equal(last(command, "--task="), i ? "1" : "0");
    assert_string_equal(last(command, "--envs="), "5");
    assert_string_equal(last(command, "--role="), "eval");
    assert_string_equal(last(command, "--name="), "learner-evaluator");
    assert_string_equal(last(command, "--learner="), "127.0.0.1:1");
  }
  assert_true(has(plan->run.learner, "--num_envs=48"));
  assert_true(has(plan->run.learner, "--over=eval"));
  assert_string_equal(last(plan->run.learner, "--num_eval_envs="), ""); /* 10 of 16 */
}

static void there_is_room_for_those_of_the_cluster_too(void **state) {
  (void)state;
  assert_int_equal(make("vtrace", EVALUATORS, "chief", "--evaluators=2", "--eval_envs=5", NULL),
                   STATUS_OK);
  assert_true(has(plan->run.learner, "--num_eval_envs=20"));
  assert_int_equal(make("vtrace", EVALUATORS, "chief", "--eval_envs=10", NULL), STATUS_OK);
  assert_true(has(plan->run.learner, "--num_eval_envs=20"));
  assert_false(has(plan->run.learner, "--over=eval"));
  assert_int_equal(plan->part.num_evaluators, 0);
}

static void an_evaluator_task_is_one(void **state) {
  (void)state;
  assert_int_equal(make("vtrace", EVALUATORS, "evaluator", "--evaluators=2", NULL), STATUS_OK);
  assert_int_equal(plan->part.num_actors, 1);
  assert_int_equal(plan->part.num_evaluators, 0);
  assert_string_equal(last(plan->run.actors[0], "--name="), "evaluator");
}

/* A learner's host has its own actors; evaluators and the rest are the first one's. */
static void each_of_several_learners_has_its_host(void **state) {
  (void)state;
  static const char cluster[] = "\"chief\": [\"c:1\"], \"learner\": [\"l:2\"]";
  assert_int_equal(make("vtrace", cluster, "chief", "--evaluators=1", "--logdir=x", NULL),
                   STATUS_OK);
  assert_int_equal(plan->part.num_evaluators, 1);
  assert_string_equal(last(plan->run.actors[1], "--learner="), "127.0.0.1:1");
  assert_string_equal(last(plan->run.learner, "--logdir="), "x");
  assert_string_equal(last(plan->run.learner, "--learner_rank="), "0");
  assert_int_equal(make("vtrace", cluster, "learner", "--evaluators=1", "--logdir=x", NULL),
                   STATUS_OK);
  assert_int_equal(plan->part.num_evaluators, 0);
  assert_string_equal(last(plan->run.actors[0], "--task="), "1");
  assert_string_equal(last(plan->run.actors[0], "--learner="), "127.0.0.1:2");
  assert_string_equal(last(plan->run.learner, "--logdir="), "x/learner-1");
  assert_string_equal(last(plan->run.learner, "--learners_at="), "c:65,l:66");
  assert_int_equal(make("vtrace", cluster, "learner", "--learners=3", NULL), STATUS_INVALID);
  assert_non_null(strstr(error.text, "--learners=3, and TF_CONFIG has 2 learners"));
}

static void several_learners_that_cannot_be_are_refused(void **state) {
  (void)state;
  static const struct {
    const char *cluster, *word, *says;
  } cases[] = {
      {"\"learner\": [\"a:1\", \"b:1\"]", NULL, "there is no --logdir: give all tasks the same"},
      {"\"learner\": [\"a:1\", \"b:65472\"]", "--logdir=x", "learner 1 is at b:65472, and waits"},
      {"\"learner\": [\"a:1\", \"b:1\"]", "--mode=evaluate", "one learner plays; name one"},
  };
  for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
    assert_int_equal(make("vtrace", cases[i].cluster, "learner", cases[i].word, NULL),
                     STATUS_INVALID);
    assert_non_null(strstr(error.text, cases[i].says));
  }
  assert_int_equal(
      make("vtrace", "\"learner\": [\"a:1\", \"b:65471\"]", "learner", "--logdir=x", NULL),
      STATUS_OK);
}

/* Learners of one host; those of several have a port each. */
static void too_few_ports_are_refused(void **state) {
  (void)state;
  assert_int_equal(make("vtrace", "\"chief\": [\"c:65535\"]", "chief", NULL), STATUS_OK);
  assert_int_equal(make("vtrace", "\"chief\": [\"c:65535\"]", "chief", "--learners=2",
                        "--actors_per_worker=2", NULL),
                   STATUS_INVALID);
  assert_non_null(strstr(error.text, "there is none above 65535"));
  assert_int_equal(make("vtrace", "\"chief\": [\"c:65534\"]", "chief", "--learners=2",
                        "--actors_per_worker=2", NULL),
                   STATUS_OK);
}

static void too_little_room_is_refused(void **state) {
  (void)state;
  assert_int_equal(make("vtrace", EVALUATORS, "chief", "--evaluators=2", "--eval_envs=5",
                        "--num_eval_envs=19", NULL),
                   STATUS_INVALID);
  assert_non_null(strstr(error.text, "--num_eval_envs=19 is less than the 20 environments of 4"));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(those_that_suit_the_agent_are_beside_the_learner),
      cmocka_unit_test(they_come_after_the_actors),
      cmocka_unit_test(there_is_room_for_those_of_the_cluster_too),
      cmocka_unit_test(an_evaluator_task_is_one),
      cmocka_unit_test(each_of_several_learners_has_its_host),
      cmocka_unit_test(several_learners_that_cannot_be_are_refused),
      cmocka_unit_test(too_few_ports_are_refused),
      cmocka_unit_test(too_little_room_is_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
