#!/usr/bin/env bash
# MiniGrid's DoorKey-6x6 by ppo with a memory, with curiosity and without: after how many steps the
# mean return of the last 100 training episodes is 0.8, for each seed, or what it is after 3 M.
# Usage: ACORN_PYTHON=PATH tests/bench/doorkey.sh [SEED ...] [--OPTION=VALUE ...] (default 1 2 3)
#   ENV: another environment, by default gym:MiniGrid-DoorKey-6x6-v0
#   ACORN_PYTHON: an interpreter with gymnasium and minigrid; by default that of .venv
set -u
. "$(dirname "$(readlink -f "$0")")/lib.sh"
seeds_and_options "$@"
env=${ENV:-gym:MiniGrid-DoorKey-6x6-v0}
python=${ACORN_PYTHON:-.venv/bin/python}
"$python" -c "import gymnasium, minigrid" 2>/dev/null || {
  echo "doorkey: $python has no minigrid: $python -m pip install minigrid" >&2
  exit 2
}
need gymnasium ${ACORN_PYTHON:+"PYTHON=$ACORN_PYTHON"}
machine && echo
for curiosity in rnd none; do
  for seed in "${seeds[@]}"; do
    until_return 0.8 "$seed" "$env" ppo --network=lstm --curiosity=$curiosity
  done
done
