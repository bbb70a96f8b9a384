#!/usr/bin/env bash
# Updates per second of SAC beside Stable-Baselines3's, in one run: Pendulum, one environment, an
# update of 256 steps behind each step, networks of 256 and 256; both act, step and train. In turns,
# so many pairs; the ratio is the median of the pairs'. Stable-Baselines3 computes with one thread
# and with two, of which the faster counts in each pair.
# Usage: PYTHON=PATH tests/bench/sac.sh [--pairs=5] [--steps=3000]
#   PYTHON: of an environment with stable-baselines3 and gymnasium, such as that of
#           tests/bench/peers.sh, build/peers/sb3/bin/python
set -u
. "$(dirname "$(readlink -f "$0")")/lib.sh"
pairs=5 steps=3000
for word in "$@"; do
  case "$word" in
    --help | -h)
      show_help
      exit 0
      ;;
    --pairs=*) pairs=${word#*=} ;;
    --steps=*) steps=${word#*=} ;;
    *) echo "sac: unknown option '$word'; --help lists them" >&2 && exit 2 ;;
  esac
done
PYTHON=${PYTHON:-build/peers/sb3/bin/python}
"$PYTHON" -c "import stable_baselines3, gymnasium" 2>/dev/null || {
  echo "sac: $PYTHON has no stable-baselines3 and gymnasium: name one that has, PYTHON=PATH" >&2
  exit 2
}

theirs() { # THREADS STEPS
  CUDA_VISIBLE_DEVICES="" "$PYTHON" tests/bench/peers/run_sb3_sac.py "$1" "$2" 2>/dev/null |
    value updates_per_second
}
# From the first line of metrics with 100 updates on.
ours() {
  rm -rf "$work/run"
  build/launch gym:Pendulum-v1 sac 1 1 --total_steps=$((steps + 1000)) --metrics_secs=0.5 \
    --plot=false --logdir="$work/run" >"$work/log" 2>&1 || { tail -n 3 "$work/log" >&2 && exit 1; }
  local line=1
  while [ "$(field train/updates $line | cut -d . -f 1)" -lt 100 ]; do line=$((line + 1)); done
  per_second train/updates $line
}

need gymnasium
echo "machine: $(machine)"
echo "Stable-Baselines3 $("$PYTHON" -c 'import stable_baselines3 as s; print(s.__version__)')"
for ((pair = 1; pair <= pairs; pair++)); do
  a=$(ours) b=$(for threads in 1 2; do theirs $threads "$steps"; done | sort -g | tail -n 1)
  ratio "$a" "$b" >>"$work/ratios"
  printf 'updates/s: acorn %s, stable-baselines3 %s, ratio %s\n' "$a" "$b" "$(ratio "$a" "$b")"
done
echo "ratio: $(median <"$work/ratios"), between $(interval <"$work/ratios") (must 3)"
