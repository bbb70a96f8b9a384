/* How many evaluators a launcher starts, whatever the agent, and what the learner is told. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "deploy/evaluators.h"

static struct learner_options learner;
static struct words all_words[16], *words; /* one for each test: words live as long as they do */
static struct error error;

static void set(const char *name, const char *value) {
  if (options_set(&learner_options_table, &learner, name, value, "", &error) != STATUS_OK)
    fail_msg("%s", error.text);
}

static int setup(void **state) {
  (void)state;
  options_init(&learner_options_table, &learner);
  words = words ? words + 1 : all_words;
  words->count = 1;
  error.text[0] = '\0';
  return 0;
}

static int teardown(void **state) {
  (void)state;
  options_deinit(&learner_options_table, &learner);
  return 0;
}

/* The words that were added, in one. */
static const char *added(void) {
  static char all[256];
  all[0] = '\0';
  for (int i = 1; i < words->count; i++) {
    strcat(all, words->word[i]);
    strcat(all, " ");
  }
  return all;
}

static void unless_told_otherwise_as_many_as_suit_the_agent(void **state) {
  (void)state;
  static const struct {
    int asked, suiting, others, evaluators;
  } table[] = {
      {-1, 0, 0, 0}, {-1, 1, 0, 1}, {-1, 3, 0, 3}, /* as many as suit the agent */
      {-1, 1, 1, 0}, {-1, 1, 2, 0},                /* others evaluate already */
      {0, 1, 0, 0},  {0, 0, 1, 0},  {2, 0, 0, 2},  {2, 1, 1, 2}, {1, 3, 0, 1},
  };
  for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
    assert_int_equal(evaluators_choose(table[i].asked, table[i].suiting, table[i].others, &learner),
                     table[i].evaluators);
}

static void a_deterministic_run_has_those_that_are_asked_for(void **state) {
  (void)state;
  set("deterministic", "true");
  assert_int_equal(evaluators_choose(-1, 1, 0, &learner), 0);
  assert_int_equal(evaluators_choose(2, 1, 0, &learner), 2);
}

static void an_evaluation_has_none(void **state) {
  (void)state;
  set("mode", "evaluate");
  assert_int_equal(evaluators_choose(-1, 1, 0, &learner), 0);
  assert_int_equal(evaluators_add_words(words, 0, 16, &learner, &error), STATUS_OK);
  assert_int_equal(evaluators_add_words(words, 1, 16, &learner, &error), STATUS_INVALID);
  assert_non_null(strstr(error.text, "--evaluators belong to a run that trains"));
}

static void their_episodes_are_the_score(void **state) {
  (void)state;
  assert_int_equal(evaluators_add_words(words, 0, 16, &learner, &error), STATUS_OK);
  assert_string_equal(added(), "");
  assert_int_equal(evaluators_add_words(words, 1, 16, &learner, &error), STATUS_OK);
  assert_string_equal(added(), "--over=eval "); /* there is room for 16 */
}

static void the_learner_gets_room_for_them(void **state) {
  (void)state;
  assert_int_equal(evaluators_add_words(words, 3, 8, &learner, &error), STATUS_OK);
  assert_string_equal(added(), "--num_eval_envs=24 --over=eval ");
}

static void what_the_user_gave_stays(void **state) {
  (void)state;
  set("over", "auto");
  set("num_eval_envs", "24");
  assert_int_equal(evaluators_add_words(words, 3, 8, &learner, &error), STATUS_OK);
  assert_string_equal(added(), "");
  assert_int_equal(evaluators_add_words(words, 5, 5, &learner, &error), STATUS_INVALID);
  assert_non_null(strstr(error.text, "--num_eval_envs=24 is less than the 25 environments of 5"));
}

/* Its result cannot be about them. */
static void a_deterministic_run_scores_training_episodes(void **state) {
  (void)state;
  set("deterministic", "true");
  assert_int_equal(evaluators_add_words(words, 1, 32, &learner, &error), STATUS_OK);
  assert_string_equal(added(), "--num_eval_envs=32 ");
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, setup, teardown)

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(unless_told_otherwise_as_many_as_suit_the_agent),
      TEST(a_deterministic_run_has_those_that_are_asked_for),
      TEST(an_evaluation_has_none),
      TEST(their_episodes_are_the_score),
      TEST(the_learner_gets_room_for_them),
      TEST(what_the_user_gave_stays),
      TEST(a_deterministic_run_scores_training_episodes),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
