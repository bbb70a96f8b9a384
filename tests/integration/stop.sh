#!/usr/bin/env bash
# Stops runs at random moments, from the first millisecond on: each ends by itself with a code that
# fits, and leaves no process and no private folder; the slowest is printed. STOPS (default 10) says
# how often; SEED repeats a sequence.
. "$(dirname "$(readlink -f "$0")")/lib.sh"
start=$tree/run_local.sh
RANDOM=${SEED:-$$}
slowest=0

# A run that was stopped before its learner was up says nothing; any other says why it ended.
good_end() {
  local expected=0
  [ "$1" = INT ] && expected=130
  if [ -s "$work/out" ]; then
    is "$code" "$expected" && is "$(value reason)" signal
  else
    [[ "$code" =~ ^(0|129|130|143)$ ]]
  fi
}

# First it is a copy of this shell, with which a signal is lost; until env runs, SIGINT is ignored,
# as bash starts what is in the background.
heeds_signals() {
  grep -qsE 'run_local\.sh|build/launch' "/proc/$run/cmdline" &&
    ! grep -qs '^SigIgn:.*[2367abef]$' "/proc/$run/status"
}

one_stop() {
  local signal=$1 milliseconds=$2 begin
  run cartpole vtrace 2 4 --total_steps=1e9 --logdir="$work/run"
  sleep "$(printf '%d.%03d' $((milliseconds / 1000)) $((milliseconds % 1000)))"
  wait_for 5 heeds_signals
  begin=$(date +%s%N)
  kill "-$signal" "$run" 2>/dev/null
  ended 10
  took=$((($(date +%s%N) - begin) / 1000000))
  [ $took -gt $slowest ] && slowest=$took
  left=$(what_is_left)
  good_end "$signal" && [ -z "$left" ]
}

what_is_left() {
  local pid
  for pid in $(pids learner actor launch make cc1); do
    echo "$(cat "/proc/$pid/comm" 2>/dev/null || echo "ended since") $pid"
  done
  compgen -G "$work/acorn-*"
}

bad=0
for ((i = 0; i < ${STOPS:-10}; i++)); do
  signals=(TERM INT TERM INT HUP)
  signal=${signals[RANDOM % 5]} after=$((RANDOM % 2000))
  if ! one_stop "$signal" $after; then
    echo "  stop $i: SIG$signal after $after ms, ended with $code after $took ms, left:" \
      "${left//$'\n'/, }"
    show_run
    bad=$((bad + 1))
    end_all
  fi
  rm -rf "$work/run" "$work"/acorn-*
done
echo "slowest stop: $slowest ms"
pass_if "${STOPS:-10} stops at random moments, each ends without an orphan" is $bad 0

# A signal that comes while the learner still writes its run folder waits until it has.
gcc -std=gnu11 -D_GNU_SOURCE -O2 -Wall -Wextra -shared -fPIC -o stop_at_call.so \
  "$tree/tests/integration/stop_at_call.c" || exit 1
stopped_at_listen() {
  rm -rf early
  STOP_AT=listen LD_PRELOAD=$work/stop_at_call.so learner --env=cartpole --logdir=early "$@"
  ended 20
  is "$code" 0
}
has_result() { is "$(json early/result.json reason)" signal && test -s early/run.json; }
pass_if "SIGTERM as the learner begins to listen stops it in order" stopped_at_listen
pass_if "with a result" has_result
pass_if "and so without training" stopped_at_listen --agent=random
pass_if "which has one, too" has_result
# The folder is not yet known to the launcher, and has nothing in it by which a later run knows it.
rm -rf "$work"/acorn-*
STOP_AT=mkdtemp LD_PRELOAD=$work/stop_at_call.so run cartpole vtrace 1 4 --total_steps=1e9
ended
pass_if "SIGTERM while the private folder is made" is "$code" 0
pass_if "leaves none" no_socket

# What comes second is sent while a process is held by SIGSTOP, so that it is there in time.
hold() { kill -STOP "$1" 2>/dev/null; }
go_on() { kill -CONT "$1" 2>/dev/null; }
milliseconds() { echo $(($(date +%s%N) / 1000000)); }

# A run whose learner is held has been told to stop by SIG$1, and then, $3 seconds later, SIG$2;
# $took: between them.
stopped_twice() {
  local begin learner
  rm -rf "$work/run"
  run cartpole vtrace 2 4 --total_steps=1e9 --logdir="$work/run"
  wait_for 20 test -s run/metrics.jsonl
  learner=$(pids learner)
  hold "$learner"
  begin=$(milliseconds)
  kill "-$1" "$run"
  wait_for 5 says "once more ends at once"
  sleep "$3"
  kill "-$2" "$run"
  took=$(($(milliseconds) - begin))
}

# A second SIGINT does not wait: not even for a learner that cannot stop.
stopped_twice INT INT 0.15 # at once it would be the same key
ended 5
pass_if "a second SIGINT ends the run at once, with 130" is "$code" 130
pass_if "and leaves no process" no_process

# Two SIGTERM within a second are one wish. A machine that takes longer is asked again.
for ((try = 0; try < 20; try++)); do
  stopped_twice TERM TERM 0
  sleep 0.1 # were it killed, this would be enough
  go_on "$(pids learner)"
  ended 10
  [ $took -lt 900 ] && break
done
in_order() { is "$code" 0 && is "$(value reason)" signal; }
if [ $took -lt 900 ]; then
  pass_if "a repeated SIGTERM within 1 s is one wish" in_order
else
  echo "SKIP a repeated SIGTERM within 1 s: this machine is too busy to send it within $took ms"
fi

# timeout sends its child one and its group another; SIGALRM is the end of its time.
rm -rf "$work/run"
start=timeout
run -s INT 1h "$tree/run_local.sh" cartpole vtrace 2 4 --total_steps=1e9 --logdir="$work/run"
start=$tree/run_local.sh
wait_for 20 test -s run/metrics.jsonl
kill -ALRM "$run"
ended 10
pass_if "timeout -s INT ends a run" is "$code" 124
pass_if "in order" is "$(value reason)" signal

# A learner that was told to stop by SIG$1 is held while it writes its last checkpoint, which is
# large; then SIG$2 comes. False if the checkpoint was there before.
stopped_while_writing() {
  local begin tick written=run-$1-$try/checkpoints/checkpoint.tmp
  learner --env=cartpole --agent=vtrace --logdir="$work/run-$1-$try" --hidden=2048,2048,2048
  wait_for 20 test -s "run-$1-$try/address"
  begin=$(milliseconds)
  kill "-$1" "$run"
  for ((tick = 0; tick < 500000; tick++)); do [ -e "$written" ] && break; done
  hold "$run"
  kill "-$2" "$run"
  took=$(($(milliseconds) - begin))
  [ -e "$written" ]
  local there=$?
  go_on "$run"
  ended 20
  return $there
}

for ((try = 0; try < 20; try++)); do stopped_while_writing INT INT && break; done
no_checkpoint() { ! ls "run-INT-$try"/checkpoints/*[0-9]* >/dev/null 2>&1; }
if [ $try -lt 20 ]; then
  pass_if "a second SIGINT while the checkpoint is written ends the learner with 130" \
    is "$code" 130
  pass_if "and leaves none that could be taken for whole" no_checkpoint
else
  echo "SKIP a second SIGINT while the checkpoint is written: it was written before, 20 times"
fi
for ((try = 0; try < 20; try++)); do
  stopped_while_writing TERM TERM && [ $took -lt 900 ] && break
done
if [ $try -lt 20 ]; then
  pass_if "a repeated SIGTERM then is one wish, and the checkpoint is written" in_order
else
  echo "SKIP a repeated SIGTERM then: this machine is too busy to send it within 1 s"
fi
rm -rf "$work"/run-*

# Not even a launcher that is killed leaves one.
run cartpole vtrace 2 4 --total_steps=1e9 --logdir="$work/run2"
wait_for 20 test -s run2/metrics.jsonl
kill -KILL "$run" 2>/dev/null
ended 5
pass_if "kill -9 of the launcher leaves no process" wait_for 10 none_left
run cartpole vtrace 1 4 --total_steps=2k --logdir="$work/run3"
ended
swept() { is "$code" 0 && no_socket; }
pass_if "and the next run removes its private folder" swept
finish
