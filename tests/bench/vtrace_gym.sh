#!/usr/bin/env bash
# What vtrace and a2c reach by their defaults on Gymnasium's CartPole, Acrobot and LunarLander: the
# mean return of the last 100 training episodes, 2 actors with 16 environments each, for each seed,
# and the median of the seeds. Options are given to the runs of vtrace.
# Usage: tests/bench/vtrace_gym.sh [SEED ...] [--OPTION=VALUE ...] (default 1 2 3)
set -u
. "$(dirname "$(readlink -f "$0")")/lib.sh"
seeds_and_options "$@"

# returns ENV AGENT STEPS OPTION...: a line with those of all seeds.
returns() {
  local env=$1 agent=$2 steps=$3 seed all=()
  shift 3
  for seed in "${seeds[@]}"; do
    all+=("$(build/launch "$env" "$agent" 2 16 --total_steps="$steps" --seed="$seed" "$@" \
      --evaluators=0 --no_plot --logdir="$work/$agent-$env-$seed" 2>"$work/err" |
      value return_mean)")
  done
  echo "$env $agent steps=$steps median=$(printf '%s\n' "${all[@]}" | median) returns=${all[*]}"
}

need gymnasium
machine && echo
for env in gym:CartPole-v1=400k gym:Acrobot-v1=500k; do
  returns "${env%=*}" vtrace "${env#*=}" "${options[@]}"
  returns "${env%=*}" a2c "${env#*=}"
done
returns gym:LunarLander-v3 vtrace 2M "${options[@]}"
