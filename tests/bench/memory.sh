#!/usr/bin/env bash
# What a stored frame of the Atari costs: the bytes that a full pool of 64,000 steps allocates, with
# all its records, over the steps that are whole in it and the bytes of a frame; alone, and where
# four frames are stacked. Then the pool of a V-trace run with the Atari's settings, at its fullest.
# That one holds two pages a slot, and has slots for twice the environments that are expected
# (--max_envs); where frames are stacked it holds a third page, of which a window shows three
# frames, so that no frame is stored twice: in so short a pool it is a third of all.
# Then a replay of SEED RL's size for the Atari, 100,000 windows of 640 environments, after its
# pages have been reused: the bytes that it allocates for observations over the steps that are in a
# window that can be sampled.
# Usage: tests/bench/memory.sh
set -u
. "$(dirname "$(readlink -f "$0")")/lib.sh"
need build/tests/bench/bench_pages build/tests/bench/bench_pool
build/tests/bench/bench_pages >"$work/pages" || exit 1
build/tests/bench/bench_pool "$work" >"$work/pool" || exit 1
code=0
for stack in 1 4; do
  line=$(grep "^memory.* stacks of $stack:" "$work/pages")
  echo "$line"
  row "allocated bytes per stored step over the 7,056 of its frame, stack $stack" \
    "${line##* }" "<= 1.02" || code=1
done
for stack in 1 4; do
  line=$(grep "stacks of $stack," "$work/pool")
  echo "$line"
  all=${line#*ratio } all=${all%%;*}
  must="<= 1.02"
  [ $stack -eq 1 ] || must=reported # the Atari's own settings stack none
  row "the same in a V-trace run's pool with all its slots, stack $stack" "$all" "$must" || code=1
  row "the same with only the environments that are expected" "${line##* }" reported
done
what="allocated observation bytes per step that can be sampled, burn-in overlap included, over"
for stack in 1 4; do
  line=$(grep "^replay.* stacks of $stack:" "$work/pages")
  echo "$line"
  row "$what one frame, stack $stack" "${line##* }" "<= 1.01" || code=1
done
exit $code
