#!/usr/bin/env bash
# Whether a replay samples as often as it was asked to: windows sampled over windows inserted, from
# the counters of metrics.jsonl, over the ratio asked, while a run goes on. dqn on CartPole, where
# sampling is the slower side, and r2d2 on the T-maze at a ratio so small that acting is.
# Usage: tests/bench/replay_ratio.sh [SECONDS] (default 300, both runs together)
set -u
seconds=${1:-300}
. "$(dirname "$(readlink -f "$0")")/lib.sh"
need || exit 1
echo "machine: $(machine)"
# measured ENV AGENT RATIO: the measured ratio over the one asked.
measured() {
  rm -rf "$work/run"
  build/launch "$1" "$2" 4 --replay_ratio="$3" --total_steps=1e12 --metrics_secs=1 --seed=1 \
    --evaluators=0 --no_tensorboard --logdir="$work/run" >"$work/out" 2>"$work/err" &
  local launch=$! first last
  sleep 8 # until the replay has its least number of windows, and some more
  first=$(($(wc -l <"$work/run/metrics.jsonl") - 1))
  sleep $((seconds / 2 > 10 ? seconds / 2 - 8 : 2))
  kill -TERM $launch
  wait $launch
  last=$(($(wc -l <"$work/run/metrics.jsonl") - 1))
  awk -v asked="$3" -v s0="$(field replay/windows_sampled "$first")" \
    -v s1="$(field replay/windows_sampled "$last")" -v i0="$(field fifo/windows "$first")" \
    -v i1="$(field fifo/windows "$last")" 'BEGIN {printf "%.4f", (s1 - s0) / (i1 - i0) / asked}'
}
code=0
# judge WHAT RATIO: 0.98 to 1.02.
judge() {
  row "$1, least" "$2" ">= 0.98" && row "$1, most" "$2" "<= 1.02" || code=1
}
judge "replay ratio, measured over asked (64): dqn, CartPole" "$(measured cartpole dqn 64)"
judge "replay ratio, measured over asked (0.1): r2d2, T-maze" "$(measured tmaze r2d2 0.1)"
exit $code
