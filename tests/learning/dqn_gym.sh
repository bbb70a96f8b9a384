#!/usr/bin/env bash
# dqn by its defaults, without settings for the environment: within 300 k steps FrozenLake is won in
# 0.6 of its episodes, Acrobot swings up in 100 steps, and CartPole is balanced: mean returns of the
# final checkpoint in 500 greedy episodes of FrozenLake, where luck is part of the game, and 100 of
# the others.
# Usage: tests/learning/dqn_gym.sh [SEED ...] (default $SEEDS, or 1 2 3)
set -u
. "$(dirname "$(readlink -f "$0")")/lib.sh"
(. scripts/lib.sh && "$root/scripts/setup.sh" gym && build gymnasium) || exit 1
agent=dqn actors=2
[ $# -gt 0 ] || set -- ${SEEDS:-1 2 3}
# learns ENV SEED EPISODES LEAST
learns() {
  local name=$1-$2 line greedy
  line=$(train "$name" "gym:$1" --seed="$2" --total_steps=300k --evaluators=0 --no_plot)
  echo "$1 seed $2: $line"
  greedy=$(evaluate "$name" "gym:$1" --eval_epsilon=0 --episodes="$3")
  check "$1 seed $2: greedy return" "$(value return_mean <<<"$greedy")" ">=" "$4"
}
for seed in "$@"; do
  learns FrozenLake-v1 "$seed" 500 0.6
  learns Acrobot-v1 "$seed" 100 -100
  learns CartPole-v1 "$seed" 100 475
done
exit $failed
