#include "actor/picture_check.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/check.h"
#include "envs/registry.h"

enum { MAX_SIDE = 8192, GUARD_BYTES = 64, GUARD = 0xEE };

static enum status render(const struct acorn_env *env, void *instance,
                          struct acorn_picture *picture, struct error *error) {
  char text[512] = "";
  if (!env->render(instance, picture, text, sizeof text)) return STATUS_OK;
  return status_fail(error, STATUS_IO, "render failed: %s", *text ? text : "it gave no reason");
}

static enum status check_size(struct picture_check *check, const struct acorn_picture *picture,
                              struct error *error) {
  int width = picture->width, height = picture->height;
  if (width < 1 || height < 1 || width > MAX_SIDE || height > MAX_SIDE)
    return status_fail(error, STATUS_IO, "its picture is %d x %d; 1 to %d pixels a side are shown",
                       width, height, MAX_SIDE);
  if (check->width && (check->width != width || check->height != height))
    return status_fail(error, STATUS_IO, "its picture was %d x %d and is now %d x %d", check->width,
                       check->height, width, height);
  check->width = width;
  check->height = height;
  return STATUS_OK;
}

/* Into memory that is full of `fill`, with a guard behind it. */
static enum status draw(const struct picture_check *check, const struct acorn_env *env,
                        void *instance, uint8_t *pixels, uint8_t fill, struct error *error) {
  size_t bytes = 3 * (size_t)check->width * (size_t)check->height;
  memset(pixels, fill, bytes);
  memset(pixels + bytes, GUARD, GUARD_BYTES);
  struct acorn_picture picture = {.struct_bytes = sizeof picture,
                                  .width = check->width,
                                  .height = check->height,
                                  .pixels = pixels};
  enum status status = render(env, instance, &picture, error);
  for (int i = 0; status == STATUS_OK && i < GUARD_BYTES; i++)
    if (pixels[bytes + (size_t)i] != GUARD)
      status = status_fail(error, STATUS_IO, "it wrote behind its picture of %d x %d", check->width,
                           check->height);
  return status;
}

/* A byte that holds every time what was there before has not been written. */
static enum status check_pixels(const struct picture_check *check, const struct acorn_env *env,
                                void *instance, struct error *error) {
  static const uint8_t fills[] = {0xA5, 0x5A, 0x3C};
  size_t bytes = 3 * (size_t)check->width * (size_t)check->height;
  uint8_t *pixels = check_alloc(bytes + GUARD_BYTES, 1), *written = check_alloc(bytes, 1);
  enum status status = STATUS_OK;
  for (size_t i = 0; status == STATUS_OK && i < sizeof fills; i++) {
    status = draw(check, env, instance, pixels, fills[i], error);
    for (size_t k = 0; k < bytes; k++) written[k] |= pixels[k] != fills[i];
  }
  if (status == STATUS_OK && memchr(written, 0, bytes))
    status = status_fail(error, STATUS_IO, "it leaves some of its picture unwritten");
  free(pixels);
  free(written);
  return status;
}

enum status picture_check(struct picture_check *check, const struct acorn_env *env, void *instance,
                          struct error *error) {
  struct acorn_picture size = {.struct_bytes = sizeof size};
  if (!registry_has(env, render) || !env->render) return STATUS_OK;
  enum status status = render(env, instance, &size, error);
  if (status == STATUS_OK && size.width == 0 && !check->width) return STATUS_OK;
  if (status == STATUS_OK) status = check_size(check, &size, error);
  if (status == STATUS_OK) status = check_pixels(check, env, instance, error);
  return status;
}
