#!/usr/bin/env bash
# Evaluators in a running job: what they play is in the metrics, the target and the result are about
# it, nothing of it is trained on; a job goes on without them; a cluster's evaluator does the same.
. "$(dirname "$(readlink -f "$0")")/lib.sh"

# The newest number of metric $1 of run folder $2; empty if it is null.
metric() { tail -n 1 "$2/metrics.jsonl" | tr ',{}' '\n' | sed -n "s|^\"$1\":\([-0-9.e+]*\)$|\1|p"; }
at_least() { awk -v a="$1" -v b="$2" 'BEGIN {exit !(a != "" && a + 0 >= b + 0)}'; }

run cartpole vtrace 2 8 --evaluators=2 --eval_envs=4 --total_steps=60k --logdir=both
ended
over_eval() {
  is "$code" 0 && is "$(value over)" eval && is "$(value reason)" total_steps &&
    [ "$(value steps)" -lt 65000 ] && at_least "$(value return_mean)" 10
}
pass_if "the result of a run with evaluators is over their episodes" over_eval
measured() {
  at_least "$(metric eval/episode_return both)" 10 && at_least "$(metric eval/episodes both)" 1 &&
    is "$(metric eval/episode_return both)" "$(metric eval/episode_length both)" &&
    is "$(metric eval/episodes both | cut -d. -f1)" "$(value episodes)"
}
pass_if "their episodes are in the metrics" measured
logs() { [ -s both/logs/evaluator-1.log ] && [ -s both/logs/actor-1.log ]; }
pass_if "each has a log of its own" logs

# Every step of the actors is trained on or dropped; the evaluators' steps are neither.
not_trained() { at_least "$(value steps)" "$(metric train/steps both)"; }
pass_if "their steps are not trained on" not_trained

run cartpole vtrace 2 8 --evaluators=1 --target_return=25 --total_steps=1e9 --logdir=target
ended
pass_if "the target is over their episodes" is "$(value over) $(value reason)" "eval target_return"
run cartpole vtrace 2 8 --evaluators=1 --over=train --total_steps=20k --logdir=train
ended
pass_if "--over=train keeps the result on training episodes" is "$(value over)" train

# A policy that has not learned is nearly uniform: sampled it plays like chance, about 22; greedily
# it is a fixed rule that does not.
returns() {
  run cartpole vtrace 1 4 --evaluators=1 --learning_rate=0 --total_steps=40k --policy="$1" \
    --logdir="$1"
  ended
  value return_mean
}
greedy=$(returns greedy) sampled=$(returns sample)
by_chance() { at_least "$1" 15 && at_least 35 "$1"; }
differ() { by_chance "$sampled" && [ -n "$greedy" ] && ! by_chance "$greedy"; }
pass_if "they play greedily ($greedy), or sample with --policy=sample ($sampled)" differ

# Values of actions that nothing has taught are a fixed rule, too; epsilon makes chance of it. An
# evaluation that samples explores as training did in the end: here no more.
run cartpole dqn 2 8 --total_steps=5k --replay_min_steps=10k --exploration=linear \
  --epsilon_start=1 --epsilon_end=0 --epsilon_steps=2k --eval_epsilon=0 --logdir=values
ended
# play OPTION...: the mean return of an evaluation.
play() {
  run cartpole dqn 2 8 --mode=evaluate --logdir=values --episodes=50 --seed=3 "$@"
  ended
  is "$(value over)" eval && value return_mean
}
rule=$(play) drawn=$(play --policy=sample) chance=$(play --eval_epsilon=1)
values() { [ -n "$rule" ] && ! by_chance "$rule" && by_chance "$chance"; }
pass_if "an evaluation takes random actions by --eval_epsilon ($rule, $chance)" values
pass_if "or, sampling, as training did at last ($drawn)" is "$drawn" "$rule"

# One that dies.
run cartpole vtrace 2 8 --evaluators=1 --total_steps=1e9 --logdir=dies --metrics_secs=0.2
evaluator() {
  local pid
  for pid in $(pids actor); do
    grep -qsa -- '--name=evaluator' "/proc/$pid/cmdline" && echo "$pid"
  done
}
there() { [ -n "$(evaluator)" ] && at_least "$(metric eval/episodes dies)" 1; } # it has stepped
pass_if "an evaluator plays" wait_for 20 there
victim=$(evaluator)
kill -STOP "$victim"
steps() { metric step dies; }
before=$(steps)
goes_on() { at_least "$(steps)" $((before + 2000)); }
pass_if "training does not wait for one that is stopped" wait_for 10 goes_on
kill -KILL "$victim"
replaced() { [ -n "$(evaluator)" ] && [ "$(evaluator)" != "$victim" ]; }
pass_if "one that is killed is started again" wait_for 10 replaced
kill -KILL "$(evaluator)"
pass_if "and again, after a longer pause" \
  wait_for 5 says "evaluator 0 was killed by signal 9 (Killed); starting it again in 2 s"
before=$(steps)
pass_if "training goes on without it" wait_for 10 goes_on
kill -INT "$run"
ended 20
stopped() { is "$code" 130 && is "$(value reason)" signal && no_process; }
pass_if "and stops in good order" stopped

# On a cluster.
port=$(free_port)
cluster="{\"chief\": [\"127.0.0.1:$port\"], \"worker\": [\"127.0.0.1:$((port + 1))\"]}"
task() { echo "{\"cluster\": $cluster, \"task\": {\"type\": \"$1\", \"index\": 0}}"; }
rm -f out err
TF_CONFIG=$(task evaluator) "$tree/build/actor" --envs=2 >evaluator.log 2>&1 &
evaluator=$!
TF_CONFIG=$(task worker) "$tree/build/actor" --envs=8 >worker.log 2>&1 &
worker=$!
# Until both have played: without the worker's steps the policy stays at about 80.
TF_CONFIG=$(task chief) "$tree/build/learner" --num_envs=8 --total_steps=1e9 --logdir=cluster \
  --over=eval --target_return=150 >out 2>err &
run=$!
ended
cluster_evaluates() {
  is "$code" 0 && is "$(value reason)" target_return && at_least "$(value episodes)" 1
}
pass_if "a task of type evaluator does the same" cluster_evaluates
sent_home() { wait $evaluator && wait $worker && grep -q 'training done' evaluator.log; }
pass_if "and is sent home at the end" sent_home

refused cartpole vtrace 2 --evaluators=2 --eval_envs=16 --num_eval_envs=8
room() { is "$code" 2 && says "--num_eval_envs=8 is less than the 32"; }
pass_if "room that is too small is a mistake" room
refused cartpole vtrace 2 --mode=evaluate --logdir=both --evaluators=1
pass_if "evaluators of an evaluation are a mistake" says "belong to a run that trains"
refused cartpole vtrace 2 --deterministic --over=eval
pass_if "so is a deterministic result over evaluation episodes" says "exclude each other"
finish
