#!/usr/bin/env bash
# Joins at the learner's start: actors that are there before it, just after it, and when it comes
# back after kill -9, over a socket and over TCP, two streams each. All join at the first try; how
# long it took by the learner's own clock is printed. JOINS (default 2) says how many rounds of
# each.
. "$(dirname "$(readlink -f "$0")")/lib.sh"
. "$tree/scripts/lib.sh"
build all || exit 1
RANDOM=${SEED:-$$}
slowest=0

a_learner() {
  rm -rf run
  learner --env=cartpole --num_envs=16 --logdir=run --total_steps=1e12 --log_level=debug
}
four_actors() {
  local task
  for task in 0 1 2 3; do actor $task --env=cartpole --envs=4 --streams=2; done
}
a_moment() { sleep "0.$((RANDOM % 4))$((RANDOM % 10))"; }
all_play() { [ "$(grep -c ' plays environments ' err)" -ge 8 ]; }

# Whether all have joined, before a lost Join would have been tried again; for how long they took.
all_joined() {
  wait_for 60 all_play || return
  local took
  took=$(awk '/ listening on / {begin = $1} / plays environments / {end = $1}
    END {printf "%d", 1000 * (end - begin)}' err)
  [ "$took" -gt $slowest ] && slowest=$took
  [ "$took" -lt 30000 ]
}

before_the_learner() { four_actors && a_moment && a_learner; }
after_the_learner() { a_learner && a_moment && four_actors; }
# The port is the system's to choose; the run folder knows it.
over_tcp() {
  address=127.0.0.1:0
  a_learner
  wait_for 20 test -s run/address && address=$(cat run/address)
  four_actors
}
again() {
  killed "$run"
  a_moment
  a_learner
}

# round HOW...: starts them, looks, and starts the learner again under the same actors.
round() {
  "$1" && all_joined && again && all_joined
  local result=$?
  end_by_hand
  return $result
}
rounds() {
  local i
  for ((i = 0; i < ${JOINS:-2}; i++)); do round "$1" || return; done
}
pass_if "actors that are there before the learner join it" rounds before_the_learner
pass_if "and those that come after it" rounds after_the_learner
pass_if "and those that come over TCP" rounds over_tcp
echo "slowest: $slowest ms"
finish
