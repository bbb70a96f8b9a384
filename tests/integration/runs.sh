#!/usr/bin/env bash
# Whole runs: the result line, exit codes, what stands in the run folder, resuming, two at once,
# addresses and folders in use.
. "$(dirname "$(readlink -f "$0")")/lib.sh"

# How many of the words are files.
count() {
  local file files=0
  for file in "$@"; do [ -e "$file" ] && files=$((files + 1)); done
  echo $files
}

run cartpole vtrace 2 4 --total_steps=20k --seed=3
ended
ends_well() {
  is "$code" 0 && is "$(value env)" cartpole && is "$(value agent)" vtrace &&
    is "$(value reason)" total_steps && is "$(value over)" train &&
    [ "$(value steps)" -ge 20000 ] && [ "$(value episodes)" -gt 0 ]
}
pass_if "a run ends with its budget and the result line" ends_well
pass_if "nothing of it is left" no_process
pass_if "its socket is gone" no_socket
first=$(echo runs/*)
folder_is_complete() {
  [ -s "$first/config.txt" ] && [ -s "$first/metrics.jsonl" ] && is "$(count runs/*)" 1 &&
    [ "$(count "$first"/checkpoints/*)" -gt 0 ] && is "$(count "$first"/logs/actor-[01].log)" 2
}
pass_if "its folder holds configuration, metrics, a checkpoint and logs" folder_is_complete

run cartpole vtrace 2 4 --total_steps=40k --resume
ended
resumes() {
  is "$code" 0 && [ "$(value steps)" -ge 40000 ] && says "resuming" && is "$(count runs/*)" 1
}
pass_if "--resume continues the newest run" resumes

run cartpole vtrace 2 4 --total_steps=60k --resume --queues=2
ended
goes_on() { is "$code" 0 && [ "$(value steps)" -ge 60000 ]; }
pass_if "so it does with two queue threads and one for inference" goes_on

# The second one starts where clocks show 26 hours less, and is the newer one all the same.
export TZ=LINT-14
run tmaze vtrace 1 4 --total_steps=4k
ended
older=$(echo runs/tmaze-*)
TZ=AOE+12
run tmaze vtrace 1 4 --total_steps=4k
ended
TZ=CET-1
run tmaze vtrace 1 4 --total_steps=8k --resume
ended
unset TZ
newest=$(printf '%s\n' runs/tmaze-* | grep -vxF "$older")
finds_newest() { is "$code" 0 && says "run folder $newest"; }
pass_if "--resume continues the newest run after a change of the time zone" finds_newest

run catch vtrace 1 4 --total_steps=4k --resume
ended
starts_anew() {
  is "$code" 0 && [ "$(value steps)" -lt 20000 ] && is "$(count runs/catch-*)" 1
}
pass_if "--resume starts a new run when there is none" starts_anew

run cartpole vtrace 2 4 --total_steps=20k --logdir="$first"
ended
keeps() { [ "$code" -ne 0 ] && says "--resume" && [ -s "$first/config.txt" ]; }
pass_if "a folder that holds a run is refused" keeps

# The environment's options of a run stand in its folder.
run catch vtrace 2 4 --total_steps=4k --logdir=small --env_args='{"rows": 8, "columns": 3}'
ended
run catch vtrace 2 4 --total_steps=8k --logdir=small --resume
ended
same_options() { is "$code" 0 && [ "$(value steps)" -ge 8000 ]; }
pass_if "--resume plays the environment of the run" same_options
run catch vtrace 2 2 --logdir=small --mode=evaluate --episodes=8
ended
evaluates() { is "$code" 0 && grep -q '^evaluation episodes=8 ' out; }
pass_if "--mode=evaluate does as well" evaluates
refused tmaze vtrace 1 --logdir=small --mode=evaluate
differs() { is "$code" 2 && says "small holds a run of catch vtrace, this one is of $1"; }
pass_if "a run of another environment is not evaluated" differs "tmaze vtrace"
refused catch random 1 --logdir=small --resume
pass_if "a run of another agent is not resumed" differs "catch random"

run cartpole vtrace 1 4 --total_steps=5k --target_return=500 --logdir=missed
ended
pass_if "exit code 3 when the target is not reached" is "$code" 3

run cartpole vtrace 1 4 --total_steps=500k --target_return=15 --job-dir=reached
ended
reached() { is "$code" 0 && is "$(value reason)" target_return && [ -s reached/config.txt ]; }
pass_if "--target_return ends the run; --job-dir is the run folder" reached

# Two at once, then a third one into the folder and onto the address of the first.
port=$(free_port)
run cartpole vtrace 2 4 --total_steps=1e9 --logdir=one --listen="127.0.0.1:$port"
one=$run
pass_if "a run on a port plays" wait_for 20 test -s one/metrics.jsonl
mv err err.one
run cartpole vtrace 2 4 --total_steps=20k --logdir=two
ended
pass_if "a second run beside it ends well" is "$code" 0
run cartpole vtrace 1 4 --total_steps=20k --logdir=one --resume
ended
in_use() { [ "$code" -ne 0 ] && says "in use"; }
pass_if "a folder in use is refused" in_use
run cartpole vtrace 1 4 --total_steps=20k --logdir=three --listen="127.0.0.1:$port"
ended
taken() { [ "$code" -ne 0 ] && says "127.0.0.1:$port" && [ ! -e three/config.txt ]; }
pass_if "an address in use is refused" taken
pass_if "none of this disturbed the first" kill -0 "$one"
run=$one
kill -TERM "$run"
ended 10
pass_if "the first stops on a signal" is "$code" 0
pass_if "nothing of them is left" no_process
finish
