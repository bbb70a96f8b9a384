#include "deploy/launch/options.h"

#include "common/base/option_rows.h"
#include "deploy/launch/supervisor.h"
#include "envs/env_module.h"

#define RUN "Run"
#define TASK "Task"
#define AT(member) offsetof(struct deploy_options, member)

/* Of both launchers. */
#define COMMON_ROWS(group, envs_of_evaluator)                                                      \
  INT("max_deaths", max_deaths, "5", 0, SUPERVISOR_MAX_DEATHS, group,                              \
      "deaths within 60 s after which an actor that has never stepped is given up; one that has "  \
      "stepped is restarted each time, after 1, 2, 4 ... 60 s. 0: restart any actor after 0.2 s"), \
      INT("evaluators", evaluators, "-1", -1, 1024, group,                                         \
          "actors beside the learner that play with the newest parameters, greedily, and are "     \
          "never trained on; with any, --target_return and the result line count their episodes. " \
          "-1: as many as suit the agent (docs/algorithms.md), none with --deterministic or if "   \
          "the cluster has an evaluator task"),                                                    \
      INT("eval_envs", eval_envs, envs_of_evaluator, 0, 4096, group,                               \
          "environments of each evaluator; 0: as many as an actor has")

static const struct option launch_rows[] = {
    COMMON_ROWS(RUN, "0"),
    INT("spare_learners", spare_learners, "0", 0, 63, RUN,
        "of --learners, so many may be killed, or not answer for --learners_timeout_s: those that "
        "are left go on from a checkpoint"),
    BOOL("plot", plot, "true", RUN, "draw the learning curve into the run folder at the end"),
    BOOL("code", code, "true", RUN, NO_CODE_HELP),
    ENV_FLAGS_ROWS(environment),
};

static const struct option task_rows[] = {
    INT("actors_per_worker", actors_per_worker, "1", 1, 4096, TASK,
        "actor processes of every actor or worker task"),
    INT("actors_on_learner", actors_on_learner, "-1", -1, 4096, TASK,
        "actor processes beside the learner; -1: those of a worker if the cluster has no actors, "
        "else none"),
    INT("envs_per_actor", envs_per_actor, "0", 0, 4096, TASK,
        "environments of an actor process; 0: the environment's default"),
    COMMON_ROWS(TASK, "4"),
    INT("port", port, "8686", 1, 65535, TASK,
        "the learner's port, where the platform gives none (SageMaker)"),
    STRING("log_folder", log_folder, "", TASK,
           "folder for the actors' logs; default: they appear in this task's output"),
    INT("stopped_exit_code", stopped_exit_code, "0", 0, 255, TASK,
        "exit code after SIGTERM or SIGHUP has stopped this task in order; 143 where the platform "
        "takes 0 for the end of the run and would not start the task again (Kubernetes)"),
    BOOL("dry_run", dry_run, "false", TASK,
         "print the commands that this task would run, and exit"),
    ENV_FLAGS_ROWS(environment),
};

static const struct option_exit exits[] = {
    {"0", "the run is over, or SIGTERM or SIGHUP stopped it in order"},
    {"1", "the learner failed, or no actor is left here"},
    {"2", "wrong options, or a run folder, address or limit that does not let it start"},
    {"3", "the budget ended before --target_return was reached"},
    {"129, 130, 143", "a signal stopped it before there was a learner (128 + the signal's number)"},
    {"130", "SIGINT (Ctrl-C) stopped it in order, or a second signal ended the run at once"},
    {"128 + N", "signal N ended the learner"},
    {NULL, NULL},
};

const struct option_table launch_options_table = {
    .program = "run_local.sh",
    .about =
        "Starts a learner and its actors, and restarts actors that die. It takes their options as "
        "well.",
    .exits = exits,
    .options = launch_rows,
    .count = sizeof(launch_rows) / sizeof(*launch_rows),
};

const struct option_table task_options_table = {
    .program = "run_task",
    .about = "Starts this task's part of a cluster: the learner, or actors.",
    .exits = exits,
    .options = task_rows,
    .count = sizeof(task_rows) / sizeof(*task_rows),
};
