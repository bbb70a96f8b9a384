#!/usr/bin/env bash
# Two learners against one, on one machine: CPU time of a reduction between them over that of a copy
# of the array; CPU time of the learners per step, with the same streams spread over both.
# At 50 ms a step the clients wait for their steps. Faster ones fill two cores, and then rows of one
# learner come in lumps: fewer batches, each with a fixed cost, which is not a learner's doing.
# Usage: tests/bench/learners.sh [STREAMS] [SECONDS] [PAIRS] [STEP_MS...]  (by default 1000 10 5
# 50)
set -u
. "$(dirname "$(readlink -f "$0")")/lib.sh"
streams=${1:-1000} seconds=${2:-10} pairs=${3:-5} steps_ms=("${@:4}")
[ ${#steps_ms[@]} -gt 0 ] || steps_ms=(50)
# On cores of their own: else what is compared is how often clients take a learner's core.
learners_on=0 clients_on=1-$(($(nproc) - 1))
[ "$(nproc)" -gt 1 ] || clients_on=0
client=build/tests/bench/bench_streams reduction=build/tests/bench/bench_reduction
need $client $reduction

die() {
  echo "$*" >&2
  exit 1
}

# used LEARNERS PROCESS...: CPU seconds of the processes and steps of their run, as it writes a line
# of metrics.
used() {
  local pid lines run=$work/run$1
  lines=$(wc -l <"$run/metrics.jsonl")
  until [ "$(wc -l <"$run/metrics.jsonl")" -gt "$lines" ]; do
    kill -0 "${learner[$1]}" 2>/dev/null || die "the learner has ended: $(tail -n 1 "$work/err$1")"
    sleep 0.02
  done
  for pid in "${@:2}"; do cpu_seconds "$pid"; done | awk '{sum += $1} END {printf "%s ", sum}'
  field step "$(wc -l <"$run/metrics.jsonl")" "$run"
}

# start_learners LEARNERS: a run that serves one fleet of clients after another: in its first
# seconds it writes metrics more often.
start_learners() {
  port[$1]=$((10000 + RANDOM % 20000))
  taskset -c "$learners_on" build/learner --env=cartpole --agent=vtrace --learners="$1" \
    --num_envs=$((streams / $1)) --listen=127.0.0.1:${port[$1]} --logdir="$work/run$1" \
    --metrics_secs=2 --total_steps=1e12 >"$work/out$1" 2>"$work/err$1" &
  learner[$1]=$!
  for _ in $(seq 200); do
    grep -q 'listening on' "$work/err$1" && return
    sleep 0.05
  done
  tail -n 3 "$work/err$1" >&2
  exit 1
}

# start_clients LEARNERS: two processes for one learner, too: a reply that wakes a process costs
# more than one to a process that is awake.
start_clients() {
  local half
  clients=()
  for half in 0 1; do
    taskset -c "$clients_on" $client "127.0.0.1:$((port[$1] + half % $1))" \
      --streams=$((streams / 2)) --shared=100 --step_ms="$step_ms" --seconds=300 \
      --name="light-$half" >"$work/client-$half" 2>&1 &
    clients+=($!)
  done
}

all_have_joined() {
  [ "$(cat "$work"/client-? | grep -c "joined=$((streams / 2)) ")" -eq 2 ]
}

# cost LEARNERS: microseconds of CPU time per step, of all learners.
cost() {
  local before processes
  start_clients "$1"
  for _ in $(seq 200); do
    ! all_have_joined || break
    sleep 0.1
  done
  all_have_joined || die "not all streams have joined: $(tail -qn 1 "$work"/client-?)"
  sleep 3 # they are under way
  read -ra processes <"/proc/${learner[$1]}/task/${learner[$1]}/children"
  before=$(used "$1" "${learner[$1]}" "${processes[@]}")
  sleep "$seconds"
  echo "$before $(used "$1" "${learner[$1]}" "${processes[@]}")" |
    awk '{printf "%.3f\n", 1e6 * ($3 - $1) / ($4 - $2)}'
  kill -TERM "${clients[@]}"
  wait "${clients[@]}"
}

echo "machine: $(machine)"
code=0 learner=()
trap 'kill "${learner[@]}" $(jobs -p) 2>/dev/null; wait; rm -rf "$work"' EXIT
for n in 1 2 3 4 5; do $reduction | awk '$1 == "CPU" {print $4; exit}'; done >"$work/ratios"
row "a reduction of 1.6 M floats over a copy, two processes, memory: CPU" \
  "$(median <"$work/ratios")" "<= 4" || code=1
start_learners 1
start_learners 2
sleep 20
for step_ms in "${steps_ms[@]}"; do
  for ((n = 0; n < pairs; n++)); do
    # Each first, in turn.
    [ $((n % 2)) -eq 0 ] || two=$(cost 2)
    one=$(cost 1)
    [ $((n % 2)) -eq 1 ] || two=$(cost 2)
    ratio "$two" "$one"
  done >"$work/ratios"
  row "$streams streams at $step_ms ms a step, two learners over one: CPU per step" \
    "$(median <"$work/ratios")" "<= 1.05" || code=1
  echo "  pairs: $(tr '\n' ' ' <"$work/ratios")"
done
exit $code
