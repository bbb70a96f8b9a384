#!/usr/bin/env bash
# Runs test programs, each in a process of its own; prints the output of those that fail, and in the
# end "N passed, N failed[, N skipped]" on a line of its own.
# Usage: scripts/run_units.sh PROGRAM... UNIT_SECONDS (default 300) bounds each program, UNIT_JOBS
# (default: two more than there are cores, as some wait) says how many run at once.
set -u
. "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/lib.sh"
offer_help "$@"
logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT

run_one() {
  local log=$1/${2//\//,}.log code=0
  # In this process group, so that what ends the script's group ends the program.
  timeout --foreground -k 5 "${UNIT_SECONDS:-300}" "$2" >"$log" 2>&1 </dev/null || code=$?
  [ $code -eq 124 ] &&
    echo "stopped after ${UNIT_SECONDS:-300} s, in$(tail -n 1 "$log" | tr -d '[]')" >>"$log"
  echo "$code $2" >"$log.end"
}
export -f run_one
jobs=${UNIT_JOBS:-$(($(nproc) + 2))}
printf '%s\0' "$@" | xargs -0 -P "$jobs" -I{} bash -c 'run_one "$0" "$1"' "$logs" {}

# The number before "test(s)" in cmocka's line about $2; newer ones name the group before it.
count() {
  sed -n "s/^\[ *$2 *\] \([^ ]*: \)\{0,1\}\([0-9]*\) test(s).*/\2/p" "$1" | tail -n 1
}

passed=0 failed=0 skipped=0
for program in "$@"; do
  log=$logs/${program//\//,}.log
  read -r code _ <"$log.end"
  p=$(count "$log" PASSED) f=$(count "$log" FAILED) s=$(count "$log" SKIPPED)
  # A program that died, or that ran nothing, is a failure whatever it said before.
  if [ "$code" -ne 0 ] && [ "${f:-0}" -eq 0 ]; then f=1; fi
  if [ "$code" -eq 0 ] && [ "$((${p:-0} + ${s:-0}))" -eq 0 ]; then f=1; fi
  passed=$((passed + ${p:-0})) failed=$((failed + ${f:-0})) skipped=$((skipped + ${s:-0}))
  grep '^SKIP ' "$log"
  if [ "${f:-0}" -gt 0 ]; then
    echo "---- $program (exit code $code)"
    grep -vE '^\[ +(RUN|OK) +\]' "$log" | tail -n 60
  fi
done
line="$passed passed, $failed failed"
[ $skipped -gt 0 ] && line+=", $skipped skipped"
echo "$line"
[ $failed -eq 0 ]
