// Against a Python version: tests/golden/envs/make.py.
#include "tests/unit/envs/play.h"

enum { NORTH, EAST, SOUTH, WEST };

static struct play play;

static void expect_signs(const char *signs) {
  const float *observation = play.tensor[0];
  for (int i = 0; i < 4; i++) assert_true(observation[i] == (float)(signs[i] - '0'));
}

static void check_line(char *const *word, int num_words) {
  if (strcmp(word[0], "reset") == 0) {
    assert_int_equal(num_words, 4);
    int is_seeded = strcmp(word[2], "-") != 0;
    uint64_t seed = strtoull(word[2], NULL, 10);
    if (is_seeded) {
      char json[64];
      snprintf(json, sizeof(json), "{\"length\": %s}", word[1]);
      play_close(&play);
      play_open(&play, "tmaze", json);
    }
    play_reset(&play, is_seeded ? &seed : NULL);
  } else {
    assert_int_equal(num_words, 5);
    assert_int_equal(play_step(&play, atoi(word[1])), 0);
    assert_true(play.row.reward == (float)atoi(word[2]));
    assert_int_equal(play.row.terminated, atoi(word[3]));
    assert_false(play.row.truncated);
  }
  expect_signs(word[num_words - 1]);
}

static void golden_episodes(void **state) {
  (void)state;
  play_open(&play, "tmaze", "");
  play_golden("tests/golden/envs/tmaze.txt", check_line);
  play_close(&play);
}

/* The best an agent can do: east to the junction, then the arm of the cue, or the other one. */
static void the_cue_pays(void **state) {
  (void)state;
  int cues[2] = {0};
  play_open(&play, "tmaze", "{\"length\": 4}");
  for (uint64_t seed = 0; seed < 100; seed++) {
    play_reset(&play, &seed);
    const float *signs = play.tensor[0];
    int cue = signs[0] == 1 ? NORTH : SOUTH, follows = seed % 3 != 0;
    cues[cue == NORTH]++;
    for (int i = 0; i < 4; i++) {
      assert_int_equal(play_step(&play, EAST), 0);
      assert_true(!play.row.terminated && signs[0] == 0 && signs[1] == 0);
    }
    assert_true(signs[3] == 1);
    assert_int_equal(play_step(&play, follows ? cue : NORTH + SOUTH - cue), 0);
    assert_true(play.row.terminated && play.row.reward == (float)follows);
  }
  assert_in_range(cues[0], 30, 70);
  play_close(&play);
}

/* In the corridor only east moves, at the junction neither east nor west does anything; the limit
 * then ends it. */
static void staying_ends_in_nothing(void **state) {
  (void)state;
  static const struct {
    int before, then; // actions to the junction or not, and the one that stays there
  } cases[] = {{0, NORTH}, {0, SOUTH}, {0, WEST}, {2, WEST}, {4, EAST}, {4, WEST}};
  play_open(&play, "tmaze", "{\"length\": 4}");
  for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
    play_reset(&play, NULL);
    for (int step = 1; step <= 12; step++) {
      assert_int_equal(play_step(&play, step <= cases[i].before ? EAST : cases[i].then), 0);
      expect_signs(cases[i].before == 4 && step >= 4 ? "0001" : "0010");
      assert_int_equal(play.row.terminated, step == 12);
      assert_true(play.row.reward == 0 && !play.row.truncated);
    }
  }
  play_close(&play);
}

static void refuses_other_actions(void **state) {
  (void)state;
  play_open(&play, "tmaze", "");
  play_reset(&play, NULL);
  play_refuses(&play, 4);
  play_close(&play);
}

/* The player's cell and the arm that pays are where they should be; a corridor of a million cells
 * is drawn as well. */
static void the_picture_shows_player_and_cue(void **state) {
  (void)state;
  struct acorn_picture picture;
  play_open(&play, "tmaze", "{\"length\": 2}");
  for (uint64_t seed = 0; seed < 4; seed++) {
    play_reset(&play, &seed);
    float *signs = (float *)play.bytes;
    int north = signs[0] == 1;
    play_render(&play, &picture);
    uint32_t player = play_pixel(&picture, 30, 50), empty = play_pixel(&picture, 50, 50);
    assert_int_not_equal(player, empty);
    uint32_t pays = play_pixel(&picture, 70, north ? 30 : 70);
    assert_int_equal(play_pixel(&picture, 30, north ? 30 : 70), pays); /* the cue */
    free(picture.pixels);
    for (int step = 0; step < 2; step++) assert_int_equal(play_step(&play, EAST), 0);
    play_render(&play, &picture);
    assert_int_equal(play_pixel(&picture, 70, 50), player);
    assert_int_equal(play_pixel(&picture, 30, 50), empty);
    assert_int_not_equal(play_pixel(&picture, 30, north ? 30 : 70), pays);
    free(picture.pixels);
    assert_int_equal(play_step(&play, NORTH), 0);
    play_render(&play, &picture);
    assert_int_equal(play_pixel(&picture, 70, 30), player);
    free(picture.pixels);
  }
  assert_string_equal(play.env->action_name(play.instance, SOUTH), "south");
  play_close(&play);
  play_open(&play, "tmaze", "{\"length\": 1000000}");
  play_reset(&play, NULL);
  free(play_render(&play, &picture));
  assert_true(picture.width < 1000);
  play_close(&play);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(golden_episodes),
      cmocka_unit_test(the_cue_pays),
      cmocka_unit_test(staying_ends_in_nothing),
      cmocka_unit_test(refuses_other_actions),
      cmocka_unit_test(the_picture_shows_player_and_cue),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
