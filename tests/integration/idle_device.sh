#!/usr/bin/env bash
# While a device computes a batch the learner goes on serving: on a device whose batches take a
# minute a second actor's rows are taken, while the first one waits for its actions.
. "$(dirname "$(readlink -f "$0")")/lib.sh"

make -s -C "$tree" all build/tests/libidle.so >make.log 2>&1 || cat make.log

ACORN_CUDA_PLUGIN=$tree/build/tests/libidle.so ACORN_IDLE_US=60000000 \
  "$tree/build/learner" --env=cartpole --agent=vtrace --device=cuda --queues=0 --num_envs=2 \
  --listen="unix:$work/socket" --logdir=run --total_steps=1e12 >out 2>err &
actor() { # TASK
  "$tree/build/actor" --env=cartpole --learner="unix:$work/socket" --task="$1" --envs=1 \
    >"actor-$1" 2>&1 &
}
# waits TASK: its rows have come, and it waits for their actions.
waits() {
  timeout 20 "$tree/build/status" "unix:$work/socket" >status 2>&1
  grep -qE "^actor/$1/0 +(queued|running)" status
}
actor 0
pass_if "an actor's rows are taken" wait_for 10 waits 0
actor 1
pass_if "another one's are taken while the device computes" wait_for 5 waits 1
pass_if "the first one still waits" waits 0
finish
