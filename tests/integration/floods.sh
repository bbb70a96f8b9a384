#!/usr/bin/env bash
# Floods of a learner that trains CartPole with one good actor: Status calls without a pause,
# connections that say nothing, messages that are never finished, answers that are never read.
# Meanwhile it trains, others are served, and SIGTERM stops it in good order, with a checkpoint.
# What it keeps of a flood, and how long it takes to stop, are figures of the machine: they are
# printed. By default three of the floods; SLOW_TESTS=1 adds the others.
. "$(dirname "$(readlink -f "$0")")/lib.sh"
command -v python3 >/dev/null || { echo "SKIP floods: python3 is not here"; exit 0; }

port() { sed -n 's/.*listening on [^ ]*, port \([0-9]*\).*/\1/p' "$work/err"; }
listens() { [ -n "$(port)" ]; }
rss_kb() { sed -n 's/^VmRSS:[^0-9]*\([0-9]*\).*/\1/p' "/proc/$run/status"; }

# begin FILES: a learner that may have so many files open, and its actor, in full swing.
begin() {
  rm -rf run actor-0.log
  : >"$work/err"
  (
    ulimit -n "$1"
    exec "$tree/build/learner" --env=cartpole --num_envs=4 --listen=127.0.0.1:0 --logdir=run \
      --total_steps=1e12 --metrics_secs=0.2
  ) >"$work/out" 2>"$work/err" </dev/null &
  run=$!
  started+=("$run")
  wait_for 20 listens
  address=127.0.0.1:$(port)
  actor 0 --env=cartpole --envs=4 --streams=1 --reconnect_s=5
  wait_for 20 metric_passes train/updates 50
}

# flood NUMBER KIND...: in the background, and at its height.
flood() {
  local number=$1
  shift
  python3 "$tree/tests/hostile/flood.py" "$address" "$@" >"flood-$number" 2>&1 </dev/null &
  floods+=($!)
  started+=($!)
  wait_for 30 grep -qs '^ready' "flood-$number"
}
floods=()

trains_on() {
  local before
  before=$(whole_metric train/updates)
  wait_for 10 metric_passes train/updates $((before + 20))
}

stops() {
  local begin=$SECONDS
  kill -TERM "$run"
  ended 15
  echo "  stopped after $((SECONDS - begin)) s"
  is "$code" 0 && is "$(value reason)" signal
}
whole_checkpoint() { "$tree/build/checkpoint" run >checkpoint 2>&1; }

# over NAME: the end of a learner that is being flooded.
over() {
  pass_if "$1: training goes on" trains_on
  pass_if "$1: the good actor has not noticed" actor_is_fine
  pass_if "$1: SIGTERM stops the learner in good order" stops
  pass_if "$1: with a checkpoint that can be read" whole_checkpoint
  kill "${floods[@]}" 2>/dev/null
  end_by_hand
  floods=()
}
actor_is_fine() { kill -0 "$actor" && [ "$(wc -l <actor-0.log)" -le 1 ]; }

begin 1024
for number in 1 2 3; do flood $number status; done
answered() { [ "$(cat flood-? | grep -c '^ready 3000')" -eq 3 ]; }
pass_if "three clients that ask without a pause have had 3,000 answers each" answered
over "a flood of Status calls"

# The learner's files run out, but for the reserve that a checkpoint is written with.
begin 256
flood 1 connections 600
pass_if "600 connections that say nothing: the learner says that it is full" \
  wait_for 10 says "no room for more connections"
over "a flood of connections"

begin 1024
before_kb=$(rss_kb)
flood 1 unfinished 700
sleep 1 # they are read
grown_kb=$(($(rss_kb) - before_kb))
echo "  670 MB of unfinished messages: the learner has grown by $((grown_kb >> 10)) MB"
pass_if "connections that go too far are closed, with a word" \
  wait_for 10 says "messages that do not end"
over "a flood of unfinished messages"

[ -n "${SLOW_TESTS:-}" ] || finish

# Empty calls between the pieces of one message: none of them makes room for more of it.
begin 1024
before_kb=$(rss_kb)
flood 1 interleaved
pass_if "a message that never ends, with calls between its pieces: cut off" \
  wait_for 10 grep -qs '^ended' flood-1
grown_kb=$(($(rss_kb) - before_kb))
echo "  $(tail -n 1 flood-1): the learner has grown by $((grown_kb >> 10)) MB"
pass_if "with a word" wait_for 10 says "messages that do not end"
over "a message with calls between its pieces"

answers_others() {
  timeout $((10 * patience)) "$tree/build/status" "$address" | grep -q 'cartpole vtrace'
}
joins() {
  actor 1 --env=cartpole --envs=1 --streams=1 --reconnect_s=5
  wait_for 20 metric_passes serve/environments 4
}

# As many as a connection may have: ended after 30 s.
begin 1024
before_kb=$(rss_kb)
begin_s=$SECONDS
flood 1 unread 1 60
pass_if "60 unread answers: others are answered" answers_others
pass_if "they are ended after 30 s" wait_for 60 grep -qs '^ended 60 calls, 0 connections' flood-1
held_s=$((SECONDS - begin_s))
echo "  they were held for $held_s s"
pass_if "and not before" [ $held_s -ge 28 ]
over "unread answers"

# As many as it likes, from a peer that heeds no limit: the connection is closed at once.
begin 1024
before_kb=$(rss_kb)
flood 1 unread 1 5000
pass_if "5,000 unread answers on a connection: it is closed" \
  wait_for 10 grep -qs '^ended 0 calls, 1 connections' flood-1
pass_if "with a word" wait_for 10 says "calls at a time"
grown_kb=$(($(rss_kb) - before_kb))
echo "  the learner has grown by $((grown_kb >> 10)) MB"
over "5,000 unread answers"

# From 40 connections, which open as many again as were ended.
begin 1024
before_kb=$(rss_kb)
for number in 1 2; do flood $number unread 20 64 again; done
pass_if "unread answers on 40 connections, again and again: others are answered" answers_others
pass_if "a new actor joins" joins
sleep 5
pass_if "after 5 s others are answered" answers_others
says_so() { says "while calls are scarce" || says "faster than they can be taken"; }
pass_if "connections that hold many calls are closed, with a word" \
  wait_for 10 says_so
grown_kb=$(($(rss_kb) - before_kb))
echo "  the learner has grown by $((grown_kb >> 10)) MB"
over "unread answers on 40 connections"

# Before gRPC makes a call of each: it would keep all of them, some GB.
begin 1024
before_kb=$(rss_kb)
flood 1 burst 20 100000
pass_if "100,000 calls in one write, 20 times: each connection is closed" \
  grep -qs '^ended 20 connections' flood-1
pass_if "with a word" wait_for 10 says "calls at a time"
grown_kb=$(($(rss_kb) - before_kb))
echo "  the learner has grown by $((grown_kb >> 10)) MB"
over "bursts of calls"

# Fewer on each connection than are worth a closing, and more in all than there is room for.
begin 1024
before_kb=$(rss_kb)
flood 1 silent 200 8
pass_if "1,600 Plays that say nothing, again and again: others are answered" answers_others
pass_if "a new actor joins" joins
sleep 3
grown_kb=$(($(rss_kb) - before_kb))
echo "  the learner has grown by $((grown_kb >> 10)) MB"
over "Plays that say nothing"

begin 1024
flood 1 trickle 75
pass_if "75 KB a second of messages that never end: cut off" \
  wait_for 60 says "messages that do not end"
over "a trickle of unfinished messages"
finish
