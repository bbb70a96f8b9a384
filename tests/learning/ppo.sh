#!/usr/bin/env bash
# ppo solves CartPole: mean return 475 over the last 100 training episodes within 300 k steps. What
# the final checkpoint scores in 100 greedy episodes is printed, not checked: the run stops as soon
# as sampled actions reach 475.
# Usage: tests/learning/ppo.sh [SEED ...] (default 1 2 3)
set -u
. "$(dirname "$(readlink -f "$0")")/lib.sh"
agent=ppo
[ $# -gt 0 ] || set -- 1 2 3
for seed in "$@"; do
  line=$(train "ppo-$seed" cartpole --target_return=475 --seed="$seed")
  echo "seed $seed: $line"
  check "ppo seed $seed: return" "$(value return_mean <<<"$line")" ">=" 475
  check "ppo seed $seed: steps" "$(value steps <<<"$line")" "<=" 300000
  greedy=$(evaluate "ppo-$seed" cartpole)
  echo "ppo seed $seed: greedy return $(value return_mean <<<"$greedy")"
done
exit $failed
