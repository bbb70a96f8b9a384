#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/picture/canvas.h"
#include "common/picture/font.h"

enum { WIDTH = 40, HEIGHT = 20, GUARD = 64 };

struct sheet {
  uint8_t before[GUARD];
  uint8_t pixels[HEIGHT * WIDTH * 3];
  uint8_t behind[GUARD];
};

static struct sheet sheet;
static const struct canvas canvas = {sheet.pixels, WIDTH, HEIGHT};

static int clear(void **state) {
  (void)state;
  memset(&sheet, 0, sizeof(sheet));
  memset(sheet.before, 0xa5, GUARD);
  memset(sheet.behind, 0xa5, GUARD);
  return 0;
}

/* Nothing was written outside of the pixels. */
static int guarded(void **state) {
  (void)state;
  for (int i = 0; i < GUARD; i++)
    if (sheet.before[i] != 0xa5 || sheet.behind[i] != 0xa5) return -1;
  return 0;
}

static uint32_t at(int x, int y) {
  const uint8_t *pixel = sheet.pixels + 3 * (y * WIDTH + x);
  return (uint32_t)pixel[0] << 16 | (uint32_t)pixel[1] << 8 | pixel[2];
}

static int count(uint32_t colour) {
  int found = 0;
  for (int y = 0; y < HEIGHT; y++)
    for (int x = 0; x < WIDTH; x++) found += at(x, y) == colour;
  return found;
}

static void rectangles_are_cut_at_the_edges(void **state) {
  (void)state;
  canvas_rectangle(&canvas, 3, 4, 5, 2, 0x123456);
  assert_int_equal(count(0x123456), 10);
  assert_int_equal(at(3, 4), 0x123456);
  assert_int_equal(at(7, 5), 0x123456);
  assert_int_equal(at(8, 5), 0);
  canvas_rectangle(&canvas, -10, -10, 12, 13, 0xff0000);
  assert_int_equal(count(0xff0000), 2 * 3);
  canvas_rectangle(&canvas, WIDTH - 1, HEIGHT - 1, 1000, 1000, 0x00ff00);
  assert_int_equal(count(0x00ff00), 1);
  canvas_rectangle(&canvas, WIDTH + 5, 0, 3, 3, 0x0000ff);
  canvas_rectangle(&canvas, 0, 0, -3, 3, 0x0000ff);
  assert_int_equal(count(0x0000ff), 0);
  canvas_fill(&canvas, 0xabcdef);
  assert_int_equal(count(0xabcdef), WIDTH * HEIGHT);
}

static void lines_are_as_thick_as_they_should_be(void **state) {
  (void)state;
  canvas_line(&canvas, 5, 10, 35, 10, 4, 0xffffff);
  for (int y = 0; y < HEIGHT; y++) assert_int_equal(at(20, y), y >= 8 && y < 12 ? 0xffffff : 0);
  assert_int_equal(at(1, 10), 0);
  clear(NULL);
  /* A disc, and one that is mostly outside. */
  canvas_line(&canvas, 20, 10, 20, 10, 12, 0xffffff);
  assert_int_equal(at(20, 10), 0xffffff);
  assert_true(count(0xffffff) > 80 && count(0xffffff) < 120); /* pi * 36 is 113 */
  canvas_line(&canvas, -100, -100, 1000, -90, 30, 0xff0000);
  assert_int_equal(count(0xff0000), 0);
}

static void pictures_are_enlarged_without_blur(void **state) {
  (void)state;
  uint8_t pixels[2 * 3] = {255, 0, 0, 0, 0, 255};
  const struct canvas from = {pixels, 2, 1};
  canvas_picture(&canvas, 10, 5, &from, 4);
  assert_int_equal(count(0xff0000), 16);
  assert_int_equal(count(0x0000ff), 16);
  assert_int_equal(at(13, 8), 0xff0000);
  assert_int_equal(at(14, 8), 0x0000ff);
}

static void letters_differ_and_stay_in_their_places(void **state) {
  (void)state;
  const char *all =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
      "+-=.,:;%/()_#'\"|?!<>[]{}*@&";
  static uint8_t seen[128][HEIGHT * WIDTH * 3];
  for (int i = 0; all[i]; i++) {
    clear(NULL);
    font_write(&canvas, 0, 0, (char[]){all[i], '\0'}, 1, 0xffffff);
    int dots = count(0xffffff);
    assert_true(dots > 0);
    canvas_rectangle(&canvas, 0, 0, FONT_ADVANCE - 1, FONT_HEIGHT, 0);
    assert_int_equal(count(0xffffff), 0);
    font_write(&canvas, 0, 0, (char[]){all[i], '\0'}, 1, 0xffffff);
    memcpy(seen[i], sheet.pixels, sizeof(sheet.pixels));
    for (int j = 0; j < i; j++)
      if (memcmp(seen[i], seen[j], sizeof(seen[i])) == 0) fail_msg("%c is %c", all[i], all[j]);
  }
}

static void text_advances_and_scales(void **state) {
  (void)state;
  font_write(&canvas, 1, 1, " |", 2, 0xffffff);
  assert_int_equal(count(0xffffff), (FONT_HEIGHT - 1) * 2 * 2);
  assert_int_equal(at(1 + 2 * FONT_ADVANCE + 4, 1), 0xffffff);
  assert_int_equal(font_width("abc", 2), 3 * 2 * FONT_ADVANCE);
  clear(NULL);
  font_write(&canvas, 0, 0, "\xe4", 1, 0xffffff); /* not in the font: a box */
  assert_int_equal(count(0xffffff), 2 * 5 + 5 * 2);
  font_write(&canvas, WIDTH - 3, HEIGHT - 3, "XYZ", 3, 0xffffff);
}

#define ON_SHEET(test) cmocka_unit_test_setup_teardown(test, clear, guarded)

int main(void) {
  const struct CMUnitTest tests[] = {
      ON_SHEET(rectangles_are_cut_at_the_edges),
      ON_SHEET(lines_are_as_thick_as_they_should_be),
      ON_SHEET(pictures_are_enlarged_without_blur),
      ON_SHEET(letters_differ_and_stay_in_their_places),
      ON_SHEET(text_advances_and_scales),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
