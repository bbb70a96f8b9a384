#!/usr/bin/env bash
# Pong by ppo with its defaults: the steps (of 4 frames) until the mean return of the last 100
# training episodes is 18, for each seed and in the middle. A seed takes 15 to 60 minutes.
# Usage: tests/bench/pong_ppo.sh [SEED ...] [--OPTION=VALUE ...] (default 1 2 3)
#   ENV=gym:ALE/Pong-v5, with sticky actions, instead of atari
set -u
. "$(dirname "$(readlink -f "$0")")/lib.sh"
seeds_and_options "$@"
need
machine && echo
steps_to 18 "${ENV:-atari}" ppo 2 --total_steps=2.5M
row "ppo on ${ENV:-atari}, steps to a return of 18, middle of ${#seeds[@]}" \
  "$(sort -g "$work/steps" | sed -n "$(((${#seeds[@]} + 1) / 2))p")" "<= 2.5e6"
