#!/usr/bin/env bash
# r2d2 remembers. The T-maze of length 10 is solved within 1 M steps and that of length 20 within
# 2 M; without memory, with the same budget, the short one cannot be (1,000 episodes tell that from
# luck). CartPole whose velocities are hidden is balanced within 2 M steps. What counts is what the
# final checkpoint reaches in 100 greedy episodes.
# Usage: tests/learning/r2d2.sh [SEED ...] (default $SEEDS, or 1 2 3)
set -u
. "$(dirname "$(readlink -f "$0")")/lib.sh"
agent=r2d2
[ $# -gt 0 ] || set -- ${SEEDS:-1 2 3}
# learn NAME SEED STEPS ENV FLAGS...: trains for so many steps.
learn() {
  local name=$1 seed=$2 steps=$3 env=$4 line
  shift 4
  line=$(train "$name-$seed" "$env" --seed="$seed" --total_steps="$steps" --evaluators=0 "$@")
  echo "$name seed $seed: $line"
}
# greedy NAME SEED ENV FLAGS...: mean return of its greedy episodes.
greedy() {
  local name=$1 seed=$2 env=$3
  shift 3
  evaluate "$name-$seed" "$env" --eval_epsilon=0 "$@" | value return_mean
}
for seed in "$@"; do
  learn maze10 "$seed" 1000000 tmaze
  check "tmaze of 10, seed $seed" "$(greedy maze10 "$seed" tmaze)" ">=" 0.99
  learn maze20 "$seed" 2000000 tmaze --env_args='{"length": 20}'
  check "tmaze of 20, seed $seed" "$(greedy maze20 "$seed" tmaze)" ">=" 0.95
  learn memoryless "$seed" 1000000 tmaze --network=mlp --hidden=64,64 --burn_in=0 \
    --no_previous_action
  check "tmaze of 10 without memory, seed $seed" \
    "$(greedy memoryless "$seed" tmaze --episodes=1000)" "<=" 0.6
  learn cartpole "$seed" 2000000 cartpole --env_args='{"hide_velocity": 1}'
  check "cartpole with hidden velocities, seed $seed" "$(greedy cartpole "$seed" cartpole)" \
    ">=" 400
done
exit $failed
