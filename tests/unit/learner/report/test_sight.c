#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "learner/report/sight.h"

static struct device_inputs inputs_of(int height, int width, int channels, int stack) {
  struct device_inputs inputs = {.stack = stack, .num_tensors = 1};
  inputs.tensor[0].height = height;
  inputs.tensor[0].width = width;
  inputs.tensor[0].channels = channels;
  return inputs;
}

static uint32_t at(const struct canvas *canvas, int x, int y) {
  const uint8_t *shown = canvas->pixels + 3 * (y * canvas->width + x);
  return (uint32_t)shown[0] << 16 | (uint32_t)shown[1] << 8 | shown[2];
}

/* Two images of 84 x 84, three frames each: a row for each, the newest on the left. */
static void stacked_frames_stand_in_rows(void **state) {
  (void)state;
  enum { SIDE = 84, STACK = 3, COUNT = 2 };
  static float images[COUNT * SIDE * SIDE * STACK];
  for (int i = 0; i < COUNT * SIDE * SIDE * STACK; i++)
    images[i] = (float)(100 * (i / (SIDE * SIDE * STACK)) + 10 * (i % STACK)) / 255;
  struct device_inputs inputs = inputs_of(SIDE, SIDE, 1, STACK);
  struct canvas canvas = sight_draw(images, COUNT, &inputs);
  assert_int_equal(canvas.width, STACK * SIDE + 2 * (STACK - 1));
  assert_int_equal(canvas.height, COUNT * SIDE + 2);
  for (int image = 0; image < COUNT; image++)
    for (int frame = 0; frame < STACK; frame++)
      assert_int_equal(at(&canvas, frame * (SIDE + 2) + 83, image * (SIDE + 2) + 83),
                       (100 * image + 10 * frame) * 0x010101);
  assert_int_equal(at(&canvas, SIDE, 0), 0x404040);
  free(canvas.pixels);
}

/* Small images in colour: enlarged, in one row, each pixel where it belongs. */
static void colours_stand_side_by_side(void **state) {
  (void)state;
  const float images[] = {1, 0, 0, 0, 1, 0, 0, 0, 1, 1, 1, 1}; /* 2 of 1 x 2 */
  struct device_inputs inputs = inputs_of(1, 2, 3, 0);
  struct canvas canvas = sight_draw(images, 2, &inputs);
  assert_int_equal(canvas.height, 84);
  assert_int_equal(canvas.width, 2 * 168 + 2);
  const uint32_t colours[] = {0xff0000, 0x00ff00, 0x0000ff, 0xffffff};
  for (int i = 0; i < 4; i++)
    assert_int_equal(at(&canvas, i * 84 + 42 + (i > 1 ? 2 : 0), 42), colours[i]);
  free(canvas.pixels);
}

/* Channels that are no colours are planes. */
static void planes_stand_side_by_side(void **state) {
  (void)state;
  const float images[] = {0, 51 / 255.f, 102 / 255.f, 2, -1}; /* 1 x 1, five channels */
  struct device_inputs inputs = inputs_of(1, 1, 5, 1);
  struct canvas canvas = sight_draw(images, 1, &inputs);
  const uint32_t colours[] = {0, 0x333333, 0x666666, 0xffffff, 0};
  for (int i = 0; i < 5; i++) assert_int_equal(at(&canvas, i * 86 + 10, 10), colours[i]);
  free(canvas.pixels);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(stacked_frames_stand_in_rows),
      cmocka_unit_test(colours_stand_side_by_side),
      cmocka_unit_test(planes_stand_side_by_side),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
