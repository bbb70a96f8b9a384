#!/usr/bin/env bash
# Whole runs on the CUDA device, whose runtime is emulated: CartPole is learned, a run is continued,
# a replay feeds one.
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

# ---- a replay in the device's memory

run cartpole r2d2 2 8 --device=cuda --no_plot --logdir=replay --lstm_size=16 --unroll_length=8 \
  --burn_in=4 --batch_size=8 --replay_ratio=1 --replay_min_steps=500 --replay_steps=3k \
  --total_steps=5k
ended 120
replays() { is "$code" 0 && metric_passes train/updates 20 replay; }
pass_if "r2d2 learns from a replay on it, whose pages are reused" replays
finish
