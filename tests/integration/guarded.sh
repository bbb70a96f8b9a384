#!/usr/bin/env bash
# The learner on the device `guarded`, whose memory the host cannot reach: every algorithm, with a
# share of the networks, trains there to the same bits as on ref, whose arithmetic it has; runs
# with evaluators and two batches at a time, resumed, evaluated and watched. Without
# SLOW_TESTS=1 the first network of each algorithm, and fewer of those runs.
. "$(dirname "$(readlink -f "$0")")/lib.sh"
make -s -C "$tree" build/tests/libguarded.so >make.log 2>&1 || cat make.log
plugins box_actions/target
export ACORN_CUDA_PLUGIN=$tree/build/tests/libguarded.so # is --device=cuda here

mapfile -t algorithms < <(sed -n 's/^  X(\([a-z0-9_]*\), &algorithm.*/\1/p' \
  "$tree/learner/learn/algorithms.h")
pass_if "there are algorithms" [ ${#algorithms[@]} -ge 2 ]
picture='{"size": 36}'

# options NAME: sets $env, and $words to the options of a network that is so called here. Batches
# and networks are small, since ref is slow.
options() {
  env=catch words=(--batch_size=2 --unroll_length=4 --env_args="$picture" --network="${1%%-*}")
  case "$1" in
    mlp) env=cartpole words=(--batch_size=4 --optimizer=rmsprop --learning_rate_decay=linear) ;;
    lstm) env=tmaze words=(--batch_size=4 --unroll_length=10) ;;
    impala_shallow-lstm) words+=(--lstm_size=16 --frame_stack=1) ;;
    impala_shallow-stack) words+=(--lstm_size=0 --frame_stack=3) ;;
    impala_deep) words+=(--lstm_size=8 --frame_stack=2) ;;
    nature) words+=(--frame_stack=4) ;;
  esac
}
networks=(mlp lstm impala_shallow-lstm impala_shallow-stack impala_deep nature)

# networks_of AGENT: agents that share their code share the networks, too.
networks_of() {
  case "$1" in
    vtrace) echo lstm impala_shallow-stack impala_deep ;;
    a2c) echo mlp impala_shallow-lstm nature ;;
    ppo) echo mlp lstm impala_shallow-stack ;;
    r2d2) echo impala_shallow-lstm lstm impala_deep ;;
    dqn) echo impala_shallow-stack mlp ;;
    double_dqn) echo nature ;;
    rainbow) echo mlp impala_shallow-stack ;;
    sac) echo mlp ;;
    *) echo "${networks[@]}" ;;
  esac
}

# agent_options AGENT NAME: $env and $words as above; a replay that is soon filled, and sampled from
# as slowly as ref computes.
agent_options() {
  options "$2"
  case "$1" in
    vtrace | a2c | ppo) [ "$2" = lstm ] && words+=(--target_entropy=0.5) ;;
    r2d2 | dqn | double_dqn | rainbow)
      words+=(--replay_min_steps=40 --replay_steps=4k --replay_ratio=2 --head_hidden=16
        --target_update=3)
      ;;
  esac
  [ "$1" = r2d2 ] && words+=(--burn_in=3)
  [ "$1" != sac ] || env=./target.so words=(--batch_size=4 --hidden=16 --normalize_observations
    --replay_min_steps=40 --replay_steps=4k --replay_ratio=2)
}

# steps NAME: environment steps for some updates of that network.
steps() {
  case "$1" in
    mlp | lstm) echo 2000 ;;
    *) echo 120 ;;
  esac
}

# ---- the same bits

# train DEVICE AGENT NAME: a deterministic run in DEVICE-AGENT-NAME.
train() {
  agent_options "$2" "$3"
  run $env "$2" 2 2 "${words[@]}" --deterministic --total_steps="$(steps "$3")" \
    --device="${1/guarded/cuda}" --no_plot --logdir="$1-$2-$3"
  ended 120
  is "$code" 0
}
same_bits() {
  train ref "$@" && train guarded "$@" || return
  local name
  name=$(cd "ref-$1-$2/checkpoints" && ls | tail -n 1)
  [ "$((10#$(grep -o '[0-9]*' <<<"$name")))" -ge 4 ] || {
    echo "  too few updates: $name"
    return 1
  }
  cmp "ref-$1-$2/checkpoints/$name" "guarded-$1-$2/checkpoints/$name"
}
for algorithm in "${algorithms[@]}"; do
  for network in $(networks_of "$algorithm"); do
    pass_if "$algorithm with $network trains as on ref" same_bits "$algorithm" "$network"
    [ -n "${SLOW_TESTS:-}" ] || break
  done
done

# ---- batches in flight, evaluators, and what follows a run

# play AGENT NAME TIMES WORDS...: a run of TIMES as many steps in run-AGENT-NAME. r2d2 keeps its
# replay.
play() {
  local agent=$1 name=$2 times=$3
  shift 3
  agent_options "$agent" "$name"
  [ "$agent" = r2d2 ] && words+=(--checkpoint_replay)
  run $env "$agent" 3 2 "${words[@]}" --device=cuda --evaluators=1 --no_plot \
    --total_steps=$((times * $(steps "$name"))) --logdir="run-$agent-$name" "$@"
  ended 120
  is "$code" 0 && [ "$(value steps)" -ge $((times * $(steps "$name"))) ]
}
evaluate() {
  options "$2"
  run $env "$1" 1 2 --mode=evaluate --episodes=2 --device=cuda --logdir="run-$1-$2"
  ended 120
  is "$code" 0 && grep -q '^evaluation episodes=2 ' out
}
watch() {
  "$tree/build/watch" "run-$1-$2" --max_steps=8 --policy=sample >pictures 2>err && [ -s pictures ]
}
played=("vtrace lstm" "r2d2 impala_shallow-lstm" "dqn impala_shallow-stack")
[ -z "${SLOW_TESTS:-}" ] ||
  played+=("vtrace impala_shallow-lstm" "vtrace nature" "r2d2 lstm" "rainbow mlp")
for agent_network in "${played[@]}"; do
  read -r agent network <<<"$agent_network"
  pass_if "a run of $agent with $network ends well" play "$agent" "$network" 1
  pass_if "it is resumed" play "$agent" "$network" 2 --resume
  pass_if "it is evaluated" evaluate "$agent" "$network"
  pass_if "it is watched" watch "$agent" "$network"
done

# ---- what acts and does not learn

for agent in random scripted; do
  run cartpole $agent 2 4 --device=cuda --total_steps=2000
  ended
  pass_if "$agent plays" is "$code" 0
done
finish
