#!/usr/bin/env bash
# What saving a replay of GIB GiB (--checkpoint_replay) costs actors meanwhile: the longest time
# that a stream waits for an action, in a run that saves every SECONDS seconds, and in the same run
# without. Steps have 7,056 bytes, as a frame of the Atari, and come from streams that always have
# one under way; the replay is full, so that new steps take the place of those that are written.
# Training is light, so that acting does not wait for it.
# Usage: tests/bench/replay_save.sh [GIB] [SECONDS]   (default 1 10)
set -u
. "$(dirname "$(readlink -f "$0")")/lib.sh"
gib=${1:-1} seconds=${2:-10} bytes=7056
client=build/tests/bench/bench_streams
need $client
steps=$(awk -v gib="$gib" -v b=$bytes 'BEGIN {printf "%d", gib * 2 ^ 30 / b}')
said() { sed -n "s/.*$1.*/\1/p" "$work/err"; }

# fill WORDS...: a learner whose replay has become full.
fill() {
  rm -rf "$work/run"
  build/learner --env=synthetic --env_args="{\"bytes\": $bytes}" --agent=dqn --num_envs=8 \
    --hidden=16 --batch_size=8 --unroll_length=8 --replay_ratio=0.01 --replay_steps="$steps" \
    --replay_min_steps=$((steps - 10000)) --listen="unix:$work/socket" --logdir="$work/run" \
    --total_steps=1e12 --metrics_secs=0.25 "$@" >"$work/out" 2>"$work/err" </dev/null &
  learner=$!
  $client "unix:$work/socket" --streams=8 --step_ms=0 --seconds=3600 --bytes=$bytes \
    --name=fill >"$work/fill" 2>&1 &
  local filler=$!
  until [ "$(last step)" -gt $((steps * 5 / 4)) ] 2>/dev/null; do
    kill -0 $learner $filler 2>/dev/null || { tail -n 5 "$work/err" "$work/fill" && exit 1; }
    sleep 0.2
  done
  kill -TERM $filler
  wait $filler
}
last() { tail -n 1 "$work/run/metrics.jsonl" 2>/dev/null | sed -n "s/^{\"$1\":\([0-9]*\),.*/\1/p"; }

# measure WORDS...: the longest wait, us, and messages, from a new client of that learner.
measure() {
  fill "$@"
  : >"$work/client"
  $client "unix:$work/socket" --streams=8 --step_ms=0 --seconds=$((3 * seconds)) --bytes=$bytes \
    >"$work/client" 2>&1
  kill -KILL $learner
  wait $learner 2>/dev/null
}

echo "machine: $(machine)"
measure --checkpoint_secs="$seconds"
without=$(value wait_max_us <"$work/client") rate=$(value messages <"$work/client")
measure --checkpoint_secs="$seconds" --checkpoint_replay
grep "is saved: " "$work/err"
with=$(value wait_max_us <"$work/client") saved=$(value messages <"$work/client")
ms() { awk -v us="$1" 'BEGIN {printf "%.1f", us / 1000}'; }
code=0
row "replays saved meanwhile" "$(grep -c "is saved: " "$work/err")" ">= 2" || code=1
row "MiB of one" "$(said ' \([0-9.]*\) MiB in' | tail -n 1)" reported
row "seconds that it takes" "$(said 'MiB in \([0-9.]*\) s' | tail -n 1)" reported
row "the longest that acting waited for one of them, by the log, s" \
  "$(said 'acting for \([0-9.]*\) s' | sort -g | tail -n 1)" reported
row "longest wait for an action, ms, without (what the machine does)" "$(ms "$without")" \
  reported
row "longest wait for an action, ms, while it is saved (aim 50)" "$(ms "$with")" "<= 200" || code=1
row "messages over those without" "$(ratio "$saved" "$rate")" reported
exit $code
