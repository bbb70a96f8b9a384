/* What the words of a launcher come to; those of each option are the integration tests'. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/base/log.h"
#include "deploy/launch/plan.h"
#include "learner/learn/algorithms.h"

static const struct reserved_flag none[] = {{NULL, NULL}};
static const struct arguments_form form = {
    .counts_actors = true, .reserved = none, .own = &launch_options_table};

/* One for each case: words live as long as the program, and so does what holds them. */
static struct plan plans[96], *plan;
static int num_plans;
static struct error error;
static char folder[] = "/tmp/acorn-unit-XXXXXX", logdir[64];

/* Splits the words at blanks, as a shell would; options in `more` may hold blanks. */
static enum status parse_with(const char *line, const char *more) {
  char *argv[24] = {(char *)"run_local"}, *copy = strdup(line);
  int argc = 1;
  for (char *at = strtok(copy, " "); at; at = strtok(NULL, " ")) argv[argc++] = at;
  if (more) argv[argc++] = (char *)more;
  assert_in_range(num_plans, 0, sizeof(plans) / sizeof(plans[0]) - 1);
  plan = &plans[num_plans++];
  error.text[0] = '\0';
  enum status status = plan_parse(plan, &form, argc, argv, &error);
  if (status != STATUS_OK) return status;
  plan->part = (struct plan_part){.has_learner = true,
                                  .num_actors = plan->arguments.num_actors,
                                  .envs_per_actor = plan->arguments.envs_per_actor,
                                  .listen = "unix:/there",
                                  .learner = "unix:/there",
                                  .evaluator_name = "evaluator"};
  return plan_size(plan, plan->part.num_actors, &error);
}

static enum status parse(const char *line) {
  return parse_with(line, NULL);
}

static void refused(const char *line, const char *sentence) {
  if (parse(line) == STATUS_OK || !strstr(error.text, sentence))
    fail_msg("'%s' says '%s', not '%s'", line, error.text, sentence);
}

static bool has(char *const *command, const char *word) {
  for (int i = 1; command[i]; i++)
    if (strcmp(command[i], word) == 0) return true;
  return false;
}

static bool learner_gets(const char *word) {
  if (!plan->run.learner) plan_commands(plan);
  return has(plan->run.learner, word);
}

static int setup(void **state) {
  (void)state;
  log_init("test", LOG_ERROR);
  if (!mkdtemp(folder)) return -1;
  snprintf(logdir, sizeof(logdir), "--logdir=%s", folder);
  return 0;
}

static int teardown(void **state) {
  (void)state;
  return rmdir(folder);
}

/* ---- words */

static void swapped_words_are_named(void **state) {
  (void)state;
  refused("vtrace cartpole 3",
          "the order is ENV AGENT NUM_ACTORS [ENVS_PER_ACTOR]: "
          "./run_local.sh cartpole vtrace 3");
  refused("random catch 3", "random is an agent and catch an environment");
  refused("vtrace vtrace 3", "unknown environment");
  refused("vtrac cartpole 3", "--agent");
  refused("vtrace|random tmaze 3", "--agent");
}

static void a_port_must_be_named(void **state) {
  (void)state;
  static const char *const open[] = {"127.0.0.1:0", "[::1]:0", "0.0.0.0:000"};
  static const char *const named[] = {"127.0.0.1:8686", "127.0.0.1:10", "127.0.0.1:08",
                                      "unix:/tmp/acorn:0"};
  static const char *const wrong[] = {"nonsense", "host:", "host:name", "1:2:", "[::1]"};
  char line[96];
  for (size_t i = 0; i < sizeof(open) / sizeof(open[0]); i++) {
    snprintf(line, sizeof(line), "cartpole vtrace 1 --listen=%s", open[i]);
    refused(line, open[i]);
    assert_non_null(strstr(error.text, "name a port"));
  }
  for (size_t i = 0; i < sizeof(named) / sizeof(named[0]); i++) {
    snprintf(line, sizeof(line), "cartpole vtrace 1 --listen=%s", named[i]);
    assert_int_equal(parse(line), STATUS_OK);
  }
  for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
    snprintf(line, sizeof(line), "cartpole vtrace 1 --listen=%s", wrong[i]);
    refused(line, "is not HOST:PORT");
  }
}

static void a_bucket_is_no_folder(void **state) {
  (void)state;
  refused("cartpole vtrace 1 --logdir=gs://bucket/x", "/gcs/bucket/x");
}

static void an_environment_says_how_many_suit_an_actor(void **state) {
  (void)state;
  assert_int_equal(parse("cartpole vtrace 2"), STATUS_OK);
  assert_string_equal(plan->env_name, "cartpole");
  assert_int_equal(plan->part.envs_per_actor, learner_default_envs_per_actor("cartpole"));
  assert_int_equal(plan->part.num_envs, 2 * plan->part.envs_per_actor);
  assert_false(plan->evaluates);
  assert_string_equal(plan->run_folder, "");
}

static void too_many_environments_are_refused(void **state) {
  (void)state;
  refused("cartpole vtrace 4096 4096", "the learner takes 1 to");
}

static void the_short_flags_are_ataris(void **state) {
  (void)state;
  refused("cartpole vtrace 1 --game=Pong", "--game is an option of the environment atari");
  refused("cartpole:Pong vtrace 1", "unknown environment 'cartpole:Pong'");
  refused("atari:Breakout vtrace 1 --game=Pong", "--game: atari:Breakout names the game already");
}

/* ---- evaluators */

static void every_agent_has_the_evaluators_that_suit_it(void **state) {
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
    char line[64];
    snprintf(line, sizeof(line), "cartpole %s 2", agents[i].name);
    assert_int_equal(parse(line), STATUS_OK);
    assert_int_equal(plan->part.num_evaluators, agents[i].evaluators);
    assert_true(learner_gets("--over=eval") == (agents[i].evaluators > 0));
    assert_true(plan_scores_evaluation(plan) == (agents[i].evaluators > 0));
  }
}

static void those_that_are_asked_for_count(void **state) {
  (void)state;
  static const struct {
    const char *words;
    int evaluators;
    const char *room, *over; /* NULL: the learner is not told */
  } cases[] = {
      {"--evaluators=0", 0, NULL, NULL},
      {"--evaluators=3", 3, "--num_eval_envs=24", "--over=eval"},
      {"--evaluators=1", 1, NULL, "--over=eval"}, /* there is room for 16 */
      {"--evaluators=1 --eval_envs=32", 1, "--num_eval_envs=32", "--over=eval"},
      /* evaluation episodes end in no order that repeats */
      {"--deterministic", 0, NULL, NULL},
      {"--deterministic --evaluators=2", 2, NULL, NULL},
      {"--deterministic --evaluators=3", 3, "--num_eval_envs=24", NULL},
      /* what the user gave stays */
      {"--over=auto --num_eval_envs=24 --evaluators=3", 3, "--num_eval_envs=24", NULL},
      {"--mode=evaluate", 0, NULL, NULL},
  };
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
    char line[128];
    snprintf(line, sizeof(line), "cartpole dqn 2 8 %s", cases[i].words);
    assert_int_equal(parse(line), STATUS_OK);
    assert_int_equal(plan->part.num_evaluators, cases[i].evaluators);
    assert_true(!cases[i].room || learner_gets(cases[i].room));
    assert_int_equal(learner_gets("--over=eval"), cases[i].over != NULL);
  }
}

static void evaluators_that_do_not_fit_are_refused(void **state) {
  (void)state;
  refused("cartpole vtrace 2 8 --evaluators=3 --num_eval_envs=23",
          "--num_eval_envs=23 is less than the 24 environments of 3 evaluators with 8 each");
  refused("cartpole vtrace 2 --mode=evaluate --evaluators=1",
          "--evaluators belong to a run that trains");
}

/* ---- commands */

static void evaluators_come_after_the_actors(void **state) {
  (void)state;
  assert_int_equal(parse("catch vtrace 2 4 --evaluators=1 --seed=7"), STATUS_OK);
  plan_commands(plan);
  assert_true(has(plan->run.learner, "--listen=unix:/there"));
  assert_true(has(plan->run.learner, "--num_envs=8"));
  assert_true(has(plan->run.learner, "--seed=7"));
  for (int i = 0; i < 3; i++) {
    assert_true(has(plan->run.actors[i], "--env=catch"));
    assert_true(has(plan->run.actors[i], "--envs=4"));
    assert_true(has(plan->run.actors[i], "--learner=unix:/there"));
    assert_int_equal(has(plan->run.actors[i], "--role=eval"), i == 2);
    assert_int_equal(has(plan->run.actors[i], "--task=1"), i == 1);
  }
}

static void actors_are_spread_over_the_learners(void **state) {
  (void)state;
  assert_int_equal(parse("catch vtrace 4 3 --learners=2 --evaluators=1"), STATUS_OK);
  plan_commands(plan);
  assert_true(has(plan->run.learner, "--learners=2"));
  assert_true(has(plan->run.learner, "--num_envs=6"));
  for (int i = 0; i < 5; i++) {
    bool second = i == 1 || i == 3; /* the fifth evaluates */
    assert_true(
        has(plan->run.actors[i], second ? "--learner=unix:/there-1" : "--learner=unix:/there"));
  }
  refused("catch vtrace 4 --learners=3", "4 actors cannot be spread evenly over 3 learners");
}

static int count(char *const *command, const char *word) {
  int found = 0;
  for (int i = 1; command[i]; i++) found += strncmp(command[i], word, strlen(word)) == 0;
  return found;
}

/* Those that are left have their actors, and the evaluator stays one. */
static void the_learners_that_are_left_resume(void **state) {
  (void)state;
  assert_int_equal(parse("catch vtrace 5 2 --learners=5 --spare_learners=3 --evaluators=1"),
                   STATUS_OK);
  snprintf(plan->run_folder, sizeof(plan->run_folder), "%s", folder);
  plan_commands(plan);
  assert_false(has(plan->run.learner, "--resume=true"));
  for (int left = 4; left > 1; left--) {
    static struct supervisor_config earlier[5]; /* whose commands live as long as the program */
    char word[64];
    earlier[left] = plan->run;
    plan_lose_learner(plan);
    assert_ptr_not_equal(plan->run.actors, earlier[left].actors);
    snprintf(word, sizeof(word), "--learners=%d", left);
    assert_true(has(plan->run.learner, word));
    assert_int_equal(count(plan->run.learner, "--learners="), 1);
    assert_true(has(plan->run.learner, "--resume=true"));
    assert_true(has(plan->run.learner, left == 2 ? "--num_envs=4" : "--num_envs=2"));
    assert_int_equal(plan->run.num_actors, plan->part.num_actors + 1);
    assert_int_equal(plan->part.num_actors, left == 3 ? 3 : 4);
    for (int i = 0; i < plan->run.num_actors; i++)
      assert_int_equal(has(plan->run.actors[i], "--role=eval"), i == plan->part.num_actors);
    snprintf(word, sizeof(word), "--learner=unix:/there-%d", left - 1);
    assert_true(has(plan->run.actors[left - 1], word));
    assert_true(has(plan->run.actors[plan->part.num_actors], "--learner=unix:/there"));
  }
  refused("catch vtrace 2 --learners=2 --spare_learners=2", "at most 1 can be lost");
  refused("catch vtrace 2 --learners=2 --learner_rank=0 --learners_at=a:1,b:1 --spare_learners=1",
          "1 of them here");
}

static void by_mpi_each_rank_is_a_learner_with_its_actors(void **state) {
  (void)state;
  setenv("PMI_RANK", "1", 1);
  setenv("PMI_SIZE", "2", 1);
  assert_int_equal(parse("catch vtrace 3 2 --learners_mpi --logdir=run --listen=a:70"), STATUS_OK);
  plan_commands(plan);
  assert_true(has(plan->run.learner, "--learners=2"));
  assert_true(has(plan->run.learner, "--learner_rank=1"));
  assert_true(has(plan->run.learner, "--learners_mpi=true"));
  assert_true(has(plan->run.learner, "--logdir=run/learner-1"));
  assert_true(has(plan->run.learner, "--listen=a:71"));
  assert_true(has(plan->run.learner, "--num_envs=6"));
  for (int i = 0; i < 3; i++) assert_true(has(plan->run.actors[i], "--learner=unix:/there"));
  assert_int_equal(parse("catch vtrace 3 2 --learners_mpi --logdir=run"), STATUS_OK);
  plan_commands(plan);
  assert_true(has(plan->run.learner, "--listen=unix:/there"));
  refused("catch vtrace 2 --learners_mpi", "--learners_mpi without --logdir");
  refused("catch vtrace 2 --learners_mpi --logdir=run --learners=3", "MPI has started 2 processes");
  refused("catch vtrace 2 --learners_mpi --logdir=run --spare_learners=1", "ends as a whole");
  refused("catch vtrace 2 --learners_mpi --logdir=run --learners=2 --learner_rank=1",
          "MPI gives ranks, here 1 of 2; leave it out");
  unsetenv("PMI_RANK");
  refused("catch vtrace 2 --learners_mpi --logdir=run", "put mpiexec -n N");
}

/* ---- an earlier run */

/* The words "ENV vtrace 1 --resume", and the options of a run whose config.txt holds `text`. */
static enum status resume(const char *env, const char *env_args, const char *text) {
  char line[128], path[64];
  snprintf(path, sizeof(path), "%s/config.txt", folder);
  FILE *file = text ? fopen(path, "w") : NULL;
  if (file) fputs(text, file), fclose(file);
  snprintf(line, sizeof(line), "%s vtrace 1 --resume %s", env, logdir);
  enum status status = parse_with(line, env_args);
  unlink(path);
  return status;
}

#define TMAZE "env = tmaze\nagent = vtrace\nenv_args = \"{\\\"length\\\": 20}\"\nseed = 7\n"

static bool is_given(const char *name) {
  return options_given(&learner_options_table, &plan->learner, name);
}

static void its_environments_are_taken(void **state) {
  (void)state;
  static const struct {
    const char *env_args, *text, *expected;
  } cases[] = {
      {NULL, TMAZE, "{\"length\": 20}"},
      {"--env_args={\"length\": 30}", TMAZE, "{\"length\": 30}"}, /* the user's word counts */
      {NULL, NULL, "{}"},
  };
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
    assert_int_equal(resume("tmaze", cases[i].env_args, cases[i].text), STATUS_OK);
    assert_string_equal(plan->learner.env_args, cases[i].expected);
    /* The actors are told whatever counts as given. */
    assert_int_equal(is_given("env_args"), cases[i].text != NULL);
    assert_false(is_given("seed"));
  }
}

static void what_decides_on_evaluators_is_taken(void **state) {
  (void)state;
  assert_int_equal(resume("tmaze", NULL, TMAZE "deterministic = true\n"), STATUS_OK);
  assert_true(plan->learner.deterministic);
  assert_false(is_given("over"));
  assert_int_equal(resume("tmaze", NULL, TMAZE "over = train\n"), STATUS_OK);
  assert_string_equal(plan->learner.over, "train");
  assert_false(plan->learner.deterministic);
}

static void another_run_is_refused(void **state) {
  (void)state;
  static const struct {
    const char *env, *text, *sentence;
  } cases[] = {
      {"catch", TMAZE, "holds a run of tmaze vtrace, this one is of catch vtrace"},
      {"tmaze", "env = tmaze\nagent = random\n", "of tmaze random, this one is of tmaze vtrace"},
      {"tmaze", "envv = tmaze\n", "envv"},
  };
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
    assert_int_not_equal(resume(cases[i].env, NULL, cases[i].text), STATUS_OK);
    if (!strstr(error.text, cases[i].sentence)) fail_msg("case %zu: %s", i, error.text);
    assert_non_null(strstr(error.text, folder));
  }
}

/* Whether it is the same environment, the learner finds out. */
static void a_plugin_may_have_moved(void **state) {
  (void)state;
  assert_int_equal(
      resume("catch", NULL, "env = /there/catch.so\nagent = vtrace\nenv_args = \"{}\"\n"),
      STATUS_OK);
  assert_int_equal(resume("catch", NULL, "env = join\nagent = vtrace\nenv_args = \"{}\"\n"),
                   STATUS_OK);
}

/* Else a run that is resumed would get them in place of its own. */
static void presets_are_left_to_the_learner(void **state) {
  (void)state;
  assert_int_equal(parse("cartpole vtrace 1 --seed=7 --evaluators=0"), STATUS_OK);
  const char *env = plan->arguments.env;
  plan->arguments.env = "gym:Unknown-v0"; /* whose presets are looked up, to be logged */
  assert_int_equal(plan_size(plan, 1, &error), STATUS_OK);
  plan->arguments.env = env;
  assert_int_not_equal(plan->learner.total_steps, 0);
  for (int i = 0; i < learner_options_table.count; i++) {
    const char *name = learner_options_table.options[i].name;
    bool is_ours = !strcmp(name, "env") || !strcmp(name, "agent") || !strcmp(name, "seed");
    if (is_given(name) != is_ours) fail_msg("--%s", name);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(swapped_words_are_named),
      cmocka_unit_test(a_port_must_be_named),
      cmocka_unit_test(a_bucket_is_no_folder),
      cmocka_unit_test(an_environment_says_how_many_suit_an_actor),
      cmocka_unit_test(too_many_environments_are_refused),
      cmocka_unit_test(the_short_flags_are_ataris),
      cmocka_unit_test(every_agent_has_the_evaluators_that_suit_it),
      cmocka_unit_test(those_that_are_asked_for_count),
      cmocka_unit_test(evaluators_that_do_not_fit_are_refused),
      cmocka_unit_test(evaluators_come_after_the_actors),
      cmocka_unit_test(actors_are_spread_over_the_learners),
      cmocka_unit_test(the_learners_that_are_left_resume),
      cmocka_unit_test(by_mpi_each_rank_is_a_learner_with_its_actors),
      cmocka_unit_test(presets_are_left_to_the_learner),
      cmocka_unit_test(its_environments_are_taken),
      cmocka_unit_test(what_decides_on_evaluators_is_taken),
      cmocka_unit_test(another_run_is_refused),
      cmocka_unit_test(a_plugin_may_have_moved),
  };
  return cmocka_run_group_tests(tests, setup, teardown);
}
