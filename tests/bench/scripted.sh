#!/usr/bin/env bash
# The scripted CartPole policy over 500 episodes of at most 200 steps, reset(seed = episode number),
# through the whole path: actor, gRPC, learner, and back. The numbers are known exactly.
set -u
. "$(dirname "$(readlink -f "$0")")/lib.sh"
need
expected='return_mean=41.698 return_std=8.389445512070509 return_min=24 .*return_max=63 '
status=0
for actors in 1 4; do
  build/launch cartpole scripted $actors 2 --mode=evaluate --seed=0 --episodes=500 \
    --env_args='{"max_steps": 200}' >"$work/out" 2>"$work/err" || { cat "$work/err"; status=1; }
  line=$(grep '^evaluation ' "$work/out")
  echo "$actors actors: $line"
  if grep -q "episodes=500 $expected" <<<"$line"; then
    echo "scripted policy, $actors actors: ok"
  else
    echo "scripted policy, $actors actors: MISSED, expected $expected"
    status=1
  fi
done
exit $status
