#include "deploy/task_options.h"

#include "deploy/supervisor.h"

#define AT(member) offsetof(struct task_options, member)
#define TASK "Task"

static const struct option rows[] = {
    {"actors_per_worker", NULL, OPTION_INT, AT(actors_per_worker), "1", 1, 4096, NULL, TASK,
     "actor processes of every actor or worker task"},
    {"actors_on_learner", NULL, OPTION_INT, AT(actors_on_learner), "-1", -1, 4096, NULL, TASK,
     "actor processes beside the learner; -1: those of a worker if the cluster has no actors, else "
     "none"},
    {"envs_per_actor", NULL, OPTION_INT, AT(envs_per_actor), "0", 0, 4096, NULL, TASK,
     "environments of an actor process; 0: what suits the environment"},
    {"evaluators", NULL, OPTION_INT, AT(evaluators), "-1", -1, 1024, NULL, TASK,
     "evaluator processes beside the learner, as of run_local.sh; -1: as many as suit the agent "
     "(docs/algorithms.md), none if the cluster has an evaluator task or with --deterministic"},
    {"eval_envs", NULL, OPTION_INT, AT(eval_envs), "4", 1, 4096, NULL, TASK,
     "environments of each evaluator"},
    {"port", NULL, OPTION_INT, AT(port), "8686", 1, 65535, NULL, TASK,
     "the learner's where the platform gives none (SageMaker)"},
    {"max_deaths", NULL, OPTION_INT, AT(max_deaths), "5", 0, SUPERVISOR_MAX_DEATHS, NULL, TASK,
     "an actor that has never stepped and dies so often within 60 s is not started again; one that "
     "has stepped always is, after 1, 2, 4 ... 60 s. 0: all always are, after 0.2 s"},
    {"log_folder", NULL, OPTION_STRING, AT(log_folder), "", 0, 0, NULL, TASK,
     "actors' logs go to files there; default: they are shown"},
    {"dry_run", NULL, OPTION_BOOL, AT(dry_run), "false", 0, 0, NULL, TASK,
     "print what this task would run, and exit"},
};

static const struct option_exit exits[] = {
    {"0", "the training is over, or a signal stopped this task in order"},
    {"1", "the learner failed, or no actor of this task is left"},
    {"2", "wrong options, or an address or limit that does not let it start"},
    {"3", "the learner's budget ended before --target_return was reached"},
    {"130", "a second signal ended it at once"},
    {"128 + N", "signal N ended the learner"},
    {NULL, NULL},
};

const struct option_table task_options_table = {
    .program = "run_task",
    .about = "",
    .exits = exits,
    .options = rows,
    .count = sizeof(rows) / sizeof(rows[0]),
};
