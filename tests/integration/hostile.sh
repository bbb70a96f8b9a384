#!/usr/bin/env bash
# Faults that come over the wire: tests/hostile/attack.py, which has the learner's token, does its
# worst to a real learner, which trains CartPole with well-behaved actors all the while. They must
# not notice. Then the same again and again. How long training stalled at most, and what the
# learner's memory gained by the second round, are printed: they are figures of the machine.
. "$(dirname "$(readlink -f "$0")")/lib.sh"
command -v python3 >/dev/null || { echo "SKIP hostile: python3 is not here"; exit 0; }

new_token "$work/token"
export ACORN_TEST_TOKEN_FILE=$work/token # tests/hostile/http2.py reads it

# The learner may have 256 files, so that a flood finds the limit; and one arena, so that the memory
# of one burst is there for the next, whatever thread it meets.
start_learner() {
  (
    ulimit -n 256
    export MALLOC_ARENA_MAX=1
    exec "$tree/build/learner" --env=cartpole --num_envs=16 --max_envs=400 --listen=127.0.0.1:0 \
      --total_steps=1e12 --metrics_secs=0.1 --logdir="$work/run" --token_file="$work/token"
  ) >"$work/out" 2>"$work/err" </dev/null &
  learner=$!
}

port() { sed -n 's/.*listening on [^ ]*, port \([0-9]*\).*/\1/p' "$work/err"; }
listens() { [ -n "$(port)" ]; }

start_actor() { # TASK FLAGS...
  "$tree/build/actor" --learner="127.0.0.1:$(port)" --env=cartpole --envs=4 --streams=1 \
    --task="$1" --name=good --reconnect_s=5 --token_file="$work/token" "${@:2}" \
    >"$work/actor-$1" 2>&1 </dev/null &
}

# figure NAME: its newest value.
figure() {
  tail -n 1 "$work/run/metrics.jsonl" | tr ',{}' '\n' | sed -n "s|^ *\"$1\": *||p"
}
trains() { [ "$(figure train/updates | cut -d. -f1)" -gt 20 ] 2>/dev/null; }
rss_kb() { sed -n 's/^VmRSS:[^0-9]*\([0-9]*\).*/\1/p' "/proc/$learner/status"; }
alive() { kill -0 "$@" 2>/dev/null; }

# The longest time between two lines of metrics with more steps, in ms. A line comes every 100 ms.
longest_stall_ms() {
  tr ',{}' '\n' <"$work/run/metrics.jsonl" | awk -F': *' '
    $1 ~ /^ *"step"$/ {step = $2}
    $1 ~ /^ *"seconds"$/ {
      if (step > last) {
        if (last && $2 - at > worst) worst = $2 - at
        last = step
        at = $2
      }
    }
    END {print int(worst * 1000)}'
}
attack() { python3 "$tree/tests/hostile/attack.py" "127.0.0.1:$(port)" "$@"; }

start_learner
wait_for 20 listens
actors=()
for task in 0 1; do
  start_actor $task
  actors+=($!)
done
pass_if "the learner trains" wait_for 20 trains
alive "$learner" || finish

sleep 1
calm_ms=$(longest_stall_ms)
attack || failures=$((failures + 1))
# again: what may leave something behind; thrice where there is time.
again() {
  local times=${SLOW_TESTS:+3}
  for _ in $(seq "${times:-1}"); do
    attack grpc_frames plays lengths numbers resets || failures=$((failures + 1))
  done
  sleep 0.5
}
again >"$work/more"
for _ in 1 2 3 4; do attack resets >>"$work/more"; done # the largest burst
first_kb=$(rss_kb)
again >>"$work/more"
second_kb=$(rss_kb)
grep '^FAIL' "$work/more"

stall_ms=$(longest_stall_ms)
echo "longest stall $stall_ms ms ($calm_ms before), learner $first_kb KB after some attacks," \
  "$second_kb after more"
before=$(figure train/updates)
updates() { [ "$(figure train/updates | cut -d. -f1)" -gt "${before%.*}" ]; }
pass_if "training goes on" wait_for 10 updates
undisturbed() { alive "$learner" "${actors[@]}" && [ "$(cat "$work"/actor-? | wc -l)" -eq 2 ]; }
pass_if "the good actors have not noticed" undisturbed

if [ -n "${SLOW_TESTS:-}" ]; then
  flat() { [ "$second_kb" -le $((first_kb + 65536)) ]; }
  pass_if "what three rounds more leave behind is no burst of each" flat
fi

counted() {
  local name
  for name in joins plays messages not_finite; do
    [ "$(figure refused/$name | cut -d. -f1)" -ge 5 ] || return
  done
}
pass_if "refusals are counted" counted
pass_if "NaN is named in the log, with its player" grep -q \
  'a message of hostile/[0-9]*/0 was refused: environment 1: its reward is -*nan' "$work/err"
finite() {
  ! tail -n 1 "$work/run/metrics.jsonl" | grep -qE '"(loss/total|train/value|grad/norm)": *null'
}
pass_if "and never learned from: losses and values are numbers" finite
short_log() { [ "$(wc -l <"$work/err")" -lt 2000 ]; }
pass_if "the log stays short" short_log
attack room || failures=$((failures + 1))
# Once the leases of those that never played have ended.
start_actor 2 --reconnect_s=300
actors+=($!)
joins() { grep -q ',good/2/0,' "$work/run/episodes.csv"; }
pass_if "a new actor may join" wait_for 40 joins
kill -TERM "$learner"
wait "$learner"
pass_if "the learner ends in good order" is $? 0
kill "${actors[@]}" 2>/dev/null
finish
