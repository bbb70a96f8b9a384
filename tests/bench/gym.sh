#!/usr/bin/env bash
# What the bridge adds to a step of Gymnasium's CartPole over a loop in Python, in CPU time;
# median of pairs.
# Usage: tests/bench/gym.sh [PAIRS] [STEPS]
set -u
pairs=${1:-7} steps=${2:-200000}
. "$(dirname "$(readlink -f "$0")")/lib.sh"
scripts/setup.sh gym && need gymnasium build/tests/bench/bench_env || exit 1
echo "machine: $(machine)"
for ((i = 0; i < pairs; i++)); do
  ours=$(build/tests/bench/bench_env gym:CartPole-v1 '{}' "$steps" | cut -d' ' -f1)
  theirs=$(.venv/bin/python tests/bench/step_python.py CartPole-v1 "$steps")
  echo "$ours $theirs"
done >"$work/pairs"
column() { cut -d' ' -f"$1" "$work/pairs" | median; }
echo "us of CPU per step, bridge: $(column 1), Python: $(column 2)"
row "bridge, us per step over the same environment from Python" \
  "$(awk '{print $1 - $2}' "$work/pairs" | median)" "<= 3"
