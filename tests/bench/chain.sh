#!/usr/bin/env bash
# A memory by r2d2 with its defaults: a bit is shown in the first step and asked for after 50 more
# (chain.py; guessing has a mean return of 0.5). After how many steps the mean return of the last
# 100 training episodes is 0.95, for each seed, or what it is after 3 M.
# Usage: tests/bench/chain.sh [SEED ...] [--OPTION=VALUE ...] (default 1 2 3)
set -u
. "$(dirname "$(readlink -f "$0")")/lib.sh"
seeds_and_options "$@"
need gymnasium
machine && echo
for seed in "${seeds[@]}"; do
  until_return 0.95 "$seed" gym:Chain-v0 r2d2 --module=tests/bench/chain.py
done
