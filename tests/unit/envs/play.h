/* What the tests of environments share: one instance with a row, and golden files as lines of
 * words. Tests run from the root of the repository. */
#ifndef ACORN_TESTS_UNIT_ENVS_PLAY_H
#define ACORN_TESTS_UNIT_ENVS_PLAY_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "envs/registry.h"

enum { PLAY_BYTES = 4096, PLAY_WORDS = 8, PLAY_LINE = 512 };

struct play {
  const struct acorn_env *env;
  struct acorn_config config;
  void *instance;
  _Alignas(16) uint8_t bytes[PLAY_BYTES];
  void *tensor[1];
  struct acorn_row row;
  char error[256];
};

/* The environment with its only tensor at play->bytes. */
static inline void play_open(struct play *play, const char *name, const char *json) {
  struct error error;
  memset(play, 0, sizeof(*play));
  assert_int_equal(registry_find(&play->env, name, &error), STATUS_OK);
  assert_int_equal(registry_config(&play->config, play->env, json, &error), STATUS_OK);
  play->instance = play->env->create(&play->config, play->error, sizeof(play->error));
  assert_non_null(play->instance);
  play->tensor[0] = play->bytes;
  play->row.observation = play->tensor;
}

static inline void play_close(struct play *play) {
  if (play->instance) play->env->destroy(play->instance);
  registry_config_deinit(&play->config);
  play->instance = NULL;
}

/* `seed` may be NULL. The bytes are soiled first, so that a reset that leaves some alone is seen.
 * */
static inline void play_reset(struct play *play, const uint64_t *seed) {
  memset(play->bytes, 0xa5, sizeof(play->bytes));
  assert_int_equal(
      play->env->reset(play->instance, seed, &play->row, play->error, sizeof(play->error)), 0);
}

static inline int play_step(struct play *play, int32_t action) {
  memset(play->bytes, 0xa5, sizeof(play->bytes));
  play->row.reward = -123;
  play->row.terminated = play->row.truncated = -1;
  return play->env->step(play->instance, &action, &play->row, play->error, sizeof(play->error));
}

/* The picture of the present state. Nothing is written behind it, and neither asking nor drawing
 * changes the world: the same picture comes twice. Shapes: pixels (height, width, 3). Owner: the
 * caller, with free(). */
static inline uint8_t *play_render(struct play *play, struct acorn_picture *picture) {
  uint8_t *pixels[2];
  *picture = (struct acorn_picture){.struct_bytes = sizeof(*picture)};
  assert_int_equal(play->env->render(play->instance, picture, play->error, sizeof(play->error)), 0);
  assert_true(picture->width > 0 && picture->height > 0);
  size_t bytes = 3 * (size_t)picture->width * (size_t)picture->height;
  for (int i = 0; i < 2; i++) {
    picture->pixels = pixels[i] = malloc(bytes + 1);
    memset(pixels[i], i, bytes);
    pixels[i][bytes] = 0xa5;
    assert_int_equal(play->env->render(play->instance, picture, play->error, sizeof(play->error)),
                     0);
    assert_int_equal(pixels[i][bytes], 0xa5);
  }
  assert_memory_equal(pixels[0], pixels[1], bytes);
  free(pixels[1]);
  return picture->pixels = pixels[0];
}

/* The colour 0xRRGGBB at (x, y). */
static inline uint32_t play_pixel(const struct acorn_picture *picture, int x, int y) {
  const uint8_t *pixel = picture->pixels + 3 * (y * picture->width + x);
  return (uint32_t)pixel[0] << 16 | (uint32_t)pixel[1] << 8 | pixel[2];
}

/* Every environment refuses an action outside its space with a sentence that names it. */
static inline void play_refuses(struct play *play, int32_t action) {
  char word[32];
  snprintf(word, sizeof(word), "action %d ", action);
  assert_int_equal(play_step(play, action), -1);
  assert_non_null(strstr(play->error, word));
}

/* Runs `line` for every line of a golden file, split into words, and checks that there were some.
 * */
static inline void play_golden(const char *path, void (*line)(char *const *word, int num_words)) {
  FILE *file = fopen(path, "r");
  if (!file) fail_msg("%s is missing; tests run from the root of the repository", path);
  char text[PLAY_LINE];
  int lines = 0;
  for (; fgets(text, sizeof(text), file); lines++) {
    char *word[PLAY_WORDS], *rest = text, *next;
    int n = 0;
    while (n < PLAY_WORDS && (next = strtok_r(rest, " \n", &rest))) word[n++] = next;
    line(word, n);
  }
  fclose(file);
  assert_true(lines > 5);
}

#endif
