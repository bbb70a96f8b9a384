#!/usr/bin/env bash
# A learner on CartPole, killed (kill -9) at random moments and started again with --resume, while
# its two actors go on: each time it must continue from the newest whole checkpoint, and no more may
# be lost than one checkpoint interval, here 2 s.
#
# What is lost is the time from the state in the checkpoint to the kill, by the steps and seconds in
# metrics.jsonl. As a checkpoint only counts once it has been written, the longest time that a file
# took for that in this run (its own time less that of its state) is allowed on top of the interval,
# and a tenth of a second for the timer.
# Usage: tests/bench/kill_learner.sh [KILLS]
set -u
. "$(dirname "$(readlink -f "$0")")/lib.sh"
need
kills=${1:-20} interval=2
run=$work/run address=unix:$work/socket
pids=()
end_all() {
  kill -9 "${pids[@]}"
  wait
  rm -rf "$work"
} 2>/dev/null # bash would announce them
trap end_all EXIT

start_learner() {
  build/learner --env=cartpole --num_envs=32 --listen="$address" --logdir="$run" --resume \
    --total_steps=1e12 --metrics_secs=0.25 --checkpoint_secs=$interval >"$work/out" \
    2>"$work/err.$1" </dev/null &
  learner=$!
  pids[0]=$learner
}
for task in 0 1; do
  build/actor --learner="$address" --env=cartpole --envs=16 --task=$task --streams=1 \
    >"$work/actor-$task" 2>&1 </dev/null &
  pids[task + 1]=$!
done

# update_of FILE; "" if there is none.
update_of() { [ -n "$1" ] && echo $((10#$(basename "$1" .acorn | cut -d- -f2))); }
newest() { find "$run/checkpoints" -name '*.acorn' | sort | tail -n 1; }
# said WHAT ROUND: a number in what the learner said when it resumed.
said() { sed -n "s/.*resuming from the checkpoint.*$1 \([0-9]*\),.*/\1/p" "$work/err.$2"; }
has_said() {
  grep -q "resuming from the checkpoint\|the run starts anew" "$work/err.$1" 2>/dev/null
}
lines() { sed -n 's/^{"step":\([0-9]*\),"seconds":\([0-9.]*\),.*/\1 \2/p' "$1"; }
last_step() { lines "$run/metrics.jsonl" 2>/dev/null | tail -n 1 | cut -d' ' -f1; }

# wait_for CONDITION...: up to 30 s.
wait_for() {
  local tick
  for ((tick = 0; tick < 600; tick++)); do
    "$@" && return
    sleep 0.05
  done
  return 1
}
plays() { [ "$(last_step)" -gt "$1" ] 2>/dev/null; }

has_checkpoint() { [ -n "$(newest 2>/dev/null)" ]; }

minus() { awk -v a="$1" -v b="$2" 'BEGIN {printf "%.3f", a - b}'; }
larger() { printf '%s\n' "$1" "$2" | sort -g | tail -n 1; }

# lost_seconds STEP: from the moment of that step to the kill, by the lines that $work/before holds.
lost_seconds() {
  lines "$work/before" | awk -v step="$1" -v after="$since_last_line" '
    $1 <= step {a_step = $1; a = $2}
    $1 > step && !later {later = 1; at = a + ($2 - a) * (step - a_step) / ($1 - a_step)}
    {last = $2}
    END {printf "%.3f", later ? last - at + after : after}'
}

start_learner 0
wait_for has_checkpoint
from_newest=0 worst=0 slowest_write=0
for ((round = 1; round <= kills; round++)); do
  sleep "$((RANDOM % 4)).$((RANDOM % 900 + 100))"
  kill -9 $learner
  { wait $learner; } 2>/dev/null
  killed_at=$(date +%s.%N)
  cp "$run/metrics.jsonl" "$work/before"
  since_last_line=$(minus "$killed_at" "$(stat -c %.9Y "$run/metrics.jsonl")")
  file=$(newest)
  since_file=$(minus "$killed_at" "$(stat -c %.9Y "$file")")
  expected=$(update_of "$file")
  start_learner $round
  wait_for has_said $round
  update=$(said update $round) step=$(said step $round)
  lost=$(lost_seconds "${step:-0}")
  [ -n "$expected" ] && [ "$update" = "$expected" ] && from_newest=$((from_newest + 1))
  worst=$(larger "$lost" "$worst")
  slowest_write=$(larger "$(minus "$lost" "$since_file")" "$slowest_write")
  wait_for plays "${step:-0}"
  echo "kill $round: newest checkpoint $expected, resumed from ${update:-none}," \
    "step ${step:-0}; $lost s lost"
done
same_actors=0
for actor in "${pids[@]:1}"; do
  kill -0 "$actor" 2>/dev/null && same_actors=$((same_actors + 1))
done
kill -TERM $learner
wait $learner
lines "$run/metrics.jsonl" >"$work/all"
torn=$(($(wc -l <"$run/metrics.jsonl") - $(wc -l <"$work/all")))
back=$(awk '$1 < step || $2 < seconds {back++} {step = $1; seconds = $2} END {print back + 0}' \
  "$work/all")
allowed=$(awk -v s=$interval -v w="$slowest_write" 'BEGIN {print s + w + 0.1}')
echo "kill_learner kills=$kills interval=$interval lost=$worst write=$slowest_write" \
  "$(tail -n 1 "$work/out")"
echo "machine: $(machine)"
status=0
row "learner killed: resumed from the newest whole checkpoint, of $kills" $from_newest \
  ">= $kills" || status=1
row "learner killed: most that was lost, in checkpoint intervals" "$(ratio "$worst" "$allowed")" \
  "<= 1" || status=1
row "learner killed: actors that came back by themselves, of 2" $same_actors ">= 2" || status=1
row "learner killed: lines of metrics that are torn or go back" $((torn + back)) "<= 0" || status=1
exit $status
