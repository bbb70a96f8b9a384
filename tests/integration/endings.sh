#!/usr/bin/env bash
# Ends that come from outside: stops that arrive twice, readers that go away, descriptors that are
# closed; and what a continued run keeps, down to the recurrent state stored with a window.
. "$(dirname "$(readlink -f "$0")")/lib.sh"

endless=(cartpole vtrace 2 8 --total_steps=1e12)
has_result() { is "$(value reason)" signal && [ -n "$(ls "$1"/checkpoints)" ]; }

# ---- a stop that arrives twice is one wish

run "${endless[@]}" --logdir=twice
wait_for 20 metric_passes step 1000 twice
kill -TERM "$run"
kill -TERM "$run"
ended
pass_if "SIGTERM twice in a moment stops in good order" has_result twice
pass_if "with exit code 0" is "$code" 0

run "${endless[@]}" --logdir=service
wait_for 20 metric_passes step 1000 service
kill -TERM $(pids launch learner actor)
ended
pass_if "SIGTERM to every process stops in good order" has_result service

# It hands on a signal as it does when its time is over.
timeout --preserve-status 600 "$tree/run_local.sh" "${endless[@]}" --logdir=timeout >out 2>err &
run=$!
wait_for 20 metric_passes step 1000 timeout
kill -TERM "$run"
ended
pass_if "a run under timeout leaves its result" has_result timeout
pass_if "and no process" no_process

# ---- a signal that was inherited as ignored stays ignored; SIGTERM stops all the same

ignored=(env --ignore-signal=HUP,INT)
# goes_on PID FOLDER: after both signals, and training there.
goes_on() {
  local before
  kill -HUP "$1"
  kill -INT "$1"
  before=$(whole_metric step "$2")
  wait_for 20 metric_passes step $((before + 2000)) "$2" && kill -0 "$1" && ! says "stopping"
}
stops() {
  kill -TERM "$run"
  ended 20
  is "$code" 0 && is "$(value reason)" signal
}
"${ignored[@]}" "$tree/build/learner" --listen="$address" --env=cartpole --num_envs=8 \
  --logdir=nohup --metrics_secs=0.25 --total_steps=1e12 >"$work/out" 2>"$work/err" </dev/null &
run=$!
"${ignored[@]}" "$tree/build/actor" --learner="$address" --env=cartpole --envs=8 \
  >actor.log 2>&1 </dev/null &
actor=$!
started+=("$run" "$actor")
wait_for 20 metric_passes step 1000 nohup
pass_if "SIGHUP and SIGINT do not end a learner that inherited them as ignored" goes_on "$run" nohup
kill -INT "$actor"
kill -HUP "$actor"
pass_if "nor such an actor" goes_on "$run" nohup
pass_if "the learner stops with SIGTERM" stops
end_by_hand

"${ignored[@]}" "$tree/run_local.sh" "${endless[@]}" --logdir=launched \
  >"$work/out" 2>"$work/err" </dev/null &
run=$!
wait_for 20 metric_passes step 1000 launched
pass_if "nor ./run_local.sh, started with nohup" goes_on "$run" launched
# What it starts handles them: its own processes are stopped as ever.
kill -INT "$(pids learner)"
ended 20
stopped_inside() { is "$code" 130 && is "$(value reason)" signal && no_process; }
pass_if "whose learner handles them, and stops with SIGINT" stopped_inside

export TF_CONFIG='{"cluster": {"chief": ["127.0.0.1:1"], "ps": ["127.0.0.1:2"]},
  "task": {"type": "ps", "index": 0}}'
"${ignored[@]}" "$tree/build/task" cartpole vtrace >out 2>err </dev/null &
run=$!
unset TF_CONFIG
wait_for 20 says "waiting for the end of the learner"
kill -HUP "$run"
kill -INT "$run"
sleep 0.3
pass_if "nor a ps task" kill -0 "$run"
kill -TERM "$run"
ended 5
pass_if "which stops with SIGTERM" is "$code" 0

# ---- nobody reads what is said

"$tree/run_local.sh" cartpole vtrace 2 8 --total_steps=100k --logdir=pipe 2>&1 | head -n 1 >out
wait_for 20 none_left
reached() { [ "$(whole_metric step "$1")" -ge 100000 ] && [ -n "$(ls "$1"/checkpoints)" ]; }
pass_if "a reader that goes away does not end the run" reached pipe
"$tree/run_local.sh" cartpole vtrace 2 8 --total_steps=20k --logdir=closed <&- >&- 2>&-
code=$?
closed_works() { is $code 0 && [ -n "$(ls closed/checkpoints)" ]; }
pass_if "closed descriptors do no harm" closed_works
"$tree/run_local.sh" cartpole vtrace 2 8 --total_steps=20k --logdir=full >/dev/full 2>err
code=$?
full_is_said() { is $code 1 && says "cannot write the result" && [ -n "$(ls full/checkpoints)" ]; }
pass_if "a result that cannot be written is an error" full_is_said

# ---- exit codes: what --help lists is what happens

# ends PROGRAM CODE WORDS...: the exit code of its help's list.
ends() {
  local program=$1 expected=$2 code=0
  shift 2
  timeout -k 1 20 "$tree/build/$program" "$@" >"$work/out" 2>"$work/err" </dev/null || code=$?
  is $code "$expected" && lists "$program" "$expected"
}
# lists PROGRAM CODE...: each is the beginning of a line of the list, alone or with others.
lists() {
  local program=$1 code
  for code in "${@:2}"; do
    "$tree/build/$program" --help | sed -n '/^Exit codes:/,/^$/p' |
      grep -qE "^  ([0-9, ]*, )?$code(,|  )" || { echo "  $program --help: no $code"; return 1; }
  done
}
for program in learner actor launch task status checkpoint curves watch; do
  pass_if "$program: exit code 2, wrong options, is listed" ends $program 2 --no_such_option=1
done
pass_if "actor: 4, no learner" ends actor 4 --learner="unix:$work/nobody" --reconnect_s=0
pass_if "launch: 3, the target is missed" ends launch 3 cartpole vtrace 2 --total_steps=2k \
  --target_return=500 --no_plot --logdir=missed
pass_if "learner: 0, 1, 3 and 130 are listed" lists learner 0 1 3 130
pass_if "checkpoint: 0" ends checkpoint 0 missed
mkdir -p missed/empty
cp missed/config.txt missed/empty
pass_if "checkpoint: 1, there is none" ends checkpoint 1 missed/empty
head -n 1 missed/metrics.jsonl >missed/empty/metrics.jsonl
pass_if "curves: 4, nothing to draw" ends curves 4 missed/empty
pass_if "status: 1, nobody answers" ends status 1 missed
learner --env=cartpole --num_envs=8 --logdir=codes --total_steps=1e12 --metrics_secs=0.25
listening=$run
# actor_ends SIGNAL CODE
actor_ends() {
  local code=0
  actor "$2" --envs=8 # a log of its own
  wait_for 20 grep -qs "for the learner at" "actor-$2.log" # it handles signals before that
  kill "-$1" "$actor"
  wait "$actor" || code=$?
  is $code "$2" && lists actor "$2"
}
pass_if "actor: SIGTERM, 143" actor_ends TERM 143
pass_if "actor: SIGINT, 130" actor_ends INT 130
pass_if "actor: 1, refused" ends actor 1 --learner="$address" --env=catch
run=$listening
kill -INT "$run"
ended 10
pass_if "learner: SIGINT, 130" is $code 130
end_by_hand

# ---- --deterministic

learner --env=cartpole --num_envs=8 --deterministic --logdir=waiting
actor 0 --env=cartpole --envs=4
catches_sigterm() { ((0x$(sed -n 's/^SigCgt:[[:blank:]]*//p' "/proc/$run/status") & 1 << 14)); }
wait_for 20 catches_sigterm
sleep 0.3 # a Join is there, most likely
kill -TERM "$run"
ended 10
pass_if "a learner that collects Joins stops in good order" is "$code" 0
end_by_hand

# ---- a learner that waits for an actor to tell it the environment

stops_waiting() {
  : >"$work/err"
  learner --env=join --logdir=told
  wait_for 20 says "for the first actor"
  kill "-$1" "$run"
  ended 5
  is "$code" 0 && says "stopping; no actor has come" && [ ! -e told ] && [ ! -e by-hand ]
}
for signal in TERM INT HUP; do
  pass_if "--env=join, while it waits: SIG$signal ends it with a word" stops_waiting $signal
done
end_by_hand

for i in 1 2 3; do
  run cartpole vtrace 2 8 --deterministic --total_steps=200k --target_return=60 --logdir="same-$i"
  ended
done
sums() {
  local i
  for i in 1 2 3; do cksum "$(newest_checkpoint same-$i)"; done | cut -d' ' -f1,2 | sort -u | wc -l
}
pass_if "a target ends the same deterministic run at the same update" is "$(sums)" 1
irregular() { says "the same seed does not give this run again"; }
pass_if "which is repeatable" eval '! irregular && ! says "not repeatable"'
run cartpole vtrace 2 8 --deterministic --total_steps=1e12 --metrics_secs=0.1 --logdir=irregular
wait_for 20 metric_passes step 1000 irregular
kill -KILL "$(pids actor | head -n 1)"
pass_if "an actor that dies: the run is not repeatable any more, which is logged" \
  wait_for 20 irregular
before=$(whole_metric step irregular)
wait_for 20 metric_passes step $((before + 1000)) irregular
pass_if "it goes on, and its metrics count it" metric_passes serve/streams_lost 0 irregular
kill -TERM "$run"
ended
logged_again() { is "$(grep -c "does not give this run again" err)" 1 && says "not repeatable"; }
pass_if "at the end it is logged again" logged_again

# ---- continuing keeps the run's options

run cartpole vtrace 2 8 --total_steps=20k --logdir=own --hidden=32,32 --discount=0.9 --seed=7
ended
sed '/total_steps/d; /^#/d' own/config.txt >before
run cartpole vtrace 2 8 --total_steps=40k --logdir=own --resume --entropy_cost=0.03
ended
keeps_options() {
  sed '/total_steps/d; /^#/d' own/config.txt | diff before - >changes
  is "$code" 0 && is "$(grep -c '^[<>]' changes)" 2 && grep -q '> entropy_cost = 0.03' changes &&
    says "resuming with --entropy_cost=0.03; it was 0.02"
}
pass_if "--resume keeps the run's options, but for those that are given" keeps_options
# --deterministic: the last update is the same one in each run.
run cartpole vtrace 2 8 --config=own/config.txt --logdir=copy --total_steps=4k --deterministic
ended
copies() { is "$code" 0 && grep -q '^hidden = 32,32' copy/config.txt; }
pass_if "a run's config.txt is a --config for another run" copies
run catch ppo 1 4 --env_args='{"size": 40}' --logdir=images --total_steps=200
ended
run catch ppo 1 4 --config=images/config.txt --logdir=images_again --total_steps=200
ended
pass_if "also one of a network that has no --hidden" eval 'is "$code" 0'

# One of a version that counted --target_update in updates has no importance_exponent_end.
run cartpole dqn 1 --total_steps=2k --logdir=counts
ended
run cartpole dqn 1 --total_steps=2k --logdir=again --config=counts/config.txt
ended
pass_if "which says nothing of its target" eval 'is "$code" 0 && ! says "--target_update="'
pass_if "nor of options of other agents" eval '! says "no such option"'
run cartpole vtrace 1 --total_steps=2k --logdir=other --config=counts/config.txt
ended
ignored() { is "$code" 0 && says "agent vtrace has no such option: ignored"; }
pass_if "which another agent ignores, with a line" ignored
sed '/^importance_exponent_end/d; s/^target_update = .*/target_update = 100/' \
  counts/config.txt >older.txt
run cartpole dqn 1 --total_steps=4k --logdir=older --config=older.txt
ended
translated() {
  is "$code" 0 && says "it counts --target_update in updates: 100 of them are 400 steps" &&
    says "target network: copied every 400 steps (100 updates)" &&
    grep -q '^target_update = 400$' older/config.txt
}
pass_if "one that counted updates is translated, which is said" translated
run cartpole dqn 1 --total_steps=4k --logdir=replaced --config=older.txt --replay_ratio=32
ended
replaced() {
  is "$code" 0 && says "100 of them are 800 steps" &&
    grep -q '^target_update = 800$' replaced/config.txt
}
pass_if "also where an option of it is replaced" replaced

decays() {
  metric_passes learning_rate 0 copy && ! metric_passes learning_rate 3e-4 copy
}
pass_if "a linear decay reaches the end with the budget" decays

# ---- what the learner trains on is what inference saw: with parameters that stand still, the
# policy of a stored window is the behaviour policy, to the last bit. A wrong recurrent state,
# previous action or reset shows here.
for run_of in "tmaze --network=lstm" "cartpole --network=lstm --unroll_length=7" "catch"; do
  read -ra words <<<"$run_of"
  name=still-${words[0]}
  run "${words[0]}" vtrace 2 8 "${words[@]:1}" --total_steps=100k --logdir="$name"
  ended
  run "${words[0]}" vtrace 2 8 --total_steps=130k --logdir="$name" --resume --learning_rate=0
  ended
  kl() { metric policy/kl "$name"; }
  pass_if "$run_of: trained windows are what was played" is "$(kl)" 0.0
done
finish
