#!/usr/bin/env bash
# dqn and double_dqn solve CartPole within 500 k steps: the final checkpoint of a run with its
# default budget, which is less, plays 100 greedy episodes with a mean return of 475 at least.
# rainbow plays with at least 400.
# Usage: tests/learning/dqn.sh [SEED ...] (default $SEEDS, or 1 2 3)
set -u
. "$(dirname "$(readlink -f "$0")")/lib.sh"
[ $# -gt 0 ] || set -- ${SEEDS:-1 2 3}
# learn AGENT SEED: its greedy return in $greedy.
learn() {
  local line played
  agent=$1
  line=$(train "$1-$2" cartpole --seed="$2" --evaluators=0)
  echo "$1 seed $2: $line"
  check "$1 seed $2: steps" "$(value steps <<<"$line")" "<=" 500000
  played=$(evaluate "$1-$2" cartpole --eval_epsilon=0)
  greedy=$(value return_mean <<<"$played")
}
for seed in "$@"; do
  for name in dqn double_dqn; do
    learn "$name" "$seed"
    check "$name seed $seed: greedy return" "$greedy" ">=" 475
  done
done
learn rainbow "$1"
check "rainbow seed $1: greedy return" "$greedy" ">=" 400
exit $failed
