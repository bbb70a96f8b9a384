#!/usr/bin/env bash
# Allocations in our own objects (learner and actors) over 10,000 inference batches after warm-up:
# none. Checkpoints and metrics are written meanwhile.
# Usage: tests/bench/allocations.sh
set -u
. "$(dirname "$(readlink -f "$0")")/lib.sh"
need MODE=alloc
build=build/alloc
programs="learner actor-0 actor-1 actor-2 actor-3"

# tests/alloc/wrap.c counts into these files.
for name in $programs; do head -c 8 /dev/zero >"$work/$name"; done
count() {
  od -An -td8 "$work/$1" | tr -d ' '
}
batches() {
  tail -n 1 "$work/run/metrics.jsonl" | tr ',{}' '\n' | sed -n 's/^"inference\/batches": *//p'
}

ACORN_ALLOC_COUNT=$work/learner $build/learner --env=cartpole --agent=vtrace --num_envs=64 \
  --listen="unix:$work/socket" --logdir="$work/run" --total_steps=1e12 --checkpoint_secs=2 \
  --metrics_secs=0.2 >"$work/out" 2>"$work/err" &
learner=$!
actors=()
for i in 0 1 2 3; do
  ACORN_ALLOC_COUNT=$work/actor-$i $build/actor --learner="unix:$work/socket" --env=cartpole \
    --envs=16 --task=$i >"$work/actor-$i.log" 2>&1 &
  actors+=($!)
done
sleep 5
first=$(batches)
for name in $programs; do count "$name" >"$work/$name.before"; done
for _ in $(seq 240); do
  sleep 0.5
  [ $(($(batches) - first)) -ge 10000 ] && break
done
last=$(batches)
total=0
for name in $programs; do
  made=$(($(count "$name") - $(cat "$work/$name.before")))
  echo "$name: $made allocations ($(cat "$work/$name.before") before)"
  total=$((total + made))
done
kill -TERM $learner
wait $learner 2>/dev/null
kill "${actors[@]}" 2>/dev/null
wait 2>/dev/null
if [ $((last - first)) -lt 10000 ]; then
  echo "only $((last - first)) batches"
  cat "$work/err"
  exit 1
fi
row "allocations in our own objects over $((last - first)) batches" "$total" "<= 0"
