#!/usr/bin/env bash
# Processes that die, all of them real: actors in mid unroll, an actor joined twice, the learner,
# the launcher; environments that hang, crash, raise or return NaN. FAULTS=all adds what takes
# minutes.
. "$(dirname "$(readlink -f "$0")")/lib.sh"
start=$tree/run_local.sh

# ---- actors

# Every window of 20 steps that training was given, and every step, belongs to one life of one
# environment: so the steps that were not given are fewer than a window for each life that ended
# (and for each slot at the end), and none is given twice.
windows_add_up() {
  local steps=$1 windows=$2 lives=$3 lost
  lost=$((steps - windows * 20))
  [ $lost -ge 0 ] && [ $lost -le $((lives * 20)) ] && return
  echo "  $steps steps, $windows windows of 20, $lives lives: $lost steps lost"
  return 1
}

learner --env=catch --num_envs=8 --logdir=run --metrics_secs=0.25 --total_steps=1e9
for task in 0 1; do actor $task --env=catch --envs=4 --streams=1; done
wait_for 20 metric_passes step 2000
for _ in 1 2 3 4 5; do
  before=$(metric step)
  killed "$actor"
  actor 1 --env=catch --envs=4 --streams=1
  wait_for 10 metric_passes step $((before + 2000))
done
pass_if "training goes on over five kills of an actor in mid unroll" \
  metric_passes step $((before + 2000))
kill -TERM "$run"
ended 10
# 8 environments, of which 4 had five more lives, and up to two rows for each environment on their
# way.
pass_if "the windows of a killed actor are dropped, and no step is trained on twice" \
  windows_add_up "$(value steps)" "$(whole_metric fifo/windows)" $((8 + 5 * 4 + 8))
ended_well() { is "$code" 0 && is "$(value reason)" signal; }
pass_if "the run ends well" ended_well
end_by_hand

# ---- one name, two actors

learner --env=catch --num_envs=8 --logdir=twice --metrics_secs=0.25 --total_steps=1e9
actor 0 --env=catch --envs=4 --streams=1
first=$actor
wait_for 20 metric_passes step 1000 twice
actor 0 --env=catch --envs=4 --streams=1
second=$actor
wait_for 10 has_gone "$first"
superseded() {
  wait "$first"
  is $? 1 && grep -q "superseded by a newer actor of the same name" actor-0.log
}
pass_if "of two actors of one name the older one ends and says why" superseded
pass_if "the learner names them" says "actor/0/0"
before=$(metric step twice)
goes_on() { wait_for 10 metric_passes step $((before + 2000)) twice && kill -0 "$second"; }
pass_if "the newer one plays" goes_on
kill -TERM "$run"
ended 10
end_by_hand

# ---- the learner

# What the newest whole checkpoint in run folder $1 is the state of.
newest_update() {
  local name
  name=$(basename "$(printf '%s\n' "$1"/checkpoints/checkpoint-*.acorn | tail -n 1)" .acorn)
  echo $((10#${name#checkpoint-}))
}

# By hand: actors wait for the learner and rejoin.
words=(--env=cartpole --num_envs=8 --logdir=hand --metrics_secs=0.25 --checkpoint_secs=0.5
  --total_steps=1e9)
learner "${words[@]}"
actors=()
for task in 0 1; do
  actor $task --env=cartpole --envs=4 --streams=1
  actors+=("$actor")
done
has_checkpoints() { [ "$(find "$1/checkpoints" -name '*.acorn' 2>/dev/null | wc -l)" -ge "$2" ]; }
wait_for 20 has_checkpoints hand 2
killed "$run"
newest=$(newest_update hand) before=$(metric step hand)
learner "${words[@]}" --resume
resumed() { says "resuming from the checkpoint of update $newest,"; }
pass_if "after kill -9 of the learner, --resume takes the newest checkpoint" wait_for 10 resumed
pass_if "the run goes on past where it was" wait_for 20 metric_passes step "$((before + 2000))" hand
same_actors() { kill -0 "${actors[0]}" && kill -0 "${actors[1]}" && wait_for 10 all_back; }
all_back() { is "$(whole_metric serve/environments hand)" 8; }
pass_if "the same actors have come back by themselves" same_actors

# Two learners on one folder at once.
(
  run_one() {
    "$tree/build/learner" "${words[@]}" --resume --entropy_cost=0.3 --listen="unix:$work/other" \
      2>second
  }
  run_one >/dev/null
  echo $? >second.code
)
in_use() {
  is "$(cat second.code)" 2 && grep -q "is in use by another learner" second &&
    ! grep -q "resuming with" second
}
pass_if "a second learner on the folder is refused" in_use
before=$(metric step hand)
pass_if "which does not disturb the first" wait_for 10 metric_passes step "$before" hand
kill -TERM "$run"
ended 10
pass_if "and the resumed run ends well" ended_well
waiting() { kill -0 "${actors[0]}" && kill -0 "${actors[1]}"; }
pass_if "its actors wait for the next one" waiting
end_by_hand

# By the launcher: the whole command again.
run cartpole vtrace 2 4 --total_steps=1e9 --logdir="$work/local" --checkpoint_secs=0.5 \
  --metrics_secs=0.25
wait_for 20 has_checkpoints local 2
kill -KILL "$(pids learner)"
ended 10
newest=$(newest_update local) before=$(metric step local)
pass_if "kill -9 of the learner ends ./run_local.sh" is "$code" 137
run cartpole vtrace 2 4 --total_steps=$((before + 20000)) --logdir="$work/local" --resume
ended
whole_again() { is "$code" 0 && resumed && [ "$(value steps)" -ge $((before + 20000)) ]; }
pass_if "the same command with --resume finishes the run" whole_again

# ---- environments

# One of two actors has environments that fail: the launcher takes the programs beside it.
mkdir bin
cp "$tree/build/launch" bin/launch
ln -s "$tree/build/learner" bin/learner
cat >bin/actor <<END
#!/bin/sh
case " \$* " in *" --task=0 "*) export ACORN_SYNTHETIC_FAULT="\$FAULT" ;; esac
exec "$tree/build/actor" "\$@"
END
chmod +x bin/actor

# faulty FAULT WORDS...: such a run.
faulty() {
  local fault=$1
  shift
  rm -rf run
  FAULT=$fault bin/launch synthetic vtrace 2 4 --env_args='{"episode_steps": 50}' --logdir=run \
    --metrics_secs=0.25 --total_steps=1e9 "$@" >"$work/out" 2>"$work/err" </dev/null &
  run=$!
  started+=("$run")
}
in_log() { grep -qF -- "$1" run/logs/actor-0.log 2>/dev/null; }
restarted() { says "actor 0 $1; starting it again in 1 s" && says "$2"; }
again() { says "starting it again in 2 s"; }
given_up() { says "5 deaths within 60 s: not starting it again" && says "$1"; }
other_goes_on() {
  local before
  before=$(metric step)
  wait_for 5 metric_passes step "$((before + 1000))" && kill -0 "$run"
}

# fault NAME SENTENCE END: named, restarted with its last log lines, and again after a longer pause;
# the other actor plays on, and nothing that is no number has been learned.
fault() {
  local name=$1 sentence=$2 end=$3
  pass_if "an environment that $name: named" wait_for 20 in_log "$sentence"
  pass_if "an environment that $name: its actor is started again" \
    wait_for 20 restarted "$end" "$sentence"
  pass_if "an environment that $name: and again, after a longer pause" \
    wait_for "${4:-20}" again
  pass_if "an environment that $name: the other actor goes on" other_goes_on
  kill -TERM "$run"
  ended 10
  pass_if "an environment that $name: the run ends well" ended_well
  end_by_hand
}

# The same without waiting for the end of the actor, which is slow to come.
fault_is_named() {
  pass_if "an environment that $1: named" wait_for 20 in_log "$2"
  wait_for 20 num_actors 2
  pass_if "an environment that $1: the run goes on" wait_for 10 metric_passes step 1000
  kill -TERM "$run"
  ended 10
  pass_if "an environment that $1: the run ends well" ended_well
  end_by_hand
}

raises="a fault was asked for after 410 steps"
hangs="environment synthetic hangs: stream 0 has been stepping"
faulty crash:410
fault "crashes" "environment synthetic crashed in step (SIGSEGV)" \
  "was killed by signal 11 (Segmentation fault)"
faulty nan:410
fault "returns NaN" "nan" "ended with exit code 1"
if [ "${FAULTS:-}" = all ]; then
  faulty error:410
  fault "raises" "$raises" "ended with exit code 1" 60
  faulty hang:410 --hang_s=1
  fault "hangs" "$hangs" "ended with exit code 1" 40
else
  faulty error:410
  fault_is_named "raises" "$raises"
  faulty hang:410 --hang_s=1
  fault_is_named "hangs" "$hangs"
fi
# An actor that never gets as far as a step.
faulty hang:0 --env_step_s=1
pass_if "an environment that hangs while it is made: five deaths end its actor for good" \
  wait_for 30 given_up "environment synthetic hangs in create"
pass_if "and the other actor goes on" other_goes_on
kill -TERM "$run"
ended 10
pass_if "the run ends well" ended_well
end_by_hand

# ---- the launcher

# What an environment has started ends with the run, whoever was killed.
faulty child:400
sleeper() { grep -lsaF "XDG_RUNTIME_DIR=$work" /proc/[0-9]*/environ | cut -d/ -f3 | xargs -I{} \
  grep -lsx sleep /proc/{}/comm; }
has_sleeper() { [ -n "$(sleeper)" ]; }
no_sleeper() { ! has_sleeper && none_left; }
pass_if "an environment starts a process of its own" wait_for 20 has_sleeper
# Nor does an actor that is stopped stay.
stopped=$(pids actor | tail -n 1)
# All threads: the kernel does not count a process as stopped before.
is_stopped() { ! grep -h '^State:' "/proc/$stopped"/task/*/status | grep -qv '(stopped)'; }
kill -STOP "$stopped"
wait_for 5 is_stopped
killed "$run"
# The kernel wakes the stopped members of an orphaned process group, but not where their new parent
# shares their session, as process 1 of a container may.
session_of() { awk '{sub(/^.*\) /, ""); print $4}' "/proc/$1/stat"; }
if is "$(session_of 1)" "$(session_of $$)"; then kill -CONT "$stopped"; fi
pass_if "kill -9 of the launcher leaves neither actors nor what they have started" \
  wait_for 10 no_sleeper

# Process 1 of a container has what its actors leave.
if unshare --pid --fork true 2>err; then
  rm -rf run
  printf '#!/bin/sh\nexec unshare --pid --fork bin/launch "$@"\n' >contained
  chmod +x contained
  FAULT=child:400 start=$work/contained run synthetic vtrace 2 4 --logdir=run --total_steps=1e9 \
    --env_args='{"episode_steps": 50}'
  pass_if "the launcher is process 1" wait_for 20 has_sleeper
  launch=$(pids launch | tail -n 1)
  file=$(sleeper)
  kill -KILL "$(sed -n 's/^PPid:[[:blank:]]*//p' "$(dirname "${file%%$'\n'*}")/status")"
  no_dead() { ! ps -o stat= --ppid "$launch" | grep -q Z; }
  pass_if "of which an actor is killed" wait_for 10 says "was killed by signal 9"
  pass_if "and leaves no zombie" wait_for 10 no_dead
  kill -TERM "$launch"
  ended 10
  pass_if "it stops with SIGTERM" ended_well
else
  echo "SKIP a launcher that is process 1: $(tail -n 1 err)"
fi

# However early: a child that has not come to its own first line has heard of it all the same.
launches=20
if [ "${FAULTS:-}" = all ]; then launches=60; fi
for ((i = 0; i < launches; i++)); do
  "$tree/build/launch" cartpole vtrace 3 4 --total_steps=1e9 --logdir="early-$i" >out 2>err \
    </dev/null &
  run=$!
  sleep "0.0$(printf '%03d' $((RANDOM % 600)))"
  killed "$run"
done
pass_if "of $launches launchers that are killed while they start none leaves a process" \
  wait_for 10 none_left
finish
