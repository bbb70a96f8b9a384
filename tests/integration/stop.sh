#!/usr/bin/env bash
# Stops runs at random moments, from the first millisecond on: each ends within 10 s with a code
# that fits, and leaves no process and no socket. STOPS (default 10) says how often; SEED repeats a
# sequence.
. "$(dirname "$0")/lib.sh"
RANDOM=${SEED:-$$}
slowest=0

# A run that was stopped before its learner was up says nothing; any other says why it ended.
good_end() {
  if [ -s "$work/out" ]; then
    is "$code" 0 && is "$(value reason)" signal
  else
    [[ "$code" =~ ^(0|129|130|143)$ ]]
  fi
}

one_stop() {
  local signal=$1 milliseconds=$2 begin
  run cartpole vtrace 2 4 --total_steps=1e9 --logdir="$work/run"
  sleep "$(printf '%d.%03d' $((milliseconds / 1000)) $((milliseconds % 1000)))"
  begin=$(date +%s%N)
  kill "-$signal" "$run" 2>/dev/null
  ended 10
  took=$((($(date +%s%N) - begin) / 1000000))
  [ $took -gt $slowest ] && slowest=$took
  good_end && none_left && no_socket
}

bad=0
for ((i = 0; i < ${STOPS:-10}; i++)); do
  signals=(TERM INT TERM INT HUP)
  signal=${signals[RANDOM % 5]} after=$((RANDOM % 2000))
  if ! one_stop "$signal" $after; then
    echo "  stop $i: SIG$signal after $after ms, ended with $code after $took ms," \
      "learners: $(pids learner | tr '\n' ' '), actors: $(pids actor | tr '\n' ' ')"
    show_run
    bad=$((bad + 1))
    end_all
  fi
  rm -rf "$work/run" "$work"/acorn-*
done
echo "slowest stop: $slowest ms"
pass_if "${STOPS:-10} stops at random moments, each within 10 s and without an orphan" is $bad 0

# A second signal does not wait.
run cartpole vtrace 2 4 --total_steps=1e9 --logdir="$work/run"
wait_for 20 test -s run/metrics.jsonl
kill -INT "$run" 2>/dev/null
kill -INT "$run" 2>/dev/null
sleep 0.02
kill -INT "$run" 2>/dev/null
ended 5
twice() { is "$code" 130 || is "$code" 0; }
pass_if "a second signal ends the run at once" twice
pass_if "and leaves no process" no_process

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
