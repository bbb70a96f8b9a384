#!/usr/bin/env bash
# One of three learners stopped (SIGSTOP) in a run with --spare_learners=1, actors of a fixed pace:
# the rate of the two that go on over two thirds of the rate of three, and over all of it, since the
# two have all actors; the seconds from the stop until steps are counted again, of which TIMEOUT are
# --learners_timeout_s.
# Usage: tests/bench/spare_learners.sh [SECONDS] [PAIRS] [TIMEOUT]  (by default 15 3 5)
set -u
. "$(dirname "$(readlink -f "$0")")/lib.sh"
need
seconds=${1:-15} pairs=${2:-3} timeout=${3:-5}

lines() { wc -l 2>/dev/null <"$work/run/metrics.jsonl" || echo 0; }
# until_so COMMAND...: for two minutes.
until_so() {
  local end=$((SECONDS + 120))
  until "$@"; do
    [ $SECONDS -lt $end ] || { tail -n 5 "$work/err" >&2 && kill $run && exit 1; }
    sleep 0.02
  done
}
# counts LINES STEP: a line after so many has more steps.
counts() { [ "$(lines)" -gt "$1" ] && [ "$(field step "$(lines)")" -gt "$2" ]; }
# first_child PID: of the launcher the first learner, whose is learner 1.
first_child() { cut -d ' ' -f 1 "/proc/$1/task/$1/children"; }
# rate: steps/s over the window, from a while after the start on.
rate() {
  local from
  sleep 3 # all have joined
  from=$(lines)
  sleep "$seconds"
  per_second step "$from"
}

# pair: the rate of three, that of the two that are left, the gap.
pair() {
  local run before at stopped
  rm -rf "$work/run"
  build/launch cartpole vtrace 6 16 --learners=3 --spare_learners=1 --batch_size=30 \
    --learners_timeout_s="$timeout" --step_delay_us=1250 --evaluators=0 --total_steps=1e12 \
    --logdir="$work/run" --metrics_secs=0.5 --no_plot >"$work/out" 2>"$work/err" &
  run=$!
  until_so counts 0 1000
  before=$(rate)
  stopped=$(date +%s.%N)
  kill -STOP "$(first_child "$(first_child $run)")"
  until_so grep -q 'goes on with 2' "$work/err"
  at=$(lines)
  until_so counts "$at" "$(field step "$at")"
  echo "$before $(date +%s.%N) $stopped $(rate)" |
    awk '{printf "%d %d %.2f\n", $1, $4, $2 - $3}'
  kill -TERM $run
  wait $run
}

echo "machine: $(machine)"
for ((n = 0; n < pairs; n++)); do pair || exit 1; done | tee "$work/pairs" |
  sed 's/^/  steps\/s of three, of two; gap: /'
[ "$(wc -l <"$work/pairs")" = "$pairs" ] || exit 1
column() { awk "{print $1}" "$work/pairs" | median; }
code=0
row "one of three learners stopped: rate of the two over 2/3 of three" \
  "$(column '$2 / ($1 * 2 / 3)')" ">= 0.9" || code=1
row "the same over all of three" "$(column '$2 / $1')" reported
row "seconds from the stop to steps again, timeout $timeout s" "$(column '$3')" reported
exit $code
