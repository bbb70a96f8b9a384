#!/usr/bin/env bash
# Whether a change has made the learner slower: this tree's steps per second over those of an
# earlier commit, which is built in a folder of its own. CartPole, 4 actors x 64 environments; Pong,
# 2 x 32; and 16 actors of one environment with observations of 64 B and 7,000 B and nothing to
# learn, where transport and batching are all there is. Pairs in turn, each in the other order than
# the one before; the medians of their ratios.
# Usage: tests/bench/against.sh COMMIT [PAIRS]
set -u
. "$(dirname "$(readlink -f "$0")")/lib.sh"
[ $# -ge 1 ] || { echo "usage: tests/bench/against.sh COMMIT [PAIRS]" >&2 && exit 2; }
scripts/setup.sh atari && need gymnasium || exit 1
commit=$1 pairs=${2:-5} here=$PWD
mkdir "$work/earlier"
git archive "$commit" | tar -x -C "$work/earlier" || exit 2
echo "building $commit" >&2
ln -s "$PWD/.venv" "$work/earlier/.venv"
make -s -C "$work/earlier" -j"$(nproc)" all gymnasium >"$work/build" 2>&1 ||
  { tail -n 5 "$work/build" && exit 1; }

# rate TREE WORDS...: steps per second of a run.
rate() {
  local tree=$1
  shift
  rm -rf "$work/run"
  (cd "$tree" && build/launch "$@" --seed=1 --logdir="$work/run" 2>"$work/err") |
    tail -n 1 | value sps
}

# compare MUST WHAT WORDS...: a row.
compare() {
  local must=$1 what=$2 pair trees tree
  shift 2
  rm -f "$work/ratios"
  for ((pair = 0; pair < pairs; pair++)); do
    trees=("$here" "$work/earlier")
    [ $((pair % 2)) -eq 0 ] || trees=("$work/earlier" "$here")
    declare -A rates=()
    for tree in "${trees[@]}"; do rates[$tree]=$(rate "$tree" "$@"); done
    echo "$what: ${rates[$here]}, earlier ${rates["$work/earlier"]}"
    ratio "${rates[$here]}" "${rates["$work/earlier"]}" >>"$work/ratios"
  done
  row "$what: steps/s over those of $commit" "$(median <"$work/ratios")" ">= $must"
}

code=0
compare 0.98 "CartPole 4 x 64" cartpole vtrace 4 64 --total_steps=12M || code=1
compare 0.98 "Pong 2 x 32" atari vtrace 2 32 --total_steps=60k || code=1
for bytes in 64 7000; do
  compare 0.95 "16 streams of $bytes B" synthetic random 16 1 --env_args="{\"bytes\": $bytes}" \
    --total_steps=500k || code=1
done
echo "machine: $(machine)"
exit $code
