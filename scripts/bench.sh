#!/usr/bin/env bash
# The rows of docs/benchmarks.md, measured here, about an hour; or those that are named. What a
# benchmark needs is installed and built when its turn comes.
# Usage: scripts/bench.sh [NAME ...]
set -u
. "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/lib.sh"
cd "$root" || exit 1
all=(scripted resume allocations cartpole a2c catch tmaze throughput transport serving
  stopped_actor streams metrics kill_actors kill_learner catch_pixels gym vector_env atari memory
  replay replay_save tls)
if [[ "${1:-}" =~ ^(--help|-h)$ ]]; then
  print_head
  echo "Names: ${all[*]}; besides these: exported kernels learners pages reduction rpc rules" \
    "scale serve spare_learners; peers (other systems, 7 GB); pixels needs a Python with" \
    "PyTorch (PYTHON=...)."
  exit 0
fi

# program NAME: the command that measures it. Scripts install and build what they need.
program() {
  case $1 in
    lib) return 1 ;;
    resume) echo build/tests/unit/learner/train/test_resume ;;
    kernels | pages | reduction | rpc | rules) echo "build/tests/bench/bench_$1" ;;
    *) find tests/bench tests/learning -name "$1.sh" | grep . ;;
  esac
}

[ $# -gt 0 ] || set -- "${all[@]}"
for name in "$@"; do
  program "$name" >/dev/null && continue
  echo "bench.sh: no benchmark '$name'; --help lists them" >&2
  exit 2
done

# measure NAME
measure() {
  local command
  command=$(program "$1")
  case $command in
    build/tests/unit/*) scripts/setup.sh test && build "$command" || return 1 ;;
    build/*) scripts/setup.sh && build "$command" || return 1 ;;
  esac
  "$command"
}
failed=()
for name in "$@"; do
  echo "== $name"
  measure "$name" || failed+=("$name")
done
[ ${#failed[@]} -eq 0 ] || { echo "missed: ${failed[*]}"; exit 1; }
echo "every figure that was measured meets its must"
