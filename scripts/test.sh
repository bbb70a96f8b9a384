#!/usr/bin/env bash
# Installs what the tests need, builds, and runs them: units, short whole runs with real processes,
# a learning run. With --all also the long whole runs, the sanitizers, the fuzzers, every learning
# test, and what whole runs do many times. The last line is "N passed, N failed[, N skipped]".
# Usage: scripts/test.sh [--all]
set -u
. "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/lib.sh"
offer_help "$@"
cd "$root" || exit 1
all=
case "${1:-}" in
  "") ;;
  --all) all=1 ;;
  *)
    echo "usage: scripts/test.sh [--all]" >&2
    exit 2
    ;;
esac

[ -n "$all" ] && export SLOW_TESTS=1 # those that wait for a keepalive, or do a thing many times
passed=0 failed=0 skipped=0
output=$(mktemp)
skips=$(mktemp)
failures=$(mktemp) # each with the lines before it
trap 'rm -f "$output" "$skips" "$failures"' EXIT

begin() {
  echo "== $* ($SECONDS s)"
}

finish() {
  if [ -s "$skips" ]; then
    echo "== skipped"
    sort -u "$skips"
  fi
  if [ -s "$failures" ]; then
    echo "== failed"
    cat "$failures"
  fi
  local line="$passed passed, $failed failed"
  [ $skipped -gt 0 ] && line+=", $skipped skipped"
  echo "$line"
  [ $failed -eq 0 ]
  exit
}

# keep_failures WHAT: keeps what $output says of its failures for the end.
keep_failures() {
  echo "-- $1"
  { grep -E -B 20 '^(FAIL|MISSED) ' "$output" || cat "$output"; } | tail -n 100
} >>"$failures"

# tally WHAT CODE: adds what the command that wrote $output has counted: its closing line if it has
# one, else its lines that begin with PASS or ok, FAIL or MISSED, SKIP. A command that failed
# without saying so counts as one failure.
tally() {
  local p f s
  grep '^SKIP ' "$output" >>"$skips"
  if grep -qE '^[0-9]+ passed, [0-9]+ failed' "$output"; then
    read -r p f s < <(grep -E '^[0-9]+ passed, [0-9]+ failed' "$output" | tail -n 1 |
      sed -E 's/^([0-9]+) passed, ([0-9]+) failed(, ([0-9]+) skipped)?$/\1 \2 0\4/')
  else
    p=$(grep -cE '^(PASS|ok) ' "$output")
    f=$(grep -cE '^(FAIL|MISSED) ' "$output")
    s=$(grep -cE '^SKIP ' "$output")
  fi
  if [ "$2" -ne 0 ] && [ "$f" -eq 0 ]; then
    echo "FAIL $1 (exit code $2)" | tee -a "$output"
    f=1
  fi
  [ "$f" -eq 0 ] || keep_failures "$1"
  passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + 10#$s))
}

# check WHAT COMMAND...: runs it, shows what it says, counts.
check() {
  local what=$1 code
  shift
  "$@" 2>&1 </dev/null | tee "$output"
  code=${PIPESTATUS[0]}
  tally "$what" "$code"
}

# one WHAT COMMAND...: a check that is one test; what it says is shown only if it fails.
one() {
  local what=$1 code=0
  shift
  "$@" >"$output" 2>&1 </dev/null || code=$?
  if [ $code -eq 0 ]; then
    echo "PASS $what"
    passed=$((passed + 1))
  else
    tail -n 60 "$output"
    echo "FAIL $what" | tee -a "$output"
    keep_failures "$what"
    failed=$((failed + 1))
  fi
}

# checks AT_ONCE SECONDS SCRIPT...: those commands, so many at a time, each bounded; the output of
# each appears as it ends.
checks() {
  local at_once=$1 seconds=$2 script code logs
  shift 2
  logs=$(mktemp -d)
  printf '%s\0' "$@" | xargs -0 -P "$at_once" -I{} bash -c '
    log=$0/${2//\//,} code=0 TIMEFORMAT="%0R s, CPU %0U + %0S s"
    { time timeout -k 10 "$1" "$2" >"$log" 2>&1 </dev/null; } 2>"$log.time" || code=$?
    echo "$code" >"$log.code"
    flock "$0" bash -c "echo \"-- $2 ($(cat "$log.time"))\"; cat \"$log\""
  ' "$logs" "$seconds" {}
  for script in "$@"; do
    cp "$logs/${script//\//,}" "$output"
    code=$(cat "$logs/${script//\//,}.code")
    tally "$script" "$code"
  done
  rm -rf "$logs"
}

# build_ahead: what is tested last, of what others leave of the cores while they wait. What fails is
# built, and shown, once more there.
build_ahead() {
  nice -n 19 bash -c 'for mode in asan tsan; do make -s -j"$(nproc)" MODE=$mode units; done
    make -s -j"$(nproc)" MODE=fuzz fuzz-programs' >/dev/null 2>&1 </dev/null
}

# units MODE [PROGRAM...]: builds and runs the unit tests of a build mode, but for those programs.
units() {
  if ! build MODE="$1" units; then
    echo "FAIL the unit tests ($1) do not build" | tee -a "$failures"
    failed=$((failed + 1))
    return
  fi
  mapfile -t programs < <(in_tree -s MODE="$1" list-units | grep -vxF "$(printf '%s\n' "${@:2}")")
  check "unit tests ($1)" scripts/run_units.sh "${programs[@]}"
}

begin "set-up"
# A full disk shows as failures of whatever wrote last.
room=$(($(df --output=avail -B 1G . | tail -n 1)))
[ -z "$all" ] || [ $room -ge 8 ] || echo "$room GB are free here: --all can take 8"
if [ -n "$all" ]; then scripts/setup.sh all; else scripts/setup.sh test; fi || {
  failed=1
  finish
}

[ -n "$all" ] || scripts/setup.sh compare || echo "the tests that need these are skipped"

begin "build"
build all || {
  failed=1
  finish
}

begin "unit tests"
units release

begin "headers and lint"
one "every header compiles alone" make --no-print-directory headers
one "lint" scripts/lint.sh
one "what docs.sh writes is up to date" scripts/docs.sh --check

begin "whole runs"
[ -z "$all" ] || build_ahead &
STOPS=$([ -n "$all" ] && echo 40 || echo 10)
FOLDERS=$([ -n "$all" ] && echo 5 || echo 2)
FAULTS=$([ -n "$all" ] && echo all)
export STOPS FOLDERS FAULTS ALL=$all
# Those that take more than a quarter of a minute alone are for --all; the longest ones first, so
# that none of them is left alone at the end.
names=(image add_algorithm gymnasium cuda_orders export diagnosis hostile cuda serve slurm
  parameters tls everyday cuda_compiles fleet python_package box_actions watch trackers sweep
  spare_learners learners_hosts learners_mpi fleet_ssh gpu_check bundle own_env replay desk
  wrappers replay_file learners learners_gpu module guarded metrics images after endings
  python_actor kubernetes run_folder pixels floods locale instruction_sets masks interpreters
  tensorboard)
long=("${names[@]/#/tests/integration/}") && long=("${long[@]/%/.sh}")
mapfile -t short < <(printf '%s\n' tests/integration/*.sh "${long[@]}" |
  grep -v '/lib\.sh$' | sort | uniq -u)
# Each waits for half of its time.
checks $(($(nproc) + 2)) 1800 ${all:+"${long[@]}"} "${short[@]}"
[ -n "$all" ] || echo "with --all also: ${names[*]}"

begin "learning"
if [ -z "$all" ]; then
  check "learning smoke" timeout -k 10 300 tests/learning/catch.sh 1
else
  # In most of them the trainer is the slower part, so that two have room. A seed of dqn or r2d2
  # takes minutes; by themselves they try three. box_gym is run by hand.
  export SEEDS=1 UNTIL=1
  first=(tests/learning/{r2d2,dqn,dqn_gym}.sh)
  mapfile -t others < <(ls tests/learning/*.sh | grep -vE '/(lib|r2d2|dqn|dqn_gym|box_gym)\.sh')
  checks "$(nproc)" 1200 "${first[@]}" "${others[@]}"
fi
[ -n "$all" ] || finish

wait # for what is built ahead
begin "killed actors and learners"
one "actors killed for 20 s" timeout -k 10 300 tests/bench/kill_actors.sh 20
one "a learner killed five times" timeout -k 10 300 tests/bench/kill_learner.sh 5

# Learner and actors, whose reports of ThreadSanitizer go to their logs.
run_silently() {
  local folder code=0
  folder=$(mktemp -d)
  timeout -k 10 300 build/tsan/launch cartpole vtrace 2 4 --total_steps=20000 --no_plot \
    --logdir="$folder/run" || code=$?
  grep -r -A 40 'WARNING: ThreadSanitizer' "$folder" && code=1
  rm -rf "$folder"
  return $code
}

# Each has its time limit, and few wait.
export UNIT_JOBS=$(($(nproc) + 1))
export TSAN_OPTIONS="suppressions='$root/tests/tsan.supp' ${TSAN_OPTIONS:-}"
export UNIT_SECONDS=600
begin "unit tests, asan"
units asan
begin "unit tests, tsan"
# Those of kernels with each of a block's threads as one.
kernels=(build/tsan/tests/unit/learner/device/test_{operations,trace,steps,cuda_products}
  build/tsan/tests/unit/learner/train/test_cuda_updates)
units tsan "${kernels[@]}"
check "races of a block's threads" env ACORN_EMULATED_CUDA=races \
  scripts/run_units.sh "${kernels[@]}"
build MODE=tsan all && one "a run without a race (tsan)" run_silently

# Short: make fuzz is for what was not found before.
export FUZZ_SECONDS=1 FUZZ_RUNS=500000
begin "fuzzers"
if build MODE=fuzz fuzz-programs; then
  check "fuzzers" scripts/fuzz.sh build/fuzz/tests/fuzz
else
  echo "FAIL the fuzzers do not build" | tee -a "$failures"
  failed=$((failed + 1))
fi
finish
