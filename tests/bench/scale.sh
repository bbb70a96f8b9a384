#!/usr/bin/env bash
# 1,000 actors without environments, a connection each, in a network namespace behind a link with a
# delay and losses, and 1, 2 and 4 learners of CartPole on this machine. For each setting: steps a
# second, CPU time of the learners per step, batches of inference and updates per 1,000 steps, bytes
# on the link per step. Then the costs of a message and of a batch that fit these figures, and what
# 10 learners and 10,000 actors would need by them (docs/scale.md).
# Needs root. Usage: tests/bench/scale.sh [ACTORS] [SECONDS]   (by default 1000 10)
set -u
. "$(dirname "$(readlink -f "$0")")/lib.sh"
case "${1:-}" in --help | -h) show_help && exit 0 ;; esac
streams=${1:-1000} seconds=${2:-10}
client=build/tests/bench/bench_streams link=build/tests/bench/bench_link
need $client $link
here=acorn-$$-learners there=acorn-$$-actors
# shellcheck disable=SC2317 # the trap calls it
remove() {
  kill "${clients[@]}" "${learner:-}" "${linked:-}" 2>/dev/null
  ip netns del "$here" 2>/dev/null
  ip netns del "$there" 2>/dev/null
  rm -rf "$work"
}
clients=()
trap remove EXIT
if ! { ip netns add "$here" && ip netns add "$there"; } 2>"$work/err"; then
  echo "network namespaces need root: $(tail -n 1 "$work/err")" >&2
  exit 1
fi

# connect DELAY_MS LOSS
connect() {
  $link "$here" "$there" "--delay_ms=$1" "--loss=$2" >"$work/link" &
  linked=$!
  until grep -q ready "$work/link"; do
    kill -0 $linked || exit 1
    sleep 0.05
  done
  ip -n "$here" addr add 10.86.88.1/24 dev link0 && ip -n "$here" link set link0 up &&
    ip -n "$there" addr add 10.86.88.2/24 dev link0 && ip -n "$there" link set link0 up
}

# CPU seconds of the learners, bytes on the link, then steps, seconds, batches of the first learner
# and updates, as the run writes a line of metrics.
used() {
  local pid lines
  lines=$(wc -l <"$work/run/metrics.jsonl")
  until [ "$(wc -l <"$work/run/metrics.jsonl")" -gt "$lines" ]; do
    kill -0 $learner || exit 1
    sleep 0.02
  done
  for pid in "${processes[@]}"; do cpu_seconds "$pid"; done |
    awk '{sum += $1} END {printf "%s ", sum}'
  ip netns exec "$there" awk '/link0/ {printf "%s ", $2 + $10}' /proc/net/dev
  lines=$(wc -l <"$work/run/metrics.jsonl")
  echo "$(field step "$lines") $(field seconds "$lines")" \
    "$(field inference/batches "$lines") $(field train/updates "$lines")"
}

# setting LEARNERS STEP_MS DELAY_MS LOSS: a line of the table, also in $work/table.
setting() {
  local rank port=$((10000 + RANDOM % 20000)) before
  rm -rf "$work/run"
  connect "$3" "$4"
  ip netns exec "$here" build/learner --env=cartpole --agent=vtrace --learners="$1" \
    --num_envs=$((streams / $1)) --listen=0.0.0.0:$port --logdir="$work/run" --metrics_secs=2 \
    --total_steps=1e12 >"$work/out" 2>"$work/err" &
  learner=$!
  for _ in $(seq 200); do
    grep -q 'listening on' "$work/err" && break
    sleep 0.05
  done
  clients=()
  for ((rank = 0; rank < $1; rank++)); do
    ip netns exec "$there" $client "10.86.88.1:$((port + rank))" --streams=$((streams / $1)) \
      --shared=1 "--step_ms=$2" --seconds=300 --name="light-$rank" >"$work/client-$rank" 2>&1 &
    clients+=($!)
  done
  sleep 5 # all have joined
  read -ra processes <"/proc/$learner/task/$learner/children"
  processes+=("$learner")
  before=$(used)
  sleep "$seconds"
  echo "$* $before $(used)" | awk '{
    steps = $13 - $7; printf "%d %d %g %g %.0f %.3f %.2f %.3f %.0f\n", $1, $2, $3, $4,
      steps / ($14 - $8), 1e6 * ($11 - $5) / steps, 1000 * $1 * ($15 - $9) / steps,
      1000 * ($16 - $10) / steps, ($12 - $6) / steps}' | tee -a "$work/table" |
    awk '{printf "%8d %8d %9g %6g %9d %9.3f %9.2f %9.3f %7d\n", $1, $2, $3, $4, $5, $6, $7, $8, $9}'
  kill -TERM "${clients[@]}" $learner
  wait "${clients[@]}" $learner
  kill $linked
  wait $linked 2>/dev/null
}

echo "machine: $(machine)"
echo "learners  step ms  delay ms loss % steps/s  CPU us/st batches/k updates/k bytes/st"
for network in "1 0" "10 0" "10 1"; do
  for learners in 1 2 4; do
    for step_ms in 50 20; do setting $learners $step_ms $network; done
  done
done

# CPU time per step = message + batch x batches per step, by least squares; then the fleet.
awk '{b = $7 / 1000; n++; x += b; y += $6; xx += b * b; xy += b * $6; bytes += $9; updates += $8
    table[n] = $6 " " b}
  END {
    batch = (n * xy - x * y) / (n * xx - x * x); message = (y - batch * x) / n
    for (i = 1; i <= n; i++) {
      split(table[i], t, " "); off = (message + batch * t[2]) / t[1] - 1
      if (off < 0) off = -off
      if (off > worst) worst = off
    }
    printf "a message %.2f us, a batch %.1f us of CPU time; at most %.0f %% off a setting\n",
      message, batch, 100 * worst
    for (ms = 20; ms <= 50; ms += 30) {
      rate = 10000 * 1000 / (ms + 2); batches = 10 * 200
      cores = (message * rate + batch * batches) / 1e6
      printf "10 learners, 10,000 actors, %d ms a step: %.0f steps/s, %.1f cores, %.0f Mbit/s\n",
        ms, rate, cores, 8 * bytes / n * rate / 1e6
    }
  }' "$work/table"
