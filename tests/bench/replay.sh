#!/usr/bin/env bash
# What sampling from a replay of 1,000,000 windows costs: drawing 64 by priority and giving 64 new
# priorities, in microseconds. The must is for a tree that is not in the processor's caches, as
# after an update; beside it the same in rounds that follow each other at once.
# Usage: tests/bench/replay.sh
set -u
. "$(dirname "$(readlink -f "$0")")/lib.sh"
need build/tests/bench/bench_replay
echo "machine: $(machine)"
line=$(build/tests/bench/bench_replay) || exit 1
echo "$line"
what="sampling 64 and updating 64 of 1,000,000 priorities, us"
code=0
row "$what, caches cold (aim 15)" "$(value cold_us <<<"$line")" "<= 40" || code=1
row "$what, caches warm" "$(value warm_us <<<"$line")" reported
exit $code
