#!/usr/bin/env bash
# ppo by its defaults, without settings for the environment: mean returns of the last 100 episodes
# of training. FrozenLake is slippery, so that the best policy falls in one episode of five;
# LunarLander scatters from 150 to 260, so that its bound is not the 200 of a landing.
# Usage: tests/learning/ppo_gym.sh [SEED ...] (default $SEEDS, or 1 2 3); with $UNTIL set a run ends
# once it has what is asked for
set -u
. "$(dirname "$(readlink -f "$0")")/lib.sh"
(. scripts/lib.sh && "$root/scripts/setup.sh" gym && build gymnasium) || exit 1
agent=ppo actors=2
[ $# -gt 0 ] || set -- ${SEEDS:-1 2 3}
# learns ENV SEED STEPS LEAST
learns() {
  local line
  line=$(train "$1-$2" "gym:$1" --seed="$2" --total_steps="$3" --no_plot \
    ${UNTIL:+--target_return="$4"})
  echo "$1 seed $2: $line"
  check "$1 seed $2: return" "$(value return_mean <<<"$line")" ">=" "$4"
}
for seed in "$@"; do
  learns CartPole-v1 "$seed" 150k 450
  learns Acrobot-v1 "$seed" 300k -100
  learns Pendulum-v1 "$seed" 500k -200
  learns LunarLander-v3 "$seed" 800k 100
  learns FrozenLake-v1 "$seed" 1M 0.6
done
exit $failed
