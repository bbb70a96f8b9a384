#!/usr/bin/env bash
# Actions of several choices: learned by vtrace, a2c and ppo, also within masks and by an LSTM that
# reads the action before; played, watched, resumed and checked; what is refused. Those of Gymnasium
# are in gymnasium.sh.
. "$(dirname "$(readlink -f "$0")")/lib.sh"
plugins choices/locks

for stiff in 0 1; do
  "$tree/build/actor" --env=./locks.so --env_args="{\"stiff\": $stiff}" --check_env >out 2>err
  pass_if "the plugin keeps the rules under random actions, stiff $stiff" \
    is "$(grep -c '^ok ' out)" 6
done
pass_if "what is chosen is told" grep -qF "action       1 of 3: one of 0..1" out

# ---- learned. Of 8 steps random actions get 2.9. A number that cannot be fails in the actor.
learns() {
  is "$code" 0 && ! says "cannot be turned" &&
    awk -v x="$(value return_mean)" -v least="$1" 'BEGIN {exit !(x > least)}'
}
# plays AGENT STEPS OPTION...
plays() {
  run ./locks.so "$1" 2 8 --total_steps="$2" --seed=1 --logdir="$1" --deterministic "${@:3}"
  ended 60
}
for agent in a2c vtrace; do
  plays $agent 80k --reward_scale=0.1 --unroll_length=5
  pass_if "$agent learns all three" learns 4.5
done
# Within a mask they get 4.6.
plays ppo 60k --env_args='{"stiff": 1}' --network=lstm --reward_scale=0.1
pass_if "ppo does within a mask, with an LSTM that reads the action before" learns 6
run ./locks.so ppo 2 8 --resume --logdir=ppo --total_steps=70k
ended 60
pass_if "and goes on" learns 6
run ./locks.so random 1 8 --total_steps=5k
ended 60
pass_if "random plays" learns 2
run ./locks.so ppo 2 8 --env_args='{"stiff": 1}' --mode=evaluate --logdir=ppo --episodes=50
ended 60
pass_if "greedy episodes are better" learns 7
frames() { "$tree/build/watch" ppo --env=./locks.so --episodes=1 2>"$work/err" | wc -c; }
pass_if "a run is watched" test "$(frames)" -gt 50000

# The same plugin with its dials in another order.
sed 's/AMONG\[DIALS\] = {3, 2, 4}/AMONG[DIALS] = {4, 3, 2}/' \
  "$tree/tests/integration/choices/locks.c" >turned.c
mkdir turned
cc -std=c11 -shared -fPIC -I"$work/prefix/include" turned.c -o turned/locks.so || exit 1
others() {
  is "$code" 2 && says "whose action is choices(3,2,4), that of locks(stiff=1) is choices(4,3,2)"
}
for mode in --resume --mode=evaluate; do
  refused ./turned/locks.so ppo 2 8 $mode --logdir=ppo --total_steps=80k
  pass_if "a run of other choices is not taken: $mode" others
done

# ---- what is wrong
for agent in dqn r2d2; do
  refused ./locks.so $agent 1 8
  pass_if "$agent refuses it, and names who does not" eval \
    'is "$code" 2 && says "has actions of several choices; agent '"'$agent'"' needs discrete" &&
     says "ones of a single choice: choose another agent (vtrace, a2c, ppo)"'
done
wrong() { # DIALS WORDS
  refused ./locks.so ppo 1 8 --env_args="{\"dials\": $1}"
  pass_if "$1 choices are refused" eval 'is "$code" 2 && says "'"$2"'"'
}
wrong 0 "discrete 0 and box 0 actions, no choices"
wrong 4 "choice 3 of the action is among 0"
wrong 65 "an action of 65 choices; there may be 1..64"

finish
