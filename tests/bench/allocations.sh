#!/usr/bin/env bash
# Allocations in our own objects (learner and actors) over 10,000 inference batches after warm-up: none.
# Usage: tests/bench/allocations.sh (builds MODE=alloc)
set -u
. "$(dirname "$0")/lib.sh"
make --no-print-directory -s MODE=alloc all || exit 1
build=build/alloc

# counter NAME: a file that wrap.c counts into.
counter() { head -c 8 /dev/zero >"$work/$1"; printf '%s' "$work/$1"; }
count() { od -An -td8 "$work/$1" | tr -d ' '; }
batches() { tail -n 1 "$work/run/metrics.jsonl" 2>/dev/null | tr ',' '\n' | sed -n 's/.*"serve\/batches": *//p' | tr -d '} '; }

ACORN_ALLOC_COUNT=$(counter learner) $build/learner --env=cartpole --agent=vtrace --num_envs=64 --listen="unix:$work/socket" \
  --logdir="$work/run" --total_steps=1e12 --checkpoint_secs=2 --metrics_secs=0.2 >"$work/out" 2>"$work/err" &
learner=$!
actors=()
for i in 0 1 2 3; do
  ACORN_ALLOC_COUNT=$(counter "actor-$i") $build/actor --learner="unix:$work/socket" --env=cartpole --envs=16 --task=$i \
    >"$work/actor-$i.log" 2>&1 &
  actors+=($!)
done
sleep 5
first=$(batches)
for n in learner actor-0 actor-1 actor-2 actor-3; do count $n >"$work/$n.before"; done
for _ in $(seq 120); do
  sleep 0.5
  [ $(($(batches) - first)) -ge 10000 ] && break
done
total=0
for n in learner actor-0 actor-1 actor-2 actor-3; do
  made=$(($(count $n) - $(cat "$work/$n.before")))
  echo "$n: $made allocations ($(cat "$work/$n.before") before)"
  total=$((total + made))
done
last=$(batches)
kill -TERM $learner
wait $learner 2>/dev/null
kill "${actors[@]}" 2>/dev/null
wait 2>/dev/null
[ $((last - first)) -ge 10000 ] || { echo "only $((last - first)) batches"; cat "$work/err"; exit 1; }
row "allocations in our own objects over $((last - first)) batches" "$total" "<= 0"
