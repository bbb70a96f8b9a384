/* A whole run on this machine: what run_local.sh starts. It is a cluster of one host: chooses the
 * run folder and the learner's address; the commands are plan.h's. */
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common/base/files.h"
#include "common/base/log.h"
#include "common/base/process.h"
#include "deploy/launch/launch_record.h"
#include "deploy/launch/plan.h"
#include "deploy/launch/private_folder.h"
#include "common/cluster/probe.h"
#include "deploy/launch/run_folder.h"
#include "deploy/launch/shell_word.h"
#include "deploy/launch/supervisor.h"
#include "envs/env_words.h"

enum { EXIT_TARGET_MISSED = 3, EXIT_TIMED_OUT = 124 };

static const struct reserved_flag reserved[] = {
    {"env", "the environment is the first word"},
    {"agent", "the agent is the second word"},
    {"num_envs", "it is NUM_ACTORS x ENVS_PER_ACTOR, the third and fourth word"},
    {"envs", "environments per actor are the fourth word"},
    {"learner", "the actors connect to this run's learner; set its address with --listen"},
    {"task", "the launcher numbers the actors itself"},
    {"exit_with_parent", "it is always on here"},
    {"check_env", "run build/actor --env=ENV --check_env"},
    {NULL, NULL},
};
static const struct arguments_form form = {
    .name = "run_local",
    .usage =
        "Usage: ./run_local.sh ENV [AGENT [NUM_ACTORS [ENVS_PER_ACTOR]]] [--flag=value ...]\n\n"
        "Trains AGENT (default: ppo) on ENV on this machine: one learner and NUM_ACTORS actor\n"
        "processes (default: one for each core, at most 4), each with ENVS_PER_ACTOR environments\n"
        "(default: what suits ENV). Ctrl-C stops the run and keeps a checkpoint; the run folder "
        "is\n"
        "runs/ENV-AGENT-TIME unless --logdir names one.\n\n"
        "  ./run_local.sh gym:CartPole-v1\n"
        "  ./run_local.sh cartpole vtrace 4\n"
        "  ./run_local.sh cartpole vtrace 4 32 --seed=7 --target_return=475\n"
        "  ./run_local.sh tmaze vtrace 2 --env_args='{\"length\": 20}' --logdir=runs/maze\n"
        "  ./run_local.sh cartpole vtrace 4 --resume\n"
        "  ./run_local.sh cartpole vtrace 1 --mode=evaluate --logdir=RUN --episodes=100\n\n",
    .counts_actors = true,
    .reserved = reserved,
    .own = &launch_options_table,
};

struct launch {
  struct plan plan;
  char private_folder[PRIVATE_FOLDER_BYTES];
  size_t existing; // bytes of the run folder's name that led to a folder before
  char log_folder[PATH_MAX];
};

/* ---- places */

static enum status choose_address(struct launch *launch, struct error *error) {
  struct plan *plan = &launch->plan;
  bool given = plan_learner_given(plan, "listen");
  if (given)
    snprintf(plan->part.listen, PATH_MAX, "%s", plan->learner.listen);
  else
    snprintf(plan->part.listen, PATH_MAX, "unix:%s/socket", launch->private_folder);
  memcpy(plan->part.learner, plan->part.listen, PATH_MAX);
  if (!given || !probe_accepts(plan->part.listen)) return STATUS_OK;
  return status_fail(error, STATUS_EXISTS,
                     "--listen=%s: something listens there already; stop it, choose another "
                     "address, or leave --listen out",
                     plan->part.listen);
}

// A run that is resumed has its folder already. An evaluation keeps nothing: it reads a run folder,
// which may be in use.
static enum status choose_folders(struct launch *launch, struct error *error) {
  struct plan *plan = &launch->plan;
  enum status status = STATUS_OK;
  if (plan->learner.logdir[0])
    snprintf(plan->run_folder, sizeof(plan->run_folder), "%s", plan->learner.logdir);
  bool is_new = !plan->evaluates && !plan->run_folder[0];
  launch->existing = launch_record_existing(is_new ? RUNS_FOLDER : plan->run_folder);
  if (is_new) {
    char label[RUN_LABEL_BYTES];
    env_words_label(label, sizeof(label), plan->env_name, plan->learner.env_args);
    status = run_folder_create(plan->run_folder, PATH_MAX, RUNS_FOLDER, label,
                               plan->arguments.agent, time(NULL), error);
  }
  return status;
}

// An evaluation's are not kept.
static enum status choose_log_folder(struct launch *launch, struct error *error) {
  const char *folder = launch->plan.evaluates ? launch->private_folder : launch_record_folder();
  if (!folder[0]) folder = launch->plan.run_folder;
  int length = snprintf(launch->log_folder, PATH_MAX, "%s/logs", folder);
  if (length < PATH_MAX) return STATUS_OK;
  return status_fail(error, STATUS_INVALID, "--logdir: the path is too long");
}

// With too few files actors would wait for a learner that turns them away.
static enum status check_files(const struct plan *plan, struct error *error) {
  int streams =
      plan_has_one_stream(plan) ? 1 : actor_num_streams(&plan->actor, plan->part.envs_per_actor);
  int connections = plan->part.num_actors * streams + plan->part.num_evaluators;
  enum status status = files_check("this run's learner", LEARNER_FILES, connections, error);
  if (status == STATUS_OK) status = files_check("an actor", ACTOR_FILES, streams, error);
  if (status == STATUS_OK)
    status = files_check("the launcher", SUPERVISOR_FILES + plan->part.learners - 1, 0, error);
  return status;
}

/* ---- the learning curve */

// The learning curve, where the tree is there that draws it: of the returns that the result line is
// over. A signal ends it. Its stdout is stderr, so that the last line of the run stays the last.
static void plot(const struct launch *launch) {
  char *y = plan_scores_evaluation(&launch->plan) ? "--y=eval/episode_return"
                                                  : "--y=train/episode_return";
  char script[PATH_MAX + 32], *folder = (char *)launch->plan.run_folder;
  char *const command[] = {"/bin/sh", "-c",   "exec timeout 30 \"$@\" >&2",
                           "plot",    script, "--if_possible",
                           y,         folder, NULL};
  struct supervisor_config drawing = {.learner = command, .address = ""};
  supervisor_defaults(&drawing);
  drawing.name = "the program that draws the learning curve";
  drawing.ready_ms = 0;
  snprintf(script, sizeof(script), "%s/../scripts/plot.sh", launch->plan.programs);
  if (launch->plan.own.plot && access(script, X_OK) == 0 &&
      supervisor_run(&drawing) == EXIT_TIMED_OUT)
    log_warn("the learning curve took too long: it was not drawn");
}

/* ---- */

// From the root of the tree its scripts are called as the documents do.
static void print_command(const char *before, const char *script, const struct plan *plan,
                          const char *after) {
  char path[PATH_MAX + 32], whole[PATH_MAX] = "", here[PATH_MAX];
  snprintf(path, sizeof(path), "%s/..", plan->programs);
  bool is_root = realpath(path, whole) && getcwd(here, sizeof(here)) && strcmp(whole, here) == 0;
  snprintf(path, sizeof(path), "%s%sscripts/%s", is_root ? "" : whole, is_root ? "" : "/", script);
  fputs(before, stderr);
  shell_word_print(stderr, path);
  fputc(' ', stderr);
  shell_word_print(stderr, plan->run_folder);
  fprintf(stderr, "%s\n", after);
}

// What to do with the run now, as commands: on stderr, since the result line is the last on stdout.
static void print_next(const struct launch *launch) {
  char scripts[PATH_MAX + 32];
  const struct plan *plan = &launch->plan;
  snprintf(scripts, sizeof(scripts), "%s/../scripts/eval.sh", plan->programs);
  if (!learner_options_learns(&plan->learner) || access(scripts, X_OK) != 0) return;
  print_command("next: ", "eval.sh", plan, "                # how well its best checkpoint plays");
  print_command("      ", "watch.sh", plan, "               # a video of an episode");
  print_command("      ", "plot.sh", plan, " OTHER...       # learning curves of several runs");
  fprintf(stderr, "      tensorboard --logdir=");
  shell_word_print(stderr, plan->run_folder);
  fputc('\n', stderr);
}

// Whether it trained until its end or a stop, and left its result.
static bool has_ended_well(const struct plan *plan, int code) {
  bool in_order = code == 0 || code == EXIT_TARGET_MISSED || code == PROCESS_INTERRUPTED;
  return in_order && !plan->evaluates && !plan->part.rank && launch_record_has("result.json");
}

// Those that are left after the loss of a learner go on, as often as may be. Returns the exit code.
static int supervise(struct launch *launch) {
  struct plan *plan = &launch->plan;
  for (int64_t spares = plan->own.spare_learners;; spares--) {
    struct supervisor_loss loss = {.rank = -1};
    char who[64], how[64] = "has ended";
    int learners = plan->part.learners;
    plan->run.log_folder = launch->log_folder;
    plan->run.loss = learners > 1 ? &loss : NULL;
    int code = supervisor_run(&plan->run);
    bool in_order = code == 0 || code == EXIT_TARGET_MISSED;
    if (loss.rank < 0 || in_order || !(plan->own.spare_learners || loss.signum)) return code;
    if (loss.silent)
      snprintf(how, sizeof(how), "did not answer within %g s", plan->learner.learners_timeout_s);
    snprintf(who, sizeof(who), "learner %d of %d", loss.rank, learners);
    if (loss.rank == learners) snprintf(who, sizeof(who), "one of %d learners", learners);
    if (loss.signum || spares == 0) {
      log_error("%s %s, and %s: the run ends", who, how,
                loss.signum ? "a signal has stopped the others" : "no spare one is left");
      if (!loss.signum || !launch_record_has("checkpoints/checkpoint-*")) return code;
      return loss.signum == SIGINT ? PROCESS_INTERRUPTED : 0;
    }
    launch_record_follow(plan);
    plan_lose_learner(plan);
    launch_record_actors(plan);
    log_warn("%s %s: the run goes on with %d, and %d actors", who, how, plan->part.learners,
             plan->part.num_actors);
  }
}

static enum status size_plan(struct plan *plan, struct error *error) {
  int rank = plan->learner.learner_rank > 0 ? (int)plan->learner.learner_rank : 0; // by MPI
  plan->part = (struct plan_part){.has_learner = true,
                                  .rank = rank,
                                  .first = rank * plan->arguments.num_actors,
                                  .evaluates = plan->evaluates,
                                  .num_actors = plan->arguments.num_actors,
                                  .envs_per_actor = plan->arguments.envs_per_actor,
                                  .evaluator_name = "evaluator"};
  enum status status = plan_size(plan, plan->part.num_actors, error);
  return status == STATUS_OK ? check_files(plan, error) : status;
}

int main(int argc, char **argv) {
  static struct launch launch;
  struct plan *plan = &launch.plan;
  struct error error;
  int code = plan_begin(plan, &form, argc, argv);
  if (code >= 0) return code;
  if (size_plan(plan, &error) != STATUS_OK) return plan_refuse(plan, &error);
  sigset_t held; // they would leave the folder
  supervisor_hold_signals(&held);
  if (private_folder_create(launch.private_folder, &error) != STATUS_OK)
    return plan_refuse(plan, &error);
  enum status status = choose_address(&launch, &error);
  if (status == STATUS_OK) status = choose_folders(&launch, &error);
  if (status == STATUS_OK) plan_commands(plan);
  if (status == STATUS_OK) launch_record_begin(plan, launch.existing, "./run_local.sh", argc, argv);
  if (status == STATUS_OK) status = choose_log_folder(&launch, &error);
  code = status == STATUS_OK ? supervise(&launch) : plan_refuse(plan, &error);
  private_folder_remove(launch.private_folder);
  launch_record_follow(plan);
  if (has_ended_well(plan, code)) {
    plot(&launch);
    print_next(&launch);
  }
  launch_record_end(plan, code);
  /* MPI's launcher would kill the other processes of the job, before they have stopped. */
  if (code == PROCESS_INTERRUPTED && !plan->learner.learners_mpi) process_end_interrupted();
  return code;
}
