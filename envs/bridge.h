/* Loads gymnasium.so, which runs environments in Python, when such an environment is named.
 * It holds the interpreter, so that programs without such an environment do not load Python.
 * Upstream: envs/registry.c. Downstream: envs/gymnasium/. Thread: main. */
#ifndef ACORN_ENVS_BRIDGE_H
#define ACORN_ENVS_BRIDGE_H

#include <stdbool.h>

#include "common/base/status.h"
#include "envs/env.h"

/* Whether the word after --env= names one: gym:ID, atari, football, dmlab. */
bool bridge_is_word(const char *word);

/* Owner: the program; it stays. Errors: INVALID, with what has to be installed. */
MUST_CHECK enum status bridge_open(const struct acorn_env **out, const char *word,
                                   struct error *error);

/* What gymnasium.so exports: NULL with a sentence, or an environment that stays. */
__attribute__((visibility("default"))) const struct acorn_env *acorn_bridge_open(
    const char *word, char *error, size_t error_bytes);

/* What the program may define for gymnasium.so to call: before a thread waits for the interpreter
 * (1), and when it has it (0). Thread: the one that waits. */
__attribute__((visibility("default"), weak)) void acorn_bridge_waits(int waits);

#endif
