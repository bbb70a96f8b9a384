#!/usr/bin/env bash
# A network that is cut and comes back: two hosts, made of network namespaces and a cable between
# them; the learner and an actor on one, two actors on the other. Training goes on meanwhile with
# those that are there, and afterwards with all, and nothing has been started again. Needs root.
# Cut for 4 s, so that TCP finds out by itself; with FAULTS=all also for 30 s and, longer than
# keepalive waits, for 60 s.
. "$(dirname "$(readlink -f "$0")")/lib.sh"

here=acorn-$$-here there=acorn-$$-there
hosts() {
  ip netns add "$here" && ip netns add "$there" &&
    ip link add "ac$$" netns "$here" type veth peer name "bc$$" netns "$there" &&
    ip -n "$here" addr add 10.99.0.1/24 dev "ac$$" &&
    ip -n "$there" addr add 10.99.0.2/24 dev "bc$$" &&
    ip -n "$here" link set lo up && ip -n "$here" link set "ac$$" up &&
    ip -n "$there" link set "bc$$" up
}
no_hosts() {
  ip netns del "$here"
  ip netns del "$there"
} 2>/dev/null
trap 'end_by_hand; no_hosts; rm -rf "$work"' EXIT
if ! hosts >/dev/null 2>&1; then
  echo "SKIP a network that is cut: no network namespaces can be made here (root and ip needed)"
  finish
fi

address=10.99.0.1:8686
# on HOST COMMAND...: a command of lib.sh, there.
on() {
  local host=$1
  shift
  ip netns exec "$host" "$@"
}
far_actor() {
  on "$there" "$tree/build/actor" --learner=$address --task="$1" --env=cartpole --envs=4 \
    --streams=1 >"$work/actor-$1.log" 2>&1 </dev/null &
  started+=($!)
}
on "$here" "$tree/build/learner" --listen=$address --env=cartpole --num_envs=12 --logdir=run \
  --metrics_secs=0.25 --total_steps=1e12 >out 2>err </dev/null &
run=$!
started+=("$run")
on "$here" "$tree/build/actor" --learner=$address --task=0 --env=cartpole --envs=4 --streams=1 \
  >actor-0.log 2>&1 </dev/null &
started+=($!)
far_actor 1
far_actor 2

connected() { is "$(whole_metric serve/environments)" "$1"; }
all_live() { is "$(whole_metric batch/late_streams)" 0 && connected 12; }
far_ones_are_late() { is "$(whole_metric batch/late_streams)" 2 || connected 4; }
# played TASK: its steps since the last call, in all its streams.
played() {
  local pid
  for pid in $(pids actor); do
    grep -qsaz -- "--task=$1" "/proc/$pid/cmdline" && kill -USR1 "$pid"
  done
  sleep 0.2
  tail -n 1 "actor-$1.log" | tr ' ' '\n' | sed -n 's/^steps=//p'
}
plays() {
  played "$1" >/dev/null
  sleep 0.5
  [ "$(played "$1")" -gt 0 ]
}
goes_on() { metric_passes train/updates "$1"; }

wait_for 20 connected 12
wait_for 10 plays 2
before_pids=$(pids actor learner | sort | tr '\n' ' ')

# cut SECONDS
cut() {
  local updates
  ip -n "$there" link set "bc$$" down
  pass_if "cut for $1 s: the far actors are late" wait_for 5 far_ones_are_late
  updates=$(whole_metric train/updates)
  sleep "$1"
  pass_if "cut for $1 s: training went on with the one that is near" \
    wait_for 10 goes_on $((updates + 20))
  ip -n "$there" link set "bc$$" up
  pass_if "cut for $1 s: all environments are back" wait_for 40 all_live
  pass_if "cut for $1 s: actor 1 plays" wait_for 10 plays 1
  pass_if "cut for $1 s: actor 2 plays" wait_for 10 plays 2
  pass_if "cut for $1 s: nothing was started again" \
    is "$(pids actor learner | sort | tr '\n' ' ')" "$before_pids"
}
cut 4
if [ "${FAULTS:-}" = all ]; then
  cut 30
  cut 60
fi
kill -TERM "$(pids learner)"
ended 15
ends_well() { is "$code" 0 && is "$(value reason)" signal; }
pass_if "the run ends well" ends_well
finish
