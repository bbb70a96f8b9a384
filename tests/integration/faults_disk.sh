#!/usr/bin/env bash
# A full disk: training goes on and says so, checkpoints and metrics are written again when there is
# room, and nothing that was there is harmed. Needs root, for a small file system of its own.
. "$(dirname "$(readlink -f "$0")")/lib.sh"

disk=$work/disk
mkdir "$disk"
if ! mount -t tmpfs -o size=2m acorn-test "$disk" 2>/dev/null; then
  echo "SKIP a full disk: no file system can be mounted here (root only)"
  finish
fi
trap 'end_by_hand; umount -l "$disk"; rm -rf "$work"' EXIT

# Again: a checkpoint that is written meanwhile gives room back, by its end or by an older one's.
fill() {
  for _ in 1 2 3; do
    cat /dev/zero >>"$disk/filler"
    sleep 0.1
  done 2>/dev/null
}
number_of() { echo $((10#$(basename "$1" .acorn | cut -d- -f2))); }
newest() { find "$disk/run/checkpoints" -name 'checkpoint-*.acorn' 2>/dev/null | sort | tail -n 1; }
has_newer() { [ "$(newest)" != "$1" ]; }
grows() { [ "$(stat -c %s "$disk/run/metrics.jsonl")" -gt "$1" ]; }
# Metrics are not written now: the actor says whether it still gets actions, which it would not for
# long without training.
plays() {
  kill -USR1 "$actor"
  sleep 0.5
  kill -USR1 "$actor"
  sleep 0.1
  [ "$(tail -n 1 actor-0.log | tr ' ' '\n' | sed -n 's/^steps=//p')" -gt 500 ]
}

learner --env=cartpole --num_envs=4 --logdir="$disk/run" --metrics_secs=0.25 --checkpoint_secs=0.3 \
  --total_steps=1e9
learner=$run
actor 0 --env=cartpole --envs=4 --streams=1
wait_for 20 has_newer ""
fill
pass_if "a full disk: the learner says that checkpoints cannot be written" wait_for 10 says \
  "No space left on device; make room there: the older checkpoints are as they were"
pass_if "and that metrics cannot" wait_for 10 says "metrics.jsonl: No space left on device"
pass_if "training goes on" wait_for 10 plays
old=$(newest) size=$(stat -c %s "$disk/run/metrics.jsonl")
no_half() { [ ! -e "$disk/run/checkpoints/checkpoint.tmp" ]; } # it tries again and again
pass_if "no half of a checkpoint is left" wait_for 5 no_half
# More than once only where room came and went, as when half a checkpoint was removed.
seldom() { [ "$(grep -c "cannot write .*metrics.jsonl" err)" -le 4 ]; }
pass_if "of the metrics it is said, and not repeated" seldom

# A learner that resumes meanwhile reads everything and harms nothing.
killed "$learner"
cp "$disk/run/config.txt" config
learner --env=cartpole --num_envs=4 --logdir="$disk/run" --metrics_secs=0.25 --checkpoint_secs=0.3 \
  --total_steps=1e9 --resume
learner=$run
resumed() { says "resuming from the checkpoint of update $(number_of "$old"),"; }
pass_if "a run is resumed on a full disk" wait_for 10 resumed
wait_for 10 says "no checkpoint:"
pass_if "and it plays" wait_for 10 plays
pass_if "its configuration is as it was" cmp -s config "$disk/run/config.txt"

rm "$disk/filler"
pass_if "with room again checkpoints are written" wait_for 10 has_newer "$old"
pass_if "which is said" wait_for 5 says "checkpoints are written again"
pass_if "and metrics are" wait_for 10 grows "$size"
pass_if "which is said too" wait_for 5 says "metrics.jsonl is written again"
whole_lines() { ! grep -v '^{"step":.*}$' "$disk/run/metrics.jsonl"; }
pass_if "every line of them is whole" whole_lines

# At the end: no last checkpoint is an error.
fill
kill -TERM "$learner"
ended 10
no_last() { is "$code" 1 && says "no final checkpoint" && is "$(value reason)" signal; }
pass_if "a disk that is full at the end: exit code 1, named, with the result line" no_last

# A run that its folder does not describe could not be resumed.
learner --env=cartpole --num_envs=4 --logdir="$disk/another" --total_steps=1e9
ended 20
undescribed() { is "$code" 1 && says "cannot write $disk/another/" && is "$(value reason)" error; }
pass_if "a run that begins on a full disk ends: exit code 1, named" undescribed

# There is room for checkpoints and not for the replay: those that are saved without it, by
# --checkpoint_steps, do not end that. Nothing else may take the room: no metrics, and of those by
# steps the test keeps one.
end_by_hand
rm -rf "$disk/run" "$disk/filler"
mount -o remount,size=16m "$disk"
learner --env=cartpole --agent=dqn --hidden=8 --num_envs=4 --logdir="$disk/run" \
  --checkpoint_replay --replay_steps=20k --replay_min_steps=1k --checkpoint_secs=0.3 \
  --checkpoint_steps=5k --metrics_secs=0 --total_steps=1e9
actor 0 --env=cartpole --envs=4 --streams=1
grown() { grep -q "the replay of update .*: [45][0-9][0-9][0-9] windows" err; }
wait_for 30 grown
failures() { grep -c "no replay with the checkpoint" err; }
by_steps() { find "$disk/run/checkpoints" -name 'step-*.acorn' | sort; }
newest_by_steps() {
  by_steps | head -n -1 | xargs -r rm
  by_steps | tail -n 1 | sed 's/.*step-0*//; s/[.]acorn//'
}
# Until two fail one after the other without more in the way: a replay that is being written, or
# goes because a newer checkpoint has none, gives room back.
crowded() {
  local room
  newest_by_steps >/dev/null
  rm -f "$disk/run/checkpoints"/replay-*.acorn # or its room would be the next one's
  room=$(df --output=avail -B1 "$disk" | tail -n 1)
  if [ "$room" -gt 800000 ]; then
    head -c $((room - 800000)) /dev/zero >>"$disk/filler"
    before=$(failures)
  fi
  [ "$(failures)" -ge $((before + 2)) ]
} 2>/dev/null
before=0
wait_for 20 crowded
again() { grep -c "checkpoints are written again" err; }
written=$(again) failed=$(failures)
steps_after() { [ "$(newest_by_steps)" -gt "$1" ]; }
pass_if "a disk without room for the replay: checkpoints by steps are written" \
  wait_for 20 steps_after $(($(newest_by_steps) + 10000))
failed_again() { newest_by_steps >/dev/null && [ "$(failures)" -ge $((failed + 2)) ]; }
wait_for 20 failed_again
pass_if "which is not taken for the end of that" is "$(again)" "$written"
rm "$disk/filler"
written_again() { [ "$(again)" -gt "$written" ]; }
pass_if "with room for the replay it is" wait_for 20 written_again

# finished HIDDEN: a run whose replay is full, and which is over.
options=(--env=cartpole --agent=dqn --num_envs=4 --logdir="$disk/run" --checkpoint_replay
  --replay_steps=20k --replay_min_steps=19k --metrics_secs=0)
replays() { find "$disk/run/checkpoints" -name 'replay-*.acorn'; }
finished() {
  end_by_hand
  rm -rf "$disk/run" "$disk/filler"
  learner "${options[@]}" --hidden="$1" --total_steps=22k
  actor 0 --env=cartpole --envs=4 --streams=1
  ended 60
  old=$(newest)
  replay_bytes=$(stat -c %s "$(replays)")
}
# leave BYTES: of room.
leave() {
  head -c $(($(df --output=avail -B1 "$disk" | tail -n 1) - $1)) /dev/zero >"$disk/filler"
}

# One replay fits, and not two: the older goes first, so that not every second one fails.
finished 8
leave $((replay_bytes / 2))
learner "${options[@]}" --total_steps=1e9 --resume --checkpoint_secs=0.3
actor 0 --env=cartpole --envs=4 --streams=1
saved() { [ "$(grep -c "the replay of update .* is saved" err)" -ge 4 ]; }
pass_if "a disk with room for one replay: each is written" wait_for 20 saved
pass_if "and none is missed" is "$(failures)" 0
said_once() { [ "$(grep -c "there is no room for two replays" err)" = 1 ]; }
pass_if "which is said once" said_once

# There is room for either, and not for both, once the older replay has gone: the new one is written
# first, and goes again.
finished 128,128
learner "${options[@]}" --total_steps=1e9 --resume --checkpoint_secs=1e6
actor 0 --env=cartpole --envs=4 --streams=1
trains() { says "resuming from" && plays; }
wait_for 20 trains
leave $(($(stat -c %s "$old") / 2))
kill -TERM "$run"
ended 20
pass_if "a disk with room for a replay or its checkpoint: it is named" \
  says "no replay with the final checkpoint: there is no room for both"
pass_if "and the checkpoint is written, without one" has_newer "$old"
pass_if "of which nothing is left in its way" is "$(replays)" ""
finish
