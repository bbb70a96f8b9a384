#!/usr/bin/env bash
# HalfCheetah by sac with its defaults: the steps until the mean return of the last 100 training
# episodes is 9,000, for each seed. A seed takes one to two hours of two cores. Needs MuJoCo, as in
# .venv/bin/pip install "gymnasium[mujoco]", or ACORN_PYTHON=PATH of a Python that has it.
# Usage: tests/bench/sac_gym.sh [SEED ...] [--OPTION=VALUE ...] (default 1 2)
#   ENV=Hopper-v5 RETURN=2300: another one
set -u
. "$(dirname "$(readlink -f "$0")")/lib.sh"
[ $# -gt 0 ] || set -- 1 2
seeds_and_options "$@"
need
machine && echo
env=${ENV:-HalfCheetah-v5} target=${RETURN:-9000}
steps_to "$target" "gym:$env" sac 1 1 --total_steps=1M
row "sac on $env, steps to a return of $target, the slower of ${#seeds[@]}" \
  "$(sort -g "$work/steps" | tail -n 1)" "<= 1e6"
