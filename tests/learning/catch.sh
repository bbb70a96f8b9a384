#!/usr/bin/env bash
# Catch is solved within 500 k steps: a mean return of 0.95 over the last 100 episodes. Usage:
# tests/learning/catch.sh [SEED ...] (default 1 2 3)
set -u
. "$(dirname "$(readlink -f "$0")")/lib.sh"
[ $# -gt 0 ] || set -- 1 2 3
for seed in "$@"; do
  line=$(train "catch-$seed" catch --seed="$seed" --total_steps=1M --target_return=0.95)
  echo "seed $seed: $line"
  check "catch seed $seed: return" "$(value return_mean <<<"$line")" ">=" 0.95
  check "catch seed $seed: steps" "$(value steps <<<"$line")" "<=" 500000
done
exit $failed
