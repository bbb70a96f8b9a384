#!/usr/bin/env bash
# Every figure of the README, measured here: learning, throughput, transport, allocations, a stopped
# actor, the scripted policy, resuming. About 15 minutes.
# Usage: scripts/bench.sh [NAME ...] with NAME of: scripted resume allocations cartpole catch tmaze
# throughput transport stopped_actor kernels pages rpc
set -u
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
cd "$root" || exit 1
build all bench-programs
[ $# -gt 0 ] || set -- scripted resume allocations cartpole catch tmaze throughput transport \
  stopped_actor
failed=()
for name in "$@"; do
  echo "== $name"
  case $name in
    cartpole | catch | tmaze) tests/learning/$name.sh ;;
    throughput | transport | scripted | allocations | stopped_actor) tests/bench/$name.sh ;;
    resume)
      build build/tests/unit/learner/train/test_resume && build/tests/unit/learner/train/test_resume
      ;;
    kernels | pages | rpc) "build/tests/bench/bench_$name" ;;
    *) echo "bench.sh: no benchmark '$name'" >&2; exit 2 ;;
  esac || failed+=("$name")
done
[ ${#failed[@]} -eq 0 ] || { echo "missed: ${failed[*]}"; exit 1; }
echo "every figure that was measured meets its must"
