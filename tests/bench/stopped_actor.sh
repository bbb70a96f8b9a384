#!/usr/bin/env bash
# One of four actors stopped (SIGSTOP), environments that take 2 ms a step: the other three's rate,
# their p99 wait for an action, and the learner's CPU per step, against the time before.
# Usage: tests/bench/stopped_actor.sh [SECONDS]
set -u
. "$(dirname "$0")/lib.sh"
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
kill -TERM $learner
wait $learner 2>/dev/null
kill "${actors[@]}" 2>/dev/null
wait 2>/dev/null

# Before, the fourth actor's steps are the learner's work too: its steps are four thirds of theirs.
steps_before=$(value steps <<<"$before") steps_during=$(value steps <<<"$during")
all_before=$(awk -v s="$steps_before" 'BEGIN {print s * 4 / 3}')
cpu_before=$(ratio "$(value cpu <<<"$before")e6" "$all_before")
cpu_during=$(ratio "$(value cpu <<<"$during")e6" "$steps_during")
echo "before: $before learner_us_per_step=$cpu_before"
echo "during: $during learner_us_per_step=$cpu_during"
echo "machine: $(machine)"
p99=$(ratio "$(value p99_us <<<"$during")" "$(value p99_us <<<"$before")")
status=0
row "one of four stopped: rate of the other three" "$(ratio "$steps_during" "$steps_before")" \
  ">= 0.95" || status=1
row "one of four stopped: their p99 wait for an action" "$p99" "<= 2" || status=1
row "one of four stopped: learner CPU per step" "$(ratio "$cpu_during" "$cpu_before")" \
  "<= 1.1" || status=1
exit $status
