#!/usr/bin/env bash
# Catch drawn on 84 x 84 pixels is solved by convolutions within 300 k steps. Usage:
# tests/learning/catch_pixels.sh [SEED ...] (default 1 2)
set -u
. "$(dirname "$(readlink -f "$0")")/lib.sh"
[ $# -gt 0 ] || set -- 1 2
for seed in "$@"; do
  line=$(train "pixels-$seed" catch --env_args='{"size": 84}' --network=impala_shallow \
    --learning_rate=0.0005 --seed="$seed" --total_steps=400000 --target_return=0.9)
  echo "seed $seed: $line"
  check "catch from pixels, seed $seed: return" "$(value return_mean <<<"$line")" ">=" 0.9
  check "catch from pixels, seed $seed: steps" "$(value steps <<<"$line")" "<=" 300000
done
exit $failed
