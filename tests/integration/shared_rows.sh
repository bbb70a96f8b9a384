#!/usr/bin/env bash
# Observations in memory that a learner shares with the actors of its host: the same parameters as
# by messages; actors and learners that are killed; an actor in another container.
. "$(dirname "$(readlink -f "$0")")/lib.sh"

# Four environments of 7,056 bytes a stream. What waits needs few steps.
args='{"size": 84}'
small=(--network=mlp --hidden=16 --unroll_length=5 --batch_size=8)

# mappings PROGRAM: of such memory, in all processes of the run with that name.
mappings() {
  local pid
  for pid in $(pids "$1"); do cat "/proc/$pid/maps"; done 2>/dev/null |
    grep -c '/memfd:acorn-rows-'
}
has_mappings() { is "$(mappings "$1")" "$2"; }
# written PROGRAM: the mappings that have pages, so that a process has used them.
written() {
  local pid
  for pid in $(pids "$1"); do cat "/proc/$pid/smaps"; done 2>/dev/null |
    awk '/^[0-9a-f]+-/ { rows = /\/memfd:acorn-rows-/ } rows && $1 == "Rss:" && $2 > 0 { n++ }
         END { print n + 0 }'
}
has_written() { is "$(written "$1")" "$2"; }
# Descriptors that the learner keeps open for actors to come.
no_descriptors() {
  local pid
  for pid in $(pids learner actor); do
    ! ls -l "/proc/$pid/fd" | grep -q 'acorn-rows' || return
  done
}

# ---- the same bits

light() { # FOLDER OPTIONS...
  run catch vtrace 2 8 --env_args="$args" "${small[@]}" --deterministic --seed=3 --queues=0 \
    --total_steps=8k --metrics_secs=0 --evaluators=0 --logdir="$@"
}
light shared --step_delay_us=2000 --streams=2
pass_if "two streams of two actors share" wait_for 20 has_mappings learner 4
pass_if "and have opened what they share" wait_for 20 has_mappings actor 4
pass_if "no descriptor stays open" wait_for 10 no_descriptors
ended 120
pass_if "the run ends" is "$code" 0
light messages --streams=2 --no_shared_rows
ended 120
pass_if "so does one with observations in messages" is "$code" 0
pass_if "both have the same parameters" same_bits shared messages

# ---- processes that die

slow=(--env=catch --env_args="$args" --step_delay_us=1000)
play() {
  learner --env=catch --env_args="$args" "${small[@]}" --num_envs=8 --logdir=run \
    --total_steps=1e9 --metrics_secs=0.2 --checkpoint_secs=0.5 "$@"
}
play --queues=2
actor 0 "${slow[@]}" --envs=4 --streams=1
first=$actor
actor 1 "${slow[@]}" --envs=4 --streams=1
pass_if "a run by hand shares, too" wait_for 20 has_mappings learner 2
pass_if "and plays" wait_for 20 metric_passes step 500
pass_if "its actors write there" wait_for 1 has_written actor 2
killed "$first"
pass_if "the memory of an actor that is killed ends" wait_for 20 has_mappings learner 1
before=$(whole_metric step)
pass_if "the other one plays on" wait_for 20 metric_passes step $((before + 500))
actor 0 "${slow[@]}" --envs=4 --streams=1
pass_if "its successor shares" wait_for 20 has_mappings learner 2
has_checkpoint() { ls run/checkpoints/checkpoint-*.acorn >/dev/null 2>&1; }
pass_if "a checkpoint is written" wait_for 20 has_checkpoint
killed "$run"
play --resume
pass_if "a learner that starts again shares anew" wait_for 30 has_mappings learner 2
pass_if "and its actors have nothing else open" wait_for 10 has_mappings actor 2
before=$(whole_metric step)
pass_if "the run goes on" wait_for 20 metric_passes step $((before + 500))
end_by_hand

# ---- where it cannot be shared

limited() { # as actor, by a command of its own
  local task=$1
  shift
  "$@" "$tree/build/actor" --learner="$address" --task="$task" "${slow[@]}" --envs=4 --streams=1 \
    >"actor-$task.log" 2>&1 </dev/null &
  started+=($!)
}
falls_back() { # TASK WORDS: one line, and the run plays
  wait_for 20 metric_passes step 500 && has_mappings learner "$3" &&
    is "$(grep -c "observations go in messages: $2" "actor-$1.log")" 1
}
user=()
[ "$(id -u)" = 0 ] || user=(--user --map-root-user)
if unshare "${user[@]}" --mount --pid --fork --mount-proc true 2>unshared; then
  rm -rf run
  play
  limited 2 unshare "${user[@]}" --mount --pid --fork --kill-child --mount-proc
  pass_if "an actor in another container sends its observations in messages" \
    falls_back 2 "the learner's memory cannot be opened" 1
  end_by_hand
else
  echo "SKIP an actor in another container: $(tail -n 1 unshared)"
fi
finish
