/* The environments that are compiled in. registry.c lists them; an environment's own file defines
 * its table. */
#ifndef ACORN_ENVS_BUILTIN_H
#define ACORN_ENVS_BUILTIN_H

#include <stdbool.h>

#include "common/picture/canvas.h"
#include "envs/env.h"

extern const struct acorn_env env_cartpole;
extern const struct acorn_env env_catch;
extern const struct acorn_env env_tmaze;
extern const struct acorn_env env_synthetic;

/* For the environments' own step functions: 0, or -1 with a sentence, if `action` is not in
 * 0..count-1. */
int builtin_check_action(const char *name, int action, int count, char *error, size_t error_bytes);

/* The value of option i as a whole number. */
int builtin_option(const struct acorn_config *config, int i);

/* For the environments' own render functions: says the size; true with a canvas if the pixels are
 * wanted too. */
bool builtin_begin_picture(struct canvas *canvas, struct acorn_picture *picture, int width,
                           int height);

#endif
