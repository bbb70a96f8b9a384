// Against a Python version of bsuite's Catch: tests/golden/envs/make.py.
#include "tests/unit/envs/play.h"

static struct play play;

static void expect_board(const char *cells) {
  size_t n = strlen(cells);
  for (size_t i = 0; i < n; i++) assert_int_equal(play.bytes[i], cells[i] == '1' ? 255 : 0);
  assert_int_equal(play.bytes[n], 0xa5); // nothing is written behind the board
}

static void check_line(char *const *word, int num_words) {
  assert_int_equal(num_words, 5);
  if (strcmp(word[0], "reset") == 0) {
    int is_seeded = strcmp(word[3], "-") != 0;
    uint64_t seed = strtoull(word[3], NULL, 10);
    if (is_seeded) {
      char json[64];
      snprintf(json, sizeof(json), "{\"rows\": %s, \"columns\": %s}", word[1], word[2]);
      play_close(&play);
      play_open(&play, "catch", json);
    }
    play_reset(&play, is_seeded ? &seed : NULL);
  } else {
    assert_int_equal(play_step(&play, atoi(word[1])), 0);
    assert_true(play.row.reward == (float)atoi(word[2]));
    assert_int_equal(play.row.terminated, atoi(word[3]));
    assert_false(play.row.truncated);
  }
  expect_board(word[4]);
}

static void golden_episodes(void **state) {
  (void)state;
  play_open(&play, "catch", "");
  play_golden("tests/golden/envs/catch.txt", check_line);
  play_close(&play);
}

static void space(void **state) {
  (void)state;
  struct space wire;
  struct error error;
  play_open(&play, "catch", "");
  assert_int_equal(registry_space(&wire, play.env, &play.config, &error), STATUS_OK);
  assert_int_equal(wire.discrete, 3);
  assert_int_equal(wire.tensor[0].rank, 2);
  assert_int_equal(wire.tensor[0].shape[0], 10);
  assert_int_equal(wire.tensor[0].shape[1], 5);
  assert_int_equal(wire.tensor[0].dtype, DTYPE_UINT8);
  play_close(&play);
}

static void refuses_other_actions(void **state) {
  (void)state;
  play_open(&play, "catch", "");
  play_reset(&play, NULL);
  play_refuses(&play, 3);
  play_refuses(&play, -1);
  play_close(&play);
}

/* A pixel a cell, however large the observation is: the ball where the observation has it, and the
 * paddle, which moves as it is told. */
static void the_picture_shows_ball_and_paddle(void **state) {
  (void)state;
  const uint64_t seed = 5;
  struct acorn_picture picture;
  play_open(&play, "catch", "{\"rows\": 4, \"columns\": 3, \"size\": 40}");
  play_reset(&play, &seed);
  assert_int_equal(play_step(&play, 2), 0);
  play_render(&play, &picture);
  assert_int_equal(picture.width, 3);
  assert_int_equal(picture.height, 4);
  uint32_t paddle = play_pixel(&picture, 2, 3), nothing = play_pixel(&picture, 0, 3);
  assert_int_not_equal(paddle, nothing);
  int balls = 0;
  for (int y = 0; y < 4; y++)
    for (int x = 0; x < 3; x++) {
      uint32_t colour = play_pixel(&picture, x, y);
      balls += colour != paddle && colour != nothing;
      if (colour != nothing && colour != paddle)
        assert_int_equal(play.bytes[(y * 10 + 5) * 40 + x * 40 / 3 + 5], 255);
    }
  assert_int_equal(balls, 1);
  assert_string_equal(play.env->action_name(play.instance, 2), "right");
  free(picture.pixels);
  play_close(&play);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(golden_episodes),
      cmocka_unit_test(space),
      cmocka_unit_test(refuses_other_actions),
      cmocka_unit_test(the_picture_shows_ball_and_paddle),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
