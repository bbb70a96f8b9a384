#!/usr/bin/env bash
# Actions of several numbers, by the normal policy: every agent with probabilities plays and learns
# them, none leaves its bounds, whatever bounds these are; played, watched and resumed; what is
# refused.
. "$(dirname "$(readlink -f "$0")")/lib.sh"
plugins box_actions/target

# ---- learned. Random actions return about -10; a run is the same every time.
learns() {
  is "$code" 0 && awk -v x="$(value return_mean)" -v least="$1" 'BEGIN {exit !(x > least)}'
}
for agent in a2c vtrace; do
  run ./target.so $agent 2 8 --total_steps=200k --seed=1 --deterministic --logdir=$agent \
    --no_previous_action
  ended 60
  pass_if "$agent learns it" learns -5
done
run ./target.so ppo 2 8 --total_steps=250k --seed=1 --deterministic --logdir=more \
  --previous_action --previous_reward
ended 60
pass_if "ppo more, with previous actions and rewards" learns -5
returned=$(value return_mean)
run ./target.so ppo 2 8 --mode=evaluate --logdir=more --episodes=50
ended 60
pass_if "greedy episodes take the mean: they are better" learns "$returned"
run ./target.so ppo 2 6 --resume --total_steps=252k --logdir=more
ended 60
pass_if "it goes on with a number of environments that 16 does not divide" is "$code" 0
run ./target.so ppo 2 6 --learners=2 --resume --total_steps=254k --logdir=more
ended 60
pass_if "and with a learner more" is "$code" 0
run ./target.so ppo 1 8 --total_steps=20k --logdir=recurrent --network=lstm --head_hidden=16
ended 60
pass_if "with an LSTM and two streams" is "$code" 0

run ./target.so sac 1 8 --total_steps=4k --seed=1 --deterministic --logdir=sac --hidden=32 \
  --replay_ratio=64 --learning_rate=1e-3 --checkpoint_replay --normalize_observations
ended 60
pass_if "sac learns it" learns -4
uniform() { grep -q '"replay/window_age' sac/metrics.jsonl && ! grep -q priorit sac/metrics.jsonl; }
pass_if "and reports no priorities" uniform
returned=$(value return_mean)
cp -r sac again
for folder in sac again; do
  run ./target.so sac 1 8 --resume --total_steps=5k --deterministic --logdir=$folder
  ended 60
  pass_if "$folder: a run of sac goes on" learns "$returned"
done
pass_if "twice resumed, it has the same bits" \
  cmp -s "$(newest_checkpoint sac)" "$(newest_checkpoint again)"
run ./target.so sac 1 8 --mode=evaluate --logdir=sac --episodes=50
ended 60
pass_if "greedily it is better" learns "$returned"
for kind in 1 2; do
  refused ./target.so sac 1 8 --env_args="{\"kind\": $kind}"
  pass_if "sac: bounds of kind $kind are no scale" says "agent 'sac' needs bounded continuous ones"
done

# ---- bounds
for kind in 1 2; do
  run ./target.so ppo 1 8 --total_steps=20k --logdir="kind-$kind" --env_args="{\"kind\": $kind}"
  ended 60
  pass_if "bounds of kind $kind" is "$code" 0
done
refused ./target.so ppo 1 8 --env_args='{"kind": 3}'
without_bounds() { is "$code" 2 && says "action 1 of the box is in -inf..inf, which is no range"; }
pass_if "bounds that are infinite are refused" without_bounds

# ---- the run folder
run ./target.so ppo 2 8 --resume --logdir=more --total_steps=300k
ended 60
goes_on() { learns -6 && says "resuming from the checkpoint of update"; }
pass_if "a run is resumed" goes_on
frames() { "$tree/build/watch" more --env=./target.so --episodes=1 2>"$work/err" | wc -c; }
pass_if "and watched" test "$(frames)" -gt 100000
refused cartpole ppo 1 8 --mode=evaluate --logdir=more
pass_if "another environment cannot play it" is "$code" 2

finish
