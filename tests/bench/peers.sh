#!/usr/bin/env bash
# Acorn beside Stable-Baselines3, Sample Factory and RLlib on CartPole-v1, in one run: trained steps
# per second with the same number of environments (256) and the same network (2 x 64), each with the
# fastest of its documented settings; then the steps and seconds, from process start, to a mean
# return of 475 over 100 training episodes with each one's own values for CartPole.
# Acorn's speed is measured again right before each peer's, and the ratio is of these two.
# The peers are installed in build/peers/ (the first time: 3 GB to download, 7 GB on disk, since
# PyTorch comes with CUDA; they run on the CPU). A peer that cannot be installed or fails is
# reported and left out.
# Usage: tests/bench/peers.sh [--only=sb3,sample_factory,rllib] [--seconds=10] [--solve_seconds=120]
#          [--steps=20000000]
#   --seconds        how long each speed is measured, after a quarter of that as warm-up
#   --solve_seconds  a run that has not reached 475 by then ends; 0: these runs are left out
#   --steps          every run ends after so many steps
set -u
. "$(dirname "$(readlink -f "$0")")/lib.sh"
here=tests/bench/peers

peers="sb3 sample_factory rllib" seconds=10 solve_seconds=120 steps=20000000
for word in "$@"; do
  case "$word" in
    --help | -h)
      show_help
      exit 0
      ;;
    --only=*) peers=$(tr ',' ' ' <<<"${word#*=}") ;;
    --seconds=*) seconds=${word#*=} ;;
    --solve_seconds=*) solve_seconds=${word#*=} ;;
    --steps=*) steps=${word#*=} ;;
    *) echo "peers: unknown option '$word'; --help lists them" >&2 && exit 2 ;;
  esac
done
for number in "$seconds" "$solve_seconds" "$steps"; do
  [[ "$number" =~ ^[0-9]+$ ]] || { echo "peers: '$number' is not a whole number" >&2 && exit 2; }
done

# requirements PEER: what is installed for it, besides PyTorch.
requirements() {
  case "$1" in
    torch) echo "torch==2.15.0" ;;
    sb3) echo "stable-baselines3==2.9.2 gymnasium==1.2.2 numpy==2.4.6" ;;
    sample_factory) echo "sample-factory==2.1.1 gymnasium==0.29.1 numpy==1.26.4" ;;
    rllib) echo "ray[rllib]==2.60.0 gymnasium==1.2.2 numpy==2.4.6" ;;
    *) return 1 ;;
  esac
}
for peer in $peers; do
  requirements "$peer" >/dev/null && continue
  echo "peers: '$peer' is none of sb3, sample_factory, rllib" >&2
  exit 2
done

# ---- installing

# install NAME: a virtual environment build/peers/NAME. PyTorch has one of its own, which the others
# see, so that it is there once. On failure prints pip's reason.
install() {
  local folder="build/peers/$1" wanted site
  wanted=$(requirements "$1")
  [ "$(cat "$folder/installed" 2>/dev/null)" != "$wanted" ] || return 0
  echo "installing $wanted into $folder ..." >&2
  mkdir -p build/peers
  if ! /usr/bin/python3 -m venv --clear "$folder" >"$work/pip" 2>&1; then
    echo "$(tail -n 1 "$work/pip") (python3-venv is needed)"
    return 1
  fi
  if [ "$1" != torch ]; then
    site=$(echo "$folder"/lib/python3*/site-packages)
    # Relative to where it stands, so that the tree can be moved.
    echo "../../../../torch/${site#"$folder/"}" >"$site/torch.pth"
  fi
  # shellcheck disable=SC2086
  if ! "$folder/bin/python" -m pip install --quiet $wanted >"$work/pip" 2>&1; then
    grep -m 1 '^ERROR' "$work/pip" || tail -n 1 "$work/pip"
    return 1
  fi
  echo "$wanted" >"$folder/installed"
}

# ---- measuring

# acorn_speed: trained steps/s of 4 x 64 environments.
acorn_speed() {
  tests/bench/throughput.sh "$seconds" 2>/dev/null | value trained_per_second
}

# acorn_solve: "solved=0|1 steps=N seconds=S", as a peer prints it.
acorn_solve() {
  local start=$EPOCHREALTIME line solved=0
  line=$(timeout "$solve_seconds" build/launch cartpole vtrace 4 --target_return=475 --seed=1 \
    --total_steps="$steps" --plot=false --logdir="$work/solve" 2>/dev/null | grep '^result ')
  [ "$(value reason <<<"$line")" != target_return ] || solved=1
  awk -v solved=$solved -v steps="$(value steps <<<"$line")" -v a="$start" -v b="$EPOCHREALTIME" \
    'BEGIN {printf "solved=%s steps=%s seconds=%.1f\n", solved, steps, b - a}'
}

# peer PEER WHAT SECONDS: its line. One that hangs is ended.
peer() {
  STARTED=$EPOCHREALTIME CUDA_VISIBLE_DEVICES="" RAY_USAGE_STATS_ENABLED=0 \
    timeout -k 10 $((${3%.*} * 2 + 120)) "build/peers/$1/bin/python" "$here/run_$1.py" "$2" \
    --seconds="$3" --steps="$steps" >"$work/peer" 2>&1
  grep -E '^(steps_per_second|solved)=' "$work/peer" && return
  echo "failed: $(grep -E '^[A-Za-z.]*(Error|Exception)\b' "$work/peer" | tail -n 1 | grep . ||
    tail -n 1 "$work/peer")"
}

format='%-32s %14s %10s %12s %10s\n'
# table_row NAME SPEED RATIO STEPS SECONDS
table_row() {
  # shellcheck disable=SC2059
  printf "$format" "$@"
}

# take_solve LINE: sets `solve` to the steps and seconds to 475; of a run that has not reached it,
# to where it was ended.
take_solve() {
  local more=""
  case "$1" in
    solved=1*) ;;
    solved=0*) more="> " ;;
    *)
      solve=(failed "${1:0:80}")
      return
      ;;
  esac
  solve=("$more$(value steps <<<"$1")" "$more$(value seconds <<<"$1")")
}

# measure_peer PEER: its row.
measure_peer() {
  local reason mine line rate solve=("-" "-")
  if ! reason=$(install torch) || ! reason=$(install "$1"); then
    echo "$1: not measured, it cannot be installed: $reason"
    return
  fi
  mine=$(acorn_speed)
  echo "$mine" >>"$work/mine"
  line=$(peer "$1" speed "$seconds")
  rate=$(value steps_per_second <<<"$line")
  if [ -z "$rate" ]; then
    echo "$1: not measured, ${line:0:160}"
    return
  fi
  [ "$solve_seconds" -eq 0 ] || take_solve "$(peer "$1" solve "$solve_seconds")"
  table_row "$(requirements "$1" | cut -d ' ' -f 1)" "$rate" "$(ratio "$rate" "$mine")" \
    "${solve[@]}"
}

need
echo "machine: $(machine)"
echo "acorn $(git describe --always --dirty 2>/dev/null), $(requirements torch)," \
  "$(/usr/bin/python3 --version), at most $steps steps each"
[ "$solve_seconds" -eq 0 ] ||
  echo "\"> N\": 475 was not reached within --solve_seconds=$solve_seconds and --steps"
table_row system "steps/s" "/ Acorn" "steps to 475" seconds
for peer in $peers; do measure_peer "$peer"; done
solve=("-" "-")
[ "$solve_seconds" -eq 0 ] || take_solve "$(acorn_solve)"
[ -s "$work/mine" ] || acorn_speed >"$work/mine"
table_row "acorn, 4 x 64" "$(median <"$work/mine" | awk '{printf "%.0f", $1}')" 1 "${solve[@]}"
