#!/usr/bin/env bash
# One of four actors stopped (SIGSTOP), environments that take 2 ms a step: the other three's rate,
# their p99 wait for an action, and the learner's CPU per step, against the mean of the time before
# and the time after, so that a machine that becomes slower or faster does not count.
# Usage: tests/bench/stopped_actor.sh [SECONDS]
set -u
. "$(dirname "$(readlink -f "$0")")/lib.sh"
need
seconds=${1:-30}
build/learner --env=cartpole --agent=vtrace --num_envs=16 --listen="unix:$work/socket" \
  --logdir="$work/run" --total_steps=1e12 >"$work/out" 2>"$work/err" &
learner=$!
actors=()
for i in 0 1 2 3; do
  build/actor --learner="unix:$work/socket" --env=cartpole --envs=4 --task=$i \
    --step_delay_us=2000 --measure >"$work/actor-$i" 2>&1 &
  actors+=($!)
done
sleep 5

# phase NAME: runs for $seconds; prints the steps and the worst p99 of actors 0..2, and the
# learner's CPU.
phase() {
  local before after
  for i in 0 1 2; do kill -USR1 "${actors[$i]}"; done
  sleep 0.3
  before=$(cpu_seconds $learner)
  sleep "$seconds"
  after=$(cpu_seconds $learner)
  for i in 0 1 2; do kill -USR1 "${actors[$i]}"; done
  sleep 0.5
  for i in 0 1 2; do grep '^actor ' "$work/actor-$i" | tail -n 1; done >"$work/$1"
  awk -v cpu="$(awk -v a="$before" -v b="$after" 'BEGIN {print b - a}')" '{
    for (i = 1; i <= NF; i++) {
      split($i, word, "=")
      if (word[1] == "steps") steps += word[2]
      if (word[1] == "wait_p99_us" && word[2] > p99) p99 = word[2]
    }} END {printf "steps=%d p99_us=%.0f cpu=%.3f\n", steps, p99, cpu}' "$work/$1"
}

before=$(phase before)
kill -STOP "${actors[3]}"
sleep 2
during=$(phase during)
kill -CONT "${actors[3]}"
sleep 2
after=$(phase after)
kill -TERM $learner
wait $learner 2>/dev/null
kill "${actors[@]}" 2>/dev/null
wait 2>/dev/null

# learner_us_per_step PHASE NUM_ACTORS: of the learner's CPU, per step of all actors that run.
learner_us_per_step() {
  awk -v cpu="$(value cpu <<<"$1")" -v steps="$(value steps <<<"$1")" -v actors="$2" \
    'BEGIN {printf "%.3f", cpu * 1e6 / (steps * actors / 3)}'
}

# over_mean DURING BEFORE AFTER
over_mean() {
  awk -v d="$1" -v b="$2" -v a="$3" 'BEGIN {printf "%.3f", d / ((a + b) / 2)}'
}

# against NAME: the ratio of a figure that the phases print.
against() {
  over_mean "$(value "$1" <<<"$during")" "$(value "$1" <<<"$before")" "$(value "$1" <<<"$after")"
}

cpu_before=$(learner_us_per_step "$before" 4)
cpu_during=$(learner_us_per_step "$during" 3)
cpu_after=$(learner_us_per_step "$after" 4)
echo "before: $before learner_us_per_step=$cpu_before"
echo "during: $during learner_us_per_step=$cpu_during"
echo "after: $after learner_us_per_step=$cpu_after"
echo "machine: $(machine)"
status=0
row "one of four stopped: rate of the other three" "$(against steps)" ">= 0.95" || status=1
row "one of four stopped: their p99 wait for an action" "$(against p99_us)" "<= 2" || status=1
row "one of four stopped: learner CPU per step" "$(over_mean "$cpu_during" "$cpu_before" \
  "$cpu_after")" "<= 1.1" || status=1
exit $status
