#!/usr/bin/env bash
# The threads of a trainer: a run of sac with three has the bits of a run with one; what a run
# folder keeps of them is ignored by other devices and by evaluation.
. "$(dirname "$(readlink -f "$0")")/lib.sh"
plugins box_actions/target
words=(--hidden=128,128 --batch_size=128 --replay_min_steps=200 --replay_ratio=128 --seed=1)

# Threads of the learner that compute for its trainer.
helpers() { cat /proc/"$run"/task/*/comm 2>/dev/null | grep -c '^compute$'; }
has_helpers() { test -s "run-$threads/address" && is "$(helpers)" "$1"; }
silent() { ! says --trainer_threads; }

for threads in 1 3; do
  learner --env=./target.so --agent=sac --num_envs=4 "${words[@]}" --deterministic \
    --logdir=run-$threads --trainer_threads=$threads --total_steps=800
  pass_if "--trainer_threads=$threads: the trainer has $((threads - 1)) helpers" \
    wait_for 20 has_helpers $((threads - 1))
  actor 0 --env=./target.so --envs=4 --streams=1
  ended 120
  pass_if "--trainer_threads=$threads: it trains" is "$code" 0
done
pass_if "three threads have the bits of one" \
  cmp "$(newest_checkpoint run-1)" "$(newest_checkpoint run-3)"

run ./target.so sac 1 4 --mode=evaluate --logdir=run-3 --device=ref --episodes=2
ended 60
pass_if "its run is evaluated on another device" is "$code" 0
pass_if "which has no trainer, and no line about its threads" silent
run ./target.so sac 1 4 --resume --logdir=run-3 --device=ref --total_steps=810 --plot=false
ended 60
pass_if "it is resumed on another device" is "$code" 0
pass_if "which logs that it ignores the threads" \
  says "--trainer_threads=3 is ignored: it is for --device=cpu, and this is ref"
finish
