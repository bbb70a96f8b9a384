#!/usr/bin/env bash
# Acorn's ppo beside Stable-Baselines3's PPO, each by its defaults, on environments of Gymnasium
# with which Acorn's defaults were not chosen, or on those that are named: mean return of the last
# 100 training episodes after the same number of steps, the seconds from process start, and those
# until ours had the other's return. One run of each, ours first. Stable-Baselines3 is what
# tests/bench/peers.sh --only=sb3 installs, or SB3_PYTHON is the Python that has it.
# Usage: tests/bench/unseen.sh [--steps=200000] [--seed=1] [ENV ...]
set -u
. "$(dirname "$(readlink -f "$0")")/lib.sh"
steps=200000 seed=1 envs=()
for word in "$@"; do
  case "$word" in
    --help | -h)
      show_help
      exit 0
      ;;
    --steps=*) steps=${word#*=} ;;
    --seed=*) seed=${word#*=} ;;
    -*) echo "unseen: unknown option '$word'; --help lists them" >&2 && exit 2 ;;
    *) envs+=("$word") ;;
  esac
done
[ ${#envs[@]} -gt 0 ] || envs=(Taxi-v4 CliffWalking-v1 Blackjack-v1 MountainCarContinuous-v0
  InvertedPendulum-v5 Reacher-v5)
other=${SB3_PYTHON:-build/peers/sb3/bin/python}
if ! "$other" -c 'import stable_baselines3' 2>/dev/null; then
  echo "unseen: $other has no stable_baselines3: tests/bench/peers.sh --only=sb3 installs it" >&2
  exit 2
fi

# reached FOLDER RETURN: the seconds until a run had that mean return.
reached() {
  "$other" - "$@" <<'EOF'
import json, sys
for line in open(sys.argv[1] + "/metrics.jsonl"):
    row = json.loads(line)
    mean = row.get("train/episode_return")
    if mean is not None and row["train/episodes"] >= 100 and mean >= float(sys.argv[2]):
        print(f"{row['seconds']:.1f}")
        break
else:
    print("never")
EOF
}

need gymnasium
echo "$(machine)"
for env in "${envs[@]}"; do
  start=$EPOCHREALTIME
  ours=$(build/launch "gym:$env" ppo 2 16 --total_steps="$steps" --seed="$seed" --evaluators=0 \
    --no_plot --logdir="$work/$env" 2>"$work/err" | value return_mean)
  took=$(awk -v a="$start" -v b="$EPOCHREALTIME" 'BEGIN {printf "%.1f", b - a}')
  theirs=$("$other" tests/bench/peers/run_sb3_defaults.py "$env" "$steps" "$seed" 2>>"$work/err")
  their_return=$(value return <<<"$theirs")
  if [ -z "$ours" ] || [ -z "$their_return" ]; then
    echo "$env: not run: $(tail -n 1 "$work/err")"
    continue
  fi
  echo "$env steps=$steps ours=$ours seconds=$took sb3=$their_return" \
    "sb3_seconds=$(value seconds <<<"$theirs")" \
    "reached_theirs=$(reached "$work/$env" "$their_return")"
done
