# Helpers of the learning tests: a run per seed, bounded in steps, and a line with what it reached.
# shellcheck shell=bash
export LC_ALL=C.UTF-8 # see scripts/lib.sh
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../.." || exit 1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0
agent=vtrace # --agent of the runs
actors=4
(. scripts/lib.sh && "$root/scripts/setup.sh" && build all) || exit 1

value() {
  tr ' ' '\n' | sed -n "s/^$1=//p" | tail -n 1
}

# train NAME ENV FLAGS...: prints the result line of $actors actors ("2 16": each with 16
# environments); the run folder is $work/NAME.
train() {
  local name=$1 env=$2
  shift 2
  # shellcheck disable=SC2086
  build/launch "$env" "$agent" $actors --logdir="$work/$name" "$@" >"$work/$name.out" \
    2>"$work/$name.err"
  tail -n 1 "$work/$name.out"
}

# evaluate NAME ENV FLAGS...: prints the evaluation line of the final checkpoint.
evaluate() {
  local name=$1 env=$2
  shift 2
  build/launch "$env" "$agent" 2 8 --mode=evaluate --checkpoint=latest \
    --logdir="$work/$name" --episodes=100 \
    --seed=1000 "$@" 2>>"$work/$name.err" | grep '^evaluation '
}

# check WHAT VALUE OP BOUND
check() {
  if awk -v v="$2" -v op="$3" -v b="$4" 'BEGIN {
    if (v !~ /^-?[0-9.]+(e[-+]?[0-9]+)?$/) exit 1
    exit !(op == ">=" ? v + 0 >= b + 0 : v + 0 <= b + 0)}'; then
    echo "ok $1: $2 $3 $4"
  else
    echo "MISSED $1: $2, must be $3 $4"
    failed=1
  fi
}
