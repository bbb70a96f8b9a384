#!/usr/bin/env bash
# Several learners on GPUs, whose runtime and NCCL are emulated: they add up in one graph, through
# the host where NCCL cannot be used, and end with a checkpoint when one of them is killed in the
# middle of a sum.
. "$(dirname "$(readlink -f "$0")")/lib.sh"

make -s -C "$tree" build/tests/libacorn_cuda_emulated.so build/tests/nccl/libnccl.so.2 \
  >make.log 2>&1 || cat make.log
export ACORN_CUDA_PLUGIN=$tree/build/tests/libacorn_cuda_emulated.so ACORN_EMULATED_CUDA=gpus:2
export LD_LIBRARY_PATH=$tree/build/tests/nccl${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}

# cartpole WORDS...: a run of two learners with four environments each.
cartpole() {
  run cartpole vtrace 2 4 --device=cuda --learners=2 --no_plot --metrics_secs=0.25 "$@"
}
both_say() { [ "$(cat err "$1/logs/learner-1.log" | grep -cF -- "2 learners add up $2")" = 2 ]; }
# Both say it, once.
goes() { # WORDS...: of the log
  is "$code $(value reason)" "0 total_steps" && both_say "$@"
}

# ---- which way

cartpole --logdir=group --total_steps=10k
ended 120
pass_if "learners on two GPUs add up by NCCL" goes group "by NCCL 2.28.3"
cartpole --logdir=group --resume --total_steps=12k
ended 120
goes_on() { is "$code" 0 && says "resuming from the checkpoint"; }
pass_if "the run is resumed" goes_on

ACORN_EMULATED_CUDA=gpus:1 cartpole --logdir=shared --total_steps=3k
ended 120
pass_if "on one GPU they add up through the host" \
  goes shared "through the host: learners 0 and 1 share a GPU"
ACORN_CUDA_WITHOUT=nccl cartpole --logdir=without --total_steps=3k
ended 120
pass_if "without NCCL, too" goes without "through the host: ACORN_CUDA_WITHOUT names nccl"
if ldconfig -p | grep -q libnccl.so.2 || [ -e /usr/local/cuda/lib64/libnccl.so.2 ]; then
  echo "SKIP where NCCL is missing the log has what installs it: this machine has one"
else
  LD_LIBRARY_PATH='' CUDA_HOME='' CUDA_PATH='' VIRTUAL_ENV='' \
    cartpole --logdir=missing --total_steps=3k
  ended 120
  pass_if "where it is missing the log has what installs it" \
    goes missing "through the host: libnccl.so.2 is in none of"
fi
ACORN_EMULATED_NCCL=30100 cartpole --logdir=other --total_steps=3k
ended 120
refuses() { is "$code" 2 && says "libnccl.so.2 is NCCL 3.1, and this program needs 2.14"; }
pass_if "another major version is refused" refuses

# ---- the same bits

for round in 1 2; do
  cartpole --logdir="same-$round" --precision=float32 --deterministic --total_steps=4k \
    --normalize_observations --normalize_values
  ended 120
done
same() {
  python3 "$tree/tests/integration/compare_checkpoints.py" same-1 same-2 >differences ||
    cat differences
  grep -q '^equal' differences
}
pass_if "with --deterministic two runs are the same, bit for bit" same

# ---- one is killed in the middle of a sum

for killed in 0 1; do
  for sum in 1 2 30; do
    rm -rf run
    ACORN_EMULATED_NCCL_SIGNAL=$killed:$sum:9 cartpole --logdir=run --total_steps=1e9
    pass_if "without learner $killed at sum $sum the other ends" wait_for 60 none_left
    ended
    saved() { [ "$((10#$(basename "$(newest_checkpoint run)" .acorn | cut -d- -f2)))" = "$1" ]; }
    pass_if "with a checkpoint of the update before" saved $((sum - 1))
    ends() { grep -qF "learner $killed of 2 has ended" err run/logs/learner-1.log; }
    pass_if "it names it" ends
  done
done
cartpole --logdir=run --resume --total_steps=3k
ended 120
pass_if "what it left is resumed" goes_on

# ---- one stops

ACORN_EMULATED_NCCL_SIGNAL=1:20:19 cartpole --logdir=stops --total_steps=1e9 --learners_timeout_s=2
pass_if "a learner that stops in a sum is given up" wait_for 60 none_left
ended
gives_up() { is "$code" 1 && says "the devices of 2 learners have not added up within 2 s"; }
pass_if "the log says so" gives_up
pass_if "and there is a checkpoint" test -n "$(ls stops/checkpoints/*.acorn)"
finish
