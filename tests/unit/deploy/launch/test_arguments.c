#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "deploy/launch/arguments.h"

// Three small tables: "patience" is the launcher's, "seed" the learner's, "delay" the actor's,
// "verbose" both programs'.
struct config {
  struct options_given given;
  int64_t number;
  bool flag;
};
#define INT(name) \
  { name, NULL, OPTION_INT, offsetof(struct config, number), "0", 0, 0, NULL, "group", "help" }
#define BOOL(name) \
  { name, NULL, OPTION_BOOL, offsetof(struct config, flag), "false", 0, 0, NULL, "group", "help" }
static const struct option learner_rows[] = {INT("seed"),     INT("total_steps"), BOOL("verbose"),
                                             INT("num_envs"), BOOL("resume"),     INT("env")};
static const struct option actor_rows[] = {INT("delay"), BOOL("verbose"), INT("envs"), INT("task"),
                                           INT("env")};
static const struct option launch_rows[] = {INT("patience"), BOOL("plot")};
static const struct option_table launch_table = {"launch", NULL, "", NULL, launch_rows, 2};
static const struct option_table learner_table = {"learner", NULL, "", NULL, learner_rows, 6};
static const struct option_table actor_table = {"actor", NULL, "", NULL, actor_rows, 5};
static const struct reserved_flag reserved[] = {{"env", "the environment is the first word"},
                                                {"num_envs", "it is counted"},
                                                {"task", "they are numbered"},
                                                {NULL, NULL}};
static const struct arguments_form form = {
    .counts_actors = true, .reserved = reserved, .own = &launch_table};

enum { MAX_ARGC = 16 };

static struct config learner, actor, launch;
static const struct option_target targets[] = {
    {&learner_table, &learner}, {&actor_table, &actor}, {&launch_table, &launch}};
static struct arguments arguments;
static struct error error;

static enum status parse_words(const struct arguments_form *as, int argc, char **argv) {
  for (int i = 0; i < 3; i++) options_init(targets[i].table, targets[i].config);
  return arguments_parse(&arguments, targets, 3, as, argc, argv, &error);
}

// Splits `line` at blanks, as a shell would.
static enum status parse(const char *line) {
  static char copy[512];
  char *argv[MAX_ARGC] = {"launch"};
  int argc = 1;
  strcpy(copy, line);
  for (char *at = strtok(copy, " "); at; at = strtok(NULL, " ")) argv[argc++] = at;
  error.text[0] = '\0';
  return parse_words(&form, argc, argv);
}

// What has been given, as words.
static const char *joined(const struct option_table *table, const struct config *config) {
  static char text[512];
  text[0] = '\0';
  for (int i = 0; i < table->count; i++) {
    const struct option *option = &table->options[i];
    if (!options_given(table, config, option->name)) continue;
    char *value = options_value_text(option, config);
    if (text[0]) strcat(text, " ");
    strcat(strcat(strcat(text, option->name), "="), value);
    free(value);
  }
  return text;
}

static void flags_go_to_whom_they_belong(void **state) {
  (void)state;
  static const struct {
    const char *line, *learner, *actor;
  } cases[] = {
      {"cartpole vtrace 4", "", ""},
      {"cartpole vtrace 4 --seed=7", "seed=7", ""},
      {"cartpole vtrace 4 --delay=7", "", "delay=7"},
      {"cartpole vtrace 4 --verbose", "verbose=true", "verbose=true"},
      {"--seed 7 cartpole vtrace --delay 8 4", "seed=7", "delay=8"},
      {"cartpole vtrace 4 --resume --seed=1", "seed=1 resume=true", ""},
      {"cartpole vtrace 4 --no_resume", "resume=false", ""},
      {"cartpole vtrace 4 --no-verbose", "verbose=false", "verbose=false"},
      {"cartpole vtrace 4 --total-steps=9", "total_steps=9", ""},
      {"cartpole vtrace 4 -- --seed=7", "seed=7", ""},
      {"cartpole vtrace -- 4 --delay=1 --", "", "delay=1"},
      // A file of options is the learner's, and what is typed counts.
      {"cartpole vtrace 4 --config=/dev/null", "", ""},
      {"cartpole vtrace 4 --config /dev/null --delay=1", "", "delay=1"},
  };
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
    assert_int_equal(parse(cases[i].line), STATUS_OK);
    assert_string_equal(joined(&learner_table, &learner), cases[i].learner);
    assert_string_equal(joined(&actor_table, &actor), cases[i].actor);
    assert_string_equal(arguments.env, "cartpole");
    assert_string_equal(arguments.agent, "vtrace");
    assert_int_equal(arguments.num_actors, 4);
    assert_int_equal(arguments.envs_per_actor, 0);
  }
}

static void the_fourth_word_is_environments_per_actor(void **state) {
  (void)state;
  assert_int_equal(parse("catch random 2 --seed=3 32"), STATUS_OK);
  assert_int_equal(arguments.num_actors, 2);
  assert_int_equal(arguments.envs_per_actor, 32);
}

static void all_but_the_environment_may_be_missing(void **state) {
  (void)state;
  assert_int_equal(parse("catch --seed=3"), STATUS_OK);
  assert_null(arguments.agent);
  assert_int_equal(arguments.num_actors, 0);
  assert_int_equal(parse("catch a2c"), STATUS_OK);
  assert_string_equal(arguments.agent, "a2c");
  assert_int_equal(arguments.num_actors, 0);
}

static void mistakes_are_named(void **state) {
  (void)state;
  static const struct {
    const char *line, *sentence;
  } cases[] = {
      {"", "ENV is missing"},
      {"cartpole vtrace 0", "NUM_ACTORS=0: a whole number from 1 to 4096"},
      {"cartpole vtrace four", "NUM_ACTORS=four"},
      {"cartpole vtrace 4x", "NUM_ACTORS=4x"},
      {"cartpole vtrace -4", "NUM_ACTORS=-4"},
      {"cartpole vtrace 99999999999999999999", "NUM_ACTORS=99999999999999999999"},
      {"cartpole vtrace 4 0", "ENVS_PER_ACTOR=0"},
      {"cartpole vtrace 4 16 seed=7", "'seed=7' is one word too many"},
      {"cartpole vtrace 4 --sead=7", "--sead: there is no such option; did you mean --seed?"},
      {"cartpole vtrace 4 --delai=7", "did you mean --delay?"},
      {"cartpole vtrace 4 --no_seed", "--no_seed: there is no such option"},
      {"cartpole vtrace 4 --zzzzzzzzzz=1", "--zzzzzzzzzz: there is no such option; --help"},
      {"cartpole vtrace 4 --env=catch", "--env=catch cannot be given here: the environment is the"},
      {"cartpole vtrace 4 --num-envs=4", "--num-envs=4 cannot be given here"},
      {"cartpole vtrace 4 --task 1", "--task cannot be given here"},
      {"cartpole vtrace 4 --no-env", "--no-env cannot be given here"},
      {"cartpole vtrace 4 --seed", "--seed: its value is missing"},
      {"cartpole vtrace 4 --seed=x", "--seed: 'x' is not a whole number"},
  };
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
    assert_int_equal(parse(cases[i].line), STATUS_INVALID);
    if (!strstr(error.text, cases[i].sentence))
      fail_msg("'%s' says '%s', not '%s'", cases[i].line, error.text, cases[i].sentence);
  }
}

static void the_launchers_own_flags_stay_here(void **state) {
  (void)state;
  assert_int_equal(parse("cartpole vtrace 4 --patience=3 --seed=7 --patience 4"), STATUS_OK);
  assert_string_equal(joined(&launch_table, &launch), "patience=4");
  assert_string_equal(joined(&learner_table, &learner), "seed=7");
  assert_string_equal(joined(&actor_table, &actor), "");
  assert_int_equal(parse("cartpole vtrace 4 --patients=3"), STATUS_INVALID);
  assert_non_null(strstr(error.text, "did you mean --patience?"));
}

static void another_form_has_no_counts_and_its_own_flags(void **state) {
  (void)state;
  static const struct reserved_flag others[] = {{"task", "count yourself"}, {NULL, NULL}};
  static const struct arguments_form task = {.reserved = others, .own = &launch_table};
  struct {
    char *argv[5];
    const char *sentence; // NULL: taken
  } cases[] = {
      {{"task", "catch", "random", "--num_envs=3", NULL}, NULL},
      {{"task", "catch", NULL}, "AGENT is missing: ENV AGENT [--flag=value ...]"},
      {{"task", "catch", "random", "4", NULL}, "'4' is one word too many"},
      {{"task", "catch", "random", "--task=4", NULL}, "--task=4 cannot be given here: count"},
  };
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
    int argc = 0;
    while (cases[i].argv[argc]) argc++;
    enum status status = parse_words(&task, argc, cases[i].argv);
    assert_int_equal(status, cases[i].sentence ? STATUS_INVALID : STATUS_OK);
    if (cases[i].sentence) assert_non_null(strstr(error.text, cases[i].sentence));
  }
}

static void help_is_asked_for_anywhere(void **state) {
  (void)state;
  static const char *const lines[] = {"--help", "-h", "cartpole --help",
                                      "cartpole vtrace 4 --help"};
  for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
    assert_int_equal(parse(lines[i]), STATUS_OK);
    assert_true(arguments.help);
  }
  assert_int_equal(parse("cartpole vtrace 4"), STATUS_OK);
  assert_false(arguments.help);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(flags_go_to_whom_they_belong),
      cmocka_unit_test(the_fourth_word_is_environments_per_actor),
      cmocka_unit_test(all_but_the_environment_may_be_missing),
      cmocka_unit_test(mistakes_are_named),
      cmocka_unit_test(the_launchers_own_flags_stay_here),
      cmocka_unit_test(another_form_has_no_counts_and_its_own_flags),
      cmocka_unit_test(help_is_asked_for_anywhere),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
