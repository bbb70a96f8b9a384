/* The expected bytes and checksum were made by Python's zlib and struct, which decoded them too. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/base/crc32.h"
#include "common/picture/png.h"

static void expect(const struct canvas *canvas, const char *hex) {
  char text[512] = "";
  size_t bytes;
  uint8_t *file = png_encode(canvas, &bytes);
  for (size_t i = 0; i < bytes; i++) sprintf(text + 2 * i, "%02x", file[i]);
  free(file);
  assert_string_equal(text, hex);
}

static void known_bytes(void **state) {
  (void)state;
  uint8_t colour[] = {255, 0, 0, 1, 2, 3}, grey[] = {7, 7, 7, 9, 9, 9};
  expect(&(struct canvas){colour, 2, 1},
         "89504e470d0a1a0a0000000d49484452000000020000000108020000007b40e8dd00000012494441547801"
         "010700f8ff00ff0000010203060b010643c56f180000000049454e44ae426082");
  expect(&(struct canvas){grey, 1, 2},
         "89504e470d0a1a0a0000000d4948445200000001000000020800000000bceae9fb0000000f494441547801"
         "010400fbff00070009002200118c89b5a90000000049454e44ae426082");
}

/* More than one stored block. */
static void a_large_picture(void **state) {
  (void)state;
  enum { WIDTH = 200, HEIGHT = 150 };
  static uint8_t pixels[HEIGHT][WIDTH][3];
  for (int y = 0; y < HEIGHT; y++)
    for (int x = 0; x < WIDTH; x++)
      for (int c = 0; c < 3; c++) pixels[y][x][c] = (uint8_t)(x * 3 + y * 5 + c * 7 + (x * y >> 3));
  size_t bytes;
  uint8_t *file = png_encode(&(struct canvas){&pixels[0][0][0], WIDTH, HEIGHT}, &bytes);
  assert_int_equal(bytes, 90223);
  assert_int_equal(crc32_extend(0, file, bytes), 0x75935f5a);
  free(file);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(known_bytes),
      cmocka_unit_test(a_large_picture),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
