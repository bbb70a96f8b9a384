/* Versions of the Python packages that an environment in Python uses, found in its interpreter's
 * folders: no Python is started. Upstream: learner/report/record.c. Thread: any. */
#ifndef ACORN_ENVS_PYTHON_PACKAGES_H
#define ACORN_ENVS_PYTHON_PACKAGES_H

#include <jansson.h>

/* Adds "gymnasium": "1.2.0" and the like to `packages`, those that are there. `word` is --env;
 * nothing is added for an environment that needs no Python. */
void python_packages_add(json_t *packages, const char *word);

#endif
