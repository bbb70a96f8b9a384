#!/usr/bin/env bash
# The T-maze (length 10) needs memory: with an LSTM it is solved within 1 M steps; without memory,
# with the same budget, it cannot be (1,000 episodes tell that from luck).
# Usage: tests/learning/tmaze.sh [SEED ...] (default 1 2 3)
set -u
. "$(dirname "$(readlink -f "$0")")/lib.sh"
[ $# -gt 0 ] || set -- 1 2 3
for seed in "$@"; do
  line=$(train "tmaze-$seed" tmaze --seed="$seed" --total_steps=1500000 --target_return=0.95)
  echo "seed $seed: $line"
  check "tmaze seed $seed, lstm: return" "$(value return_mean <<<"$line")" ">=" 0.95
  check "tmaze seed $seed, lstm: steps" "$(value steps <<<"$line")" "<=" 1000000
  line=$(train "memoryless-$seed" tmaze --seed="$seed" --total_steps=1000000 --network=mlp \
    --hidden=64,64 --no_previous_action)
  echo "seed $seed, memoryless: $line"
  played=$(evaluate "memoryless-$seed" tmaze --policy=sample --episodes=1000)
  check "tmaze seed $seed, memoryless: return" "$(value return_mean <<<"$played")" "<=" 0.6
done
exit $failed
