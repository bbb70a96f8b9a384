#!/usr/bin/env bash
# Tasks that any agent must learn by its defaults: which of three colours is shown, and which of six
# actions belongs to each of 500 numbers (small.py). Mean returns of the last 100 episodes of
# training, of dqn greedy ones; 20 is the most, random actions have 6.7 and 3.3. With a fee one of
# four actions is worth 101, the others 100, which vtrace, a2c and ppo tell apart. Some runs of a2c
# and vtrace give up one action early and have the numbers of the other five: 16.7; the others have
# 19.2 to 19.7 there.
# Usage: tests/learning/small.sh [SEED ...] (default $SEEDS, or 1 2 3); with $UNTIL set a run ends
# once it has what is asked for
set -u
. "$(dirname "$(readlink -f "$0")")/lib.sh"
(. scripts/lib.sh && "$root/scripts/setup.sh" gym && build gymnasium) || exit 1
actors="2 16"
[ $# -gt 0 ] || set -- ${SEEDS:-1 2 3}
# learns ENV SEED STEPS
learns() {
  local line name="$agent-$1-$2" bound=19
  case "$agent $1" in
    "a2c Numbers-v0" | "vtrace Numbers-v0") bound=15 ;;
    *Fee-v0) bound=100.9 ;;
  esac
  line=$(train "$name" "gym:$1" --seed="$2" --total_steps="$3" --no_plot \
    --module=tests/learning/small.py ${UNTIL:+--target_return="$bound"})
  echo "$agent $1 seed $2: $line"
  [ "$agent" != dqn ] || line=$(evaluate "$name" "gym:$1" --module=tests/learning/small.py)
  check "$agent $1 seed $2: return" "$(value return_mean <<<"$line")" ">=" "$bound"
}
for seed in "$@"; do
  for agent in vtrace a2c ppo dqn; do
    learns Colours-v0 "$seed" 100k
    learns Numbers-v0 "$seed" 500k
    [ "$agent" = dqn ] || learns Fee-v0 "$seed" 40k
  done
done
exit $failed
