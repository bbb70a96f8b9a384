#!/usr/bin/env bash
# a2c solves CartPole: mean return 475 over the last 100 training episodes within 1.5 M steps, its
# budget. What the final checkpoint scores in 100 greedy episodes is printed, not checked: the run
# stops as soon as sampled actions reach 475.
# Usage: tests/learning/a2c.sh [SEED ...] (default 1 2 3 4 5)
set -u
. "$(dirname "$(readlink -f "$0")")/lib.sh"
agent=a2c
[ $# -gt 0 ] || set -- 1 2 3 4 5
for seed in "$@"; do
  line=$(train "a2c-$seed" cartpole --target_return=475 --seed="$seed")
  echo "seed $seed: $line"
  check "a2c seed $seed: return" "$(value return_mean <<<"$line")" ">=" 475
  check "a2c seed $seed: steps" "$(value steps <<<"$line")" "<=" 1500100
  greedy=$(evaluate "a2c-$seed" cartpole)
  echo "a2c seed $seed: greedy return $(value return_mean <<<"$greedy")"
done
exit $failed
