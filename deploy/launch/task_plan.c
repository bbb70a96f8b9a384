#include "deploy/launch/task_plan.h"

#include <stdlib.h>
#include <string.h>

#include "common/cluster/learner_address.h"
#include "common/cluster/platform.h"

static const struct reserved_flag reserved[] = {
    {"env", "the environment is the first word"},
    {"agent", "the agent is the second word"},
    {"num_envs", "it follows from the cluster, --actors_per_worker and --envs_per_actor"},
    {"envs", "environments per actor are --envs_per_actor"},
    {"learner", "the platform's description of the cluster names the learner"},
    {"task", "actors are numbered by their place in the cluster"},
    {"role", "the platform says which task is an evaluator"},
    {"exit_with_parent", "it is always on here"},
    {"spare_learners", "it is run_local.sh's; here the platform starts tasks again"},
    {"learners_mpi", "it is run_local.sh's; here the platform says which learners there are"},
    {NULL, NULL},
};

const struct arguments_form task_form = {
    .name = "run_task",
    .usage =
        "Usage: deploy/run_task.sh ENV AGENT [--actors_per_worker=N] [--flag=value ...]\n"
        "                          [-- --flag=value ...]\n\n"
        "Runs the part that this task has in training AGENT on ENV: the learner (learner, chief\n"
        "or master; worker 0 where there is none), actors (actor or worker), or an evaluator.\n"
        "ACORN_TASK, TF_CONFIG, CLUSTER_SPEC, SM_HOSTS or SM_RESOURCE_CONFIG says which. Start\n"
        "every task with the same words; what a platform appends may follow \" -- \".\n\n"
        "  deploy/run_task.sh cartpole vtrace --actors_per_worker=4 --total_steps=2M\n"
        "  deploy/run_task.sh cartpole vtrace --actors_per_worker=4 --dry_run\n\n",
    .counts_actors = false,
    .reserved = reserved,
    .own = &task_options_table,
};

// Beside the learner, its own address is the nearest; one that stands for all is loopback's.
static void choose_addresses(struct task_plan *task) {
  const struct plan *plan = &task->plan;
  struct plan_part *part = &task->plan.part;
  bool given = plan_learner_given(plan, "listen");
  if (!part->has_learner) {
    snprintf(part->learner, sizeof(part->learner), "%s", task->cluster.learner);
    return;
  }
  snprintf(part->listen, sizeof(part->listen), "%.250s",
           given ? plan->learner.listen : task->cluster.listen);
  bool is_any = strncmp(part->listen, "0.0.0.0:", 8) == 0 || strncmp(part->listen, "[::]:", 5) == 0;
  snprintf(part->learner, sizeof(part->learner), "%s%.250s", is_any ? "127.0.0.1" : "",
           is_any ? strrchr(part->listen, ':') : part->listen);
}

// Each waits for the others at a port above its own, and has its part of the run folder.
static enum status check_learners(const struct task_plan *task, struct error *error) {
  const struct tf_config *cluster = &task->cluster;
  enum { MOST_PORT = 65535 - LEARNER_PEERS_PORT };
  for (int r = 0; r < cluster->num_learners; r++) {
    const char *at = cluster->learners[r];
    if (atoi(strrchr(at, ':') + 1) > MOST_PORT)
      return status_fail(error, STATUS_INVALID,
                         "%s: learner %d is at %s, and waits for the others %d ports above: give "
                         "a port up to %d",
                         task->source, r, at, LEARNER_PEERS_PORT, MOST_PORT);
  }
  if (task->plan.evaluates)
    return status_fail(error, STATUS_INVALID,
                       "--mode=evaluate, and %s has %d learners: one learner plays; name one, or "
                       "use scripts/eval.sh RUN_FOLDER",
                       task->source, cluster->num_learners);
  if (cluster->role != TF_ROLE_LEARNER || task->plan.learner.logdir[0]) return STATUS_OK;
  return status_fail(error, STATUS_INVALID,
                     "%s has %d learners, and there is no --logdir: give all tasks the same "
                     "--logdir=RUN_FOLDER; learner RANK has RUN_FOLDER/learner-RANK",
                     task->source, cluster->num_learners);
}

// Several learners in the cluster: one on each host.
static enum status choose_learners(struct task_plan *task, struct error *error) {
  struct plan *plan = &task->plan;
  int learners = task->cluster.num_learners;
  if (learners == 1) return STATUS_OK;
  if (plan_learner_given(plan, "learners") && plan->learner.learners != learners)
    return status_fail(error, STATUS_INVALID,
                       "--learners=%d, and %s has %d learners: leave it out, since each of several "
                       "hosts runs one",
                       (int)plan->learner.learners, task->source, learners);
  enum status status = check_learners(task, error);
  if (status != STATUS_OK) return status;
  plan->part.hosts = task->cluster.learners;
  plan->part.rank = task->cluster.role == TF_ROLE_LEARNER ? task->cluster.index : 0;
  char count[16];
  snprintf(count, sizeof(count), "%d", learners);
  return options_set(&learner_options_table, &plan->learner, "learners", count, task->source,
                     error);
}

static void choose_actors(struct task_plan *task, int on_learner) {
  struct plan_part *part = &task->plan.part;
  switch (task->cluster.role) {
    case TF_ROLE_LEARNER:
      part->has_learner = true;
      part->num_actors = on_learner;
      part->first = task->cluster.index * on_learner;
      // Not the name of the platform's evaluators: these may run although the cluster does not list
      // them, and two actors of one name supersede each other.
      part->evaluator_name = "learner-evaluator";
      part->other_evaluators = task->cluster.num_evaluators;
      break;
    case TF_ROLE_ACTOR:
      part->num_actors = (int)task->plan.own.actors_per_worker;
      part->first =
          task->cluster.num_learners * on_learner + task->cluster.index * part->num_actors;
      break;
    case TF_ROLE_EVALUATOR:
      part->evaluates = true;
      part->num_actors = 1;
      part->first = task->cluster.index;
      part->actor_name = "evaluator";
      break;
    case TF_ROLE_PS:
      break;
  }
}

enum status task_plan_make(struct task_plan *task, struct error *error) {
  struct plan *plan = &task->plan;
  const struct deploy_options *own = &plan->own;
  const struct platform_words words = platform_words();
  enum status status = platform_find(&task->cluster, &task->source, &words, (int)own->port, error);
  if (status != STATUS_OK) return status;
  int others = task->cluster.num_actors, per_worker = (int)own->actors_per_worker;
  int on_learner = (int)own->actors_on_learner;
  if (on_learner < 0) on_learner = others ? 0 : per_worker;
  plan->part.envs_per_actor = (int)own->envs_per_actor;
  choose_actors(task, on_learner);
  choose_addresses(task);
  status = choose_learners(task, error);
  // plan_parse has checked that of the words; the platform's has its own port.
  int here = task->cluster.num_learners > 1 ? 1 : (int)plan->learner.learners;
  if (status == STATUS_OK && plan->part.has_learner)
    status = plan_check_listen(plan->part.listen, here, error);
  int64_t all = (int64_t)task->cluster.num_learners * on_learner + (int64_t)others * per_worker;
  if (status == STATUS_OK) status = plan_size(plan, all, error);
  if (status != STATUS_OK) return status;
  if (plan->part.evaluates) plan->part.envs_per_actor = (int)own->eval_envs;
  plan_commands(plan);
  plan->run.actors_elsewhere = plan->part.has_learner && others > 0;
  return STATUS_OK;
}
