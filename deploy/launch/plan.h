/* The commands that a launcher starts on this host: a learner and its actors.
 *
 * They are made from the command line of run_local.sh or deploy/run_task.sh, which is checked
 * before anything starts. A run on one machine is a cluster of one host.
 *
 * Actors are numbered over the whole cluster: those beside the learner first, then those of each
 * other host.
 * Upstream: launch.c, task_plan.h. Downstream: supervisor.h. Thread: one, at start. */
#ifndef ACORN_DEPLOY_LAUNCH_PLAN_H
#define ACORN_DEPLOY_LAUNCH_PLAN_H

#include <limits.h>
#include <stdio.h>

#include "actor/options.h"
#include "common/cluster/tf_config.h"
#include "deploy/launch/arguments.h"
#include "deploy/launch/options.h"
#include "deploy/launch/supervisor.h"
#include "envs/env.h"
#include "learner/run/options.h"

/* The part of the cluster that this host runs. */
struct plan_part {
  bool has_learner;
  bool evaluates;        /* its actors are never trained on */
  int num_actors, first; /* the number of the first one */
  int num_evaluators;    /* beside the learner; set by plan_size */
  int other_evaluators;  /* on other hosts */
  int envs_per_actor;    /* 0: plan_size sets what suits the environment */
  int learners;          /* that the actors are spread over; set by plan_size */
  int num_envs;          /* training environments of the whole cluster; set by plan_size */
  int rank;              /* of the learner here, among those of several hosts */
  char (*hosts)[TF_ADDRESS_BYTES]; /* (learners): one on each host; NULL: all are on one */
  char listen[PATH_MAX];           /* the learner's address, for itself */
  char learner[PATH_MAX];          /* and for its actors */
  const char *actor_name;          /* NULL: their own default */
  const char *evaluator_name;      /* of those beside the learner */
};

struct plan {
  /* What the words ask for; set by plan_parse. What follows for the programs is set in their
   * options, too: those that count as given are their commands. */
  const struct arguments_form *form;
  struct arguments arguments; /* learner.env is its env with the path of a plugin made absolute */
  struct deploy_options own;
  struct learner_options learner;
  struct actor_options actor;
  char env_name[ACORN_NAME_BYTES]; /* its own name: "meadow" of ./my_env.so */
  bool is_ale;                     /* the word was Gymnasium's for a game */
  bool evaluates;                  /* a run that is there is played, and none is trained */
  char run_folder[PATH_MAX];       /* of the run that is resumed without --logdir; "": none */
  char programs[PATH_MAX];         /* folder of the learner and actor programs */

  struct plan_part part; /* set by the launcher between plan_parse and plan_size */

  /* What runs here; set by plan_commands, all but the log folder, exit codes and loss. */
  struct supervisor_config run;
};

/* Reads the words; those of a run on one machine (form->counts_actors) may continue or play an
 * earlier one, whose environment they take over. Only arguments is set where help is asked for.
 * Errors: INVALID: a word that is none, or does not fit the others; IO; of the earlier run. */
MUST_CHECK enum status plan_parse(struct plan *plan, const struct arguments_form *form, int argc,
                                  char **argv, struct error *error);

/* Whether so many learners of one host can listen there. Errors: INVALID: it is no address, its
 * port is open, or there are too few above it. */
MUST_CHECK enum status plan_check_listen(const char *listen, int64_t learners, struct error *error);

/* Sets what follows for the part here from the actors of the whole cluster: environments, and the
 * evaluators with the learner's words for them. Errors: INVALID. */
MUST_CHECK enum status plan_size(struct plan *plan, int64_t all_actors, struct error *error);

/* Whether the words have that option of the learner. */
bool plan_learner_given(const struct plan *plan, const char *name);
/* Whether enough actors here keep the cores busy while others wait: a second stream of each would
 * only double their messages. */
bool plan_has_one_stream(const struct plan *plan);

/* Whether the result line is over evaluation episodes. */
bool plan_scores_evaluation(const struct plan *plan);

/* Makes the commands. They live as long as the program. */
void plan_commands(struct plan *plan);
/* Makes those of the learners of one host that are left where one was lost: they resume the run,
 * with as many of the actors as are a multiple of them. */
void plan_lose_learner(struct plan *plan);
void plan_print_commands(const struct plan *plan, FILE *out);

/* What a launcher's main does first: plan_parse, or the answer to --help and --version. Returns -1:
 * go on; else the exit code. */
int plan_begin(struct plan *plan, const struct arguments_form *form, int argc, char **argv);

/* Prints why it cannot be started. Returns the exit code. */
int plan_refuse(const struct plan *plan, const struct error *error);

#endif
