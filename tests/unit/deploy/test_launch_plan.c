/* What words of run_local.sh come to; those of each option are the integration tests'. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/base/log.h"
#include "deploy/launch_plan.h"
#include "learner/algorithms.h"

/* One for each test: words live as long as the program, and so does what holds them. */
static struct launch_plan plans[32], *plan;
static int num_plans;
static const char *agent = "vtrace";
static struct error error;

/* The words after "cartpole AGENT 2"; NULL ends them. */
static enum status parse(const char *first, ...) {
  char *argv[16] = {(char *)"run_local", (char *)"cartpole", (char *)agent, (char *)"2"};
  int argc = 4;
  va_list words;
  va_start(words, first);
  for (const char *word = first; word; word = va_arg(words, const char *))
    argv[argc++] = (char *)word;
  va_end(words);
  assert_in_range(num_plans, 0, sizeof(plans) / sizeof(plans[0]) - 1);
  plan = &plans[num_plans++];
  return launch_plan_parse(plan, argc, argv, &error);
}

static bool learner_gets(const char *word) {
  for (int i = 1; i < plan->arguments.learner.count; i++)
    if (strcmp(plan->arguments.learner.word[i], word) == 0) return true;
  return false;
}

static int setup(void **state) {
  (void)state;
  log_init("test", LOG_ERROR);
  return 0;
}

static int teardown(void **state) {
  (void)state;
  free(plan->env_word);
  options_deinit(&launch_options_table, &plan->own);
  options_deinit(&learner_options_table, &plan->learner);
  options_deinit(&actor_options_table, &plan->actor);
  return 0;
}

static void an_environment_says_how_many_suit_an_actor(void **state) {
  (void)state;
  assert_int_equal(parse(NULL, NULL), STATUS_OK);
  assert_string_equal(plan->env->name, "cartpole");
  assert_int_equal(plan->envs_per_actor, learner_default_envs_per_actor("cartpole"));
  assert_false(plan->evaluates);
  assert_string_equal(plan->run_folder, "");
}

static void the_learner_gets_room_for_evaluators(void **state) {
  (void)state;
  assert_int_equal(parse("8", "--evaluators=3", NULL), STATUS_OK);
  assert_true(learner_gets("--num_eval_envs=24"));
  assert_true(learner_gets("--over=eval"));
}

static void too_little_room_for_evaluators_is_refused(void **state) {
  (void)state;
  assert_int_equal(parse("8", "--evaluators=3", "--num_eval_envs=23", NULL), STATUS_INVALID);
  assert_non_null(strstr(error.text, "24 environments of 3 evaluators"));
}

static void every_agent_has_the_evaluators_that_suit_it(void **state) {
  static const struct {
    const char *name;
    int evaluators;
  } agents[] = {
#define AGENT(name, algorithm, policy, network, pace, evaluators, help) {#name, evaluators},
      ALGORITHMS(AGENT)
#undef AGENT
  };
  for (size_t i = 0; i < sizeof(agents) / sizeof(agents[0]); i++) {
    agent = agents[i].name;
    assert_int_equal(parse(NULL, NULL), STATUS_OK);
    assert_int_equal(plan->own.evaluators, agents[i].evaluators);
    assert_true(learner_gets("--over=eval") == (agents[i].evaluators > 0));
    teardown(state);
  }
  agent = "vtrace";
  assert_int_equal(parse("--evaluators=0", NULL), STATUS_OK);
  assert_int_equal(plan->own.evaluators, 0);
}

static void an_evaluator_has_as_many_environments_as_an_actor(void **state) {
  (void)state;
  assert_int_equal(parse("6", "--evaluators=1", "--deterministic", NULL), STATUS_OK);
  assert_int_equal(plan->own.evaluators, 1);
  assert_int_equal(plan->own.eval_envs, 6);
}

static void an_evaluation_has_no_evaluators(void **state) {
  (void)state;
  assert_int_equal(parse("--mode=evaluate", "--evaluators=1", NULL), STATUS_INVALID);
  assert_non_null(strstr(error.text, "--evaluators belong to a run that trains"));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_teardown(an_environment_says_how_many_suit_an_actor, teardown),
      cmocka_unit_test_teardown(the_learner_gets_room_for_evaluators, teardown),
      cmocka_unit_test_teardown(too_little_room_for_evaluators_is_refused, teardown),
      cmocka_unit_test_teardown(every_agent_has_the_evaluators_that_suit_it, teardown),
      cmocka_unit_test_teardown(an_evaluator_has_as_many_environments_as_an_actor, teardown),
      cmocka_unit_test_teardown(an_evaluation_has_no_evaluators, teardown),
  };
  return cmocka_run_group_tests(tests, setup, NULL);
}
