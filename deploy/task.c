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
#include "deploy/supervisor.h"
#include "deploy/task_plan.h"

enum { EXIT_USAGE = 2, PS_LOOK_MS = 500, PS_ANSWER_MS = 2000, PS_GONE_MS = 5000 };

static void print_usage(FILE *out) {
  fprintf(out,
          "Usage: deploy/run_task.sh ENV AGENT [--actors_per_worker=N] [--flag=value ...]\n"
          "                          [-- --flag=value ...]\n\n"
          "Runs the part that this task has in training AGENT on ENV: the learner (learner, chief\n"
          "or master; worker 0 where there is none), actors (actor or worker), or an evaluator.\n"
          "TF_CONFIG, CLUSTER_SPEC, SM_HOSTS or SM_RESOURCE_CONFIG says which. Start every task\n"
          "with the same words; what a platform appends may follow \" -- \".\n\n"
          "  deploy/run_task.sh cartpole vtrace --actors_per_worker=4 --total_steps=2M\n"
          "  deploy/run_task.sh cartpole vtrace --actors_per_worker=4 --dry_run\n\n");
}

static void print_help(void) {
  print_usage(stdout);
  plan_print_options(&task_form);
}

/* ---- ps: there is nothing to serve, but the platform waits for the task */

static void on_stop(int signum) {
  (void)signum;
  _exit(EXIT_SUCCESS);
}

static bool learner_answers(const struct task_plan *task) {
  int connection = probe_connect(task->cluster.learner, PS_ANSWER_MS);
  if (connection >= 0) close(connection);
  return connection >= 0;
}

// Ends with the learner: once it has been there and has been gone for a while. Looking for it may
// take a while where its machine is gone; a signal ends that, too.
static int wait_for_learner(const struct task_plan *task) {
  signal(SIGTERM, on_stop);
  if (!process_ignores(SIGINT)) signal(SIGINT, on_stop);
  log_info("ps tasks have nothing to do here: waiting for the end of the learner at %s",
           task->cluster.learner);
  int64_t seen_us = 0;
  while (!seen_us || clock_now_us() - seen_us < PS_GONE_MS * 1000L) {
    if (learner_answers(task)) seen_us = clock_now_us();
    clock_sleep_us(PS_LOOK_MS * 1000L);
  }
  log_info("the learner is gone");
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

static int run(const struct task_plan *task) {
  const char *log_folder = task->plan.own.log_folder;
  log_info("%s: this task is %s %d; the learner is at %s", task->source,
           tf_role_name(task->cluster.role), task->cluster.index, task->cluster.learner);
  if (task->cluster.role == TF_ROLE_PS) return wait_for_learner(task);
  return plan_run(&task->plan, log_folder[0] ? log_folder : NULL, ACTOR_EXIT_NO_LEARNER);
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
  struct error error = {""};
  process_init();
  log_init("run_task", LOG_INFO);
  if (argc == 1) {
    print_usage(stderr);
    return EXIT_USAGE;
  }
  enum status status = plan_parse(&task.plan, &task_form, argc, argv, &error);
  if (status == STATUS_OK && task.plan.arguments.help) {
    print_help();
    return EXIT_SUCCESS;
  }
  if (status == STATUS_OK) status = task_plan_make(&task, &error);
  if (status == STATUS_OK) status = files_check("this task", SUPERVISOR_FILES, 0, &error);
  if (status == STATUS_OK) status = check_free(&task.plan, &error);
  if (status == STATUS_OK) return task.plan.own.dry_run ? show(&task) : run(&task);
  fprintf(stderr, "run_task: %s\n", error.text);
  return EXIT_USAGE;
}
