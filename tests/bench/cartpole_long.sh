#!/usr/bin/env bash
# CartPole by vtrace for 35 M steps, long after it is solved: the mean return of the training
# episodes of the last million steps, for each seed.
# Usage: tests/bench/cartpole_long.sh [SEED ...] [--OPTION=VALUE ...] (default 1 2 3)
set -u
. "$(dirname "$(readlink -f "$0")")/lib.sh"
seeds_and_options "$@"
need
machine && echo
code=0
for seed in "${seeds[@]}"; do
  build/launch cartpole vtrace 2 16 --total_steps=35M --seed="$seed" "${options[@]}" \
    --evaluators=0 --no_plot --logdir="$work/$seed" >"$work/out" 2>"$work/err" || {
    tail -n 3 "$work/err" >&2
    exit 1
  }
  last=$(awk -F, '$5 == "train" && $2 > 34e6 {sum += $6; n++} END {printf "%.1f", sum / n}' \
    "$work/$seed/episodes.csv")
  row "cartpole vtrace seed=$seed, mean return from 34 M to 35 M steps" "$last" ">= 490" || code=1
done
exit $code
