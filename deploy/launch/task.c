/* One task of a cluster: what deploy/run_task.sh starts. The platform's variables say which part
 * this task has; it runs the learner, some actors or an evaluator, or waits, until the training is
 * over. */
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/files.h"
#include "common/base/log.h"
#include "common/base/process.h"
#include "common/cluster/probe.h"
#include "common/rpc/client.h"
#include "deploy/launch/launch_record.h"
#include "deploy/launch/supervisor.h"
#include "deploy/launch/task_plan.h"

enum { PS_LOOK_MS = 500, PS_ANSWER_MS = 2000, PS_GONE_MS = 5000, PS_ANSWER_BYTES = 1024 };

/* ---- ps: there is nothing to serve, but the platform waits for the task */

static int stopped_exit_code;

static void on_stop(int signum) {
  _exit(signum == SIGINT ? PROCESS_INTERRUPTED : stopped_exit_code);
}

// By a call: a learner with TLS takes a connection that only hangs up for a client that is refused.
static bool learner_answers(struct rpc_channel *channel) {
  uint8_t *reply = NULL;
  size_t bytes;
  rpc_channel_renew(channel);
  enum rpc_code code =
      rpc_unary(channel, "/grpc.health.v1.Health/Check", "", 0, &reply, &bytes, PS_ANSWER_MS).code;
  free(reply);
  return code != RPC_UNAVAILABLE && code != RPC_DEADLINE_EXCEEDED;
}

// Ends with the learner: once it has been there and has been gone for a while. A signal ends that,
// too, with the exit code of a task that has actors.
static int wait_for_learner(const struct task_plan *task, const sigset_t *held) {
  static const int stops[] = {SIGTERM, SIGINT, SIGHUP};
  struct credentials *credentials;
  struct error error;
  stopped_exit_code = (int)task->plan.own.stopped_exit_code;
  for (size_t i = 0; i < sizeof(stops) / sizeof(*stops); i++)
    if (!process_ignores(stops[i])) signal(stops[i], on_stop);
  sigprocmask(SIG_UNBLOCK, held, NULL);
  if (credentials_open(&credentials, &task->plan.actor.access, CREDENTIALS_CLIENT, &error) !=
      STATUS_OK)
    return plan_refuse(&task->plan, &error);
  struct rpc_channel *channel =
      rpc_channel_create(task->cluster.learner, PS_ANSWER_BYTES, credentials);
  log_info("ps tasks have nothing to do here: waiting for the end of the learner at %s",
           task->cluster.learner);
  int64_t seen_us = 0;
  while (!seen_us || clock_now_us() - seen_us < PS_GONE_MS * 1000L) {
    if (learner_answers(channel)) seen_us = clock_now_us();
    clock_sleep_us(PS_LOOK_MS * 1000L);
  }
  log_info("the learner is gone");
  rpc_channel_destroy(channel);
  credentials_close(credentials);
  return EXIT_SUCCESS;
}

/* ---- */

static enum status check_free(const struct plan *plan, struct error *error) {
  const char *listen = plan->part.listen;
  if (!plan->part.has_learner || plan->own.dry_run || !probe_accepts(listen)) return STATUS_OK;
  return status_fail(error, STATUS_EXISTS,
                     "something listens at %s already, where the learner should: stop it, or "
                     "choose another port",
                     listen);
}

static int run(struct task_plan *task, const sigset_t *held, int argc, char **argv) {
  const char *log_folder = task->plan.own.log_folder;
  log_info("%s: this task is %s %d; the learner is at %s", task->source,
           tf_role_name(task->cluster.role), task->cluster.index, task->cluster.learner);
  if (task->cluster.role == TF_ROLE_PS) return wait_for_learner(task, held);
  // The folder that the learner would choose by itself is not known here: then it stays empty.
  if (task->plan.part.has_learner)
    snprintf(task->plan.run_folder, PATH_MAX, "%s", task->plan.learner.logdir);
  size_t existing = launch_record_existing(task->plan.run_folder);
  launch_record_begin(&task->plan, existing, "deploy/run_task.sh", argc, argv);
  task->plan.run.log_folder = log_folder[0] ? log_folder : NULL;
  task->plan.run.lost_exit_code = ACTOR_EXIT_NO_LEARNER;
  task->plan.run.stopped_exit_code = (int)task->plan.own.stopped_exit_code;
  int code = supervisor_run(&task->plan.run);
  launch_record_end(&task->plan, code);
  if (code == PROCESS_INTERRUPTED) process_end_interrupted();
  return code;
}

static int show(const struct task_plan *task) {
  const struct plan_part *part = &task->plan.part;
  printf("task source=%s role=%s index=%d learner=%s listen=%s num_envs=%d\n", task->source,
         tf_role_name(task->cluster.role), task->cluster.index, task->cluster.learner, part->listen,
         part->num_envs);
  plan_print_commands(&task->plan, stdout);
  return EXIT_SUCCESS;
}

int main(int argc, char **argv) {
  static struct task_plan task;
  struct error error;
  sigset_t held; // process 1 of a container has no default actions: an early stop would be lost
  supervisor_hold_signals(&held);
  int code = plan_begin(&task.plan, &task_form, argc, argv);
  if (code >= 0) return code;
  enum status status = task_plan_make(&task, &error);
  if (status == STATUS_OK) status = files_check("this task", SUPERVISOR_FILES, 0, &error);
  if (status == STATUS_OK) status = check_free(&task.plan, &error);
  if (status == STATUS_OK && task.plan.own.dry_run) return show(&task);
  if (status == STATUS_OK) return run(&task, &held, argc, argv);
  return plan_refuse(&task.plan, &error);
}
