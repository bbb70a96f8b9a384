#!/usr/bin/env bash
# run_task.sh under a plain TF_CONFIG: roles, numbers and addresses; then a cluster of real tasks.
. "$(dirname "$(readlink -f "$0")")/tasks/lib.sh"

# config TYPE INDEX CLUSTER
config() { echo "{\"cluster\": $3, \"task\": {\"type\": \"$1\", \"index\": $2}}"; }
workers='{"worker": ["10.0.0.1:2222", "10.0.0.2:2222", "10.0.0.3:2222"]}'
chief='{"chief": ["c.example:2222"], "worker": ["w0.example:2222", "w1.example:2222"],
  "ps": ["p.example:2222"], "evaluator": ["e.example:2222"]}'

plan TF_CONFIG="$(config worker 0 "$workers")" --actors_per_worker=4
expect "without a chief worker 0 is the learner" \
  "role=learner index=0 learner=10.0.0.1:2222 listen=0.0.0.0:2222 num_envs=128"
pass_if "and has no actors" is "$(numbers)" ""
plan TF_CONFIG="$(config worker 2 "$workers")" --actors_per_worker=4
expect "worker 2 is the second host of actors" \
  "role=actor index=1 learner=10.0.0.1:2222 listen= num_envs=128"
pass_if "whose numbers follow those of the first" is "$(numbers)" "4 5 6 7 "
plan TF_CONFIG="$(config chief 0 "$chief")" --actors_per_worker=2 --envs_per_actor=8 -- \
  --job-dir=/data/run --total_steps 5M --reconnect_s=9
expect "a chief is the learner" \
  "role=learner index=0 learner=c.example:2222 listen=0.0.0.0:2222 num_envs=32"
forwarded() { has_word learner --logdir=/data/run && has_word learner --total_steps=5000000; }
pass_if "what follows -- is forwarded" forwarded
plan TF_CONFIG="$(config chief 0 "$chief")" --actors_on_learner=1 --token_file=/secrets/token \
  --tls_ca=/secrets/ca.crt
both() { has_word "$1" --token_file=/secrets/token && has_word "$1" --tls_ca=/secrets/ca.crt; }
pass_if "a token and a CA go to both programs" eval 'both learner && both actor'
pass_if "actors beside the learner call loopback" has_word actor --learner=127.0.0.1:2222
plan TF_CONFIG="$(config chief 0 "$chief")" --actors_per_worker=2 --envs_per_actor=8 -- \
  --job-dir=/data/run --total_steps 5M --reconnect_s=9
pass_if "to whom it belongs" eval '! has_word learner --reconnect_s=9'
plan TF_CONFIG="$(config evaluator 0 "$chief")" --actors_per_worker=2 --eval_envs=3
expect "an evaluator" "role=evaluator index=0 learner=c.example:2222 listen= num_envs=64"
evaluates() { has_word actor --role=eval && has_word actor --envs=3 && is "$(numbers)" "0 "; }
pass_if "plays for evaluation, once" evaluates
plan TF_CONFIG="$(config chief 0 "$chief")" --evaluators=1 --eval_envs=3 --actors_on_learner=1
beside() {
  has_word learner --over=eval && has_word actor --name=learner-evaluator &&
    has_word actor --envs=3 && is "$(numbers)" "0 0 "
}
pass_if "--evaluators are beside the learner" beside
plan TF_CONFIG="$(config worker 0 "$chief")" --evaluators=1
pass_if "and nowhere else" eval '! has_word actor --role=eval'
plan TF_CONFIG="$(config chief 0 "$chief")" --evaluators=1 --num_eval_envs=7
pass_if "room for all evaluators" refused_with "--num_eval_envs=7 is less than the 8 environments"
plan TF_CONFIG="$(config ps 0 "$chief")"
expect "a ps" "role=ps index=0 learner=c.example:2222 listen= num_envs=32"
plan TF_CONFIG="$(config chief 0 '{"chief": ["me:2222"]}')" --actors_per_worker=3
pass_if "a learner that is alone has the actors of a worker" is "$(numbers)" "0 1 2 "
plan TF_CONFIG="$(config worker 1 "$chief")" --actors_per_worker=2 --actors_on_learner=5
pass_if "actors beside the learner come first" is "$(numbers)" "7 8 "

plan TF_CONFIG="$(config chief 0 "$chief")" --actors_on_learner=1 \
  --env_args='{"hide_velocity": 1}'
read_back() { # PROGRAM: its command, by a shell
  eval "set -- $(sed -n "/^$1 /p" out)"
  printf '%s\n' "$@" | grep -qxF -- '--env_args={"hide_velocity": 1}'
}
pass_if "a shell reads the commands as they are meant" eval 'read_back learner && read_back actor'

plan
pass_if "no platform at all" refused_with "no platform's variables describe this task"
plan TF_CONFIG='{"cluster": '
pass_if "no JSON" refused_with "TF_CONFIG is not JSON: line 1"
several='{"chief": ["a:1"], "learner": ["b:2"], "worker": ["w0:3", "w1:3"], "evaluator": ["e:4"]}'
plan TF_CONFIG="$(config learner 0 "$several")" --actors_per_worker=2 --envs_per_actor=8 \
  --actors_on_learner=1 --evaluators=1 --logdir=here
expect "a second learner" "role=learner index=1 learner=a:1 listen=0.0.0.0:2 num_envs=48"
second() {
  has_word learner --learners=2 && has_word learner --learner_rank=1 &&
    has_word learner --learners_at=a:65,b:66 && has_word learner --logdir=here/learner-1 &&
    has_word learner --num_envs=24
}
pass_if "knows its place among them" second
own() { has_word actor --learner=127.0.0.1:2 && is "$(numbers)" "1 "; }
pass_if "has actors of its own and no evaluator" own
plan TF_CONFIG="$(config worker 1 "$several")" --actors_per_worker=2 --actors_on_learner=1
spread() {
  is "$(numbers)" "4 5 " && has_word actor --learner=a:1 && has_word actor --learner=b:2
}
pass_if "actors of other hosts are spread over them" spread
plan TF_CONFIG="$(config evaluator 0 "$several")"
pass_if "an evaluator is the first one's" has_word actor --learner=a:1
plan TF_CONFIG="$(config worker 0 '{"learner": ["a:1", "b:1"], "worker": ["w:1"]}')"
pass_if "actors that cannot be spread evenly" \
  refused_with "1 actors cannot be spread evenly over 2 learners"
plan TF_CONFIG="$(config chief 0 "$several")" --learners=3
pass_if "another number of learners than the cluster's" refused_with "TF_CONFIG has 2 learners"
plan TF_CONFIG="$(config worker 9 "$workers")"
pass_if "an index that is not there" refused_with "task.index 9 is out of range"
plan TF_CONFIG="$(config worker 1 "$workers")" --actors_per_wroker=2
pass_if "a flag that does not exist" refused_with "did you mean --actors_per_worker"
plan TF_CONFIG="$(config worker 1 "$workers")" --num_envs=5
pass_if "a flag that follows from the cluster" refused_with "it follows from the cluster"
plan TF_CONFIG="$(config chief 0 "$chief")" --job-dir=gs://bucket/x
pass_if "a bucket" refused_with "/gcs/bucket/x"
TF_CONFIG=$(config worker 1 "$workers") "$tree/build/learner" --env=cartpole 2>err
pass_if "the learner's program with an actor's part" says "run build/actor here"
TF_CONFIG=$(config chief 0 "$several") "$tree/build/learner" --env=cartpole 2>err
pass_if "the learner's program as one of several" says "start each by deploy/run_task.sh"
TF_CONFIG=$(config chief 0 "$chief") "$tree/build/actor" --env=cartpole 2>err
pass_if "the actor's program with the learner's part" says "run build/learner"

# ---- real tasks: the actors come first, a ps and an evaluator wait with them

port=$(free_port)
cluster="{\"chief\": [\"127.0.0.1:$port\"], \"worker\": [\"127.0.0.2:1\", \"127.0.0.3:1\"],
  \"ps\": [\"127.0.0.4:1\"], \"evaluator\": [\"127.0.0.5:1\"]}"
words=(--actors_per_worker=2 --envs_per_actor=8 --total_steps=1e9 --log_level=info
  --step_delay_us=500 --metrics_secs=0.2 -- "--job-dir=$work/run")
for place in "worker 0" "worker 1" "ps 0" "evaluator 0"; do
  task "${place/ /-}" TF_CONFIG="$(config ${place} "$cluster")" -- "${words[@]}"
done
task chief TF_CONFIG="$(config chief 0 "$cluster")" -- "${words[@]}"
full() { is "$(whole_metric serve/environments)" 32; }
pass_if "a chief, two workers, a ps and an evaluator" wait_for 20 full
victim=$(pids actor | head -n 1)
kill -KILL "$victim"
back() { is "$(pids actor | wc -l)" 5 && ! pids actor | grep -qx "$victim"; }
pass_if "an actor that is killed is started again" wait_for 10 back
pass_if "by its own task" grep -q 'was killed by signal 9' worker-0.log worker-1.log evaluator-0.log

# A task that is told to stop leaves nothing; the rest goes on.
stop_task() {
  local pid
  for pid in $(pids task); do
    grep -qsaF "$1" "/proc/$pid/environ" && kill -TERM "$pid"
  done
}
ends_well() { wait_for 15 test -s "$1.code" && is "$(cat "$1.code")" 0; }
stop_task '"type": "worker", "index": 1'
pass_if "a worker that is stopped ends with 0" ends_well worker-1
pass_if "and takes its actors along" wait_for 10 num_actors 3
stop_task '"type": "chief"'
pass_if "so does the chief" ends_well chief
pass_if "the learner's result is in its log" is "$(result chief reason)" signal
pass_if "the ps ends with it" ends_well ps-0
pass_if "actors wait for the chief to come back" wait_for 10 num_actors 3
stop_task '"type": "worker", "index": 0'
stop_task '"type": "evaluator"'
pass_if "and end when they are told" all_end 10 0 worker-0 evaluator-0

# ps_ends SIGNAL CODE: one whose learner does not come.
ps_ends() {
  task "ps-$1" TF_CONFIG="$(config ps 0 "$cluster")" -- --stopped_exit_code=143
  wait_for 10 grep -qs 'waiting for the end of the learner' "ps-$1.log"
  kill "-$1" "$(pids task)"
  wait_for 10 test -s "ps-$1.code" && is "$(cat "ps-$1.code")" "$2"
}
pass_if "a ps that is stopped ends with --stopped_exit_code" ps_ends TERM 143
pass_if "so it does by SIGHUP" ps_ends HUP 143
pass_if "and with 130 by SIGINT" ps_ends INT 130

# An evaluator beside the learner, whose actors are another task's.
port=$(free_port)
duo="{\"chief\": [\"127.0.0.1:$port\"], \"worker\": [\"127.0.0.2:1\"]}"
words=(--evaluators=1 --total_steps=10k --step_delay_us=1000 -- "--job-dir=$work/duo")
task actor TF_CONFIG="$(config worker 0 "$duo")" -- "${words[@]}"
task learner TF_CONFIG="$(config chief 0 "$duo")" -- "${words[@]}"
pass_if "a learner with an evaluator beside it" all_end 30 0 learner actor
pass_if "has a result about its episodes" is "$(result learner over)" eval

# A supervisor that is killed takes its actors along.
task lonely TF_CONFIG="$(config worker 0 "$cluster")" -- --actors_per_worker=2
pass_if "actors wait for a learner that is not there" wait_for 10 num_actors 2
kill -KILL "$(pids task)"
pass_if "a task that is killed leaves no actors" wait_for 5 none_left
task lost TF_CONFIG="$(config worker 0 "$cluster")" -- --actors_per_worker=2 --reconnect_s=1
pass_if "actors that find no learner end, and their task with 1" all_end 10 1 lost
pass_if "which is said" grep -q 'got no lease from a learner within --reconnect_s' lost.log
finish
