#!/usr/bin/env bash
# CartPole is solved: mean return 475 over the last 100 training episodes within 1.5 M steps; then
# the final checkpoint plays 100 greedy episodes. Of these the middle seed has 475, and none is
# lost: a run stops as soon as the 100 episodes before average 475, and the policy of that moment
# may play a little worse (460 once in some eighty runs).
# Usage: tests/learning/cartpole.sh [SEED ...] (default 1 2 3 4 5)
set -u
. "$(dirname "$(readlink -f "$0")")/lib.sh"
[ $# -gt 0 ] || set -- 1 2 3 4 5
for seed in "$@"; do
  line=$(train "cartpole-$seed" cartpole --target_return=475 --seed="$seed" --total_steps=1500000)
  echo "seed $seed: $line"
  check "cartpole seed $seed: return" "$(value return_mean <<<"$line")" ">=" 475
  check "cartpole seed $seed: steps" "$(value steps <<<"$line")" "<=" 1500100
  greedy=$(evaluate "cartpole-$seed" cartpole | value return_mean)
  check "cartpole seed $seed: greedy return" "$greedy" ">=" 400
  echo "$greedy" >>"$work/greedy"
done
middle=$(sort -g "$work/greedy" | sed -n "$((($# + 1) / 2))p")
check "cartpole: greedy return of the middle seed" "$middle" ">=" 475
exit $failed
