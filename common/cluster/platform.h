/* Reads the cluster's description from the platform that started this task.
 *
 * In this order, the first one that is set decides: ACORN_TASK with ACORN_LEARNER and ACORN_WORKERS
 * (scripts/acorn.sbatch, deploy/kubernetes: engines that tell a task its number and the learner's
 * host, and no list of all tasks); TF_CONFIG (TensorFlow, Kubeflow's TFJob, Vertex AI, AI
 * Platform); CLUSTER_SPEC (Vertex AI: pools instead of jobs); SageMaker: SM_RESOURCE_CONFIG, or
 * SM_HOSTS and SM_CURRENT_HOST, or the file that SageMaker writes into every container. SageMaker's
 * hosts all run the same program: the first by name is the learner, the others are the actors, and
 * no ports are given.
 * Upstream: deploy/launch/task_plan.c, once at start. Thread: one. */
#ifndef ACORN_COMMON_CLUSTER_PLATFORM_H
#define ACORN_COMMON_CLUSTER_PLATFORM_H

#include "common/base/status.h"
#include "common/cluster/tf_config.h"

/* What a platform may have set; NULL or "": it has not. */
struct platform_words {
  const char *task;    /* "learner", "learner-RANK", or the number of a host of actors, from 0 */
  const char *learner; /* HOST or HOST:PORT; of several learners a list by rank, with commas */
  const char *workers; /* how many hosts of actors there are */
  const char *tf_config, *cluster_spec;
  const char *sm_resource_config, *sm_hosts, *sm_current_host;
  const char *sm_resource_file; /* a path; need not exist */
};

/* Those of this process's environment. */
struct platform_words platform_words(void);

/* Where the cluster is described: "ACORN_TASK", "TF_CONFIG", "CLUSTER_SPEC" or "SageMaker". `port`
 * is the learner's where the platform gives none.
 * Errors: NOT_FOUND: no platform has set anything. INVALID: as tf_config_parse, with the name of
 * the variable at the front. */
MUST_CHECK enum status platform_find(struct tf_config *config, const char **source,
                                     const struct platform_words *words, int port,
                                     struct error *error);

#endif
