#!/usr/bin/env bash
# Whether a change has made the learner slower: this tree beside an earlier commit, which is built
# in a folder of its own. Steps per second: CartPole, 4 actors x 64 environments, and with rainbow
# 2 x 16; Pong, 2 x 32; and 16 actors of one environment with observations of 64 B and 7,000 B and
# nothing to learn, where transport and batching are all there is. The learner's CPU time per
# message of those 16 actors. Images per second of the update that bench_pixels measures, each
# tree's own; steps per second of the updates of CartPole and of r2d2's `small`, without actors.
# Pairs in turn, each in the other order than the one before; the medians of their ratios, and
# between which two ratios the true median lies 19 times of 20. Runs are short and two or four times
# as many as PAIRS: a busy host slows this machine for seconds at a time. With ROW only the rows
# whose name has that text, "streams of 64 B" say, where one row needs more pairs.
# Usage: tests/bench/against.sh COMMIT [PAIRS [ROW]]
set -u
. "$(dirname "$(readlink -f "$0")")/lib.sh"
[ $# -ge 1 ] || { echo "usage: tests/bench/against.sh COMMIT [PAIRS [ROW]]" >&2 && exit 2; }
pixels=build/tests/bench/bench_pixels trainer=build/tests/bench/bench_device
scripts/setup.sh atari && need gymnasium $pixels $trainer || exit 1
commit=$1 pairs=${2:-5} only=${3:-} here=$PWD
build_earlier "$commit" gymnasium $pixels $trainer

# Each prints a number of the tree TREE.

# rate TREE WORDS...: steps per second of a run.
rate() {
  local tree=$1
  shift
  rm -rf "$work/run"
  (cd "$tree" && build/launch "$@" --seed=1 --logdir="$work/run" 2>"$work/err") |
    tail -n 1 | value sps
}

# updates TREE OPTIONS...: steps per second of the trainer's own loop, over batches that are there.
updates() {
  (cd "$1" && $trainer train 3 "${@:2}" 2>"$work/err") | value steps_per_second
}

# images TREE: that are trained per second.
images() {
  "$1/$pixels" impala_shallow 256 float32 5 | value frames_per_second
}

# message_us TREE: CPU time (user and system) of the learner per message of 16 actors with one
# environment each, which is one row a message.
message_us() {
  local tree=$1 learner actors=() i env=(--env=synthetic '--env_args={"bytes": 64}')
  local TIMEFORMAT='user=%U system=%S'
  rm -rf "$work/run" "$work/socket"
  { time "$tree/build/learner" --listen="unix:$work/socket" "${env[@]}" --agent=random \
    --num_envs=16 --total_steps=300k --logdir="$work/run" >"$work/out" 2>"$work/err"; } \
    2>"$work/cpu" &
  learner=$!
  until [ -S "$work/socket" ] || ! kill -0 $learner; do sleep 0.02; done
  for i in {0..15}; do
    "$tree/build/actor" --learner="unix:$work/socket" "${env[@]}" --envs=1 --streams=1 \
      --task="$i" >"$work/actor-$i" 2>&1 &
    actors+=($!)
  done
  wait "$learner" "${actors[@]}"
  awk -v user="$(value user <"$work/cpu")" -v kernel="$(value system <"$work/cpu")" \
    -v steps="$(value steps <"$work/out")" \
    'BEGIN {if (steps) printf "%.3f", (user + kernel) * 1e6 / steps}'
}

# compare MUST WHAT UNIT MEASURE WORDS...: a row; MEASURE is one of the functions above.
compare() {
  local must=$1 what=$2 unit=$3 measure=$4 pair trees tree times=1
  shift 4
  [ "$measure" != updates ] || times=2
  [ "$measure" != rate ] || times=4
  [[ "$what, $unit" == *"$only"* ]] || return 0
  rm -f "$work/ratios"
  for ((pair = 0; pair < times * pairs; pair++)); do
    trees=("$here" "$work/earlier")
    [ $((pair % 2)) -eq 0 ] || trees=("$work/earlier" "$here")
    declare -A figures=()
    for tree in "${trees[@]}"; do
      figures[$tree]=$($measure "$tree" "$@")
      [ -n "${figures[$tree]}" ] || { echo "$what, $unit: MISSED, none of $tree" && return 1; }
    done
    echo "$what, $unit: ${figures[$here]}, earlier ${figures["$work/earlier"]}"
    ratio "${figures[$here]}" "${figures["$work/earlier"]}" >>"$work/ratios"
  done
  echo "$what: the median of $((times * pairs)) ratios lies between $(interval <"$work/ratios")"
  row "$what: $unit over that of $commit" "$(median <"$work/ratios")" "$must"
}

code=0
compare ">= 0.98" "CartPole 4 x 64" steps/s rate cartpole vtrace 4 64 --total_steps=3M || code=1
compare ">= 0.98" "CartPole 2 x 16, rainbow" steps/s rate cartpole rainbow 2 16 \
  --total_steps=30k || code=1
compare ">= 0.98" "Pong 2 x 32" steps/s rate atari vtrace 2 32 --total_steps=30k || code=1
for bytes in 64 7000; do
  compare ">= 0.98" "16 streams of $bytes B" steps/s rate synthetic random 16 1 \
    --env_args="{\"bytes\": $bytes}" --total_steps=60k || code=1
done
compare "<= 1.03" "16 streams of 64 B" "learner CPU us/message" message_us || code=1
compare ">= 0.98" "update of impala_shallow + LSTM" images/s images || code=1
compare ">= 0.98" "update of CartPole" steps/s updates --env=cartpole --agent=vtrace \
  --num_envs=64 || code=1
compare ">= 0.98" "update of r2d2 small" steps/s updates --env=atari --agent=r2d2 \
  --preset=small --num_envs=8 || code=1
echo "machine: $(machine)"
exit $code
