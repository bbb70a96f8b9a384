#include "actor/options.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "common/base/option_rows.h"
#include "common/cluster/host_port.h"
#include "common/cluster/tf_config.h"
#include "envs/env_module.h"

#define AT(member) offsetof(struct actor_options, member)
#define RUN "Run"
#define LEARNER "Learner"
#define ENVIRONMENT "Environments"

static const struct option rows[] = {
    STRING("learner", learner, "127.0.0.1:8686", LEARNER,
           "the learner's address: HOST:PORT or unix:PATH; without it that of TF_CONFIG"),
    CREDENTIALS_CLIENT_ROWS(access, LEARNER),
    STRING("name", name, "actor", LEARNER, "name of this job, as the learner shows it"),
    INT("task", task, "0", 0, 1e9, LEARNER, "number of this actor within its job"),
    INT("streams", streams, "0", 0, 1024, LEARNER,
        "connections, a thread each: some environments step while the others wait; 0: two, or one "
        "for one environment"),
    INT("reconnect_s", reconnect_s, "600", 0, 1e9, LEARNER,
        "how long to try to reach a learner that does not answer"),
    BOOL("shared_rows", shared_rows, "true", LEARNER,
         "write observations to memory that the learner reads, not into messages, where its "
         "address is local (unix:PATH, localhost, 127.*, [::1]) and those of a stream have 16 KiB "
         "or more"),

    STRING("env", env, "cartpole", ENVIRONMENT,
           "environment: cartpole, catch, tmaze, synthetic, atari:GAME, gym:ID, or the path of "
           "one's own: ./my_env.so"),
    STRING("env_args", env_args, "{}", ENVIRONMENT,
           "options of the environment, as JSON: {\"length\": 50}"),
    ENV_MODULE_ROW(ENVIRONMENT),
    INT("envs", envs, "1", 1, 65536, ENVIRONMENT, "environments in this process"),
    CHOICE("role", role, "train", "train|eval", ENVIRONMENT,
           "eval: greedy actions, episodes are not trained on"),
    INT("step_delay_us", step_delay_us, "0", 0, 1e9, ENVIRONMENT,
        "sleep this long in each step, to imitate a slow simulator"),
    {"hang_s", "env_step_s", OPTION_INT, AT(hang_s), "300", 0, 1e9, NULL, ENVIRONMENT,
     "exit 1 if the steps of one message, or creating an environment, take longer; 0: no limit; "
     "with --check_env for any call, default 10"},
    BOOL("check_env", check_env, "false", ENVIRONMENT,
         "test the environment against the rules of envs/env.h, with random actions, and exit (1: "
         "it breaks one)"),

    BOOL("exit_with_parent", exit_with_parent, "false", RUN, "exit when the parent process exits"),
    BOOL("measure", measure, "false", RUN,
         "print at the end, and on SIGUSR1, how long steps and the waits for actions took"),
    CHOICE("log_level", log_level, "info", "debug|info|warn|error", RUN,
           "least level that is logged"),
};

static const struct option_exit exits[] = {
    {"0", "the learner ended the run; with --check_env: the environment keeps the rules"},
    {"1", "the learner refused it, or the environment failed or does not keep the rules"},
    {"2", "wrong options, an environment that cannot be made, or too few open files"},
    {"4", "it got no lease from a learner for --reconnect_s"},
    {"130, 143", "SIGINT or SIGTERM stopped it (128 + the signal's number)"},
    {NULL, NULL},
};

const struct option_table actor_options_table = {
    .program = "actor",
    .about =
        "Steps environments: sends their observations to the learner and takes the actions that it "
        "returns.",
    .exits = exits,
    .options = rows,
    .count = sizeof(rows) / sizeof(*rows),
};

int actor_num_streams(const struct actor_options *options, int envs) {
  if (options->streams) return (int)options->streams;
  return envs < 2 ? envs : 2;
}

enum status actor_options_check_learner(const struct actor_options *options, struct error *error) {
  const char *address = options->learner, *path = host_port_path(address);
  struct error reason = {"a socket's path is missing"};
  if (path ? path[0] : host_port_check(address, &reason) == STATUS_OK) return STATUS_OK;
  return status_fail(error, STATUS_INVALID,
                     "--learner=%.200s: %s; for example --learner=10.0.0.1:8686 or "
                     "--learner=unix:/tmp/acorn.socket",
                     address, reason.text);
}

/* Sets an option that the user has left alone. */
static enum status set_default(struct actor_options *options, const char *name, const char *value,
                               struct error *error) {
  if (options_given(&actor_options_table, options, name)) return STATUS_OK;
  return options_set(&actor_options_table, options, name, value, "TF_CONFIG", error);
}

enum status actor_options_apply_tf_config(struct actor_options *options, const char *json,
                                          struct error *error) {
  if (!json || !json[0] || options_given(&actor_options_table, options, "learner"))
    return STATUS_OK;
  struct tf_config config = {0};
  enum status status = tf_config_parse(&config, json, error);
  if (status != STATUS_OK) return status;
  bool evaluates = config.role == TF_ROLE_EVALUATOR;
  if (config.role != TF_ROLE_ACTOR && !evaluates) {
    return status_fail(error, STATUS_INVALID,
                       "TF_CONFIG makes this task %s %d, but this program is the actor: run "
                       "build/learner for the learner and build/actor for actors and evaluators; "
                       "--learner=ADDRESS overrules TF_CONFIG",
                       tf_role_name(config.role), config.index);
  }
  if (config.num_learners > 1 && !evaluates)
    return status_fail(error, STATUS_INVALID,
                       "TF_CONFIG has %d learners, over which deploy/run_task.sh spreads the "
                       "actors: start it here, or give --learner",
                       config.num_learners);
  char task[16];
  snprintf(task, sizeof task, "%d", config.index);
  status = set_default(options, "learner", config.learner, error);
  if (status == STATUS_OK) status = set_default(options, "task", task, error);
  if (status == STATUS_OK && evaluates) status = set_default(options, "name", "evaluator", error);
  if (status == STATUS_OK && evaluates) status = set_default(options, "role", "eval", error);
  return status;
}
