#!/usr/bin/env bash
# One task of a cluster: deploy/run_task.sh ENV AGENT [--actors_per_worker=N] [--flag=value ...]
# [-- --flag=value ...]. ACORN_TASK (Slurm, Kubernetes), TF_CONFIG, CLUSTER_SPEC (Vertex AI) or
# SM_HOSTS (SageMaker) says whether this task is the learner, a host of actors or an evaluator.
# Needs bash and the programs alone; --help lists the options.
set -eu
export LC_ALL=C.UTF-8
root=$(cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/.." && pwd)
task=$root/build/task
if [ ! -x "$task" ]; then
  echo "run_task: $task is not there: build it (make, after scripts/setup.sh)," \
    "or use a bundle (make bundle)" >&2
  exit 2
fi
exec "$task" "$@"
