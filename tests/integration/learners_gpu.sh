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

cartpole --logdir=group --total_steps=5k
ended 120
pass_if "learners on two GPUs add up by NCCL" goes group "by NCCL 2.28.3"
cartpole --logdir=group --resume --total_steps=7k
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
pass_if "with --deterministic two runs are the same, bit for bit" same_bits same-1 same-2

# ---- one is killed in the middle of a sum

# updates FOLDER: of the newest checkpoint.
updates() { echo "$((10#$(basename "$(newest_checkpoint "$1")" .acorn | cut -d- -f2)))"; }

# The run fails, and all its processes end: at once, since nothing else has a timeout here.
patient=--learners_timeout_s=1e5
all_end() {
  ended
  [ "$code" != 0 ] && [ "$code" != 124 ] && no_process
}
# An update adds up through the host at least once before it is a graph.
for case in 0:1 1:10; do
  rm -rf run
  ACORN_EMULATED_NCCL_SIGNAL=$case:9 cartpole --logdir=run --total_steps=1e9 $patient
  pass_if "without learner ${case%:*} at sum ${case#*:} the other ends" all_end
  saved() { [ "$(updates run)" -ge "${case#*:}" ]; }
  pass_if "with a checkpoint" saved
  ends() { grep -qF "learner ${case%:*} of 2 has ended" err run/logs/learner-1.log; }
  pass_if "it names it" ends
done
cartpole --logdir=run --resume --total_steps=12k
ended 120
pass_if "what it left is resumed" goes_on

# Convolutions in bf16, whose memory grows in the first update, and running statistics.
ACORN_EMULATED_NCCL_SIGNAL=1:2:9 run catch ppo 2 1 --device=cuda --learners=2 --no_plot \
  --logdir=images --total_steps=1e9 --precision=bf16 --network=impala_shallow \
  --env_args='{"size": 36}' --lstm_size=16 --unroll_length=4 --batch_size=2 $patient
pass_if "with images, too" all_end
pass_if "and there is a checkpoint" test -n "$(ls images/checkpoints/*.acorn)"

# Its second sum is of observations: the optimiser's step has been made by then.
exact() {
  cartpole --precision=float32 --deterministic --normalize_observations \
    --learning_rate_decay=none "$@"
}
ACORN_EMULATED_NCCL_SIGNAL=1:2:9 exact --logdir=later --total_steps=1e9 $patient
ended
exact --logdir=whole --total_steps=2500
ended
# The statistics alone lack what that sum would have brought.
same_step() {
  python3 - "$tree/tests/integration" <<'END'
import math
import sys
sys.path.insert(0, sys.argv[1])
from compare_checkpoints import floats, newest, updates
later, whole = newest("later"), newest("whole")
print(updates(later), "and", updates(whole), "updates")
differ = [name for name in floats(later) if later[name] != whole[name]]
wrong = [name for name in differ if not name.startswith("params/observation/")]
wrong += [name for name, x in floats(later).items() if not all(map(math.isfinite, x))]
print("differ:", *differ, "and wrong:", *wrong)
sys.exit(updates(later) != updates(whole) or wrong != [])
END
}
pass_if "an update that was done before its last sum failed is in the checkpoint" same_step

# ---- a call of NCCL fails

for failing in 0 1; do
  ACORN_EMULATED_NCCL_FAIL=$failing:1 cartpole --logdir="fails-$failing" --total_steps=1e9 \
    $patient
  pass_if "where a call fails at learner $failing both end" all_end
  log=err
  [ "$failing" = 1 ] && log=fails-1/logs/learner-1.log
  pass_if "with its name and NCCL's reason" grep -qF "ncclAllReduce: internal error" "$log"
  pass_if "and a checkpoint" test -n "$(ls "fails-$failing"/checkpoints/*.acorn)"
done

# ---- one stops

ACORN_EMULATED_NCCL_SIGNAL=1:5:19 cartpole --logdir=stops --total_steps=1e9 --learners_timeout_s=5
pass_if "a learner that stops in a sum is given up" all_end
gives_up() { is "$code" 1 && says "the devices of 2 learners have not added up within 5 s"; }
pass_if "the log says so" gives_up
pass_if "and there is a checkpoint" test -n "$(ls stops/checkpoints/*.acorn)"

ACORN_EMULATED_NCCL_SIGNAL=1:5:19 cartpole --logdir=spare --total_steps=7k --learners_timeout_s=5 \
  --spare_learners=1
ended 120
goes_on_alone() {
  is "$code $(value reason)" "0 total_steps" &&
    says "one of 2 learners did not answer within 5 s: the run goes on with 1, and 2 actors"
}
pass_if "with a spare one the run goes on" goes_on_alone
pass_if "no process is left" no_process
finish
