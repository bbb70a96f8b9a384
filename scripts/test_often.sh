#!/usr/bin/env bash
# Runs scripts/test.sh again and again, to find tests that fail on a correct program: on all cores,
# on one core, and beside a busy neighbour (a process that computes on each core). Prints a line for
# each run, the skipped tests, and how many runs passed.
# Usage: scripts/test_often.sh [ALL [ONE [BUSY]]] (default 5 3 2 runs; some two hours on two cores)
#   CORE=N  which core the runs on one have (default 0)
set -u
. "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/lib.sh"
offer_help "$@"
cd "$root" || exit 1
logs=$root/build/test_often
mkdir -p "$logs"
runs=0 passed=0 neighbours=()

end_neighbours() {
  [ ${#neighbours[@]} -eq 0 ] || kill "${neighbours[@]}" 2>/dev/null
  neighbours=()
}
trap end_neighbours EXIT

# neighbour: computes until it is ended, or its parent has gone.
neighbour() {
  while [ -d "/proc/$1" ]; do
    for ((i = 0; i < 1000000; i++)); do :; done
  done
}

# suite WHERE COMMAND...: one run by that command.
suite() {
  local where=$1 begin=$SECONDS log code=0
  shift
  runs=$((runs + 1))
  log=$logs/$runs.log
  "$@" >"$log" 2>&1 </dev/null || code=$?
  [ $code -ne 0 ] || passed=$((passed + 1))
  echo "run $runs, $where: $(tail -n 1 "$log"), $((SECONDS - begin)) s"
  grep -E '^(FAIL|MISSED) ' "$log" | sed 's/^/  /'
}

scripts/setup.sh test && build all units || exit 1
for ((run = 0; run < ${1:-5}; run++)); do suite "$(nproc) cores" scripts/test.sh; done
for ((run = 0; run < ${2:-3}; run++)); do
  suite "one core" taskset -c "${CORE:-0}" scripts/test.sh
done
for ((run = 0; run < ${3:-2}; run++)); do
  for ((core = 0; core < $(nproc); core++)); do
    neighbour $$ &
    neighbours+=($!)
  done
  suite "beside a busy neighbour" scripts/test.sh
  end_neighbours
done
sed -n '/^== skipped/,/^[0-9]* passed/p' "$logs/$runs.log" | grep '^SKIP '
echo "$passed of $runs runs passed"
[ $passed -eq $runs ]
