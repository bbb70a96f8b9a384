#!/usr/bin/env bash
# Runs on the CUDA device, whose runtime is emulated: how a GPU is chosen, what is logged and
# refused where there is none, and what a kernel's error leaves behind.
. "$(dirname "$(readlink -f "$0")")/lib.sh"

make -s -C "$tree" build/tests/libacorn_cuda_emulated.so >make.log 2>&1 || cat make.log
emulated=$tree/build/tests/libacorn_cuda_emulated.so

# on MACHINE WORDS...: a short run with a plugin on an emulated machine.
on() {
  export ACORN_CUDA_PLUGIN=$emulated ACORN_EMULATED_CUDA=$1
  shift
  run cartpole vtrace 2 4 --batch_size=4 --no_plot --total_steps=2000 "$@"
  ended 120
}

# ---- the choice

on "" --device=auto --logdir=gpu
chooses() { is "$code" 0 && says "on cuda (emulated GPU)"; }
pass_if "auto takes the GPU where there is one" chooses
on no_driver --device=auto
falls_back() {
  is "$code" 0 && says "auto: computing on the CPU: no NVIDIA driver" && says "on cpu ("
}
pass_if "without a driver auto logs why it takes the CPU, and the run ends well" falls_back
on busy --device=auto
falls_back() { is "$code" 0 && says "CPU: GPU 0 cannot be used" && says "on cpu ("; }
pass_if "nor does one that another program keeps end it" falls_back
once() { [ "$(grep -c "computing on the CPU" out err | awk -F: '{n += $2} END {print n}')" = 1 ]; }
pass_if "it does so in one line" once
on no_driver --device=cuda
refuses() { is "$code" 2 && says "no NVIDIA driver is installed"; }
pass_if "without a driver --device=cuda is refused" refuses
on gpus:2 --device=cuda --gpu=2
refuses() { is "$code" 2 && says "--gpu=2: 2 GPUs can be used"; }
pass_if "a GPU that is not there is refused" refuses
on memory:3 --device=cuda --unroll_length=2000
refuses() { is "$code" 2 && says "and the GPU has" && says "more --gpu_memory_mib"; }
pass_if "sizes that the GPU has no memory for are refused before the run" refuses

# The products' workspaces, which are allocated with the first batch, are counted before the run.
on memory:60 --device=cuda
pass_if "so are sizes that leave no room for the products' workspaces" refuses
on memory:90 --device=cuda
pass_if "what is accepted has room" is "$code" 0

# ---- a replay larger than the GPU's memory

# replay WORDS...: of its 206 MiB the observations are 92. The GPU has 230, of which training takes
# some. It ends with its first 100 episodes.
replay() {
  export ACORN_CUDA_PLUGIN=$emulated ACORN_EMULATED_CUDA=memory:230
  run cartpole dqn 2 4 --device=cuda --no_plot --total_steps=1e9 --target_return=5 --evaluators=0 \
    --replay_steps=6M --replay_min_steps=1k "$@"
  ended 120
}
replay --logdir=smaller
gets_less() { # LOGDIR
  is "$code" 0 && says "instead of --replay_steps=6000000: there is memory for no more" &&
    grep -q '"train/updates": *[1-9]' "$1/metrics.jsonl"
}
pass_if "a replay larger than the GPU's memory gets as many steps as it holds, and trains" \
  gets_less smaller
replay --hidden=1024 --batch_size=1024 --replay_ratio=4 --logdir=wide
pass_if "and leaves both networks the room for the activations of a large batch" gets_less wide
replay --observation_memory=host --logdir=spilled
trains() {
  is "$code" 0 && ! says "instead of --replay_steps" &&
    says "with the observations, which the GPU reads over the bus" &&
    [ -n "$(ls spilled/checkpoints/*.acorn)" ]
}
pass_if "with its observations in the host's memory it trains" trains
ACORN_CUDA_PLUGIN=$work/absent.so run cartpole vtrace 1 --device=cuda
ended
refuses() { is "$code" 2 && says "absent.so, which is not there"; }
pass_if "without the plugin --device=cuda is refused" refuses

metric() { # NAME: its last value
  tail -n 1 gpu/metrics.jsonl | grep -o "\"$1\": *[0-9]*" | grep -o '[0-9]*$'
}
# An observation of CartPole takes 16 bytes.
counts() {
  [ "$(metric device/bytes_up)" -ge $((16 * $(metric train/env_steps))) ] &&
    [ "$(metric device/transfers)" -gt 100 ]
}
pass_if "what goes to the GPU is counted" counts

# ---- one precision of arithmetic, one result

alike=(--device=cuda --deterministic --network=lstm --hidden=64 --precision=bf16
  --total_steps=600)
same() { cmp "$(newest_checkpoint first)" "$(newest_checkpoint "$1")"; }
on "" "${alike[@]}" --logdir=first
on "" "${alike[@]}" --logdir=second
pass_if "the same seed gives the same parameters, bit for bit" same second
# Which switches recordings off.
export CUDA_LAUNCH_BLOCKING=1
on "" "${alike[@]}" --logdir=directly
unset CUDA_LAUNCH_BLOCKING
pass_if "and so do operations that are called directly, not recorded" same directly
on no_graphs "${alike[@]}" --logdir=refused
goes_on() {
  same refused &&
    [ "$(cat out err | grep -c 'cannot be recorded (cudaErrorStreamCaptureInvalidated')" = 1 ]
}
pass_if "and so does a GPU that refuses to record, which is logged once" goes_on

# ---- a kernel's error: adam runs in training only, random_uniforms in inference only

names_it() {
  [ "$code" -ne 0 ] && grep -rqsF "cudaErrorIllegalAddress" out err broken
}
intact() {
  local newest
  newest=$(printf '%s\n' broken/checkpoints/checkpoint-*.acorn | tail -n 1)
  "$tree/build/checkpoint" "$newest" >checkpoint.out 2>&1
}
resumes() {
  run cartpole vtrace 2 4 --batch_size=4 --no_plot --resume --logdir=broken --total_steps=1
  ended
  says "resuming from the checkpoint"
}
for kernel in adam random_uniforms; do
  rm -rf broken
  on "kernel_error:300:$kernel" --device=cuda --total_steps=1e9 --checkpoint_secs=0.05 \
    --logdir=broken
  pass_if "an error of kernel $kernel ends the run with CUDA's name for it" names_it
  unset ACORN_EMULATED_CUDA
  pass_if "the last checkpoint is intact" intact
  pass_if "and the run can be resumed from it" resumes
done
rm -rf broken
# Each call returns the error from then on. With --deterministic inference and training take turns:
# the first call to return it is the kernel's own.
export CUDA_LAUNCH_BLOCKING=1
on kernel_error:100:random_uniforms --device=cuda --deterministic --total_steps=1e9 --logdir=broken
unset CUDA_LAUNCH_BLOCKING ACORN_EMULATED_CUDA
names_kernel() { names_it && grep -rqsF "kernel random_uniforms" out err broken; }
pass_if "with CUDA_LAUNCH_BLOCKING=1 it names the kernel, too" names_kernel
finish
