#!/usr/bin/env bash
# run_task.sh as Kubeflow's TFJob starts it: services' names, sparse clusters, an evaluator that the
# cluster does not list.
. "$(dirname "$(readlink -f "$0")")/tasks/lib.sh"

# tfjob TYPE INDEX: what the operator writes for a Chief, three Workers and a PS.
tfjob() {
  cat <<EOF
{"cluster":{"chief":["acorn-chief-0.training.svc:2222"],"ps":["acorn-ps-0.training.svc:2222"],
"worker":["acorn-worker-0.training.svc:2222","acorn-worker-1.training.svc:2222",
"acorn-worker-2.training.svc:2222"]},"task":{"type":"$1","index":$2},"environment":"cloud"}
EOF
}
learner=acorn-chief-0.training.svc:2222
plan TF_CONFIG="$(tfjob chief 0)" --actors_per_worker=8
expect "Chief" "role=learner index=0 learner=$learner listen=0.0.0.0:2222 num_envs=384"
plan TF_CONFIG="$(tfjob worker 2)" --actors_per_worker=8
expect "Worker" "role=actor index=2 learner=$learner listen= num_envs=384"
pass_if "its actors" is "$(numbers)" "16 17 18 19 20 21 22 23 "
pass_if "dial the service" has_word actor "--learner=$learner"
plan TF_CONFIG="$(tfjob ps 0)"
expect "PS" "role=ps index=0 learner=$learner listen= num_envs=48"
plan TF_CONFIG="$(tfjob evaluator 0)"
expect "Evaluator" "role=evaluator index=0 learner=$learner listen= num_envs=48"

# Dynamic workers know the master and themselves only.
sparse='{"cluster":{"chief":["acorn-chief-0.training.svc:2222"],
"worker":{"2":"acorn-worker-2.training.svc:2222"}},"task":{"type":"worker","index":2},
"environment":"cloud"}'
plan TF_CONFIG="$sparse"
expect "a sparse cluster" "role=actor index=0 learner=$learner listen= num_envs=16"
plan TF_CONFIG='{"cluster":{"master":["m-master-0.ns.svc:2222"],
"worker":["m-worker-0.ns.svc:2222"]},"task":{"type":"master","index":0},"environment":"cloud"}'
expect "Master" \
  "role=learner index=0 learner=m-master-0.ns.svc:2222 listen=0.0.0.0:2222 num_envs=16"

# ---- the example that the documentation shows

example=$tree/deploy/kubernetes/tfjob.yaml
replicas() { grep -cE "^    ($1):\$" "$example"; }
pass_if "the example has a Chief, Workers and an Evaluator" \
  is "$(replicas 'Chief|Worker|Evaluator')" 3
mapfile -t args < <(sed -n 's/^ *args: &args \[\(.*\)\]$/\1/p' "$example" | grep -oE '"[^"]*"' |
  tr -d '"')
takes_words() {
  [ ${#args[@]} -gt 2 ] &&
    TF_CONFIG=$(tfjob chief 0) "$run_task" "${args[@]}" --dry_run >out 2>err
}
pass_if "run_task.sh takes the example's words" takes_words

# ---- real tasks

port=$(free_port)
real() {
  tfjob "$1" "$2" | sed -e "s/acorn-chief-0.training.svc:2222/127.0.0.1:$port/" \
    -e "s/acorn-\([a-z]*\)-\([0-9]\).training.svc:2222/\1-\2.invalid:2222/g"
}
# Long enough by the clock for all to join: whoever dials when it is over waits for the next one.
words=(--actors_per_worker=1 --total_steps=30k --step_delay_us=1000 "--logdir=$work/run" --resume)
for place in "worker 0" "worker 1" "worker 2" "evaluator 0"; do
  task "${place/ /-}" TF_CONFIG="$(real ${place})" -- "${words[@]}"
done
task chief TF_CONFIG="$(real chief 0)" -- "${words[@]}"
pass_if "Chief, Workers and Evaluator train to the end" \
  all_end 60 0 chief worker-0 worker-1 worker-2 evaluator-0
pass_if "the budget was used" is "$(result chief reason)" total_steps
pass_if "the evaluator was sent home" grep -q 'training done' evaluator-0.log

# A Chief that the cluster kills is started again by it with the same words.
rm -f ./*.code
words=(--actors_per_worker=1 --total_steps=1e9 --step_delay_us=500 --checkpoint_secs=0.5
  "--logdir=$work/long" --resume)
task worker-0 TF_CONFIG="$(real worker 0)" -- "${words[@]}"
task chief TF_CONFIG="$(real chief 0)" -- "${words[@]}"
writes() { compgen -G "long/checkpoints/checkpoint-*.acorn" >/dev/null; }
pass_if "a checkpoint is written" wait_for 20 writes
kill -KILL "$(pids learner)"
pass_if "a killed learner ends its task with its signal" wait_for 10 test -s chief.code
pass_if "137" is "$(cat chief.code)" 137
lines=$(wc -l <long/metrics.jsonl)
task chief TF_CONFIG="$(real chief 0)" -- "${words[@]}"
plays() {
  [ "$(wc -l <long/metrics.jsonl)" -gt "$lines" ] &&
    is "$(whole_metric serve/environments long)" 16
}
pass_if "started again, it resumes and its worker rejoins" wait_for 30 plays
finish
