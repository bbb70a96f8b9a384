#!/usr/bin/env bash
# Masks of actions: every agent plays and learns within them, none chooses what is forbidden;
# played, watched and resumed; what is refused. Those of Gymnasium are in gymnasium.sh.
. "$(dirname "$(readlink -f "$0")")/lib.sh"
plugins masks/doors

"$tree/build/actor" --env=./doors.so --check_env >out 2>err
pass_if "the plugin keeps the rules under random actions" is "$(grep -c '^ok ' out)" 6

# ---- learned. Of 8 steps random actions get 2.6. A door that is closed fails in the actor.
learns() {
  is "$code" 0 && ! says "is closed" &&
    awk -v x="$(value return_mean)" -v least="$1" 'BEGIN {exit !(x > least)}'
}
# plays AGENT STEPS OPTION...
plays() {
  run ./doors.so "$1" 2 8 --total_steps="$2" --seed=1 --logdir="$1" "${@:3}"
  ended 60
}
for agent in a2c vtrace; do
  plays $agent 60k --deterministic --reward_scale=0.1
  pass_if "$agent learns within a mask" learns 3.5
done
plays ppo 100k --deterministic
pass_if "ppo does" learns 5
plays dqn 20k --epsilon_steps=5k
pass_if "dqn does" learns 4
for agent in rainbow r2d2 random; do
  plays $agent 5k
  pass_if "$agent plays within it" learns 1.5
done

run ./doors.so ppo 2 8 --mode=evaluate --logdir=ppo --episodes=50
ended 60
pass_if "greedy episodes are better" learns 6
run ./doors.so dqn 2 8 --mode=evaluate --logdir=dqn --episodes=50
ended 60
pass_if "those of values too" learns 5
frames() { "$tree/build/watch" dqn --env=./doors.so --episodes=1 2>"$work/err" | wc -c; }
pass_if "a run is watched" test "$(frames)" -gt 50000
run ./doors.so ppo 2 8 --resume --logdir=ppo --total_steps=120k
ended 60
pass_if "and resumed" learns 5

# ---- what is wrong
run ./doors.so ppo 1 8 --env_args='{"kind": 1}' --logdir=none
forbids() { grep -qsF "its action_mask allows no action" none/logs/actor-0.log; }
pass_if "a mask that forbids everything ends its environment, with the reason" wait_for 20 forbids
kill -INT "$run"
ended 30
pass_if "and not the learner" is "$code" 130
wrong() { # KIND WORDS
  refused ./doors.so ppo 1 8 --env_args="{\"kind\": $1}"
  pass_if "a mask that is $2 is refused" eval \
    'is "$code" 2 && says "a mask is uint8[6], a number for each action"'
}
wrong 2 "of another length"
wrong 3 "all there is"
wrong 4 "of floats"

finish
