#!/usr/bin/env bash
# --video_every: whole videos in the run folder and an animated picture in TensorBoard; a run whose
# environment shows nothing says so once and goes on.
. "$(dirname "$(readlink -f "$0")")/lib.sh"

if ! command -v ffmpeg >/dev/null; then
  echo "SKIP --video_every: there is no ffmpeg here (scripts/setup.sh watch)"
  exit 0
fi

run catch vtrace 1 4 --total_steps=1e9 --checkpoint_secs=0.5 --video_every=0.5 --logdir=shown
whole() { find shown/videos -name 'step-*.mp4' ! -name '*.new.mp4' 2>/dev/null | wc -l; }
videos() { [ "$(whole)" -ge "$1" ]; }
pass_if "videos are recorded while a run goes on" wait_for 60 videos 2
kill -INT "$run"
ended
no_halves() { is "$(find shown/videos -name '*.new.mp4' -o -name '*.gif')" ""; }
pass_if "no half of one is left" no_halves
plays() {
  local file
  for file in shown/videos/*.mp4; do ffmpeg -v error -i "$file" -f null - || return; done
}
pass_if "each plays to its end" plays
python=$tree/.venv/bin/python
if "$python" -c 'import tensorboard' 2>/dev/null; then
  animated() {
    "$python" - <<'END'
from tensorboard.backend.event_processing import event_accumulator
events = event_accumulator.EventAccumulator("shown", {"images": 0})
events.Reload()
images = events.Images("video/greedy_episode")
assert images and all(i.encoded_image_string.startswith(b"GIF8") and i.width == 400 for i in images)
END
  }
  pass_if "TensorBoard has them as animated pictures" animated
else
  echo "SKIP TensorBoard has them, too: it is not here (scripts/setup.sh compare)"
fi

# An ffmpeg that fails while a file is there stands for a disk that is full for a while.
mkdir bin
printf '#!/bin/sh\n[ ! -e full ] || exit 1\nexec %s "$@"\n' "$(command -v ffmpeg)" >bin/ffmpeg
chmod +x bin/ffmpeg
touch full
PATH=$work/bin:$PATH run catch vtrace 1 4 --total_steps=1e9 --checkpoint_secs=0.3 \
  --video_every=0.3 --logdir=later
pass_if "a video that cannot be written is said" wait_for 60 says "nothing could be recorded"
rm full
has_video() { ls later/videos/step-*.mp4 2>/dev/null | grep -qv '[.]new[.]'; }
pass_if "once there is room, one is recorded" wait_for 60 has_video
kill -INT "$run"
ended
pass_if "the failure is said once" is "$(grep -c 'without videos' "$work/err")" 1

# No later score is above that of the best checkpoint. An ffmpeg that keeps the first picture, which
# has the checkpoint's number, stands for one that records it.
run catch vtrace 1 4 --total_steps=3000 --logdir=best
ended
sed -i 's/"score": .*,/"score": 1e9,/' best/checkpoints/best.json
picture_bytes=$((15 + 720 * 680 * 3))
"$tree/build/watch" best --checkpoint=best 2>err | head -c $picture_bytes >of_best
mkdir keeps
printf '#!/bin/sh\nhead -c %d >%s/new && mv %s/new %s/recorded\nexit 1\n' \
  $picture_bytes "$work" "$work" "$work" >keeps/ffmpeg
chmod +x keeps/ffmpeg
PATH=$work/keeps:$PATH run catch vtrace 1 4 --total_steps=1e9 --checkpoint_secs=0.3 \
  --video_every=0.3 --logdir=best --resume
is_newer() { wait_for 60 test -s recorded && [ -s of_best ] && ! cmp -s recorded of_best; }
pass_if "the newest checkpoint is recorded, not the best one" is_newer
kill -INT "$run"
ended

run synthetic vtrace 1 4 --total_steps=1e9 --checkpoint_secs=0.3 --video_every=0.3 --logdir=blind
pass_if "one that shows nothing says so" wait_for 60 says "nothing could be recorded"
step=$(whole_metric step blind)
pass_if "it goes on" wait_for 60 metric_passes step $((step + 1000)) blind
kill -INT "$run"
ended
once() { is "$(grep -c 'without videos' "$work/err")" 1 && is "$(ls blind/videos)" ""; }
pass_if "that is said once, and nothing is left" once
finish
