#!/usr/bin/env bash
# Whole runs on the CUDA device, whose runtime is emulated: CartPole is learned, a run is continued,
# a replay feeds one, what was learned is played, and an update that is not finite ends one.
. "$(dirname "$(readlink -f "$0")")/lib.sh"

make -s -C "$tree" build/tests/libacorn_cuda_emulated.so >make.log 2>&1 || cat make.log
export ACORN_CUDA_PLUGIN=$tree/build/tests/libacorn_cuda_emulated.so

# ---- random play reaches 22

run cartpole vtrace 2 16 --device=cuda --no_plot --logdir=learns --target_return=60 \
  --total_steps=500k
ended 300
learns() {
  is "$code" 0 && says "on cuda (emulated GPU)" && is "$(value reason)" target_return &&
    awk -v mean="$(value return_mean)" 'BEGIN {exit !(mean >= 60)}'
}
pass_if "CartPole is learned on the CUDA device" learns
steps=$(value steps)

run cartpole vtrace 2 16 --device=cuda --no_plot --logdir=learns --resume --target_return=none \
  --total_steps=$((steps + 5000))
ended 120
goes_on() {
  is "$code" 0 && says "resuming from the checkpoint" &&
    [ "$(value steps)" -ge $((steps + 5000)) ] &&
    awk -v mean="$(value return_mean)" 'BEGIN {exit !(mean >= 45)}'
}
pass_if "the run is continued on it, and plays as well as before" goes_on

# ---- what was learned is played

played_on() { # DEVICE: the line of an evaluation on it
  "$tree/build/launch" cartpole vtrace 1 1 --mode=evaluate --device="$1" --logdir=learns --seed=7 \
    --episodes=4 --policy=sample >out 2>err
  says "on $1 (" && grep '^evaluation ' out
}
# Drawn by the same random numbers, from probabilities that differ in their last digits.
as_on_cpu() { is "$(played_on cuda)" "$(played_on cpu)" && [ -n "$(played_on cuda)" ]; }
pass_if "evaluation on it plays what the CPU plays" as_on_cpu
pass_if "and what is watched" as_evaluated learns greedy 2

# Pictures for a video of 5 steps, whatever makes the video.
mkdir fake
printf '#!/bin/sh\nfor last; do :; done\nexec cat >"$last"\n' >fake/ffmpeg && chmod +x fake/ffmpeg
code=0
PATH=$work/fake:$PATH "$tree/scripts/watch.sh" learns --max_steps=5 >out 2>err </dev/null || code=$?
recorded() {
  is "$code" 0 && says "return 5 in 5 steps" && is "$(head -c 2 learns/play.mp4)" P6
}
pass_if "scripts/watch.sh records a run that was made on it" recorded

# ---- an update that is not finite

mkdir -p include/acorn && cp "$tree/envs/env.h" include/acorn/
sed 's/out->reward = /out->reward = getenv("RICH") ? 1e9f : /' \
  "$tree/docs/examples/meadow.c" >rich.c
cc -O2 -shared -fPIC -Iinclude rich.c -o rich.so 2>err
rich() {
  run ./rich.so vtrace 2 4 --batch_size=4 --device=cuda --no_plot --logdir=rich --resume "$@"
  ended 120
}
rich --total_steps=2000
saved() { is "$code" 0 && cp -r rich/checkpoints saved; }
pass_if "a run of an environment of one's own ends well on it" saved
# The largest rewards there may be: the square of what follows from them is no float.
export RICH=1
rich --total_steps=1e9 --reward_scale=1e9 --baseline_cost=1e6
unset RICH
stops() { is "$code" 1 && grep -q 'update [0-9]*: .* is -*\(inf\|nan\)' err; }
pass_if "an update that is not finite ends the run with its number" stops
pass_if "the last checkpoint stays" diff -r saved rich/checkpoints
rich --total_steps=4000 --reward_scale=1
goes_on() { is "$code" 0 && says "resuming from the checkpoint"; }
pass_if "and the run goes on from it" goes_on

# ---- a replay in the device's memory

run cartpole r2d2 2 8 --device=cuda --no_plot --logdir=replay --lstm_size=16 --unroll_length=8 \
  --burn_in=4 --batch_size=8 --replay_ratio=1 --replay_min_steps=500 --replay_steps=3k \
  --total_steps=5k
ended 120
replays() { is "$code" 0 && metric_passes train/updates 20 replay; }
pass_if "r2d2 learns from a replay on it, whose pages are reused" replays
finish
