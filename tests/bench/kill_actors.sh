#!/usr/bin/env bash
# Four actors on CartPole, one of them killed (kill -9) at random every two seconds: training must
# not stall, CartPole must be solved all the same, and the learner must not grow.
#
# A stall is measured from outside: metrics.jsonl has a line every quarter of a second, and a stall
# is the time from the last line before `train/updates` stood still to the first in which it has
# moved again, so it is told up to a quarter of a second too long. Memory is the learner's RSS, read
# once a second: the mean of the last fifth of the time over that of the second fifth, as the first
# one warms up.
# Usage: tests/bench/kill_actors.sh [SECONDS] [--flag=value ...]
set -u
. "$(dirname "$(readlink -f "$0")")/lib.sh"
need
seconds=${1:-300}
shift || true
build/launch cartpole vtrace 4 --total_steps=1e12 --logdir="$work/run" --metrics_secs=0.25 \
  --max_deaths=0 --seed=1 "$@" >"$work/out" 2>"$work/err" </dev/null &
launch=$!
trap 'kill -9 $launch 2>/dev/null; rm -rf "$work"' EXIT

# children NAME: the launcher's, that run such a program.
children() {
  local pid
  for pid in $(cat "/proc/$launch/task/$launch/children" 2>/dev/null); do
    [ "$(cat "/proc/$pid/comm" 2>/dev/null)" = "$1" ] && echo "$pid"
  done
}
while kill -0 $launch 2>/dev/null && [ ! -s "$work/run/metrics.jsonl" ]; do sleep 0.1; done
learner=$(children learner)
end=$((SECONDS + seconds)) tick=0 kills=0
while [ $SECONDS -lt $end ] && kill -0 $launch 2>/dev/null; do
  sleep 1
  sed -n 's/^VmRSS:[[:space:]]*\([0-9]*\) kB/\1/p' "/proc/$learner/status" >>"$work/rss"
  tick=$((tick + 1))
  mapfile -t actors < <(children actor)
  if [ $((tick % 2)) -eq 0 ] && [ ${#actors[@]} -gt 0 ]; then
    kill -9 "${actors[RANDOM % ${#actors[@]}]}" 2>/dev/null && kills=$((kills + 1))
  fi
done
kill -TERM $launch 2>/dev/null
wait $launch
code=$?

# field NAME: of every line, after the time.
field() {
  sed -n "s|^{\"step\":\([0-9]*\),\"seconds\":\([0-9.]*\),.*\"$1\":\([-0-9.e+]*\)[,}].*|\2 \3|p" \
    "$work/run/metrics.jsonl"
}
# The last line is written after the end of training.
longest_stall() {
  field train/updates | sed '$d' | awk '
    function stood(until) {if (until - since > longest) longest = until - since}
    $2 > updates {
      if (updates) stood($1)
      updates = $2
      since = $1
    }
    {last = $1}
    END {
      stood(last)
      if (updates) printf "%.2f", longest
      else printf "none"
    }'
}
best_return() {
  field train/episode_return | awk '$2 > best {best = $2} END {printf "%.1f", best}'
}
growth() {
  awk '{rss[NR] = $1}
    END {
      fifth = int(NR / 5)
      for (i = 1; i <= fifth; i++) {early += rss[fifth + i]; late += rss[NR - fifth + i]}
      if (early) printf "%.4f", late / early
      else printf "none"
    }' "$work/rss"
}
restarts=$(grep -c "was killed by signal 9 .*starting it again" "$work/err")
echo "kill_actors seconds=$seconds kills=$kills restarts=$restarts exit=$code" \
  "rss_kb=$(head -n 1 "$work/rss")..$(tail -n 1 "$work/rss") $(tail -n 1 "$work/out")"
echo "machine: $(machine)"
status=0
row "actors killed every 2 s: kills that were not followed by a restart" $((kills - restarts)) \
  "<= 1" || status=1
row "actors killed every 2 s: longest stall of training, s" "$(longest_stall)" "<= 1" || status=1
row "actors killed every 2 s: CartPole, best mean return of 100 episodes" "$(best_return)" \
  ">= 475" || status=1
row "actors killed every 2 s: the learner's RSS, late over early" "$(growth)" "<= 1.02" || status=1
row "actors killed every 2 s: exit code" "$code" "<= 0" || status=1
exit $status
