#!/usr/bin/env bash
# dqn by its defaults, without settings for the environment: within 300 k steps FrozenLake is won in
# 0.6 of its episodes, Acrobot swings up in 100 steps, and CartPole is balanced; double_dqn balances
# CartPole likewise, and lands within 500 k steps (200 with most seeds). Mean returns of the final
# checkpoint in 500 greedy episodes of FrozenLake, where luck is part of the game, and 100 of the
# others. What else the machine does changes nothing: the runs are deterministic.
# Usage: tests/learning/dqn_gym.sh [SEED ...] (default $SEEDS, or 1 2 3)
set -u
. "$(dirname "$(readlink -f "$0")")/lib.sh"
(. scripts/lib.sh && "$root/scripts/setup.sh" gym && build gymnasium) || exit 1
actors=2
[ $# -gt 0 ] || set -- ${SEEDS:-1 2 3}
# learns AGENT ENV SEED STEPS EPISODES LEAST
learns() {
  local agent=$1 name=$1-$2-$3 line greedy
  line=$(train "$name" "gym:$2" --seed="$3" --total_steps="$4" --evaluators=0 --no_plot \
    --deterministic)
  echo "$1 $2 seed $3: $line"
  greedy=$(evaluate "$name" "gym:$2" --eval_epsilon=0 --episodes="$5")
  check "$1 $2 seed $3: greedy return" "$(value return_mean <<<"$greedy")" ">=" "$6"
}
for seed in "$@"; do
  learns dqn FrozenLake-v1 "$seed" 300k 500 0.6
  learns dqn Acrobot-v1 "$seed" 300k 100 -100
  learns dqn CartPole-v1 "$seed" 300k 100 475
  learns double_dqn CartPole-v1 "$seed" 300k 100 475
  learns double_dqn LunarLander-v3 "$seed" 500k 100 100
done
exit $failed
