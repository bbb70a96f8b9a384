/* The options of a run folder as those of a program that plays, exports or serves its checkpoint:
 * what an evaluation with one environment would take.
 * Upstream: deploy/inspect/watch/watch.c, deploy/inspect/export/export.c, deploy/serve/model.c.
 * Thread: one. */
#ifndef ACORN_DEPLOY_INSPECT_PLAYED_RUN_H
#define ACORN_DEPLOY_INSPECT_PLAYED_RUN_H

#include <stdbool.h>

#include "learner/run/options.h"

/* What the user has chosen. NULL or "": as the run has it. Texts are borrowed for the call. */
struct played_run {
  const char *folder;
  const char *checkpoint;     /* as --checkpoint of learner/run/options.c */
  const char *env, *env_args; /* where the environment is here; its options */
  const char *device, *precision;
  const char *policy; /* "greedy", "sample" */
  int64_t seed;
  const char *learned_to; /* "export": refuses agents without a policy to export; NULL: none */
  bool spaces_alone;      /* the environment is not stepped: one that actors brought will do */
  bool code;              /* code of the run folder may be run: a plugin, a module in Python */
};

/* Rows of a program's options (common/base/option_rows.h), for its members env, env_args, code. */
#define PLAYED_RUN_ROWS                                                                    \
  STRING("env", env, "", NULL,                                                             \
         "where the run's environment is here: ./my_env.so; default: where the run says"), \
      STRING("env_args", env_args, "", NULL,                                               \
             "other options of the environment than the run's, as JSON"),                  \
      BOOL("code", code, "true", NULL, NO_CODE_HELP)

/* Fills options, which options_init has made, and names the environment's code. Errors: INVALID:
 * the folder is no run, its environment is not here, its agent has no policy;
 * registry_name_code's. */
MUST_CHECK enum status played_run_read(struct learner_options *options,
                                       const struct played_run *played, struct error *error);

#endif
