/* Sorts a launcher's command line into options for the launcher, the learner and the actors.
 *
 * "ENV AGENT NUM_ACTORS [ENVS_PER_ACTOR] [--flag=value ...]": a flag of the launcher's own table
 * stays here, a flag of the learner's table goes to the learner, one of the actor's to the actors,
 * one of both to both. " -- " is skipped, wherever it stands. A flag that the launcher sets itself
 * (--num_envs and the like) is refused with a message that names the one to use.
 * Upstream: deploy/plan.h. Thread: one, at start. */
#ifndef ACORN_DEPLOY_ARGUMENTS_H
#define ACORN_DEPLOY_ARGUMENTS_H

#include <stdbool.h>

#include "common/base/options.h"
#include "common/base/status.h"

enum { ARGUMENTS_MAX_WORDS = 512, ARGUMENTS_MAX_ACTORS = 4096 };

/* Words for one program: the first is free for its path, the list ends with NULL. Owner: borrowed
 * from argv or literals. */
struct words {
  char *word[ARGUMENTS_MAX_WORDS + 1];
  int count;
};

struct arguments {
  const char *env, *agent;
  int num_actors;
  int envs_per_actor; /* 0: not given */
  bool help;
  struct words own, learner, actor; /* own: the launcher's */
};

/* A flag that the launcher sets itself, and what to write instead. */
struct reserved_flag {
  const char *name, *instead;
};

/* How the words of a launcher look, and whose flags are taken. */
struct arguments_form {
  bool counts_actors;                   /* NUM_ACTORS [ENVS_PER_ACTOR] follow ENV AGENT */
  const struct reserved_flag *reserved; /* ends with a NULL name */
  const struct option_table *own, *learner, *actor;
};

/* Reads argv[1..]. Values of flags are not looked at: the programs' own tables do that.
 * Errors: INVALID: a word too many or too few, not a number, an unknown flag (the sentence names
 * the nearest of all tables), a flag that the launcher sets. */
MUST_CHECK enum status arguments_parse(struct arguments *arguments,
                                       const struct arguments_form *form, int argc, char **argv,
                                       struct error *error);

/* Adds a word; too many are a CHECK, as arguments_parse has made sure of the room. */
void words_add(struct words *words, char *word);

/* A word made of a format; it lives as long as the program. */
char *words_format(const char *format, ...) PRINTF_LIKE(1, 2);

#endif
