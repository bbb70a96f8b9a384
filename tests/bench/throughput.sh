#!/usr/bin/env bash
# CartPole, 4 actors x 64 environments, the network and hyperparameters of the ordinary run: trained
# steps per second over at least 30 s, after 5 s of warm-up.
# Usage: tests/bench/throughput.sh [SECONDS] [--flag=value ...]
set -u
. "$(dirname "$0")/lib.sh"
seconds=${1:-32}
shift || true
build/launch cartpole vtrace 4 64 --total_steps=1e12 --logdir="$work/run" --metrics_secs=0.5 \
  --seed=1 "$@" >"$work/out" 2>"$work/err" &
launch=$!
sleep 5
mark=$(wc -l <"$work/run/metrics.jsonl")
sleep "$seconds"
kill -INT $launch
wait $launch
python3 - "$work/run/metrics.jsonl" "$mark" <<'PY' | tee "$work/line"
import json, sys
lines = [json.loads(line) for line in open(sys.argv[1])]
first, last = lines[int(sys.argv[2]) - 1], lines[-2]
seconds = last["seconds"] - first["seconds"]
rate = lambda key: (last[key] - first[key]) / seconds
print("throughput seconds=%.1f trained_per_second=%.0f env_per_second=%.0f "
      "updates_per_second=%.0f lag=%.2f return=%.1f" % (
          seconds, rate("train/steps"), rate("step"), rate("train/updates"),
          last["policy/lag_updates"], last["train/episode_return"]))
PY
rate=$(value trained_per_second <"$work/line")
echo "machine: $(machine)"
row "CartPole, 4 x 64 environments, trained steps/s" "$rate" ">= 1000000"
