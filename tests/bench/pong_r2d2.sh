#!/usr/bin/env bash
# r2d2 on Pong: frames per second (four a step) of the whole path, acting and learning at the
# replay ratio of --preset=small, over the emulator alone (two processes that act, no resize) on the
# same cores in the same run. Medians of rounds.
# Usage: tests/bench/pong_r2d2.sh [ROUNDS] [SECONDS]
set -u
rounds=${1:-3} seconds=${2:-30} steps=5000
. "$(dirname "$(readlink -f "$0")")/lib.sh"
scripts/setup.sh atari && need gymnasium || exit 1
echo "machine: $(machine)"
emulator() { .venv/bin/python tests/bench/step_atari.py act "$steps" 2>/dev/null; }
# Frames per second from when the replay is filled on; with the ratio measured.
whole() {
  rm -rf "$work/run"
  build/launch atari r2d2 2 16 --preset=small --total_steps=1e12 --replay_min_steps=5k \
    --metrics_secs=0.5 --seed=1 --evaluators=0 --no_tensorboard --logdir="$work/run" \
    >"$work/out" 2>"$work/err" &
  local launch=$! mark
  sleep 15
  mark=$(wc -l <"$work/run/metrics.jsonl")
  sleep "$seconds"
  kill -TERM $launch
  wait $launch
  awk -v rate="$(per_second train/env_steps "$mark")" 'BEGIN {printf "%.0f ", 4 * rate}'
  field replay/ratio "$(($(wc -l <"$work/run/metrics.jsonl") - 1))"
}
for ((i = 0; i < rounds; i++)); do
  line="$(two emulator) $(whole)"
  echo "emulator alone, whole path, replay ratio: $line"
  echo "$line" >>"$work/rounds"
done
row "Pong, r2d2 (small), frames/s over the emulator alone" \
  "$(awk '{print $2 / $1}' "$work/rounds" | median)" reported
