#!/usr/bin/env bash
# Agents that learn from a replay, with real processes: sizes that cannot be, actors and learners
# that are killed, far fewer environments than expected.
. "$(dirname "$(readlink -f "$0")")/lib.sh"

# ---- what cannot be

# refuses NAME SENTENCE WORDS...: exit code 2 and the sentence, with nothing left behind.
refuses() {
  local name=$1 sentence=$2
  shift 2
  refused "$@" --logdir=refused
  named() { is "$code" 2 && says "$sentence" && [ ! -e refused/checkpoints ] && no_socket; }
  pass_if "$name" named
}
refuses "more steps before training than memory holds" "the smallest replay for these sizes takes" \
  catch dqn 1 2 --network=nature --env_args='{"size": 84}' --replay_steps=2e9 \
  --replay_min_steps=1.9e9 --total_steps=2e9
refuses "a replay that is too small for its environments" "is too small: 4 environments" \
  cartpole dqn 1 2 --replay_steps=200
refuses "more steps before training than the replay has" \
  "--replay_min_steps=20000 is above what the replay can hold" \
  cartpole dqn 1 2 --replay_steps=20k --replay_min_steps=20k
refuses "a burn-in longer than the unroll" "--burn_in=41 is longer than --unroll_length=40" \
  tmaze r2d2 1 2 --burn_in=41
refuses "n-step returns of which none counts" "no step of a window would count" \
  cartpole dqn 1 2 --unroll_length=4 --n_steps=5 --partial_returns=false
refuses "a band that would stop both sides" "--replay_band=8: at least" \
  cartpole dqn 1 2 --replay_band=8
refuses "windows that begin too often for their length" "--window_stride=32 is too small" \
  tmaze r2d2 1 2 --unroll_length=300 --window_stride=32
refuses "a burn-in for an agent without replay" "--burn_in: agent vtrace has no such option" \
  cartpole vtrace 1 2 --burn_in=5
refuses "a distribution without a range" "--value_low=10 and --value_high=10" \
  cartpole rainbow 1 2 --value_low=10

# ---- what the run and the machine have room for

run cartpole dqn 1 2 --total_steps=10k --replay_min_steps=1k --no_plot --logdir=short
ended 60
short() {
  is "$code" 0 && says "replay: 12500 steps instead of --replay_steps=500000: the run" &&
    grep -qx "replay_steps = 500000" short/config.txt
}
pass_if "a replay is no larger than its run, and config.txt keeps what was asked for" short
often() {
  says "target network: copied every 400 steps (100 updates), about 22 times in this run" &&
    ! says "fewer than 10 times"
}
pass_if "how often the target network is copied is logged" often
run cartpole dqn 1 2 --total_steps=3k --replay_min_steps=1k --no_plot --logdir=seldom
ended 60
pass_if "seldom is a warning" says "is copied fewer than 10 times in the run's 3000 steps"

gcc -std=gnu11 -O2 -Wall -Wextra -shared -fPIC -o little_memory.so \
  "$tree/tests/integration/little_memory.c" || exit 1
export LD_PRELOAD=$work/little_memory.so
learner --env=catch --env_args='{"size": 84}' --agent=dqn --network=nature --logdir=little \
  --total_steps=1e6
wait_for 30 says "run folder"
unset LD_PRELOAD
pass_if "nor than memory" says "instead of --replay_steps=1000000: there is memory for no more"
kill -TERM "$run"
ended 10
end_by_hand

# ---- far fewer environments than expected

small=(--replay_steps=20k --replay_min_steps=1k --metrics_secs=0.25 --total_steps=1e9)
updates_pass() { metric_passes train/updates "$@"; }

learner --env=cartpole --agent=dqn --num_envs=640 --logdir=few "${small[@]}" --replay_steps=200k
actor 0 --env=cartpole --envs=20
pass_if "training starts with 20 of 640 environments" wait_for 20 updates_pass 100 few
kill -TERM "$run"
ended 10
pass_if "that run ends well" is "$(value reason)" signal
end_by_hand

# ---- actors that are killed for good

learner --env=tmaze --agent=r2d2 --num_envs=8 --logdir=run --unroll_length=10 --burn_in=5 \
  "${small[@]}"
for task in 0 1; do actor $task --env=tmaze --envs=4; done
wait_for 20 updates_pass 20
killed "$actor"
# As many steps again as the replay holds: all that the dead actor played has been replaced.
before=$(metric step)
full=$(metric replay/windows)
pass_if "training goes on after an actor has died" \
  wait_for 60 metric_passes step "$(awk -v a="$before" 'BEGIN {print a + 25000}')"
goes_on() {
  local updates
  updates=$(metric train/updates)
  wait_for 10 updates_pass "$updates" &&
    awk -v now="$(metric replay/windows)" -v before="$full" 'BEGIN {exit !(now >= 0.9 * before)}'
}
pass_if "the others' windows take the places of the dead actor's" goes_on
kill -TERM "$run"
ended 10
pass_if "that run ends well, too" is "$(value reason)" signal
end_by_hand

# ---- a learner that is killed

# Without a saved replay it fills a new one, and goes on with the parameters of the checkpoint.
learner --env=cartpole --agent=dqn --num_envs=8 --logdir=again --checkpoint_secs=0.5 "${small[@]}"
for task in 0 1; do actor $task --env=cartpole --envs=4; done
has_checkpoint() { ls again/checkpoints/checkpoint-*.acorn >/dev/null 2>&1; }
wait_for 20 has_checkpoint
wait_for 20 updates_pass 200 again
killed "$run"
updates=$(metric train/updates again)
learner --env=cartpole --agent=dqn --num_envs=8 --logdir=again --checkpoint_secs=0.5 --resume \
  "${small[@]}"
pass_if "a learner that was killed trains on, from its checkpoint" \
  wait_for 30 updates_pass "$((updates + 200))" again
fills_again() { says "training starts at" && metric_passes replay/windows 100 again; }
pass_if "it has filled a new replay" fills_again
kill -TERM "$run"
ended 10
pass_if "the resumed run ends well" is "$(value reason)" signal
end_by_hand

# ---- options that only a run passes on to the replay

# learns NAME WORDS...: the checkpoint that a deterministic run ends with.
learns() {
  run cartpole rainbow 1 2 --deterministic --total_steps=3000 --replay_min_steps=500 --no_plot \
    --logdir="learns-$1" "${@:2}"
  ended 60
  md5sum <"$(newest_checkpoint "learns-$1")"
}
as_it_is=$(learns default)
pass_if "a deterministic run of rainbow can be repeated" [ "$(learns again)" = "$as_it_is" ]
for option in importance_exponent=0 importance_exponent_end=0.4 priority_exponent=0 \
  initial_priority=td replay_ratio=32; do
  other=$(learns "${option%=*}" --$option)
  pass_if "--$option changes what is learned" [ "$other" != "$as_it_is" ]
done

# ---- the whole

# Both with the evaluator that they start by themselves.
plays() {
  run "$1" "$2" 2 4 --total_steps="$3" --replay_min_steps=1k --logdir="whole-$2" --no_plot \
    "${@:4}"
  ended 60
  is "$code" 0 && is "$(value over)" eval && metric_passes train/updates 20 "whole-$2"
}
pass_if "cartpole dqn" plays cartpole dqn 10000
pass_if "tmaze r2d2" plays tmaze r2d2 20000
pass_if "cartpole rainbow" plays cartpole rainbow 6000
# Without the evaluators that the agent has otherwise, as at first.
goes_on_deterministic() {
  run tmaze r2d2 1 2 --deterministic --replay_min_steps=1k --total_steps=3000 --logdir=lockstep \
    --no_plot
  ended 60
  run tmaze r2d2 1 2 --resume --total_steps=4000 --logdir=lockstep --no_plot
  ended 60
  is "$code" 0 && is "$(value over)" train && is "$(value steps)" 4000
}
pass_if "a deterministic run is resumed as one" goes_on_deterministic
evaluates() {
  run tmaze r2d2 1 2 --mode=evaluate --episodes=3 --logdir=whole-r2d2
  ended 60
  is "$code" 0 && grep -q '^evaluation episodes=3 ' out
}
pass_if "a run of r2d2 is evaluated" evaluates
finish
