#!/usr/bin/env bash
# One of four actors stopped (SIGSTOP), environments that take 2 ms a step: the other three's rate, their p99 wait for an
# action, and the learner's CPU per step, against the same three while the fourth runs. Usage: stopped_actor.sh [SECONDS]
set -u
. "$(dirname "$0")/lib.sh"
seconds=${1:-30}
build/learner --env=cartpole --agent=vtrace --num_envs=16 --listen="unix:$work/socket" --logdir="$work/run" \
  --total_steps=1e12 >"$work/out" 2>"$work/err" &
learner=$!
actors=()
for i in 0 1 2 3; do
  build/actor --learner="unix:$work/socket" --env=cartpole --envs=4 --task=$i --step_delay_us=2000 --measure \
    >"$work/actor-$i" 2>&1 &
  actors+=($!)
done
sleep 5

# phase NAME: runs for $seconds, leaves steps/s and p99 of actors 0..2 and the learner's CPU.
phase() {
  for i in 0 1 2; do kill -USR1 "${actors[$i]}"; done
  sleep 0.3
  local cpu0 cpu1
  cpu0=$(cpu_seconds $learner)
  sleep "$seconds"
  cpu1=$(cpu_seconds $learner)
  for i in 0 1 2; do kill -USR1 "${actors[$i]}"; done
  sleep 0.5
  for i in 0 1 2; do grep '^actor ' "$work/actor-$i" | tail -n 1; done >"$work/$1"
  awk -v cpu="$(awk -v a="$cpu0" -v b="$cpu1" 'BEGIN {print b - a}')" \
    '{for (i = 1; i <= NF; i++) {split($i, p, "="); if (p[1] == "steps") steps += p[2]; if (p[1] == "wait_p99_us" && p[2] > p99) p99 = p[2]}}
     END {printf "steps=%d p99_us=%.0f cpu=%.3f cpu_us_per_step=%.3f\n", steps, p99, cpu, cpu * 1e6 / steps}' "$work/$1"
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

# Before, the fourth actor's steps are the learner's work too: three quarters of its CPU belong to the three.
b_steps=$(value steps <<<"$before"); d_steps=$(value steps <<<"$during")
b_cpu=$(awk -v c="$(value cpu <<<"$before")" -v s="$b_steps" 'BEGIN {print c * 1e6 / (s * 4 / 3)}')
d_cpu=$(value cpu_us_per_step <<<"$during")
echo "before: $before"
echo "during: $during"
echo "machine: $(machine)"
status=0
row "one actor stopped: rate of the other three" "$(ratio "$d_steps" "$b_steps")" ">= 0.95" || status=1
row "one actor stopped: their p99 wait" "$(ratio "$(value p99_us <<<"$during")" "$(value p99_us <<<"$before")")" "<= 2" || status=1
row "one actor stopped: learner CPU per step" "$(ratio "$d_cpu" "$b_cpu")" "<= 1.1" || status=1
exit $status
