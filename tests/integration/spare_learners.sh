#!/usr/bin/env bash
# --spare_learners: learners that are stopped or killed, the first one among them, and a run that
# goes on with those that are left, to its budget.
. "$(dirname "$(readlink -f "$0")")/lib.sh"

# Actors of a fixed pace, so that a learner can be lost before the end on any machine. One that is
# only slow has to answer within the timeout.
cartpole() { # ACTORS WORDS...
  run cartpole "${agent:-vtrace}" "$1" 4 --logdir=run --step_delay_us=1000 --metrics_secs=0.25 \
    --no_plot --learners_timeout_s=6 --evaluators=1 "${@:2}"
}
# learner_of RANK: its process; the first one starts the others.
learner_of() {
  local pid
  for pid in $(pids learner); do
    tr '\0' '\n' <"/proc/$pid/cmdline" | grep -qx -- "--learner_rank=${1/#0/1}" || continue
    [ "$1" = 0 ] || { echo "$pid" && continue; }
    sed -n 's/^PPid:[[:blank:]]*//p' "/proc/$pid/status"
  done
}
# trains_in START STEPS: that start of the run, from 0, has made so many, of its own.
trains_in() {
  local begun
  begun=$(json run/run.json "starts.$1.step") && [ -n "$begun" ] &&
    metric_passes step $((begun + $2))
}
# loses SIGNAL RANK START LINE: that learner in that start of the run; it is gone, and the log has
# the line.
loses() {
  local lost
  pass_if "start $3: it trains" wait_for 60 trains_in "$3" 5000
  lost=$(learner_of "$2")
  kill "-$1" "$lost"
  pass_if "start $3, SIG$1 for learner $2: $4" wait_for 60 says "$4"
  pass_if "its process is gone" wait_for 10 has_gone "$lost"
}
# Steps of the metrics never fall: all starts go on in one file, from the checkpoint of the end.
steps_rise() {
  python3 -c 'import json
steps = [json.loads(line)["step"] for line in open("run/metrics.jsonl")]
assert len(steps) > 4 and steps == sorted(steps), steps'
}
started_with() { [[ $(json run/run.json "starts.$1.learner") == *"--learners=$2'"* ]]; }
ends_right() { # STEPS
  [ "$code" = 0 ] && [ "$(value reason)" = total_steps ] && [ "$(value steps)" -ge "$1" ] &&
    [ "$(value steps)" -lt $(($1 * 5 / 4)) ] && [ "$(json run/result.json exit_code)" = 0 ]
}

# ---- one is stopped in the middle

cartpole 6 --learners=3 --spare_learners=1 --total_steps=40k --batch_size=32
loses STOP 1 0 "learner 1 of 3 did not answer within 6 s: the run goes on with 2, and 6 actors"
ended 120
pass_if "the run ends with its budget" ends_right 40000
pass_if "the second start has two learners" started_with 1 2
pass_if "it resumes the last checkpoint" says "resuming from the checkpoint of update"
pass_if "the metrics go on in the same file" steps_rise
pass_if "its actors are those of before" is "$(json run/run.json starts.1.actors)" 6
actors_are_quiet() { ! grep -qE 'actor [0-9]+ .*starting it again' err; }
pass_if "no actor is reported" actors_are_quiet
pass_if "batches that cannot be spread are told" says "spread evenly over --learners=3: it has 30"
pass_if "no process is left" no_process
pass_if "no socket is left" no_socket
rm -rf run

# ---- two are killed one after the other, the second time the first one

# The minibatches divide the windows of four learners, not those of three.
agent=ppo cartpole 4 --learners=4 --spare_learners=2 --total_steps=40k --batch_size=24 \
  --minibatches=6
loses KILL 3 0 "learner 3 of 4 has ended: the run goes on with 3, and 3 actors"
with_three() { is "$(json run/run.json starts.1.actors)" 3; }
pass_if "fewer actors are recorded" wait_for 30 with_three
loses KILL 0 1 "learner 0 of 3 has ended: the run goes on with 2, and 4 actors"
ended 120
pass_if "the run ends with its budget" ends_right 40000
pass_if "the third start has two learners" started_with 2 2
pass_if "fewer minibatches are taken" \
  says "--minibatches=6 does not divide the 8 windows of each learner: taking 4"
pass_if "the metrics go on in the same file" steps_rise
pass_if "no process is left" no_process
rm -rf run

# ---- more than may be; the first one is stopped

cartpole 6 --learners=3 --spare_learners=1 --total_steps=1e9 --batch_size=30
loses STOP 0 0 "learner 0 of 3 did not answer within 6 s: the run goes on with 2, and 6 actors"
pass_if "learner 1 has written the checkpoint" wait_for 30 says "resuming from the checkpoint of"
loses KILL 1 1 "learner 1 of 2 has ended, and no spare one is left: the run ends"
ended
pass_if "the run fails" is "$code $(json run/result.json reason)" "1 error"
pass_if "with the reason" is "$(json run/result.json error)" \
  "learner 1 of 2 has ended, and the run with it; its log has the reason"
pass_if "no process is left" no_process

# ---- what a signal stops does not go on

cartpole 6 --learners=2 --spare_learners=1 --total_steps=1e9 --resume
pass_if "it resumes by hand" wait_for 60 trains_in 2 2000
kill -TERM "$run"
ended
pass_if "SIGTERM stops it" is "$code $(value reason)" "0 signal"
goes_on() { says "goes on with"; }
pass_if "and nothing goes on" is "$(goes_on && echo yes)" ""

# ---- without spare ones, a stopped first learner ends the run, too

cartpole 6 --learners=2 --total_steps=1e9 --resume
pass_if "it trains" wait_for 60 trains_in 3 2000
kill -STOP "$(learner_of 0)"
ended 60
# The reason is "killed" where the first one had a checkpoint of as many updates.
pass_if "it fails" is "$code $(json run/result.json exit_code)" "1 1"
pass_if "no process is left" no_process

# ---- a signal before the others have ended

# stop_again PROCESS: the kernel lets it go on once, at the end of the one that has started it.
stop_again() {
  local tick
  for ((tick = 0; tick < 50; tick++)); do kill -STOP "$1" && sleep 0.01; done
}
rm -rf run
cartpole 6 --learners=2 --spare_learners=1 --total_steps=1e9
pass_if "it trains" wait_for 60 trains_in 0 5000
other=$(learner_of 1)
kill -KILL "$(learner_of 0)"
stop_again "$other"
kill -INT "$run"
pass_if "the signal is told" wait_for 10 says "Interrupt: stopping; once more ends at once"
kill -CONT "$other"
ended
pass_if "so is that the run ends by it" \
  says "learner 0 of 2 has ended, and a signal has stopped the others: the run ends"
pass_if "by its exit code" is "$code" 130
pass_if "no process is left" no_process

# ---- the first one is killed, without a spare one

rm -rf run
cartpole 6 --learners=2 --total_steps=1e9 --checkpoint_secs=600
pass_if "it trains" wait_for 60 trains_in 0 8000
kill -KILL "$(learner_of 0)"
ended 60
pass_if "its signal is the exit code" is "$code" 137
pass_if "learner 1 leaves the result" is \
  "$(json run/result.json reason) $(json run/result.json exit_code) $(json run/result.json error)" \
  "error 1 learner 0 of 2 has ended, and the run with it; its log has the reason"

# ---- in a cluster

start=$tree/deploy/run_task.sh
ACORN_TASK=learner ACORN_LEARNER=127.0.0.1:$(free_port) refused cartpole vtrace --spare_learners=1
pass_if "a task of a cluster has none" says "here the platform starts tasks again"
pass_if "it is refused" is "$code" 2
finish
