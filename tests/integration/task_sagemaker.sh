#!/usr/bin/env bash
# run_task.sh as SageMaker starts it: lists of hosts without roles or ports.
. "$(dirname "$(readlink -f "$0")")/tasks/lib.sh"

hosts='["algo-1","algo-2","algo-10"]'
# resources HOST: what the toolkit sets, and SageMaker writes to a file.
resources() {
  echo "{\"current_host\":\"$1\",\"current_instance_type\":\"ml.c5.4xlarge\"," \
    "\"current_group_name\":\"homogeneousCluster\",\"hosts\":[\"algo-2\",\"algo-10\",\"algo-1\"]," \
    "\"instance_groups\":[],\"network_interface_name\":\"eth0\"}"
}
plan SM_HOSTS="$hosts" SM_CURRENT_HOST=algo-1 --actors_per_worker=4
expect "the first host is the learner" \
  "role=learner index=0 learner=algo-1:8686 listen=0.0.0.0:8686 num_envs=128"
plan SM_HOSTS="$hosts" SM_CURRENT_HOST=algo-10 --actors_per_worker=4
expect "the others act, in the order of their names" \
  "role=actor index=0 learner=algo-1:8686 listen= num_envs=128"
plan SM_HOSTS="$hosts" SM_CURRENT_HOST=algo-2 --actors_per_worker=4 --port=9000
expect "--port chooses the port" "role=actor index=1 learner=algo-1:9000 listen= num_envs=128"
pass_if "its actors" is "$(numbers)" "4 5 6 7 "
plan SM_RESOURCE_CONFIG="$(resources algo-2)"
expect "SM_RESOURCE_CONFIG, in any order" \
  "role=actor index=1 learner=algo-1:8686 listen= num_envs=32"
plan SM_HOSTS='["algo-1"]' SM_CURRENT_HOST=algo-1 --actors_per_worker=2
pass_if "a single instance has learner and actors" is "$(numbers)" "0 1 "
plan TF_CONFIG='{"cluster":{"master":["algo-1:2222"],"ps":["algo-1:2223","algo-2:2223"],
"worker":["algo-2:2222"]},"task":{"type":"worker","index":0},"environment":"cloud"}' \
  SM_HOSTS='["algo-1","algo-2"]' SM_CURRENT_HOST=algo-2
expect "TF_CONFIG beside it is asked first" \
  "role=actor index=0 learner=algo-1:2222 listen= num_envs=16"
plan SM_HOSTS="$hosts" SM_CURRENT_HOST=algo-7
pass_if "a host that is not listed" refused_with "'algo-7', which is not among the hosts"
plan SM_HOSTS="algo-1,algo-2" SM_CURRENT_HOST=algo-1
pass_if "no JSON" refused_with "SM_HOSTS is not JSON"

# ---- real tasks: hyperparameters arrive as words of their own

port=$(free_port)
words=(--port "$port" --actors_per_worker 2 --envs_per_actor 8 --total_steps 30000
  --step_delay_us 1000
  --logdir "$work/checkpoints/run" --resume)
for number in 1 2 3; do
  task "host-$number" SM_HOSTS='["127.0.0.1","127.0.0.2","127.0.0.3"]' \
    SM_CURRENT_HOST="127.0.0.$number" -- "${words[@]}"
done
pass_if "three instances train to the end" all_end 60 0 host-1 host-2 host-3
pass_if "the budget was used" is "$(result host-1 reason)" total_steps
finish
