#!/usr/bin/env bash
# What a stored frame of the Atari costs: the bytes that a full pool of 64,000 steps allocates, with
# all its records, over the steps that are whole in it and the bytes of a frame; alone, and where
# four frames are stacked. Usage: tests/bench/memory.sh
set -u
. "$(dirname "$0")/lib.sh"
build/tests/bench/bench_pages >"$work/pages" || exit 1
code=0
for stack in 1 4; do
  line=$(grep "stacks of $stack:" "$work/pages")
  echo "$line"
  row "allocated bytes per stored step over the 7,056 of its frame, stack $stack" \
    "${line##* }" "<= 1.02" || code=1
done
exit $code
