#!/usr/bin/env bash
# The T-maze needs memory: with an LSTM it is solved within 1 M steps, without memory it cannot be.
# Usage: tests/learning/tmaze.sh [SEED ...] (default 1 2 3)
set -u
. "$(dirname "$0")/lib.sh"
[ $# -gt 0 ] || set -- 1 2 3
for seed in "$@"; do
  line=$(train "tmaze-$seed" tmaze 4 --seed="$seed" --total_steps=1000000)
  echo "seed $seed: $line"
  check "tmaze seed $seed, lstm: mean return" "$(value return_mean <<<"$line")" ">=" 0.95
done
line=$(train tmaze-memoryless tmaze 4 --seed="$1" --total_steps=1000000 --network=mlp --hidden=64,64 --no_previous_action)
echo "memoryless: $line"
check "tmaze without memory: mean return" "$(value return_mean <<<"$line")" "<=" 0.6
exit $failed
