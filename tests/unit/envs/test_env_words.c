/* Short words for options of environments. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/base/option_rows.h"
#include "envs/env_words.h"

struct config {
  struct options_given given;
  char *env, *env_args;
  struct env_flags flags;
};
#define AT(member) offsetof(struct config, member)
static const struct option rows[] = {STRING("env", env, "catch", "Group", "help"),
                                     STRING("env_args", env_args, "{}", "Group", "help"),
                                     ENV_FLAGS_ROWS(flags)};
static const struct option_table table = {"test", NULL, "",
                                          NULL,   rows, sizeof(rows) / sizeof(rows[0])};

static struct config config;
static struct error error;

/* As typed: NAME VALUE ..., NULL. */
static void give(const char *name, ...) {
  va_list words;
  options_init(&table, &config);
  va_start(words, name);
  for (; name; name = va_arg(words, const char *))
    if (options_set(&table, &config, name, va_arg(words, const char *), "", &error) != STATUS_OK)
      fail_msg("%s", error.text);
  va_end(words);
}

static void games_are_split_off(void **state) {
  (void)state;
  static const struct {
    const char *word, *env, *game;
    bool is_ale;
  } cases[] = {{"atari", "atari", NULL, false},
               {"atari:Breakout", "atari", "Breakout", false},
               {"atari:", "atari:", NULL, false},
               {"atarix:Pong", "atarix:Pong", NULL, false},
               {"gym:ALE/SpaceInvaders-v5", "atari", "SpaceInvaders", true},
               {"gym:ALE/Pong", "atari", "Pong", true},
               {"gym:ALE/", "gym:ALE/", NULL, false},
               {"gym:ALE/-v5", "gym:ALE/-v5", NULL, false},
               {"gym:ALE/Pong-v5x", "gym:ALE/Pong-v5x", NULL, false},
               {"gym:ALE/Pong-v4", "gym:ALE/Pong-v4", NULL, false},
               {"gym:ALE/Pong-ram-v5", "gym:ALE/Pong-ram-v5", NULL, false},
               {"gym:ale_py:ALE/Pong-v5", "gym:ale_py:ALE/Pong-v5", NULL, false},
               {"ALE/Pong-v5", "ALE/Pong-v5", NULL, false},
               {"gym:CartPole-v1", "gym:CartPole-v1", NULL, false},
               {"./atari:x.so", "./atari:x.so", NULL, false}};
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
    struct env_word word;
    env_word_init(&word, cases[i].word);
    assert_string_equal(word.env, cases[i].env);
    assert_int_equal(word.game != NULL, cases[i].game != NULL);
    if (word.game) assert_string_equal(word.game, cases[i].game);
    assert_int_equal(word.is_ale, cases[i].is_ale);
    env_word_deinit(&word);
  }
}

static void flags_become_members_of_env_args(void **state) {
  (void)state;
  char *out;
  give(NULL, NULL);
  assert_int_equal(env_words_add_flags(&out, &table, &config, "catch", false, "{}", &error),
                   STATUS_OK);
  assert_null(out);
  options_deinit(&table, &config);

  give("game", "Breakout", "sticky_actions", "0.25", "resize", "linear", NULL);
  assert_int_equal(env_words_add_flags(&out, &table, &config, "atari", false,
                                       "{\"game\": \"Pong\", \"noops\": 3}", &error),
                   STATUS_OK);
  assert_string_equal(
      out, "{\"game\":\"Breakout\",\"noops\":3,\"sticky_actions\":0.25,\"resize\":\"linear\"}");
  free(out);
  assert_int_equal(env_words_add_flags(&out, &table, &config, "catch", false, "{}", &error),
                   STATUS_INVALID);
  assert_non_null(strstr(error.text, "--game is an option of the environment atari"));
  assert_int_equal(env_words_add_flags(&out, &table, &config, "atari", false, "[1]", &error),
                   STATUS_INVALID);
  assert_non_null(strstr(error.text, "'[1]' is not a JSON object"));
  options_deinit(&table, &config);
}

/* Its sticky actions yield to a flag, and to those that a run has. */
static void an_id_of_ale_means_sticky_actions(void **state) {
  (void)state;
  static const char *const cases[][3] = {
      {"{}", NULL, "{\"sticky_actions\":0.25}"},
      {"{\"sticky_actions\":0.5}", NULL, "{\"sticky_actions\":0.5}"},
      {"{\"sticky_actions\":0.5}", "1", "{\"sticky_actions\":1.0}"}};
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
    char *out;
    give(cases[i][1] ? "sticky_actions" : NULL, cases[i][1], NULL);
    assert_int_equal(env_words_add_flags(&out, &table, &config, "atari", true, cases[i][0], &error),
                     STATUS_OK);
    assert_string_equal(out, cases[i][2]);
    free(out);
    options_deinit(&table, &config);
  }
}

static void wrappers_are_of_gymnasium_alone(void **state) {
  (void)state;
  char *out;
  give("wrapper", "a:B,c:D", NULL);
  assert_int_equal(
      env_words_add_flags(&out, &table, &config, "gym:X-v0", false, "{\"n\":1}", &error),
      STATUS_OK);
  assert_string_equal(out, "{\"n\":1,\"wrapper\":\"a:B,c:D\"}");
  char *wrapper = env_words_wrapper(out);
  assert_string_equal(wrapper, "a:B,c:D");
  free(wrapper);
  free(out);
  assert_int_equal(env_words_add_flags(&out, &table, &config, "atari", false, "{}", &error),
                   STATUS_INVALID);
  assert_non_null(strstr(error.text, "--wrapper is an option of Gymnasium's environments, gym:ID"));
  assert_null(out);
  options_deinit(&table, &config);

  give("wrapper", "a:B", "resize", "linear", NULL);
  assert_int_equal(env_words_add_flags(&out, &table, &config, "gym:X-v0", false, "{}", &error),
                   STATUS_INVALID);
  assert_non_null(strstr(error.text, "--resize is an option of the environment atari"));
  assert_int_equal(env_words_add_flags(&out, &table, &config, "atari", false, "{}", &error),
                   STATUS_INVALID);
  options_deinit(&table, &config);

  static const char *const none[] = {"", "no", "[1]", "{}", "{\"wrapper\":1}"};
  for (size_t i = 0; i < sizeof(none) / sizeof(none[0]); i++) {
    wrapper = env_words_wrapper(none[i]);
    assert_string_equal(wrapper, "");
    free(wrapper);
  }
}

static void an_id_of_ale_has_sticky_actions(void **state) {
  (void)state;
  give("env", "gym:ALE/Pong-v5", NULL);
  assert_int_equal(env_words_expand(&table, &config, &error), STATUS_OK);
  assert_string_equal(config.env, "atari");
  assert_string_equal(config.env_args, "{\"game\":\"Pong\",\"sticky_actions\":0.25}");
  options_deinit(&table, &config);

  give("env", "gym:ALE/Pong-v5", "env_args", "{\"sticky_actions\":0}", NULL);
  assert_int_equal(env_words_expand(&table, &config, &error), STATUS_OK);
  assert_string_equal(config.env_args, "{\"sticky_actions\":0,\"game\":\"Pong\"}");
  options_deinit(&table, &config);
}

static void a_program_takes_the_game_out_of_its_environment(void **state) {
  (void)state;
  give("env", "atari:Space Invaders", "env_args", "{\"noops\": 3}", NULL);
  assert_int_equal(env_words_expand(&table, &config, &error), STATUS_OK);
  assert_string_equal(config.env, "atari");
  assert_string_equal(config.env_args, "{\"noops\":3,\"game\":\"Space Invaders\"}");
  options_deinit(&table, &config);

  give("env", "catch", NULL);
  assert_int_equal(env_words_expand(&table, &config, &error), STATUS_OK);
  assert_string_equal(config.env, "catch");
  assert_false(options_given(&table, &config, "env_args"));
  options_deinit(&table, &config);

  give("env", "atari:Pong", "env_args", "no", NULL);
  assert_int_equal(env_words_expand(&table, &config, &error), STATUS_INVALID);
  options_deinit(&table, &config);
}

static void a_label_names_the_game(void **state) {
  (void)state;
  static const struct {
    const char *name, *env_args, *label;
  } cases[] = {{"cartpole", "{}", "cartpole"},
               {"tmaze", "length=20", "tmaze"},
               {"atari", "{}", "atari-Pong"},
               {"atari", "", "atari-Pong"},
               {"atari", "{\"game\":\"Breakout\"}", "atari-Breakout"},
               {"atari", "{\"game\":\"../a b\"}", "atari-a_b"},
               {"dmlab", "{\"level\":\"contributed/dmlab30/rooms\"}", "dmlab-rooms"},
               {"my_env", "{\"game\":\"x\"}", "my_env"}};
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
    char label[64];
    env_words_label(label, sizeof(label), cases[i].name, cases[i].env_args);
    assert_string_equal(label, cases[i].label);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_label_names_the_game),
      cmocka_unit_test(games_are_split_off),
      cmocka_unit_test(flags_become_members_of_env_args),
      cmocka_unit_test(an_id_of_ale_means_sticky_actions),
      cmocka_unit_test(wrappers_are_of_gymnasium_alone),
      cmocka_unit_test(an_id_of_ale_has_sticky_actions),
      cmocka_unit_test(a_program_takes_the_game_out_of_its_environment),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
