// Against Gymnasium's arithmetic: tests/golden/envs/make.py.
#include "tests/unit/envs/play.h"

#include <math.h>

#include "envs/cartpole/cartpole.h"

static struct play play;
static double physics[4]; // the golden file's state, moved on by cartpole_advance

static void expect_observation(const double state[4]) {
  const float *observation = play.tensor[0];
  for (int i = 0; i < 4; i++) assert_true(observation[i] == (float)state[i]);
}

static void check_line(char *const *word, int num_words) {
  int is_reset = strcmp(word[0], "reset") == 0;
  assert_int_equal(num_words, is_reset ? 6 : 7);
  double expected[4];
  for (int i = 0; i < 4; i++) expected[i] = strtod(word[i + (is_reset ? 2 : 3)], NULL);

  if (is_reset) {
    uint64_t seed = strtoull(word[1], NULL, 10);
    play_reset(&play, &seed);
    memcpy(physics, expected, sizeof(physics));
  } else {
    cartpole_advance(physics, atoi(word[1]));
    assert_memory_equal(physics, expected, sizeof(physics));
    assert_int_equal(play_step(&play, atoi(word[1])), 0);
    assert_int_equal(play.row.terminated, atoi(word[2]));
    assert_false(play.row.truncated);
    assert_true(play.row.reward == 1.0f);
  }
  expect_observation(expected);
}

static void golden_episodes(void **state) {
  (void)state;
  play_open(&play, "cartpole", "");
  play_golden("tests/golden/envs/cartpole.txt", check_line);
  play_close(&play);
}

static void seed_42(void **state) {
  (void)state;
  static const float first[4] = {0.0273956f, -0.00611216f, 0.03585979f, 0.0197368f};
  static const float second[4] = {0.02727336f, 0.18847767f, 0.03625453f, -0.26141977f};
  uint64_t seed = 42;
  play_open(&play, "cartpole", "{}");
  const float *observation = play.tensor[0];
  play_reset(&play, &seed);
  for (int i = 0; i < 4; i++) assert_true(fabsf(observation[i] - first[i]) < 1e-8f);
  assert_int_equal(play_step(&play, 1), 0);
  for (int i = 0; i < 4; i++) assert_true(fabsf(observation[i] - second[i]) < 3e-8f);
  assert_true(play.row.reward == 1.0f && !play.row.terminated && !play.row.truncated);
  play_close(&play);
}

/* Push towards the side the pole leans to; the length of the episode is its return. */
static double scripted_episode(uint64_t seed) {
  double sum = 0;
  play_reset(&play, &seed);
  do {
    const float *observation = play.tensor[0];
    assert_int_equal(play_step(&play, observation[2] < 0 ? 0 : 1), 0);
    sum += play.row.reward;
  } while (!play.row.terminated && !play.row.truncated);
  return sum;
}

static void scripted_policy_table(void **state) {
  (void)state;
  enum { EPISODES = 500 };
  double sum = 0, squares = 0, least = 1e9, most = 0;
  play_open(&play, "cartpole", "{\"max_steps\": 200}");
  for (uint64_t seed = 0; seed < EPISODES; seed++) {
    double r = scripted_episode(seed);
    sum += r;
    squares += r * r;
    least = fmin(least, r);
    most = fmax(most, r);
  }
  play_close(&play);
  double mean = sum / EPISODES;
  assert_true(mean == 41.698);
  assert_true(fabs(sqrt(squares / EPISODES - mean * mean) - 8.389445512070509) < 1e-10);
  assert_true(least == 24 && most == 63);
}

static void cut_after_max_steps(void **state) {
  (void)state;
  uint64_t seed = 42;
  play_open(&play, "cartpole", "{\"max_steps\": 7}");
  for (int episode = 0; episode < 2; episode++) {
    play_reset(&play, episode ? NULL : &seed);
    for (int step = 1; step <= 7; step++) {
      assert_int_equal(play_step(&play, step % 2), 0);
      assert_int_equal(play.row.truncated, step == 7);
      assert_false(play.row.terminated);
    }
  }
  play_close(&play);
}

/* Beside a CartPole that shows all, with the same seeds and actions: the same episodes, of which
 * two numbers are seen. */
static void hidden_velocities_change_nothing_else(void **state) {
  (void)state;
  static struct play hidden;
  struct space space;
  struct error error;
  const uint8_t untouched[8] = {0xa5, 0xa5, 0xa5, 0xa5, 0xa5, 0xa5, 0xa5, 0xa5};
  play_open(&play, "cartpole", "{\"max_steps\": 30}");
  play_open(&hidden, "cartpole", "{\"max_steps\": 30, \"hide_velocity\": 1}");
  assert_int_equal(registry_space(&space, hidden.env, &hidden.config, &error), STATUS_OK);
  assert_int_equal(space.tensor[0].rank, 1);
  assert_int_equal(space.tensor[0].shape[0], 2);

  const float *all = play.tensor[0], *seen = hidden.tensor[0];
  int terminated = 0, truncated = 0;
  for (uint64_t seed = 0; seed < 50; seed++) {
    play_reset(&play, seed % 3 ? NULL : &seed);
    play_reset(&hidden, seed % 3 ? NULL : &seed);
    for (int step = 0, ends = 0; !ends; step++) {
      assert_true(seen[0] == all[0] && seen[1] == all[2]);
      assert_memory_equal(&seen[2], untouched, sizeof(untouched));
      int action = seed % 2 ? all[2] >= 0 : step % 7 < 4;
      assert_int_equal(play_step(&play, action), play_step(&hidden, action));
      assert_true(hidden.row.reward == play.row.reward);
      assert_int_equal(hidden.row.terminated, play.row.terminated);
      assert_int_equal(hidden.row.truncated, play.row.truncated);
      terminated += play.row.terminated, truncated += play.row.truncated;
      ends = play.row.terminated || play.row.truncated;
    }
  }
  assert_true(terminated > 5 && truncated > 5);
  play_close(&play);
  play_close(&hidden);
}

static void falls_at_either_end(void **state) {
  (void)state;
  const double angle = 12 * 2 * M_PI / 360;
  static const struct {
    double x_factor, angle_factor;
    int fallen;
  } cases[] = {{0, 0, 0},      {1, 0, 0},       {-1, 0, 0},     {0, 1, 0},      {0, -1, 0},
               {1.0001, 0, 1}, {-1.0001, 0, 1}, {0, 1.0001, 1}, {0, -1.0001, 1}};
  for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
    double at[4] = {2.4 * cases[i].x_factor, 0, angle * cases[i].angle_factor, 0};
    assert_int_equal(cartpole_fallen(at), cases[i].fallen);
  }
}

static void refuses_other_actions(void **state) {
  (void)state;
  play_open(&play, "cartpole", "");
  play_reset(&play, NULL);
  play_refuses(&play, 2);
  play_refuses(&play, -1);
  play_close(&play);
}

/* The mean column of what is neither background nor track, in a band of the picture. */
static double column_of(const struct acorn_picture *picture, int top, int bottom) {
  uint32_t nothing = play_pixel(picture, picture->width / 2, 0);
  double sum = 0, count = 0;
  for (int y = top; y < bottom; y++)
    for (int x = 0; x < picture->width; x++)
      if (play_pixel(picture, x, y) != nothing) sum += x, count++;
  assert_true(count > 0);
  return sum / count;
}

/* Pushed to the right, the cart goes there and the pole falls to the left. */
static void the_picture_shows_cart_and_pole(void **state) {
  (void)state;
  const uint64_t seed = 1;
  struct acorn_picture before, after;
  play_open(&play, "cartpole", "");
  play_reset(&play, &seed);
  play_render(&play, &before);
  for (int step = 0; step < 9; step++) assert_int_equal(play_step(&play, 1), 0);
  play_render(&play, &after);
  assert_true(column_of(&after, 270, 275) > column_of(&before, 270, 275) + 5);
  double lean = column_of(&after, 200, 205) - column_of(&after, 250, 255);
  assert_true(lean < -5);
  assert_string_equal(play.env->action_name(play.instance, 0), "left");
  assert_string_equal(play.env->action_name(play.instance, 1), "right");
  free(before.pixels), free(after.pixels);
  play_close(&play);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(golden_episodes),
      cmocka_unit_test(seed_42),
      cmocka_unit_test(scripted_policy_table),
      cmocka_unit_test(cut_after_max_steps),
      cmocka_unit_test(hidden_velocities_change_nothing_else),
      cmocka_unit_test(falls_at_either_end),
      cmocka_unit_test(refuses_other_actions),
      cmocka_unit_test(the_picture_shows_cart_and_pole),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
