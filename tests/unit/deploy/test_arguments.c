#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "deploy/arguments.h"

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
static const struct arguments_form form = {true, reserved, &launch_table, &learner_table,
                                           &actor_table};

enum { MAX_ARGC = 16 };

static struct arguments arguments;
static struct error error;

// Splits `line` at blanks, as a shell would.
static enum status parse(const char *line) {
  static char copy[512];
  char *argv[MAX_ARGC] = {"launch"};
  int argc = 1;
  strcpy(copy, line);
  for (char *at = strtok(copy, " "); at; at = strtok(NULL, " ")) argv[argc++] = at;
  error.text[0] = '\0';
  return arguments_parse(&arguments, &form, argc, argv, &error);
}

static const char *joined(const struct words *words) {
  static char text[512];
  text[0] = '\0';
  for (int i = 1; i < words->count; i++) {
    if (i > 1) strcat(text, " ");
    strcat(text, words->word[i]);
  }
  assert_null(words->word[words->count]);
  return text;
}

static void flags_go_to_whom_they_belong(void **state) {
  (void)state;
  static const struct {
    const char *line, *learner, *actor;
  } cases[] = {
      {"cartpole vtrace 4", "", ""},
      {"cartpole vtrace 4 --seed=7", "--seed=7", ""},
      {"cartpole vtrace 4 --delay=7", "", "--delay=7"},
      {"cartpole vtrace 4 --verbose", "--verbose", "--verbose"},
      {"--seed 7 cartpole vtrace --delay 8 4", "--seed 7", "--delay 8"},
      {"cartpole vtrace 4 --resume --seed=1", "--resume --seed=1", ""},
      {"cartpole vtrace 4 --no_resume --no-verbose", "--no_resume --no-verbose", "--no-verbose"},
      {"cartpole vtrace 4 --total-steps=9", "--total-steps=9", ""},
      {"cartpole vtrace 4 -- --seed=7", "--seed=7", ""},
      {"cartpole vtrace -- 4 --delay=1 --", "", "--delay=1"},
      {"cartpole vtrace 4 --config=a", "--config=a", ""},
      {"cartpole vtrace 4 --config a --delay=1", "--config a", "--delay=1"},
      // The programs' own tables say that a value is missing.
      {"cartpole vtrace 4 --seed", "--seed", ""},
  };
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
    assert_int_equal(parse(cases[i].line), STATUS_OK);
    assert_string_equal(joined(&arguments.learner), cases[i].learner);
    assert_string_equal(joined(&arguments.actor), cases[i].actor);
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

static void mistakes_are_named(void **state) {
  (void)state;
  static const struct {
    const char *line, *sentence;
  } cases[] = {
      {"", "ENV is missing"},
      {"cartpole", "AGENT is missing"},
      {"cartpole vtrace --seed=1", "NUM_ACTORS is missing"},
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
  assert_string_equal(joined(&arguments.own), "--patience=3 --patience 4");
  assert_string_equal(joined(&arguments.learner), "--seed=7");
  assert_string_equal(joined(&arguments.actor), "");
  assert_int_equal(parse("cartpole vtrace 4 --patients=3"), STATUS_INVALID);
  assert_non_null(strstr(error.text, "did you mean --patience?"));
}

static void another_form_has_no_counts_and_its_own_flags(void **state) {
  (void)state;
  static const struct reserved_flag others[] = {{"task", "count yourself"}, {NULL, NULL}};
  static const struct arguments_form task = {false, others, &launch_table, &learner_table,
                                             &actor_table};
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
    enum status status = arguments_parse(&arguments, &task, argc, cases[i].argv, &error);
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

static void too_many_words_are_refused(void **state) {
  (void)state;
  static char *argv[ARGUMENTS_MAX_WORDS + 1] = {"launch", "cartpole", "vtrace", "4"};
  for (int i = 4; i < ARGUMENTS_MAX_WORDS; i++) argv[i] = "--verbose";
  assert_int_equal(arguments_parse(&arguments, &form, ARGUMENTS_MAX_WORDS, argv, &error),
                   STATUS_INVALID);
  assert_non_null(strstr(error.text, "words are too many"));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(flags_go_to_whom_they_belong),
      cmocka_unit_test(the_fourth_word_is_environments_per_actor),
      cmocka_unit_test(mistakes_are_named),
      cmocka_unit_test(the_launchers_own_flags_stay_here),
      cmocka_unit_test(another_form_has_no_counts_and_its_own_flags),
      cmocka_unit_test(help_is_asked_for_anywhere),
      cmocka_unit_test(too_many_words_are_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
