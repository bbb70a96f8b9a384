#!/usr/bin/env bash
# The CUDA device's kernels on emulated GPUs that run blocks and threads in other orders, and on one
# with less shared memory: the device tests pass, and a run has the same bits.
. "$(dirname "$(readlink -f "$0")")/lib.sh"

. "$tree/scripts/lib.sh"
cd "$work" || exit 1
build gpu-check build/tests/libacorn_cuda_emulated.so >make.log 2>&1 || cat make.log
export ACORN_CUDA_PLUGIN=$tree/build/tests/libacorn_cuda_emulated.so

export UNIT_SECONDS=600 # they bound a hang, not a busy machine
unit=$tree/build/tests/unit/learner
programs=("$unit"/{device/test_{cuda_products,operations,trace,steps},train/test_cuda_updates})
units() {
  ACORN_EMULATED_CUDA=$1 "$tree/scripts/run_units.sh" "${programs[@]}" >out 2>&1 || tail -n 20 out
  grep -qE '^[1-9][0-9]* passed, 0 failed' out
}
pass_if "the device tests pass in an order of chance" units order:5
pass_if "they pass in reverse, with 99 KiB of shared memory for a block, and one multiprocessor" \
  units order:reversed,shared:99,processors:1
programs=("$unit/train/test_cuda_updates")
without_cublas() { ACORN_CUDA_WITHOUT=blas units "$1"; }
pass_if "without cuBLAS whole updates pass in the reverse order" without_cublas order:reversed

# run MACHINE: the parameters of a short run in bf16, of convolutions, an LSTM and V-trace.
run() {
  rm -rf run
  ACORN_EMULATED_CUDA=$1 timeout 300 "$tree/build/launch" catch vtrace 1 4 --device=cuda \
    --precision=bf16 --network=impala_shallow --lstm_size=64 --env_args='{"size": 36}' --seed=1 \
    --deterministic --batch_size=2 --unroll_length=5 --total_steps=100 --checkpoint_secs=0 \
    --no_plot --no_tensorboard --logdir=run >out 2>err </dev/null || tail -n 3 err
  cp run/checkpoints/checkpoint-*.acorn "$2"
}
run '' first
same() { run "$1" other && cmp first other; }
pass_if "a run in the reverse order has the same bits" same order:reversed
pass_if "so has one in an order of chance" same order:5
export ACORN_CUDA_WITHOUT=blas,dnn,tiles,together
run '' first
pass_if "without cuBLAS and cuDNN it has the same bits in the reverse order" same order:reversed
pass_if "and in an order of chance" same order:5
finish
