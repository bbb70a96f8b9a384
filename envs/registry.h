/* The environments that are compiled in, those of plugins (envs/plugin.h), and the ways from the
 * word after --env= and from --env_args to one of them.
 * Upstream: actor, learner, deploy. Thread: any (tables are constant). */
#ifndef ACORN_ENVS_REGISTRY_H
#define ACORN_ENVS_REGISTRY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "common/base/status.h"
#include "common/wire/wire.h"
#include "envs/env.h"

/* The environment of that name, or of the plugin at that path, which is loaded. Owner: the program;
 * it stays. Errors: NOT_FOUND, with the nearest name and the list of all, or the path; INVALID: the
 * plugin is none (see envs/plugin.h). */
MUST_CHECK enum status registry_find(const struct acorn_env **out, const char *word,
                                     struct error *error);

/* The word with which a process in any folder finds the same environment: a path is made absolute,
 * a name stays. Owner: the caller, with free(). */
char *registry_word(const char *word);

/* Logs which code of others playing in that environment runs: the plugin, the module of the word
 * (gym:MODULE:ID), or the file of --module or the wrappers, where there are ("": none). Errors:
 * INVALID: there is some and it is not `allowed`. */
MUST_CHECK enum status registry_name_code(const char *word, const char *module, bool allowed,
                                          struct error *error);

/* Prints what --env= takes, a line each, for --help. */
void registry_print(FILE *out);

/* Reads a JSON object of options ("" or "{}": all defaults) into a configuration.
 * Owner: the caller, with registry_config_deinit. Errors: INVALID: bad JSON, unknown option (with
 * the nearest), a value out of its range. */
MUST_CHECK enum status registry_config(struct acorn_config *out, const struct acorn_env *env,
                                       const char *json, struct error *error);
void registry_config_deinit(struct acorn_config *config);

/* What the learner and its actors must agree on: the name and, in parentheses, the options that
 * differ from their defaults, in the table's order: "cartpole", "catch(rows=12,columns=7)"; where
 * any option may be given, all that was: "atari({"game":"Breakout"})". What is longer than
 * `out` ends with a hash of the whole (bytes: at least 11; WIRE_ENVIRONMENT_BYTES is the size to
 * give). */
void registry_identity(char *out, size_t bytes, const struct acorn_env *env,
                       const struct acorn_config *config);

/* Whether the environment has a member of acorn_env that is later than `destroy`: an older plugin
 * may not. */
#define registry_has(env, member) ((env)->struct_bytes > offsetof(struct acorn_env, member))

/* The space of that environment in the wire's terms. */
MUST_CHECK enum status registry_space(struct space *out, const struct acorn_env *env,
                                      const struct acorn_config *config, struct error *error);

struct registry_question {
  const char *word;     /* after --env= */
  const char *env_args; /* checked; NULL: only the name is asked for */
  bool asks_space;      /* and identity */
  unsigned limit_s;     /* as long as it may take; 0: for ever */
};

struct registry_answer {
  char name[ACORN_NAME_BYTES];
  char identity[WIRE_ENVIRONMENT_BYTES];
  struct space space;
};

/* Asks an environment, in a child process, for what a program needs that does not step it: a crash,
 * an exit or a hang of its code, also of a plugin's constructor, is an error here and does no harm,
 * and what it loads and starts is gone afterwards. Thread: before others have been started.
 * Errors: IO: the process has not answered; else those of registry_find, _config and _space. */
MUST_CHECK enum status registry_ask_apart(struct registry_answer *out,
                                          const struct registry_question *question,
                                          struct error *error);

#endif
