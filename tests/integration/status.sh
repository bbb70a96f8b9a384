#!/usr/bin/env bash
# Watching a run: scripts/status.sh, and the line that says why nothing is trained, for every cause
# with real processes. All learners run at once, as each cause takes 10 s to show.
. "$(dirname "$(readlink -f "$0")")/lib.sh"
. "$tree/scripts/lib.sh"
build all || exit 1
gcc -std=gnu11 -O2 -Wall -Wextra -o hold_thread "$tree/tests/integration/hold_thread.c" ||
  exit 1

declare -A learners actors
# start_learner NAME WORDS...: one in the background that listens on NAME.socket; logs to NAME.err.
start_learner() {
  local name=$1
  shift
  "$tree/build/learner" --env=cartpole --listen="unix:$work/$name.socket" --total_steps=1e12 \
    --log_level=debug "$@" >"$name.out" 2>"$name.err" &
  learners[$name]=$!
}
# start_actor NAME TASK WORDS...: one for that learner.
start_actor() {
  local name=$1 task=$2
  shift 2
  "$tree/build/actor" --env=cartpole --learner="unix:$work/$name.socket" --task="$task" \
    --streams=1 "$@" >"$name.actor-$task" 2>&1 &
  actors[$name$task]=$!
}
status() { timeout 20 "$tree/build/status" "$@" >"$work/out" 2>"$work/err"; }
shows() { grep -qE -- "$1" "$work/out"; }

begin=$SECONDS
start_learner empty --num_envs=8 --logdir=empty
start_learner stopped --num_envs=8 # its folder is one of runs/
start_learner slow --num_envs=4 --logdir=slow
start_learner partial --num_envs=8 --logdir=partial --deterministic
start_learner judged --num_envs=8 --logdir=judged
# Most of its trainer's time is computation, in which it can be held.
start_learner busy --num_envs=64 --logdir=busy --device=ref --hidden=256,256 --batch_size=128
# Of replays: one that fills slowly, one that gets too few windows, one that is due more updates for
# a window than can be made in 10 s.
start_learner filling --num_envs=4 --logdir=filling --agent=dqn --replay_min_steps=50000
start_learner waiting --num_envs=4 --logdir=waiting --agent=dqn --replay_min_steps=100 \
  --replay_ratio=0.001
start_learner behind --num_envs=4 --logdir=behind --agent=dqn --replay_min_steps=100 \
  --replay_ratio=1e6 --device=ref --hidden=256,256
start_actor filling 0 --envs=4 --step_delay_us=10000
start_actor waiting 0 --envs=4 --step_delay_us=10000
start_actor behind 0 --envs=4
start_actor stopped 0 --envs=4
start_actor stopped 1 --envs=4
start_actor slow 0 --envs=4 --step_delay_us=1000000
start_actor partial 0 --envs=4
start_actor judged 0 --envs=4 --role=eval --step_delay_us=1000
start_actor busy 0 --envs=64

# ---- status

plays() { status && shows '^actor/0/0 +[a-z]+ +4 ' && shows '^actor/1/0 +[a-z]+ +4 '; }
pass_if "without an address the newest run in runs/ is shown, actor by actor" wait_for 10 plays
moves() { status && shows '^trained +[1-9]' && shows '^actors +8 of 8 environments, 0 late'; }
pass_if "what was trained, and all environments" wait_for 10 moves
in_json() {
  status "unix:$work/stopped.socket" --json && [ "$(wc -l <out)" -eq 1 ] &&
    shows '"environment":"cartpole"' && shows '"name":"actor/1/0"' && shows '"step_us":[0-9.]+' &&
    shows '"train_environments":8' && shows '"eval_return_mean":null'
}
pass_if "--json is one line with every figure" wait_for 10 in_json
watched_thrice() { [ "$(grep -c '^cartpole vtrace, training' watched)" -ge 3 ]; }
watches() {
  "$tree/build/status" "unix:$work/stopped.socket" --watch=0.1 >watched 2>/dev/null &
  wait_for 10 watched_thrice
  local result=$?
  kill $!
  wait $! 2>/dev/null
  return $result
}
pass_if "--watch shows it again and again" watches
by_folder() { status judged && shows ': .*/judged$'; }
pass_if "a run folder stands for its learner" wait_for 10 by_folder
by_socket() { status empty.socket && shows ': .*/empty$' && shows '^actors +0 of 8'; }
pass_if "and so does a socket" wait_for 10 by_socket

# refuses NAME CODE SENTENCE WORDS...
refuses() {
  local name=$1 expected=$2 sentence=$3
  shift 3
  status "$@"
  code=$?
  named() { is $code "$expected" && says "$sentence" && [ ! -s out ]; }
  pass_if "$name" named
}
refuses "nobody listens" 1 "nobody listens at 127.0.0.1:1: Connection refused" 127.0.0.1:1
refuses "no such socket" 1 "there is no such socket" "unix:$work/none"
refuses "neither an address nor a folder" 2 "is neither an address" nonsense
refuses "a folder without a run" 1 "holds no run" "$tree/docs"
refuses "an option that does not exist" 2 "did you mean --watch" --wach
refuses "two addresses" 2 "one word too many" 127.0.0.1:1 127.0.0.1:2

# ---- no data, because ...

busy_trains() { status busy && shows '^trained +[1-9]'; }
pass_if "a trainer trains" wait_for 20 busy_trains
./hold_thread "${learners[busy]}" trainer >held &
hold=$!
disown $hold
if ! wait_for 5 grep -qs held held; then
  echo "SKIP a trainer that is held: ptrace is not allowed here"
  hold=
fi
kill -STOP "${actors[stopped0]}" "${actors[stopped1]}"
# explained NAME SENTENCE: the learner has said it, and no more than once in 10 s.
explained() {
  local said
  said=$(grep -c "warning: no data for [1-9][0-9]* s: .*$2" "$1.err")
  [ "$said" -ge 1 ] && [ "$said" -le $(((SECONDS - begin) / 10)) ]
}
pass_if "nobody connected" wait_for 20 explained empty \
  "no actor is connected: 0 of 8 environments; they are expected at unix:$work/empty.socket"
pass_if "only an evaluator" wait_for 20 explained judged \
  "only evaluators are connected .*: 0 of 8 training environments"
pass_if "--deterministic waits for the rest" wait_for 20 explained partial \
  "waits until all 8 environments have asked to join .*: 4 have"
pass_if "slow environments" wait_for 20 explained slow \
  "a training batch needs 32 windows of 20 steps and has .*; the environments make [0-9.]* steps/s"
pass_if "a replay that fills" wait_for 20 explained filling \
  "the replay holds [1-9][0-9]* of [0-9]* windows before training starts; the environments make"
fills() { status filling && shows '^replay +[1-9][0-9]* of [0-9k]+ windows before training'; }
pass_if "status shows how far it is" fills
pass_if "a trainer that waits for new windows" wait_for 20 explained waiting \
  "the trainer waits for [1-9][0-9]* new windows, which --replay_ratio=0.001 asks for before"
stands() {
  grep -q 'warning: no step for [1-9][0-9]* s: actors wait for the trainer: sampling is [1-9]' \
    behind.err
}
pass_if "acting that waits for updates of windows that it has given" wait_for 30 stands
trains() { status behind && shows '^replay +[0-9]+ windows; [1-9].* sampled for each new one'; }
pass_if "while the trainer trains" wait_for 10 trains
pass_if "stopped actors" wait_for 20 explained stopped "8 of 8 environments are connected, but no \
step has come for [1-9][0-9]* s: actor/[01]/0 (and 1 more of 2 streams) has not answered"
[ -n "$hold" ] && pass_if "a busy trainer" wait_for 30 explained busy \
  "the trainer has been busy with one update"
full() { status busy && shows '^no data .*the FIFO is full: actors wait for it'; }
[ -n "$hold" ] && pass_if "status answers while inference waits for the trainer" wait_for 20 full
joins() { grep -q 'actor/1/0 plays' busy.err; }
start_actor busy 1 --envs=4
pass_if "and so does Join" wait_for 2 joins
why() { status empty && shows '^no data +no actor is connected'; }
pass_if "status shows why" why
late() { status "unix:$work/stopped.socket" && shows '^actors +8 of 8 environments, 8 late'; }
pass_if "and which environments are late" late

[ -n "$hold" ] && kill -KILL "$hold"
kill -CONT "${actors[stopped0]}" "${actors[stopped1]}"
again() { grep -q 'data again, after [1-9][0-9]* s without' stopped.err; }
pass_if "one line when data comes again" wait_for 5 again
few() { [ "$(grep -c 'steps .*/s ' stopped.err)" -le $((2 + (SECONDS - begin) / 10)) ]; }
pass_if "a file gets a progress line every 10 s" few

# What is not needed any more; bash would announce the ends of jobs that it still knows.
disown -a
for name in slow partial judged busy filling waiting behind; do
  kill -KILL "${learners[$name]}"
done

# ---- the end

kill -STOP "${learners[empty]}"
refuses "a learner that is stopped" 1 "something listens at" "unix:$work/empty.socket" --timeout_s=1
kill -KILL "${learners[empty]}"
wait_for 5 has_gone "${learners[empty]}"
refuses "a run that is over, by its folder" 1 "the run in empty is over" empty
status "unix:$work/stopped.socket" --watch=0.2 &
watch=$!
shown() { [ -s "$work/out" ]; }
wait_for 10 shown
kill -TERM "${learners[stopped]}"
ends() { wait $watch && says "the watch is over: nobody listens"; }
pass_if "a watch ends with its run, in good order" ends
wait_for 5 has_gone "${learners[stopped]}"
refuses "and then none goes on in runs/" 1 "no run goes on in the folder runs"
finish
