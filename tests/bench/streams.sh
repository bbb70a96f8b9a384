#!/usr/bin/env bash
# Many streams on one learner: all Joins at once succeed; what a stream costs the learner's memory
# (resident size with all less that with few, by their number), once with a connection for each and
# once with 100 on each; how long actions are waited for while every environment takes STEP_MS.
# Usage: tests/bench/streams.sh [STREAMS] [SECONDS] [STEP_MS]   (default 1000 10 50)
set -u
. "$(dirname "$(readlink -f "$0")")/lib.sh"
streams=${1:-1000} seconds=${2:-10} step_ms=${3:-50}
few=20 per_process=$((streams > 2000 ? 1000 : 100))
client=build/tests/bench/bench_streams
need $client
clients=()

rss_kb() { sed -n 's/^VmRSS:[^0-9]*\([0-9]*\).*/\1/p' "/proc/$learner/status"; }

start_learner() {
  rm -rf "$work/run" "$work"/client-*
  build/learner --env=cartpole --num_envs="$streams" --max_envs=$((streams + few)) \
    --listen=127.0.0.1:0 --logdir="$work/run" --total_steps=1e12 >"$work/out" 2>"$work/err" &
  learner=$!
  for _ in $(seq 200); do
    port=$(sed -n 's/.*listening on [^ ]*, port \([0-9]*\).*/\1/p' "$work/err")
    [ -n "$port" ] && return
    sleep 0.05
  done
  echo "the learner does not start" >&2
  exit 1
}

# start_clients NAME STREAMS SHARED: as many processes as it takes.
start_clients() {
  local left=$2 n=0 now
  while [ "$left" -gt 0 ]; do
    now=$((left < per_process ? left : per_process))
    $client "127.0.0.1:$port" --streams=$now --shared="$3" --step_ms="$step_ms" --seconds=300 \
      --name="$1-$n" >"$work/client-$1-$n" 2>&1 &
    clients+=($!)
    left=$((left - now)) n=$((n + 1))
  done
}

joined() {
  cat "$work"/client-* | tr ' ' '\n' | awk -F= '$1 == "joined" {n += $2} END {print n + 0}'
}
wait_joined() {
  for _ in $(seq 600); do
    [ "$(joined)" -ge "$1" ] && return
    sleep 0.1
  done
}

# column KEY: over all clients.
column() { cat "$work"/client-* | tr ' ' '\n' | sed -n "s/^$1=//p" | sort -g; }

# measure WHAT SHARED MUST
measure() {
  start_learner
  start_clients few $few "$2"
  wait_joined $few
  sleep 2
  local few_kb all_kb status=0
  few_kb=$(rss_kb)
  start_clients all "$streams" "$2"
  wait_joined $((few + streams))
  sleep "$seconds"
  all_kb=$(rss_kb)
  kill -TERM "${clients[@]}"
  wait "${clients[@]}"
  clients=()
  kill -TERM $learner
  wait $learner 2>/dev/null
  row "$1: Joins of $streams at once that succeed" "$(($(joined) - few))" ">= $streams" || status=1
  row "$1: the last of them is there after, ms" "$(column join_ms | tail -n 1)" reported
  row "$1: streams that ended" "$(column failed | awk '{n += $1} END {print n + 0}')" "<= 0" ||
    status=1
  row "$1: learner memory per stream, KB" \
    "$(awk -v a="$all_kb" -v f="$few_kb" -v n="$streams" 'BEGIN {printf "%.1f", (a - f) / n}')" \
    "$3" || status=1
  row "$1: wait for actions at ${step_ms} ms a step, median, us" "$(column wait_p50_us | median)" \
    reported
  row "$1: the same, 99th percentile, us" "$(column wait_p99_us | tail -n 1)" reported
  [ $status -eq 0 ] || tail -n 5 "$work/err" "$work"/client-*
  return $status
}

echo "machine: $(machine); open files allowed: $(ulimit -Hn)"
code=0
measure "$streams connections" 1 "<= 100" || code=1
measure "$streams streams, 100 on a connection" 100 reported || code=1
exit $code
