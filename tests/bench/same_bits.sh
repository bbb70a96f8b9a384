#!/usr/bin/env bash
# Whether this tree trains to the last bit as an earlier commit did, which is built in a folder of
# its own: parameters and optimiser in the final checkpoints of deterministic runs of at least 200
# updates, of CartPole, the T-maze (LSTM) and Catch on 84 x 84 pixels (convolutions and LSTM), and
# of CartPole and the T-maze from a replay, seeds 1..SEEDS (default 3). Options after -- go to the
# runs of both trees; a tree that does not have an option runs without it, and a line on stderr
# names it.
# Usage: tests/bench/same_bits.sh COMMIT [SEEDS] [-- --flag=value ...]
set -u
. "$(dirname "$(readlink -f "$0")")/lib.sh"
usage() {
  echo "usage: tests/bench/same_bits.sh COMMIT [SEEDS] [-- --flag=value ...]" >&2
  exit 2
}
[[ "${1:---}" != -* ]] || usage
commit=$1 seeds=3 here=$PWD min_updates=200
shift
[[ "${1:---}" == -- ]] || { seeds=$1 && shift; }
[[ "$seeds" =~ ^[1-9][0-9]*$ ]] || usage
[[ "${1:---}" == -- ]] || usage
extra=("${@:2}")
command -v python3 >/dev/null || { echo "same_bits.sh needs python3" >&2 && exit 1; }
need
build_earlier "$commit"

# known NAME TREE WORD...: of these options those that the tree has, one a line.
known() {
  local name=$1 help word option
  help=$("$2/build/launch" --help)
  shift 2
  for word in "$@"; do
    option=${word%%=*} option=${option#--} option=${option//-/_}
    if grep -qwE -- "--(\[no_\])?${option#no_}" <<<"$help"; then
      echo "$word"
    else
      echo "$name has no $word: its runs go without it" >&2
    fi
  done
}
mapfile -t extra_here < <(known "this tree" "$here" "${extra[@]}")
mapfile -t extra_earlier < <(known "$commit" "$work/earlier" "${extra[@]}")

# train TREE LOGDIR WORD...: a run; its last log lines if it fails.
train() {
  local tree=$1 logdir=$2
  shift 2
  rm -rf "$logdir"
  (cd "$tree" && build/launch "$@" --logdir="$logdir" >"$work/out" 2>"$work/err") && return
  echo "a run of $tree failed: build/launch $*"
  tail -n 5 "$work/err"
  return 1
}

# same SEED WORD...: both runs; "equal (N arrays, U updates)", or how they differ.
same() {
  local seed=$1 updates
  shift
  train "$here" "$work/run" "$@" --seed="$seed" "${extra_here[@]}" || return
  train "$work/earlier" "$work/run-earlier" "$@" --seed="$seed" "${extra_earlier[@]}" || return
  python3 tests/integration/compare_checkpoints.py "$work/run" "$work/run-earlier" \
    >"$work/comparison" 2>&1 || { cat "$work/comparison" && return 1; }
  updates=$(sed -n 's/.* \([0-9]*\) updates)$/\1/p' "$work/comparison")
  cat "$work/comparison"
  [ "$updates" -ge $min_updates ] || { echo "at least $min_updates are wanted" && return 1; }
}

# compare_params WHAT ENV AGENT WORD...: all seeds of one environment.
compare_params() {
  local what=$1 env=$2 agent=$3 seed result
  shift 3
  for ((seed = 1; seed <= seeds; seed++)); do
    result=$(same "$seed" "$env" "$agent" 2 4 --deterministic --no_plot "$@") && continue
    echo "params of $what, seed $seed: $result"
    return 1
  done
  echo "params of $what, seeds 1..$seeds: $result"
}

# Steps for 200 updates: as many batches, and the windows that are not complete in the end.
code=0
compare_params cartpole cartpole vtrace --total_steps=140k || code=1
compare_params tmaze tmaze vtrace --total_steps=70k || code=1
compare_params "cartpole, dqn" cartpole dqn --total_steps=5k || code=1
compare_params "tmaze, r2d2" tmaze r2d2 --total_steps=80k || code=1
compare_params "catch, 84 x 84" catch vtrace --env_args='{"size": 84}' --network=impala_shallow \
  --batch_size=4 --unroll_length=5 --total_steps=4500 || code=1
echo "machine: $(machine)"
exit $code
