/* The actor's command line. The table is the documentation of each option. */
#ifndef ACORN_ACTOR_OPTIONS_H
#define ACORN_ACTOR_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/options.h"
#include "common/rpc/credentials.h"

/* Exit code of an actor that has looked for its learner for --reconnect_s. */
enum { ACTOR_EXIT_NO_LEARNER = 4 };

/* Files that an actor keeps open, connections and its environments' apart: stdin, stdout and
 * stderr; 4 of gRPC; a pipe for signals, and one end of the supervisor's. */
enum { ACTOR_FILES = 3 + 4 + 3 };

struct actor_options {
  struct options_given given;
  char *learner; /* address */
  struct credentials_options access;
  char *name;
  int64_t task;
  int64_t streams; /* 0: as many as is best */
  int64_t reconnect_s;
  bool shared_rows;
  char *role;
  char *env;
  char *env_args;
  char *module;
  int64_t envs;
  int64_t step_delay_us;
  int64_t hang_s;
  bool check_env;
  bool exit_with_parent;
  bool measure;
  char *log_level;
};

extern const struct option_table actor_options_table;

/* Takes from a cluster's TF_CONFIG (`json`; NULL or "": there is none) what the user has not set:
 * the learner's address, name, task and role. Does nothing if --learner was given.
 * Errors: INVALID: as tf_config_parse; the task is not an actor's; several learners have actors. */
MUST_CHECK enum status actor_options_apply_tf_config(struct actor_options *options,
                                                     const char *json, struct error *error);

/* The connections of an actor with so many environments. */
int actor_num_streams(const struct actor_options *options, int envs);

/* Errors: INVALID: --learner is neither HOST:PORT nor unix:PATH. */
MUST_CHECK enum status actor_options_check_learner(const struct actor_options *options,
                                                   struct error *error);

#endif
