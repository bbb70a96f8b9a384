#!/usr/bin/env bash
# Pong's frames per second (four a step) over the faster of two baselines on the same cores in the
# same run: two processes of ale-py (act x 4, two grey screens, random actions, no resize), two of
# ale-py's vector environment. Ours: the environment alone in two processes; then the whole path,
# 2 actors x 32 environments and a learner that trains on every step. Medians of rounds.
# Usage: tests/bench/atari.sh [ROUNDS] [SECONDS]
set -u
rounds=${1:-3} seconds=${2:-20} steps=5000
. "$(dirname "$(readlink -f "$0")")/lib.sh"
scripts/setup.sh atari && need gymnasium build/tests/bench/bench_env || exit 1
echo "machine: $(machine)"
deep=bf16
has_bf16 || deep=float32

ours() { build/tests/bench/bench_env atari '{}' "$steps" | awk '{print 4e6 / $2}'; }
theirs() { .venv/bin/python tests/bench/step_atari.py "$1" "$steps" 2>/dev/null; }
# whole --flag=value...: trained frames per second of a run.
whole() {
  rm -rf "$work/run"
  build/launch atari vtrace 2 32 --total_steps=1e12 --metrics_secs=0.5 --logdir="$work/run" \
    --seed=1 --no_tensorboard "$@" >"$work/out" 2>"$work/err" &
  local launch=$! mark
  sleep 8
  mark=$(wc -l <"$work/run/metrics.jsonl")
  sleep "$seconds"
  kill -TERM $launch
  wait $launch
  awk -v rate="$(per_second train/steps "$mark")" 'BEGIN {print 4 * rate}'
}

for ((i = 0; i < rounds; i++)); do
  line="$(two theirs act) $(two theirs vector) $(two ours)"
  line+=" $(whole --network=impala_shallow --lstm_size=256)"
  line+=" $(whole --network=impala_shallow --lstm_size=256 --precision=float32)"
  line+=" $(whole --network=impala_deep --lstm_size=256 --precision=$deep)"
  echo "$line" | tee -a "$work/rounds" |
    sed "s/^/act, vector, ours alone, shallow, shallow float32, deep $deep: /"
done
over() { awk -v k="$1" '{print $k / ($1 > $2 ? $1 : $2)}' "$work/rounds" | median; }
row "Pong, frames/s of the environment alone over the faster baseline" "$(over 3)" reported
row "Pong, impala_shallow + LSTM, whole path over the faster baseline" "$(over 4)" ">= 0.5"
code=$?
row "the same in float32" "$(over 5)" reported
row "the same with impala_deep, $deep" "$(over 6)" reported
exit $code
