#!/usr/bin/env bash
# Runs that do not learn say so, in the log, in result.json and in the status, with what to try;
# runs that learn say nothing.
. "$(dirname "$(readlink -f "$0")")/lib.sh"
number=0
# play ENV AGENT OPTION...: a run to its end, the same each time, in $folder.
play() {
  folder=run-$((++number))
  run "$1" "$2" 2 8 --seed=1 --deterministic --no_plot --evaluators=0 --logdir=$folder "${@:3}"
  ended 90
}
# tells TEXT: one line, and result.json has it.
tells() {
  is "$code" 0 && says "this run may not be learning: " && says "$1" &&
    [[ "$(json $folder/result.json not_learning)" == *"$1"* ]]
}
is_silent() {
  is "$code" 0 && ! says "may not be learning" && is "$(json $folder/result.json not_learning)" ""
}

play catch ppo --learning_rate=1e-9 --total_steps=100k
pass_if "a policy that stays as it was" tells "the policy is as random as at first"
play cartpole vtrace --learning_rate=1 --total_steps=100k
pass_if "a policy that lost all randomness" tells "the policy has no randomness left"
play catch ppo --learning_rate=3e-4 --target_kl=1e-7 --total_steps=100k
pass_if "updates that end at once" \
  tells "updates ended with their first step: a higher --target_kl"
play catch dqn --learning_rate=10 --learning_rate_decay=none --max_gradient_norm=0 \
  --total_steps=100k --replay_ratio=8
pass_if "steps that ruin the values" tells "though no return was beyond 1: they explode"
play synthetic ppo --total_steps=200k --env_args='{"episode_steps": 100}'
pass_if "no reward" tells "no reward but 0 in"
warnings=$(grep -c "may not be learning" err)
pass_if "once" is "$warnings" 1

for agent in vtrace a2c ppo; do
  play cartpole $agent --total_steps=500k
  pass_if "cartpole by $agent is learned, and nothing is said" is_silent
done
play catch ppo --total_steps=200k
pass_if "catch by ppo" is_silent
play tmaze vtrace --total_steps=400k
pass_if "tmaze by vtrace" is_silent
play cartpole dqn --total_steps=40k --replay_ratio=16
pass_if "cartpole by dqn" is_silent

# ---- the status of a run that goes on
run cartpole vtrace 2 8 --learning_rate=1 --total_steps=20M --logdir=on --no_plot
told() { says "may not be learning"; }
wait_for 60 told
"$tree/scripts/status.sh" on >status 2>&1
pass_if "the status has it, too" grep -q -E "^learning    returns (have not risen|are below)" status
kill -INT "$run"
ended
finish
