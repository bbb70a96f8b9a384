#!/usr/bin/env bash
# CartPole, 4 actors x 64 environments, the network and hyperparameters of the ordinary run: trained
# steps per second over at least 30 s, after 5 s of warm-up.
# Usage: tests/bench/throughput.sh [SECONDS] [--flag=value ...]
set -u
. "$(dirname "$(readlink -f "$0")")/lib.sh"
need
seconds=${1:-32}
shift || true
build/launch cartpole vtrace 4 64 --total_steps=1e12 --logdir="$work/run" --metrics_secs=0.5 \
  --seed=1 "$@" >"$work/out" 2>"$work/err" &
launch=$!
sleep 5
# threads: "NAME SECONDS" of CPU time, for the learner's threads and for all actors together.
threads() {
  local pid
  for pid in $(pgrep -P $launch); do
    awk -v hz="$(getconf CLK_TCK)" '{
      name = $0; sub(/^[^(]*\(/, "", name); sub(/\).*/, "", name)
      sub(/^.*\) /, ""); seconds[name] += ($12 + $13) / hz
    } END {for (name in seconds) print name, seconds[name]}' /proc/"$pid"/task/*/stat |
      if [ "$(cat "/proc/$pid/comm")" = learner ]; then cat; else sed 's/^.* /actors /'; fi
  done | awk '{seconds[$1] += $2} END {for (name in seconds) print name, seconds[name]}' | sort
}
mark=$(wc -l <"$work/run/metrics.jsonl")
threads >"$work/before"
sleep "$seconds"
threads >"$work/after"
kill -TERM $launch
wait $launch
last=$(($(wc -l <"$work/run/metrics.jsonl") - 1))
echo "throughput trained_per_second=$(per_second train/steps "$mark")" \
  "env_per_second=$(per_second step "$mark")" \
  "updates_per_second=$(per_second train/updates "$mark")" \
  "lag=$(field policy/lag_updates "$last")" \
  "return=$(field train/episode_return "$last")" | tee "$work/line"
steps=$(awk -v a="$(field step "$mark")" -v b="$(field step "$last")" 'BEGIN {print b - a}')
join "$work/before" "$work/after" | awk -v steps="$steps" '{
  us = ($3 - $2) * 1e6 / steps; sum += us
  if (us >= 0.005) text = text sprintf(" %s=%.3f", $1, us)
} END {printf "CPU us per step:%s sum=%.3f\n", text, sum}'
rate=$(value trained_per_second <"$work/line")
echo "machine: $(machine)"
row "CartPole, 4 x 64 environments, trained steps/s" "$rate" ">= 1000000"
