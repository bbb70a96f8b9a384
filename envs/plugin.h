/* Environments by third parties: shared objects that are loaded by their path.
 * Upstream: envs/registry.c. Thread: any. */
#ifndef ACORN_ENVS_PLUGIN_H
#define ACORN_ENVS_PLUGIN_H

#include <stdbool.h>
#include <stddef.h>

#include "common/base/status.h"
#include "envs/env.h"

/* Whether the word after --env= is meant as a path: it has a slash or ends in ".so". */
bool plugin_is_path(const char *word);

/* Whether an environment may be called by these characters: they become part of folders' names, of
 * lines for scripts and of sentences. */
bool plugin_is_name(const char *name, size_t length);

/* Loads it, and never unloads it. Errors, each naming the path and what to do: NOT_FOUND: no such
 * file; INVALID: not a shared object, cannot be loaded, or exports no
 * acorn_environment. What it exports is not checked. */
MUST_CHECK enum status plugin_open(const struct acorn_env **out, const char *path,
                                   struct error *error);

/* What its author may have got wrong in the struct: version, size, name, functions, options.
 * `reserved`: a NULL-terminated list of environments whose names are taken. Errors: INVALID. */
MUST_CHECK enum status plugin_check(const struct acorn_env *env,
                                    const struct acorn_env *const *reserved, struct error *error);

#endif
