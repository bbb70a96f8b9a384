/* Episodes, and what is shown of an environment: its own picture, an image that it observes, or
 * nothing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "deploy/inspect/watch/world.h"
#include "envs/registry.h"
#include "learner/network/images.h"
#include "tests/unit/actor/fake_env.h"

static struct error error;
static _Alignas(64) uint8_t row[1 << 16];

/* A run as far as a world looks at it. */
struct stage {
  struct learner_options options;
  struct run run;
  struct world world;
};

static void describe(struct run *run) {
  struct wire_layout layout;
  wire_layout_of_space(&layout, &run->space, 1);
  run->inputs.num_tensors = run->space.num_tensors;
  for (int i = 0; i < run->space.num_tensors; i++) {
    const struct space_tensor *tensor = &run->space.tensor[i];
    run->inputs.tensor[i].dtype = tensor->dtype;
    run->inputs.tensor[i].row_offset = layout.tensor[i].row_offset;
    images_describe(&run->inputs, i, tensor);
  }
}

static struct stage *open_stage(char *env, char *env_args) {
  struct stage *stage = calloc(1, sizeof(*stage));
  const struct acorn_env *found;
  struct acorn_config config;
  stage->options.env = env;
  stage->options.env_args = env_args;
  stage->run.options = &stage->options;
  assert_int_equal(registry_find(&found, env, &error), STATUS_OK);
  assert_int_equal(registry_config(&config, found, env_args, &error), STATUS_OK);
  assert_int_equal(registry_space(&stage->run.space, found, &config, &error), STATUS_OK);
  registry_config_deinit(&config);
  describe(&stage->run);
  assert_int_equal(world_open(&stage->world, &stage->run, row, &error), STATUS_OK);
  return stage;
}

/* The same with the fake environment of actor/, which no registry knows. */
static struct stage *open_fake(const char *script) {
  struct stage *stage = calloc(1, sizeof(*stage));
  const struct acorn_config config = {.struct_bytes = sizeof(config)};
  fake_script = script;
  stage->run.options = &stage->options;
  assert_int_equal(registry_space(&stage->run.space, &fake_env, &config, &error), STATUS_OK);
  describe(&stage->run);
  stage->world = (struct world){.env = &fake_env, .run = &stage->run, .row = row, .image = -1};
  stage->world.instance = fake_env.create(&config, NULL, 0);
  for (int i = 0; i < 2; i++) stage->world.tensor[i] = row + stage->run.inputs.tensor[i].row_offset;
  return stage;
}

static void close_stage(struct stage *stage) {
  world_close(&stage->world);
  free(stage);
}

static void episodes_end_and_lives_do_not(void **state) {
  (void)state;
  struct stage *stage = open_fake("..L.T");
  struct world *world = &stage->world;
  bool ended;
  assert_int_equal(world_reset(world, 7, &error), STATUS_OK);
  assert_int_equal(world->flags, STEP_FIRST);
  for (int step = 1; step <= 3; step++) {
    assert_int_equal(world_step(world, &(int32_t){1}, &ended, &error), STATUS_OK);
    assert_false(ended);
    assert_int_equal(world->flags, step == 3 ? STEP_FIRST | STEP_TERMINATED : 0);
  }
  /* The life's end was 1 + 2 + 3; the next life's first two steps count on. */
  assert_true(world->score == 6 && world->reward == 3);
  for (int step = 1; step <= 2; step++)
    assert_int_equal(world_step(world, &(int32_t){1}, &ended, &error), STATUS_OK);
  assert_true(world->score == 9 && world->steps == 5);
  assert_int_equal(world_step(world, &(int32_t){1}, &ended, &error), STATUS_OK);
  assert_true(ended);
  assert_int_equal(world->flags, STEP_TERMINATED);
  assert_int_equal(world_reset(world, 8, &error), STATUS_OK);
  assert_true(world->score == 0 && world->steps == 0 && world->flags == STEP_FIRST);
  close_stage(stage);

  stage = open_fake("C");
  assert_int_equal(world_reset(&stage->world, 1, &error), STATUS_OK);
  assert_int_equal(world_step(&stage->world, &(int32_t){1}, &ended, &error), STATUS_OK);
  assert_true(ended && stage->world.flags == STEP_TRUNCATED);
  close_stage(stage);
}

static void failures_are_named(void **state) {
  (void)state;
  static const struct {
    const char *script, *words;
  } cases[] = {{"E", "failed in step: a ROM is missing"},
               {"N", "failed in step"},
               {"O", "failed in step"},
               {"F", "failed in step"}};
  for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
    struct stage *stage = open_fake(cases[i].script);
    bool ended;
    assert_int_equal(world_reset(&stage->world, 1, &error), STATUS_OK);
    assert_int_equal(world_step(&stage->world, &(int32_t){1}, &ended, &error), STATUS_IO);
    assert_non_null(strstr(error.text, cases[i].words));
    close_stage(stage);
  }
  struct stage *stage = open_fake("T");
  fake_failing_resets = 1;
  assert_int_equal(world_reset(&stage->world, 1, &error), STATUS_IO);
  assert_non_null(strstr(error.text, "failed in reset: the emulator died"));
  close_stage(stage);
}

static void its_own_picture_comes_first(void **state) {
  (void)state;
  char text[32];
  struct stage *stage = open_stage("catch", "{\"size\": 84}");
  assert_int_equal(world_reset(&stage->world, 1, &error), STATUS_OK);
  assert_int_equal(world_draw(&stage->world, &error), STATUS_OK);
  assert_int_equal(stage->world.picture.width, 5);
  assert_int_equal(stage->world.picture.height, 10);
  assert_string_equal(world_action_name(&stage->world, 1, text), "stay");
  close_stage(stage);
}

static void else_an_image_that_it_observes(void **state) {
  (void)state;
  char text[32];
  struct stage *stage = open_stage("synthetic", "{\"rows\": 6, \"columns\": 4}");
  bool ended;
  assert_int_equal(world_reset(&stage->world, 1, &error), STATUS_OK);
  for (int step = 0; step < 3; step++)
    assert_int_equal(world_step(&stage->world, &(int32_t){0}, &ended, &error), STATUS_OK);
  assert_int_equal(world_draw(&stage->world, &error), STATUS_OK);
  assert_int_equal(stage->world.picture.width, 4);
  assert_int_equal(stage->world.picture.height, 6);
  for (int i = 0; i < 6 * 4 * 3; i++) assert_int_equal(stage->world.picture.pixels[i], 3);
  assert_string_equal(world_action_name(&stage->world, 12, text), "action 12");
  close_stage(stage);
}

/* Four planes beside each other; three channels are colours. */
static void planes_and_colours(void **state) {
  (void)state;
  struct stage *stage = open_fake("T");
  struct world *world = &stage->world;
  for (int channels = 3; channels <= 4; channels++) {
    stage->run.space = (struct space){
        .num_tensors = 1,
        .discrete = 2,
        .tensor = {{.dtype = DTYPE_UINT8, .rank = 3, .shape = {1, 2, (uint32_t)channels}}}};
    describe(&stage->run);
    for (int i = 0; i < 8; i++) row[i] = (uint8_t)i;
    world->tensor[0] = row;
    world->picture.width = 0;
    world->image = -1;
    assert_int_equal(world_draw(world, &error), STATUS_OK);
    assert_int_equal(world->picture.width, channels == 3 ? 2 : 8);
    const uint8_t planes[] = {0, 4, 1, 5, 2, 6, 3, 7};
    for (int i = 0; i < 3 * world->picture.width; i++)
      assert_int_equal(world->picture.pixels[i], channels == 3 ? i : planes[i / 3]);
    free(world->picture.pixels);
  }
  world->picture.pixels = NULL;
  close_stage(stage);
}

/* Colours come from three planes; 0..1 of floats is dark to bright. */
static void floats_with_the_channels_first(void **state) {
  (void)state;
  enum { SIDE = 36, PIXELS = SIDE * SIDE };
  struct stage *stage = open_fake("T");
  struct world *world = &stage->world;
  stage->run.space =
      (struct space){.num_tensors = 1,
                     .discrete = 2,
                     .tensor = {{.dtype = DTYPE_FLOAT32, .rank = 3, .shape = {3, SIDE, SIDE}}}};
  describe(&stage->run);
  float *image = (float *)row;
  for (int i = 0; i < 3 * PIXELS; i++) image[i] = (float)(i / PIXELS) / 2 + (i % PIXELS == 7);
  world->tensor[0] = row;
  assert_int_equal(world_draw(world, &error), STATUS_OK);
  assert_int_equal(world->picture.width, SIDE);
  assert_int_equal(world->picture.height, SIDE);
  static const uint8_t colour[] = {0, 128, 255};
  for (int i = 0; i < 3 * PIXELS; i++)
    assert_int_equal(world->picture.pixels[i], i / 3 == 7 ? 255 : colour[i % 3]);
  close_stage(stage);
}

static void or_it_cannot_be_watched(void **state) {
  (void)state;
  struct stage *stage = open_stage("synthetic", "{}");
  assert_int_equal(world_reset(&stage->world, 1, &error), STATUS_OK);
  assert_int_equal(world_draw(&stage->world, &error), STATUS_NOT_FOUND);
  assert_non_null(strstr(error.text, "environment synthetic cannot be watched"));
  close_stage(stage);
}

/* A plugin from before there was a picture: what follows its struct is none of ours. */
static void an_older_plugin_draws_nothing(void **state) {
  (void)state;
  struct stage *stage = open_stage("catch", "{}");
  struct acorn_env older = *stage->world.env;
  char text[32];
  older.struct_bytes = offsetof(struct acorn_env, render);
  older.render = (int (*)(void *, struct acorn_picture *, char *, size_t))1;
  older.action_name = (const char *(*)(void *, int))1;
  stage->world.env = &older;
  assert_int_equal(world_reset(&stage->world, 1, &error), STATUS_OK);
  assert_int_equal(world_draw(&stage->world, &error), STATUS_OK);
  assert_int_equal(stage->world.image, 0);
  assert_string_equal(world_action_name(&stage->world, 1, text), "action 1");
  close_stage(stage);
}

static int draws_too_much(void *env, struct acorn_picture *picture, char *text, size_t bytes) {
  (void)env, (void)text, (void)bytes;
  picture->width = picture->height = 1 << 20;
  return 0;
}
static int fails_to_draw(void *env, struct acorn_picture *picture, char *text, size_t bytes) {
  (void)env, (void)picture;
  snprintf(text, bytes, "the lamp is broken");
  return -1;
}

static void pictures_that_cannot_be_shown(void **state) {
  (void)state;
  struct stage *stage = open_stage("catch", "{}");
  struct acorn_env env = *stage->world.env;
  stage->world.env = &env;
  assert_int_equal(world_reset(&stage->world, 1, &error), STATUS_OK);
  env.render = draws_too_much;
  assert_int_equal(world_draw(&stage->world, &error), STATUS_IO);
  assert_non_null(strstr(error.text, "1048576 x 1048576"));
  env.render = fails_to_draw;
  assert_int_equal(world_draw(&stage->world, &error), STATUS_IO);
  assert_non_null(strstr(error.text, "failed in render: the lamp is broken"));
  close_stage(stage);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(episodes_end_and_lives_do_not),
      cmocka_unit_test(failures_are_named),
      cmocka_unit_test(its_own_picture_comes_first),
      cmocka_unit_test(else_an_image_that_it_observes),
      cmocka_unit_test(planes_and_colours),
      cmocka_unit_test(floats_with_the_channels_first),
      cmocka_unit_test(or_it_cannot_be_watched),
      cmocka_unit_test(an_older_plugin_draws_nothing),
      cmocka_unit_test(pictures_that_cannot_be_shown),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
