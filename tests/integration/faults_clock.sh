#!/usr/bin/env bash
# The wall clock is set back an hour and on by a day while a run goes on: nothing may notice. A
# preload library (wall_clock.c) moves it for the learner and its actors alone.
. "$(dirname "$(readlink -f "$0")")/lib.sh"
trap 'end_by_hand; rm -rf "$work"' EXIT

if ! gcc -std=gnu11 -O2 -Wall -Wextra -shared -fPIC -o wall_clock.so \
  "$tree/tests/integration/wall_clock.c" -ldl; then
  echo "FAIL the preload library does not build"
  exit 1
fi
export WALL_CLOCK=$work/offset
# set_clock SECONDS: ahead of the system's.
set_clock() { printf '%-16s' "$1" | dd of="$WALL_CLOCK" conv=notrunc status=none; }
set_clock 0

really_moves() {
  local there
  set_clock -3600
  there=$(LD_PRELOAD=$work/wall_clock.so date +%s)
  set_clock 0
  [ $(($(date +%s) - there)) -ge 3599 ]
}
pass_if "the library moves the wall clock" really_moves

words=(--env=cartpole --num_envs=8 --logdir=run --metrics_secs=0.25 --checkpoint_secs=0.5
  --total_steps=1e12)
export LD_PRELOAD=$work/wall_clock.so
learner "${words[@]}"
for task in 0 1; do actor $task --env=cartpole --envs=4 --streams=1 --hang_s=2; done
unset LD_PRELOAD
newest() { find run/checkpoints -name '*.acorn' 2>/dev/null | sort | tail -n 1; }
is_newer() { [ "$(newest)" != "$1" ]; }
connected() { is "$(whole_metric serve/environments)" "$1"; }
none_late() { is "$(whole_metric batch/late_streams)" 0 && connected 8; }
steps_go_on() { metric_passes step $(($(cat mark) + 2000)); }
updates_go_on() { metric_passes train/updates $(($(cat updates) + 20)); }
wait_for 20 is_newer ""

# jump WHAT SECONDS
jump() {
  local checkpoint
  checkpoint=$(newest)
  whole_metric step >mark
  whole_metric train/updates >updates
  set_clock "$2"
  pass_if "the clock $1: steps go on" wait_for 3 steps_go_on
  pass_if "the clock $1: updates go on" wait_for 3 updates_go_on
  pass_if "the clock $1: checkpoints are written" wait_for 3 is_newer "$checkpoint"
  pass_if "the clock $1: nobody is late or gone" wait_for 3 none_late
}
# What has been timed: lines a quarter of a second apart, no matter what the clock said. Its jumps
# are of an hour and more; a busy machine may be late by seconds.
evenly_timed() {
  sed -n 's/^{"step":[0-9]*,"seconds":\([0-9.]*\),.*/\1/p' run/metrics.jsonl | awk '
    NR > 1 && ($1 <= last || $1 > last + 600) {print "  seconds " last ", then " $1; bad = 1}
    {last = $1}
    END {exit bad}'
}
jump "goes back an hour" -3600
jump "goes on by a day" 86400
jump "goes back by that day" 0
pass_if "seconds are counted evenly" evenly_timed

# What waits for a moment in time: a back-off, an answer that does not come.
jump "goes back again" -3600
killed "$run"
whole_metric step >mark
sleep 0.5
export LD_PRELOAD=$work/wall_clock.so
learner "${words[@]}" --resume
unset LD_PRELOAD
back() { says "resuming from" && connected 8 && steps_go_on; }
pass_if "after that, actors rejoin a learner that was killed" wait_for 20 back
kill -TERM "$run"
ended 10
ends_well() { is "$code" 0 && is "$(value reason)" signal; }
pass_if "the run ends well" ends_well
finish
