#!/usr/bin/env bash
# Curiosity finds a reward that acting at random does not: ppo, a2c and vtrace open a combination
# lock (curiosity_lock.py) with --curiosity=rnd, by the mean of the last 100 episodes of training;
# ppo has never opened it without. a2c and vtrace: with the first of the seeds.
# Usage: tests/learning/curiosity.sh [SEED ...] (default $SEEDS, or 1 2 3)
set -u
. "$(dirname "$(readlink -f "$0")")/lib.sh"
(. scripts/lib.sh && "$root/scripts/setup.sh" gym && build gymnasium) || exit 1
actors="2 16"
[ $# -gt 0 ] || set -- ${SEEDS:-1 2 3}
# opens SEED CURIOSITY STEPS OP RETURN FLAGS...
opens() {
  local line name="$agent, --curiosity=$2, seed $1"
  line=$(train "$agent-$2-$1" gym:Lock-v0 --module=tests/learning/curiosity_lock.py \
    --curiosity="$2" --seed="$1" --total_steps="$3" --no_plot "${@:6}")
  echo "$name: $line"
  check "$name: return" "$(value return_mean <<<"$line")" "$4" "$5"
}
for seed in "$@"; do
  agent=ppo
  opens "$seed" rnd 300k ">=" 0.95 --target_return=0.95
  opens "$seed" none 300k "<=" 0
done
for agent in a2c vtrace; do opens "$1" rnd 300k ">=" 0.95 --target_return=0.95; done
exit $failed
