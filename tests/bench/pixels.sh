#!/usr/bin/env bash
# The CPU learner's update of a network for images: impala_shallow with LSTM, T=20 N=32, one thread;
# beside PyTorch's best in the same run and at the same precision, and beside the oneDNN primitives
# that it comes to, each alone in its best form. PYTHON names a Python that has PyTorch (2.x);
# without one that row is missed. Usage: tests/bench/pixels.sh [float32|bf16 ...] (default: float32)
set -u
. "$(dirname "$(readlink -f "$0")")/lib.sh"
need build/tests/bench/bench_pixels
python=${PYTHON:-python3}
[ $# -gt 0 ] || set -- float32
code=0

# What each side takes, in turns, so that both meet the same machine.
measure() {
  local round
  for round in 1 2 3; do
    build/tests/bench/bench_pixels impala_shallow 256 "$1" 5 >>"$work/ours-$1"
    "$python" tests/bench/bench_torch.py "$1" 5 >>"$work/torch-$1" 2>"$work/torch.err"
  done
}

# every KEY FILE: the numbers of "KEY=number" words.
every() {
  tr ' ' '\n' <"$2" | sed -n "s/^$1=//p"
}

for precision in "$@"; do
  [ "$precision" != bf16 ] || has_bf16 || continue
  measure "$precision"
  ours=$(every update_us "$work/ours-$precision" | median)
  theirs=$(every best_us "$work/torch-$precision" | median)
  over=$(every over_primitives "$work/ours-$precision" | median)
  [ -n "$theirs" ] || tail -n 1 "$work/torch.err"
  echo "pixels $precision update_us=$ours torch_us=${theirs:-none}" \
    "torch_way=$(value best <"$work/torch-$precision")" \
    "frames_per_second=$(ratio 640000000 "$ours")"
  row "impala_shallow + LSTM, $precision: frames/s over PyTorch's best" \
    "$(ratio "${theirs:-0}" "$ours")" ">= 1.0" || code=1
  row "the same: update over its oneDNN primitives alone" "$over" "<= 1.3" || code=1
done
echo "machine: $(machine)"
exit $code
