#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "deploy/inspect/watch/panel.h"

static const struct panel_text words = {
    .title = "catch", .subtitle = "vtrace", .episode = 1, .num_episodes = 2, .step = 7};

static uint32_t at(const struct panel *panel, int x, int y) {
  const uint8_t *pixel = panel->frame.pixels + 3 * (y * panel->frame.width + x);
  return (uint32_t)pixel[0] << 16 | (uint32_t)pixel[1] << 8 | pixel[2];
}

static int count(const struct panel *panel, uint32_t colour) {
  int found = 0;
  for (int y = 0; y < panel->frame.height; y++)
    for (int x = 0; x < panel->frame.width; x++) found += at(panel, x, y) == colour;
  return found;
}

enum { CHOSEN = 0xf5a742, BAR = 0x4aa3df, SCREEN = 0x010203 };

static struct canvas make_screen(int width, int height) {
  struct canvas screen = {malloc(3 * (size_t)width * (size_t)height), width, height};
  canvas_fill(&screen, SCREEN);
  return screen;
}

/* Marks of which one action has one, or, of -1, none. */
static const bool *mark(int chosen) {
  static bool marks[500];
  for (int a = 0; a < 500; a++) marks[a] = a == chosen;
  return marks;
}

static void draw(struct panel *panel, const struct canvas *screen, const struct panel_text *text,
                 float value, const float *probability, int chosen) {
  const struct panel_choice choice = {value, probability, NULL, NULL, mark(chosen)};
  panel_draw(panel, screen, text, &choice);
}

static void sizes_are_even_and_small_screens_enlarged(void **state) {
  (void)state;
  const char *names[] = {"left", "right"};
  const float probability[] = {0.5f, 0.5f};
  static const struct {
    int width, height, factor;
  } cases[] = {{5, 10, 64}, {160, 210, 3}, {600, 400, 1}, {641, 33, 1}, {1, 1, 640}, {1999, 7, 1}};
  for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
    struct canvas screen = make_screen(cases[i].width, cases[i].height);
    struct panel panel;
    panel_init(&panel, screen.width, screen.height, names, 2);
    assert_int_equal(panel.factor, cases[i].factor);
    assert_int_equal(panel.frame.width % 2 + panel.frame.height % 2, 0);
    draw(&panel, &screen, &words, 0, probability, 0);
    assert_int_equal(count(&panel, SCREEN),
                     screen.width * screen.height * panel.factor * panel.factor);
    panel_deinit(&panel);
    free(screen.pixels);
  }
}

/* The widths of bars: what is chosen has a colour of its own. */
static void bars_are_as_long_as_they_are_probable(void **state) {
  (void)state;
  const char *names[] = {" ", " ", " "};
  const float probability[] = {0.25f, 0.75f, 0};
  struct canvas screen = make_screen(4, 4);
  struct panel panel;
  panel_init(&panel, 4, 4, names, 3);
  draw(&panel, &screen, &words, 0, probability, 0);
  int quarter = count(&panel, CHOSEN), rest = count(&panel, BAR);
  assert_true(quarter > 100 && rest == 3 * quarter);
  draw(&panel, &screen, &words, 0, probability, 1);
  assert_int_equal(count(&panel, CHOSEN), rest);
  assert_int_equal(count(&panel, BAR), quarter);
  draw(&panel, &screen, &words, 0, probability, -1);
  assert_int_equal(count(&panel, CHOSEN), 0);
  panel_deinit(&panel);
  free(screen.pixels);
}

/* Of many actions the likely ones are shown, and the picture has an end. */
static void of_many_actions_the_likely_are_shown(void **state) {
  (void)state;
  enum { A = 500 };
  static const char *names[A];
  static float probability[A];
  for (int a = 0; a < A; a++) names[a] = " ";
  probability[A - 1] = 0.5f;
  probability[A - 7] = 0.5f;
  struct canvas screen = make_screen(4, 4);
  struct panel panel;
  panel_init(&panel, 4, 4, names, A);
  assert_true(panel.frame.height < 1000);
  draw(&panel, &screen, &words, 0, probability, A - 1);
  assert_true(count(&panel, CHOSEN) > 100 && count(&panel, CHOSEN) == count(&panel, BAR));
  panel_deinit(&panel);
  free(screen.pixels);
}

/* So many that a picture whose time grew with their square would not be done today. */
static void of_millions_of_actions_the_likely_are_shown(void **state) {
  (void)state;
  enum { A = 2000000, ROWS = 18 };
  const char **names = malloc(A * sizeof(*names));
  float *probability = calloc(A, sizeof(*probability));
  bool *chosen = calloc(A, sizeof(*chosen));
  for (int a = 0; a < A; a++) names[a] = " ";
  for (int a = 0; a < A; a++) probability[a] = 0.1f * (float)a / A;
  for (int i = 0; i < ROWS; i++) probability[i * ((A - 1) / (ROWS - 1))] = 0.5f;
  struct canvas screen = make_screen(4, 4);
  struct panel panel;
  panel_init(&panel, 4, 4, names, A);
  const struct panel_choice choice = {0, probability, NULL, NULL, chosen};
  panel_draw(&panel, &screen, &words, &choice);
  int bars = count(&panel, BAR);
  chosen[1] = true; /* it has the row of the last one of the others */
  probability[1] = 0.5f;
  panel_draw(&panel, &screen, &words, &choice);
  assert_true(bars > 0 && bars % ROWS == 0);
  assert_int_equal(count(&panel, CHOSEN), bars / ROWS);
  assert_int_equal(count(&panel, BAR), bars / ROWS * (ROWS - 1));
  panel_deinit(&panel);
  free(screen.pixels);
  free(names);
  free(probability);
  free(chosen);
}

/* Beside an action's bar stands its value, and of many actions those of most value are shown. */
static void values_stand_beside_the_bars(void **state) {
  (void)state;
  enum { A = 30 };
  static const char *names[A];
  float probability[A] = {0}, value[A] = {0};
  for (int a = 0; a < A; a++) names[a] = " ";
  for (int a = 0; a < A; a++) probability[a] = a == A - 1 ? 0.9f : 0.1f / (A - 1);
  value[A - 1] = 1;
  struct canvas screen = make_screen(4, 4);
  struct panel panel;
  panel_init(&panel, 4, 4, names, A);
  draw(&panel, &screen, &words, 0, probability, A - 1);
  size_t bytes = 3 * (size_t)panel.frame.width * (size_t)panel.frame.height;
  uint8_t *percentages = malloc(bytes);
  memcpy(percentages, panel.frame.pixels, bytes);
  const float numbers[] = {0, 9.994f, -99.94f, 1234.5f, INFINITY};
  for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++) {
    value[A - 1] = numbers[i];
    const struct panel_choice choice = {0, probability, value, NULL, mark(A - 1)};
    panel_draw(&panel, &screen, &words, &choice);
    assert_memory_not_equal(panel.frame.pixels, percentages, bytes);
    assert_true(count(&panel, CHOSEN) > 100); /* what is chosen is shown, whatever it is worth */
    const struct panel_choice of_value = {0, probability, value, NULL, mark(-1)};
    panel_draw(&panel, &screen, &words, &of_value);
    /* Only a row that is shown has a bar: the last action's, where it is of most value. */
    assert_int_equal(count(&panel, BAR) > 100, numbers[i] > 0);
  }
  /* Of one action's numbers the first are shown, whatever they are. */
  for (int last = 0; last < 2; last++) {
    probability[last ? A - 1 : 0] = 1;
    value[A - 1] = 1e30f;
    const struct panel_choice choice = {0, probability, NULL, value, mark(-1)};
    panel_begin(&panel);
    panel_draw(&panel, &screen, &words, &choice);
    if (last) assert_memory_equal(panel.frame.pixels, percentages, bytes);
    memcpy(percentages, panel.frame.pixels, bytes);
  }
  free(percentages);
  panel_deinit(&panel);
  free(screen.pixels);
}

/* Episodes longer than the graph, values that are all the same, words that are too long. */
static void a_long_episode_keeps_its_newest_values(void **state) {
  (void)state;
  const char *names[] = {"a word for an action that is much longer than there is room for it"};
  const float probability[] = {1};
  struct panel_text text = words;
  text.title = "a title that is much longer than the panel is wide, by far, and does not end soon";
  text.score = -1e300;
  text.end = "end";
  struct canvas screen = make_screen(4, 4);
  struct panel panel;
  panel_init(&panel, 4, 4, names, 1);
  for (int i = 0; i < PANEL_MAX_PAST + 5; i++)
    draw(&panel, &screen, &text, (float)i, probability, 0);
  assert_int_equal(panel.num_past, PANEL_MAX_PAST);
  assert_true(panel.past[0] == 5 && panel.past[PANEL_MAX_PAST - 1] == PANEL_MAX_PAST + 4);
  panel_begin(&panel);
  assert_int_equal(panel.num_past, 0);
  panel_deinit(&panel);
  free(screen.pixels);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(sizes_are_even_and_small_screens_enlarged),
      cmocka_unit_test(bars_are_as_long_as_they_are_probable),
      cmocka_unit_test(of_many_actions_the_likely_are_shown),
      cmocka_unit_test(of_millions_of_actions_the_likely_are_shown),
      cmocka_unit_test(values_stand_beside_the_bars),
      cmocka_unit_test(a_long_episode_keeps_its_newest_values),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
