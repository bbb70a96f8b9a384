/* The Python file of --module, whose import registers environments for gym:ID. A run keeps a copy
 * of it, so that playing and continuing the run need neither the file nor PYTHONPATH.
 * Upstream: deploy/launch/plan.c, learner/run/run_environment.c, actor/main.c. Downstream:
 * envs/gymnasium/game.c, by the environment variable ACORN_MODULE.
 * Thread: main, before an environment is made. */
#ifndef ACORN_ENVS_ENV_MODULE_H
#define ACORN_ENVS_ENV_MODULE_H

#include <stdbool.h>
#include <stddef.h>

#include "common/base/option_rows.h"
#include "common/base/status.h"

/* The row of a program's table. */
#define ENV_MODULE_ROW(group)                                                                      \
  STRING("module", module, "", group,                                                              \
         "Python file that registers the environment of gym:ID when it is imported: my_env.py; a " \
         "run keeps a copy")

/* The help of --code, which --no_code sets to false. */
#define NO_CODE_HELP                                                                            \
  "run an environment that is a plugin or has a Python module; --no_code refuses it, as a run " \
  "folder of somebody else's may name any"

/* Makes the environments of this process, and of those that it starts, import the file. "": no
 * change. Errors: INVALID: not a Python file, or `env` is not gym:ID; NOT_FOUND: it cannot be
 * read. */
MUST_CHECK enum status env_module_use(const char *path, const char *env, struct error *error);

/* The file that a run keeps; false if it keeps none. */
bool env_module_kept(char *path, size_t bytes, const char *run_folder);

/* Copies the file in use, if there is one, to where env_module_kept finds it. Errors: IO. */
MUST_CHECK enum status env_module_keep(const char *run_folder, struct error *error);

#endif
