#include "envs/builtin.h"

#include <stdio.h>

int builtin_check_action(const char *name, int action, int count, char *error, size_t error_bytes) {
  if (action >= 0 && action < count) return 0;
  snprintf(error, error_bytes,
           "%s: action %d is not in 0..%d; the policy that chose it has another action space", name,
           action, count - 1);
  return -1;
}

int builtin_option(const struct acorn_config *config, int i) {
  return (int)config->option[i].value;
}

bool builtin_begin_picture(struct canvas *canvas, struct acorn_picture *picture, int width,
                           int height) {
  picture->width = width;
  picture->height = height;
  *canvas = (struct canvas){picture->pixels, width, height};
  return picture->pixels != NULL;
}
