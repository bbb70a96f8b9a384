#!/usr/bin/env bash
# Actors that die: they are started again and the run goes on; one that dies again and again is
# given up; the last one that is given up ends the run.
. "$(dirname "$0")/lib.sh"

run cartpole vtrace 2 4 --total_steps=1e9 --logdir="$work/run" --metrics_secs=0.2
pass_if "a run plays" wait_for 20 test -s run/metrics.jsonl
victim=$(pids actor | head -n 1)
kill -KILL "$victim"
replaced() { num_actors 2 && ! pids actor | grep -qx "$victim"; }
pass_if "an actor that is killed is started again" wait_for 5 replaced
pass_if "the end is named" says "was killed by signal 9"
steps() { tail -n 1 run/metrics.jsonl | sed -n 's/.*"step": *\([0-9]*\).*/\1/p'; }
before=$(steps)
goes_on() { [ "$(steps)" -gt "$((before + 1000))" ]; }
pass_if "the run goes on" wait_for 10 goes_on

# A learner that dies takes the actors with it.
kill -KILL "$(pids learner)"
ended 10
killed() { is "$code" 137 && says "the learner was killed by signal 9"; }
pass_if "a learner that is killed ends the run with its signal" killed
pass_if "and its actors" no_process

# One actor of two dies all the time.
run cartpole vtrace 2 4 --total_steps=1e9 --logdir="$work/loop"
wait_for 20 num_actors 2
for _ in 1 2 3 4 5 6 7 8; do
  for pid in $(pids actor); do
    grep -qsa -- '--task=0' "/proc/$pid/cmdline" && kill -KILL "$pid" 2>/dev/null
  done
  says "not starting it again" && break
  sleep 0.4
done
pass_if "five deaths end an actor for good" says "5 deaths within 60 s: not starting it again"
pass_if "the other one goes on" num_actors 1
for _ in 1 2 3 4 5 6 7 8; do
  for pid in $(pids actor); do kill -KILL "$pid" 2>/dev/null; done
  says "no actor is left" && break
  sleep 0.4
done
ended 10
none() { [ "$code" -ne 0 ] && [ "$code" -ne 124 ] && says "no actor is left"; }
pass_if "without any actor the run ends with an error" none
pass_if "and leaves no process" no_process
finish
