#!/usr/bin/env bash
# run_task.sh as Vertex AI starts it: TF_CONFIG or CLUSTER_SPEC with pools, trial and job.
. "$(dirname "$(readlink -f "$0")")/tasks/lib.sh"

host() { echo "cmle-training-workerpool$1-0123456789-$2:2222"; }
job='"{\"worker_pool_specs\":[{\"machine_spec\":{\"machine_type\":\"n1-standard-8\"}}]}"'
# cluster_spec POOL INDEX: of one, two, no and one replicas.
cluster_spec() {
  cat <<EOF
{"cluster":{"workerpool0":["$(host 0 0)"],"workerpool1":["$(host 1 0)","$(host 1 1)"],
"workerpool3":["$(host 3 0)"]},"environment":"cloud",
"task":{"type":"workerpool$1","index":$2,"trial":"7"},"job":$job,"openport":"3333"}
EOF
}
plan CLUSTER_SPEC="$(cluster_spec 0 0)" --actors_per_worker=4
expect "pool 0 is the learner" \
  "role=learner index=0 learner=$(host 0 0) listen=0.0.0.0:2222 num_envs=128"
pass_if "the source is named" grep -q '^task source=CLUSTER_SPEC ' out
plan CLUSTER_SPEC="$(cluster_spec 1 1)" --actors_per_worker=4
expect "pool 1 acts" "role=actor index=1 learner=$(host 0 0) listen= num_envs=128"
pass_if "its actors" is "$(numbers)" "4 5 6 7 "
plan CLUSTER_SPEC="$(cluster_spec 3 0)"
expect "pool 3 evaluates" "role=evaluator index=0 learner=$(host 0 0) listen= num_envs=32"
pass_if "with its own name" has_word actor --name=evaluator
plan CLUSTER_SPEC="$(cluster_spec 1 5)"
pass_if "a mistake names the variable and the pool" \
  refused_with "CLUSTER_SPEC: task.index 5 is out of range: the cluster has 2 tasks of type work"
plan CLUSTER_SPEC="{\"cluster\":{\"workerpool0\":[\"$(host 0 0)\"]},\"environment\":\"cloud\",
\"task\":{\"type\":\"workerpool0\",\"index\":0}}" --actors_per_worker=3
pass_if "a single replica has learner and actors" is "$(numbers)" "0 1 2 "

# tf_config TYPE INDEX: of the same machines, as TensorFlow's containers get it.
tf_config() {
  cat <<EOF
{"cluster":{"chief":["$(host 0 0)"],"worker":["$(host 1 0)","$(host 1 1)"],
"evaluator":["$(host 3 0)"]},"task":{"type":"$1","index":$2,"trial":"7","cloud":"us-central1"},
"job":{"python_module":"trainer.task","args":["--x"]},"environment":"cloud"}
EOF
}
plan TF_CONFIG="$(tf_config worker 1)" CLUSTER_SPEC="$(cluster_spec 1 1)"
expect "TF_CONFIG says the same" "role=actor index=1 learner=$(host 0 0) listen= num_envs=32"
pass_if "and is asked first" grep -q '^task source=TF_CONFIG ' out
plan TF_CONFIG='{"cluster":{"master":["127.0.0.1:2222"],"worker":["127.0.0.1:2223"]},
"task":{"type":"master","index":0,"trial":"1","cloud":"c"},"job":{"scale_tier":"CUSTOM"},
"environment":"cloud"}' -- --job-dir /data/run
expect "AI Platform's master" \
  "role=learner index=0 learner=127.0.0.1:2222 listen=0.0.0.0:2222 num_envs=16"

# ---- real tasks

port=$(free_port)
real() {
  cluster_spec "$1" "$2" | sed -e "s/$(host 0 0)/127.0.0.1:$port/" \
    -e 's/cmle-training-\(workerpool[0-9]\)-[0-9]*-\([0-9]\):/\1-\2.invalid:/g'
}
# Long enough by the clock for all to join: whoever dials when it is over waits for the next one.
words=(--actors_per_worker=2 --envs_per_actor=8 --step_delay_us=1000 -- "--job-dir=$work/run"
  --total_steps=30k)
for place in "1 0" "1 1" "3 0" "0 0"; do
  task "pool-${place/ /-}" CLUSTER_SPEC="$(real ${place})" -- "${words[@]}"
done
pass_if "four replicas train to the end" all_end 60 0 pool-0-0 pool-1-0 pool-1-1 pool-3-0
pass_if "the budget was used" is "$(result pool-0-0 reason)" total_steps
pass_if "in the job's folder" test -s run/metrics.jsonl
finish
