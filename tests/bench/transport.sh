#!/usr/bin/env bash
# Learner CPU per message for transport and batching alone (no network: agent random) over a bare
# C-core ping-pong of the same sizes in the same run: 16 actor processes x 1 stream, 64 B and
# 7,000 B. Pairs in turn; the median of their ratios counts.
# Usage: tests/bench/transport.sh [PAIRS] [SECONDS]
set -u
. "$(dirname "$(readlink -f "$0")")/lib.sh"
need build/tests/bench/bench_rpc
pairs=${1:-5} seconds=${2:-4}

# bare BYTES: server CPU us per message of the ping-pong.
bare() {
  build/tests/bench/bench_rpc bare --procs=16 --bytes="$1" --seconds="$seconds" |
    value server_cpu_us
}

steps() {
  tail -n 1 "$work/run/metrics.jsonl" | tr ',{}' '\n' | sed -n 's/^ *"step": *//p'
}

# ours BYTES: the same of a learner that serves 16 actors of one environment each.
ours() {
  local learner actors=() args="{\"bytes\": $1}" i port= steps0 steps1 cpu0 cpu1
  rm -rf "$work/run"
  build/learner --env=synthetic --env_args="$args" --agent=random --num_envs=16 \
    --listen=127.0.0.1:0 --logdir="$work/run" --total_steps=1e12 --metrics_secs=0.1 \
    >"$work/out" 2>"$work/err" &
  learner=$!
  for i in $(seq 100); do
    port=$(sed -n 's/.*listening on [^ ]*, port \([0-9]*\).*/\1/p' "$work/err")
    [ -n "$port" ] && break
    sleep 0.05
  done
  for i in $(seq 0 15); do
    build/actor --learner="127.0.0.1:$port" --env=synthetic --env_args="$args" --envs=1 \
      --task="$i" >/dev/null 2>&1 &
    actors+=($!)
  done
  sleep 2
  cpu0=$(cpu_seconds $learner) steps0=$(steps)
  sleep "$seconds"
  cpu1=$(cpu_seconds $learner) steps1=$(steps)
  kill -TERM $learner
  wait $learner 2>/dev/null
  kill "${actors[@]}" 2>/dev/null
  wait 2>/dev/null
  awk -v cpu0="$cpu0" -v cpu1="$cpu1" -v steps0="$steps0" -v steps1="$steps1" \
    'BEGIN {printf "%.3f", (cpu1 - cpu0) * 1e6 / (steps1 - steps0)}'
}

echo "machine: $(machine)"
status=0
for bytes in 64 7000; do
  for _ in $(seq "$pairs"); do
    a=$(ours $bytes) b=$(bare $bytes)
    echo "$bytes B: learner $a us/message, bare $b us/message, ratio $(ratio "$a" "$b")"
    ratio "$a" "$b" >>"$work/ratios-$bytes"
  done
  row "learner CPU per message over bare gRPC, 16 x 1 stream, $bytes B" \
    "$(median <"$work/ratios-$bytes")" "<= 1.6" || status=1
done
exit $status
