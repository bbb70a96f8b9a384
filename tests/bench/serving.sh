#!/usr/bin/env bash
# How many rows the thread that serves and infers handles, on a device that computes nothing, over
# what a bare C-core ping-pong of the same bytes does; and on one whose batches take 1 ms: 256 rows
# of 64 B a message, UNIX sockets, vtrace with all steps trained on. Rows per second of its CPU time
# count, as it shares the machine with the actors; those per second of wall time are printed too.
# Measurements in turn; the medians of their ratios count.
# Usage: tests/bench/serving.sh [TURNS] [SECONDS] [ACTORS_AT_0_MS] [ACTORS_AT_1_MS]
set -u
. "$(dirname "$(readlink -f "$0")")/lib.sh"
need build/tests/bench/bench_rpc build/tests/libidle.so
turns=${1:-5} seconds=${2:-4} few=${3:-4} many=${4:-64} rows=256
args='{"bytes": 64}'
# Of a message: observations, rewards, flags; of its answer: the actions.
bytes=$((rows * (64 + 4 + 1) + 16)) reply_bytes=$((rows * 4 + 4))

# bare: rows per CPU second of the ping-pong.
bare() {
  build/tests/bench/bench_rpc bare --procs="$few" --bytes=$bytes --reply_bytes=$reply_bytes \
    --seconds="$seconds" --socket="$work/bare" | value server_cpu_us |
    awk -v rows=$rows '{printf "%.0f", rows * 1e6 / $1}'
}

steps() {
  tail -n 1 "$work/run/metrics.jsonl" | tr ',{}' '\n' | sed -n 's/^ *"step": *//p'
}
# CPU seconds of the learner's thread that serves.
serving_seconds() {
  local task
  for task in /proc/"$1"/task/*; do
    if [ "$(cat "$task/comm")" = queue ]; then awk '{print $1 / 1e9}' "$task/schedstat"; fi
  done
}

# ours ACTORS US: rows per CPU second, and per second, on a device that takes so long for a batch.
ours() {
  local learner actors=() i steps0 steps1 cpu0 cpu1 from
  rm -rf "$work/run" "$work/socket"
  ACORN_CUDA_PLUGIN=$PWD/build/tests/libidle.so ACORN_IDLE_US=$2 \
    build/learner --env=synthetic --env_args="$args" --agent=vtrace --device=cuda \
    --num_envs=$(($1 * rows)) --listen="unix:$work/socket" --logdir="$work/run" \
    --total_steps=1e12 --metrics_secs=0.1 --checkpoint_secs=0 >"$work/out" 2>"$work/err" &
  learner=$!
  for i in $(seq 100); do
    [ -S "$work/socket" ] && break
    sleep 0.05
  done
  for i in $(seq 0 $(($1 - 1))); do
    build/actor --learner="unix:$work/socket" --env=synthetic --env_args="$args" --envs=$rows \
      --task="$i" >/dev/null 2>&1 &
    actors+=($!)
  done
  sleep 3
  steps0=$(steps) cpu0=$(serving_seconds $learner) from=$(date +%s.%N)
  sleep "$seconds"
  steps1=$(steps) cpu1=$(serving_seconds $learner)
  awk -v steps=$((steps1 - steps0)) -v cpu="$(awk "BEGIN {print $cpu1 - $cpu0}")" \
    -v from="$from" -v to="$(date +%s.%N)" \
    'BEGIN {printf "%.0f %.0f\n", steps / cpu, steps / (to - from)}'
  kill -KILL $learner "${actors[@]}" 2>/dev/null
  wait 2>/dev/null
}

echo "machine: $(machine)"
for _ in $(seq "$turns"); do
  a=$(bare)
  read -r b wall < <(ours "$few" 0)
  read -r _ none < <(ours "$many" 0)
  read -r _ slow < <(ours "$many" 1000)
  echo "rows per CPU second: ours $b, bare $a; rows/s: $few actors $wall;" \
    "$many actors, 0 ms $none, 1 ms $slow"
  ratio "$b" "$a" >>"$work/of-bare"
  echo "$b" >>"$work/rows"
  ratio "$slow" "$none" >>"$work/of-idle"
done
status=0
row "rows per CPU second over bare gRPC" "$(median <"$work/of-bare")" ">= 0.6" || status=1
row "rows per CPU second of one serving thread" "$(median <"$work/rows")" ">= 4e6" || status=1
row "rows/s with batches of 1 ms over 0 ms" "$(median <"$work/of-idle")" ">= 0.95" || status=1
exit $status
