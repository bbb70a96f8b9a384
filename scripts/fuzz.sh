#!/usr/bin/env bash
# Runs every fuzzer of a folder, with checks of memory and leaks; a crash leaves its input in
# build/fuzz/crashes. The decoder of Steps, which all that comes over the wire goes through, gets
# FUZZ_RUNS inputs (default 10,000,000: about two minutes on two cores), with so many requests to
# scripts/serve.sh a tenth; with fewer these have FUZZ_SECONDS (default 20), as the others.
# Usage: scripts/fuzz.sh [FOLDER]; without one they are built, and what that takes is installed
set -u
. "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/lib.sh"
offer_help "$@"
cd "$root" || exit 1
folder=${1:-build/fuzz/tests/fuzz}
[ $# -gt 0 ] || { scripts/setup.sh fuzz && build MODE=fuzz fuzz-programs; } || exit 1
[ -d "$folder" ] || { echo "fuzz.sh: there is no folder $folder" >&2; exit 2; }
seconds=${FUZZ_SECONDS:-20} runs=${FUZZ_RUNS:-10000000}
full=10000000 processes=2 hours=2
crashes=build/fuzz/crashes
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# What is freed is kept a while to find its use; short messages need little of that.
export ASAN_OPTIONS=quarantine_size_mb=8:malloc_context_size=4:${ASAN_OPTIONS:-}
mkdir -p "$crashes"
passed=0 failed=0

# start FUZZER NUMBER OPTIONS...: one process, with a corpus of its own.
start() {
  local fuzzer=$1 number=$2 name seeds=()
  name=$(basename "$1")
  shift 2
  mkdir -p "$work/$name-$number"
  [ -d "tests/fuzz/corpus/$name" ] && seeds=("tests/fuzz/corpus/$name")
  "$fuzzer" "$@" -rss_limit_mb=2048 -timeout=10 -print_final_stats=1 \
    "-artifact_prefix=$crashes/$name-" "$work/$name-$number" "${seeds[@]}" \
    >"$work/$name-$number.log" 2>&1 </dev/null &
}

# 10000000 as 10,000,000.
grouped() { sed -E ':a; s/([0-9])([0-9]{3})(,|$)/\1,\2\3/; ta' <<<"$1"; }

# fuzz FUZZER WANTED OPTIONS...: so many inputs, over all processes.
fuzz() {
  local fuzzer=$1 wanted=$2 name number pids=() pid ok=1 done_runs
  name=$(basename "$1")
  shift 2
  for number in $(seq $processes); do
    start "$fuzzer" "$number" "$@"
    pids+=($!)
  done
  for pid in "${pids[@]}"; do wait "$pid" || ok=; done
  done_runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$work/$name"-*.log |
    awk '{n += $1} END {print n + 0}')
  if [ -n "$ok" ] && [ "$done_runs" -ge "$wanted" ]; then
    echo "PASS $name, $(grouped "$done_runs") inputs without a crash or a leak"
    passed=$((passed + 1))
  else
    echo "FAIL $name, $(grouped "$done_runs") inputs of $(grouped "$wanted")"
    tail -n 40 "$work/$name"-*.log
    failed=$((failed + 1))
  fi
}

# all FUZZER INPUTS OPTIONS...: shared by the processes, however long that takes.
all() {
  fuzz "$1" "$2" -runs=$((($2 + processes - 1) / processes)) -max_total_time=$((hours * 3600)) \
    "${@:3}"
}

for fuzzer in "$folder"/fuzz_*; do
  [ -x "$fuzzer" ] && [ -f "$fuzzer" ] || continue
  case $(basename "$fuzzer")-$((runs >= full)) in
    fuzz_wire_steps-*) all "$fuzzer" "$runs" -max_len=1024 ;;
    fuzz_serve_request-1) all "$fuzzer" $((runs / 10)) ;;
    *) fuzz "$fuzzer" 1 -max_total_time="$seconds" ;;
  esac
done
if [ $((passed + failed)) -eq 0 ]; then
  echo "FAIL there is no fuzzer in $folder"
  failed=1
fi
echo "$passed passed, $failed failed"
[ $failed -eq 0 ]
