#!/usr/bin/env bash
# Runs every fuzzer of a folder for FUZZ_SECONDS (default 20) each; a crash leaves its input in
# build/fuzz/crashes.
# Usage: scripts/fuzz.sh FOLDER
set -u
cd "$(dirname "$0")/.." || exit 1
seconds=${FUZZ_SECONDS:-20}
crashes=build/fuzz/crashes
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$crashes"
passed=0 failed=0
for fuzzer in "$1"/fuzz_*; do
  [ -x "$fuzzer" ] || continue
  name=$(basename "$fuzzer")
  mkdir -p "$work/$name"
  seeds=()
  [ -d "tests/fuzz/corpus/$name" ] && seeds=("tests/fuzz/corpus/$name")
  options=("-max_total_time=$seconds" -rss_limit_mb=2048 -timeout=10 -print_final_stats=1
    "-artifact_prefix=$crashes/$name-")
  if "$fuzzer" "${options[@]}" "$work/$name" "${seeds[@]}" >"$work/$name.log" 2>&1 </dev/null; then
    echo "PASS $name, $(sed -n 's/^stat::number_of_executed_units: *//p' "$work/$name.log") inputs"
    passed=$((passed + 1))
  else
    echo "FAIL $name"
    tail -n 40 "$work/$name.log"
    failed=$((failed + 1))
  fi
done
if [ $((passed + failed)) -eq 0 ]; then
  echo "FAIL there is no fuzzer in $1"
  failed=1
fi
echo "$passed passed, $failed failed"
[ $failed -eq 0 ]
