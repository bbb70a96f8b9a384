/* Reads a launcher's command line: its words, and options for the launcher, the learner and the
 * actors.
 *
 * "ENV [AGENT [NUM_ACTORS [ENVS_PER_ACTOR]]] [--flag=value ...]": a flag is set wherever a table
 * has it. " -- " is skipped, wherever it stands. A flag that the launcher sets itself (--num_envs
 * and the like) is refused with a message that names the one to use.
 * Upstream: deploy/launch/plan.h. Thread: one, at start. */
#ifndef ACORN_DEPLOY_LAUNCH_ARGUMENTS_H
#define ACORN_DEPLOY_LAUNCH_ARGUMENTS_H

#include <stdbool.h>

#include "common/base/options.h"
#include "common/base/status.h"

enum { ARGUMENTS_MAX_ACTORS = 4096 };

/* The words. Owner: argv's. */
struct arguments {
  const char *env, *agent; /* agent NULL: not given */
  int num_actors;          /* 0: not given */
  int envs_per_actor;      /* 0: not given */
  bool help;
};

/* A flag that the launcher sets itself, and what to write instead. */
struct reserved_flag {
  const char *name, *instead;
};

/* How the words of a launcher look, and which flags are its own. */
struct arguments_form {
  const char *name;   /* in front of what it prints */
  const char *usage;  /* several lines and an empty one */
  bool counts_actors; /* NUM_ACTORS [ENVS_PER_ACTOR] follow; all but ENV may be missing */
  const struct reserved_flag *reserved; /* ends with a NULL name */
  const struct option_table *own;
};

/* Reads argv[1..]; flags are set as options_parse_each does. Where help is asked for nothing else
 * is read. Errors: INVALID: a word too many or too few, not a number, an unknown flag (the sentence
 * names the nearest of all tables) or a wrong value, a flag that the launcher sets. */
MUST_CHECK enum status arguments_parse(struct arguments *arguments,
                                       const struct option_target *targets, int num_targets,
                                       const struct arguments_form *form, int argc, char **argv,
                                       struct error *error);

#endif
