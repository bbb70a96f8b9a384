#!/usr/bin/env bash
# Actors that die: they are started again and the run goes on; one that dies again and again is
# started again after longer and longer pauses; one that never steps is given up, and the last one
# that is given up ends the run.
. "$(dirname "$(readlink -f "$0")")/lib.sh"

# What waits for actors needs few steps, and leaves the processors to the tests beside it.
slow=--step_delay_us=300
run cartpole vtrace 2 4 --total_steps=1e9 "$slow" --logdir="$work/run" --metrics_secs=0.2
pass_if "a run plays" wait_for 20 metric_passes step 0
victim=$(pids actor | head -n 1)
kill -KILL "$victim"
replaced() { num_actors 2 && ! pids actor | grep -qx "$victim"; }
pass_if "an actor that is killed is started again" wait_for 20 replaced
pass_if "the end is named" says "was killed by signal 9"
before=$(whole_metric step)
goes_on() { metric_passes step $((before + 1000)); }
pass_if "the run goes on" wait_for 10 goes_on

# `kill PID` is no end of the run either: the actor ends in good order, and is missed.
stopped_ones_are_back() {
  local pid
  for pid in $victims; do has_gone "$pid" || return; done
  num_actors 2
}
victims=$(pids actor | head -n 1)
kill -TERM $victims
pass_if "an actor that is stopped is started again" wait_for 20 stopped_ones_are_back
pass_if "and who did so is named" says "was stopped by SIGTERM; starting it again"
victims=$(pids actor)
kill -TERM $victims
pass_if "so are all of them at once" wait_for 20 stopped_ones_are_back
before=$(whole_metric step)
pass_if "and the run goes on" wait_for 10 goes_on

# A learner that dies takes the actors with it.
kill -KILL "$(pids learner)"
ended 10
killed() { is "$code" 137 && says "the learner was killed by signal 9"; }
pass_if "a learner that is killed ends the run with its signal" killed
pass_if "and its actors" no_process

# What ends the run itself ends stopped actors quietly.
run cartpole vtrace 2 4 --total_steps=1e9 "$slow" --logdir="$work/quiet"
wait_for 20 test -s quiet/metrics.jsonl
kill -INT "$run"
ended 10
quiet() { is "$code" 130 && is "$(value reason)" signal && ! says "starting it again"; }
pass_if "a run that is stopped misses nobody" quiet
# Long enough to be still there when its actors are stopped, on a busy machine too.
run cartpole vtrace 2 4 --total_steps=20k "$slow" --logdir="$work/usual"
wait_for 20 metric_passes step 0 usual # an actor that has stepped handles signals
kill -TERM $(pids actor)
ended 60
usual() { is "$code" 0 && is "$(value reason)" total_steps && says "was stopped by SIGTERM"; }
pass_if "a run whose actors were stopped ends as usual" usual

# One actor of two dies all the time.
run cartpole vtrace 2 4 --total_steps=1e9 "$slow" --logdir="$work/run" --resume \
  --metrics_secs=0.2
wait_for 20 num_actors 2
first_actor() {
  local pid
  for pid in $(pids actor); do
    grep -qsa -- '--task=0' "/proc/$pid/cmdline" && echo "$pid"
  done
}
kill_first() {
  local pid
  for pid in $(first_actor); do kill -KILL "$pid" 2>/dev/null; done
  says "starting it again in 4 s"
}
both_are_in() { goes_on && is "$(whole_metric serve/environments)" 8; }
wait_for 20 both_are_in
before=$(whole_metric step)
wait_for 20 goes_on # both have stepped
wait_for 20 kill_first
pauses() { sed -n 's/.*starting it again in \([0-9.]*\) s$/\1/p' "$work/err" | tr '\n' ' '; }
pass_if "an actor that dies again and again is started again after 1, 2 and 4 s" \
  is "$(pauses)" "1 2 4 "
before=$(whole_metric step)
pass_if "the other one goes on" wait_for 10 goes_on
kill -KILL $(pids actor)
pass_if "without any actor the run waits" \
  wait_for 5 says "actor 1 was killed by signal 9 (Killed); starting it again in 1 s"
pass_if "until they are back" wait_for 20 num_actors 2
before=$(whole_metric step)
pass_if "and goes on" wait_for 20 goes_on
kill -INT "$run"
ended 10
pass_if "and ends well" is "$code" 130

# Actors that never get as far as a step: the launcher takes the programs beside it.
mkdir bin
cp "$tree/build/launch" bin/launch
ln -s "$tree/build/learner" bin/learner
printf '#!/bin/sh\necho no engine; exit 1\n' >bin/actor
chmod +x bin/actor
bin/launch cartpole vtrace 2 4 --logdir="$work/never" >out 2>err </dev/null &
run=$!
ended 20
none() { is "$code" 1 && says "no actor is left" && says "no engine"; }
pass_if "five deaths end one that never steps" says "5 deaths within 60 s: not starting it again"
pass_if "without any actor the run ends with an error" none
pass_if "and leaves no process" no_process
finish
