/* TF_CONFIG: which task of a cluster this process is, and where the others are.
 *
 * Upstream: the main files of learner and actor, and deploy/run_task.sh through them; read once,
 * at start. The form is {"cluster": {"chief": ["host:port"], "worker": ["host:port", ...], ...},
 * "task": {"type": "worker", "index": 0}} where a list may also be written as a map from index to
 * address: {"0": "host:port", "2": "host:port"}. Members that are not named here are ignored, jobs
 * of the cluster too.
 *
 * Job names and what they are: learner, chief, master: the learner. actor, worker: actors.
 * evaluator, ps: as they say. workerpool0 to workerpool3, as Vertex AI's CLUSTER_SPEC names them:
 * learner, actors, ps, evaluators. Without a learner, chief or master, worker 0 is the learner and
 * the other workers are the actors; actor tasks alone do not make a cluster. Several learners train
 * one network: a chief or master is the first of them, of rank 0, then those of "learner" by index.
 * An evaluator need not be in the cluster.
 * Thread: any. */
#ifndef ACORN_COMMON_CLUSTER_TF_CONFIG_H
#define ACORN_COMMON_CLUSTER_TF_CONFIG_H

#include "common/base/status.h"

enum tf_role { TF_ROLE_LEARNER, TF_ROLE_ACTOR, TF_ROLE_EVALUATOR, TF_ROLE_PS };

/* "host:port": a name of 253 characters at most, brackets of an IPv6 address, a port. */
enum { TF_ADDRESS_BYTES = 272, TF_MAX_LEARNERS = 64 };

/* Plain data.
 * `index` is that among the tasks of the role, from 0; tasks of "actor" come before those of
 * "worker". `learner` is what the others dial, as the cluster has it; `listen` is what this task
 * binds, all interfaces and its own port, or "" for a task that has no address. */
struct tf_config {
  enum tf_role role;
  int index;
  int num_actors, num_evaluators; /* tasks of the cluster with that role */
  char learner[TF_ADDRESS_BYTES];
  char listen[TF_ADDRESS_BYTES];
  int num_learners;
  char learners[TF_MAX_LEARNERS][TF_ADDRESS_BYTES]; /* by rank; the first one is `learner` */
};

/* Reads the text of the variable TF_CONFIG.
 * Errors: INVALID, with a sentence that starts with "TF_CONFIG": bad JSON and its line; no
 * cluster; no task; an unknown type; an index that the cluster has not; an address without a port,
 * or twice the same; no learner, or more than 64. `config` is unspecified then. */
MUST_CHECK enum status tf_config_parse(struct tf_config *config, const char *text,
                                       struct error *error);

/* "learner", "actor", "evaluator" or "ps". */
const char *tf_role_name(enum tf_role role);

#endif
