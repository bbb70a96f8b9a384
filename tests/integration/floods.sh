#!/usr/bin/env bash
# Floods, by clients that have the token, of a learner that trains CartPole with one good actor:
# Status calls without a pause, connections that say nothing, messages that are never finished,
# answers that are never read, calls that are left open. Meanwhile it trains, others are served, and
# SIGTERM stops it in good order, with a checkpoint. What a flood takes of its memory, and how long
# it takes to stop, depends on the machine: it is printed. By default three of the floods;
# SLOW_TESTS=1 adds those that take 30 s.
. "$(dirname "$(readlink -f "$0")")/lib.sh"
command -v python3 >/dev/null || { echo "SKIP floods: python3 is not here"; exit 0; }

new_token "$work/token"
export ACORN_TEST_TOKEN_FILE=$work/token # tests/hostile/http2.py reads it

port() { sed -n 's/.*listening on [^ ]*, port \([0-9]*\).*/\1/p' "$work/err"; }
listens() { [ -n "$(port)" ]; }
rss_kb() { sed -n 's/^VmRSS:[^0-9]*\([0-9]*\).*/\1/p' "/proc/$run/status"; }

# begin FILES [CREDENTIALS]: a learner that may have so many files open, and its actor, in full
# swing; with TLS, if there is a folder of credentials.
begin() {
  local server=() client=()
  [ -z "${2:-}" ] || server=(--tls_cert="$2/learner/tls.crt" --tls_key="$2/learner/tls.key")
  [ -z "${2:-}" ] || client=(--tls_ca="$2/ca.crt")
  rm -rf run actor-0.log
  : >"$work/err"
  (
    ulimit -n "$1"
    exec "$tree/build/learner" --env=cartpole --num_envs=4 --listen=127.0.0.1:0 --logdir=run \
      --total_steps=1e12 --metrics_secs=0.2 --token_file="$work/token" "${server[@]}"
  ) >"$work/out" 2>"$work/err" </dev/null &
  run=$!
  started+=("$run")
  wait_for 20 listens
  address=127.0.0.1:$(port)
  actor 0 --env=cartpole --envs=4 --streams=1 --reconnect_s=5 --token_file="$work/token" \
    "${client[@]}"
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

# With TLS gRPC listens, and stops for good when the files run out: docs/operations.md.
if "$tree/deploy/credentials.sh" credentials localhost 2>openssl; then
  begin 256 credentials
  flood 1 connections 600
  pass_if "600 connections to a learner with TLS: it logs that no further ones are accepted" \
    wait_for 10 says "no further connections are accepted (Failed accept4: Too many open files)"
  over "a flood of connections with TLS"
else
  echo "SKIP a flood of connections with TLS: $(tail -n 1 openssl)"
fi

# What gRPC's limits do not bound: docs/operations.md has the figure.
begin 1024
before_kb=$(rss_kb)
flood 1 unfinished 700
sleep 1 # they are read
grown_kb=$(($(rss_kb) - before_kb))
echo "  670 MB of unfinished messages: the learner has grown by $((grown_kb >> 10)) MB"
over "a flood of unfinished messages"

[ -n "${SLOW_TESTS:-}" ] || finish

answers_others() {
  timeout $((10 * patience)) "$tree/build/status" "$address" --token_file="$work/token" |
    grep -q 'cartpole vtrace'
}
joins() {
  actor 1 --env=cartpole --envs=1 --streams=1 --reconnect_s=5 --token_file="$work/token"
  wait_for 20 metric_passes serve/environments 4
}

# As many as a connection may have: ended after 30 s.
begin 1024
begin_s=$SECONDS
flood 1 unread 1 60
pass_if "60 unread answers: others are answered" answers_others
pass_if "they are ended after 30 s" wait_for 60 grep -qs '^ended 60 calls, 0 connections' flood-1
held_s=$((SECONDS - begin_s))
echo "  they were held for $held_s s"
pass_if "and not before" [ $held_s -ge 28 ]
over "unread answers"

begin 1024
before_kb=$(rss_kb)
begin_s=$SECONDS
flood 1 open 20 50
pass_if "1,000 calls left open: others are answered" answers_others
pass_if "a new actor joins" joins
grown_kb=$(($(rss_kb) - before_kb))
echo "  the learner has grown by $((grown_kb >> 10)) MB"
pass_if "they are ended after 30 s" wait_for 60 grep -qs '^ended 1000 calls, 0 connections' flood-1
over "1,000 calls left open"
finish
