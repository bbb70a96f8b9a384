#!/usr/bin/env bash
# Several learners on several hosts, made of network namespaces and a cable between them: by
# TF_CONFIG they train one network, stop and resume together, and end with a checkpoint when one of
# them is killed, hangs, or cannot be reached any more. Needs root.
. "$(dirname "$(readlink -f "$0")")/tasks/lib.sh"

here=acorn-$$-here there=acorn-$$-there
hosts() {
  ip netns add "$here" && ip netns add "$there" &&
    ip link add "ac$$" netns "$here" type veth peer name "bc$$" netns "$there" &&
    ip -n "$here" addr add 10.99.0.1/24 dev "ac$$" &&
    ip -n "$there" addr add 10.99.0.2/24 dev "bc$$" &&
    ip -n "$here" link set lo up && ip -n "$here" link set "ac$$" up &&
    ip -n "$there" link set lo up && ip -n "$there" link set "bc$$" up
}
no_hosts() {
  ip netns del "$here"
  ip netns del "$there"
} 2>/dev/null
trap 'end_all; no_hosts; rm -rf "$work"' EXIT
if ! hosts >/dev/null 2>&1; then
  echo "SKIP learners on several hosts: no network namespaces can be made here (root, ip needed)"
  finish
fi
show_run() { tail -n 5 ./*.log 2>/dev/null | sed 's/^/    /'; }

learners='"chief": ["10.99.0.1:8686"], "learner": ["10.99.0.2:8686"]'
workers="$learners"', "worker": ["10.99.0.1:1", "10.99.0.2:1"]'
new_token token

# start TYPE INDEX HOST WORDS...: a task of $cluster on that host, in $folder there. Its output goes
# to TYPE-INDEX.log, its exit code to TYPE-INDEX.code.
cluster=$learners folder=.
start() {
  local name=$1-$2 host=$3
  rm -f "$name.code"
  mkdir -p "$folder"
  {
    (
      cd "$folder" && TF_CONFIG="{\"cluster\": {$cluster}, \"task\": {\"type\": \"$1\", \
        \"index\": $2}}" exec ip netns exec "$host" "$run_task" cartpole "${agent:-vtrace}" \
        --logdir=run --metrics_secs=0.25 --token_file="$work/token" "${@:4}"
    ) >"$name.log" 2>&1 </dev/null
    echo $? >"$name.code"
  } 2>/dev/null & # bash would announce a task that was killed
}
# both WORDS...: the tasks of both learners.
both() {
  start chief 0 "$here" "$@"
  start learner 0 "$there" "$@"
}
# of_rank R: the process of that learner.
of_rank() {
  local pid
  for pid in $(pids learner); do
    tr '\0' '\n' <"/proc/$pid/cmdline" | grep -qx -- "--learner_rank=$1" && echo "$pid"
  done
}
first_says() { grep -qF -- "$1" chief-0.log; }
second_says() { grep -qF -- "$1" learner-0.log; }
# trains STEPS: the present run has made so many, of its own.
trains() {
  local at
  at=$(sed -n 's/.*resuming from the checkpoint of .*, step \([0-9]*\).*/\1/p' chief-0.log)
  first_says "run folder" && metric_passes step $((${at:-0} + $1)) &&
    metric_passes step "${at:-0}" "${second:-run/learner-1}"
}
# ends SECONDS NAME CODE: whether that task ends within them, and so.
ends() { wait_for "$1" test -s "$2.code" && is "$(cat "$2.code")" "$3"; }
later() { [ "$(updates_of "$1")" != "$2" ]; }
resumes() { first_says "resuming from the checkpoint of update $((10#$1)),"; }

# ---- a whole run, with actors on both hosts that are spread over the learners

cluster=$workers
for place in "worker 0 $here" "worker 1 $there" "learner 0 $there" "chief 0 $here"; do
  # shellcheck disable=SC2086
  start $place --actors_per_worker=2 --target_return=475 --total_steps=6M --seed=3
done
pass_if "two learners on two hosts solve CartPole" all_end 120 0 chief-0 learner-0 worker-0 worker-1
pass_if "by their target" is "$(result chief-0 reason)$(result learner-0 reason)" \
  target_returntarget_return
both_play() {
  [ "$(grep -c ",train," run/episodes.csv)" -gt 50 ] &&
    [ "$(grep -c ",train," run/learner-1/episodes.csv)" -gt 50 ]
}
pass_if "both have episodes of their own" both_play
pass_if "the second one leaves no checkpoint of its own" is "$(ls run/learner-1/checkpoints)" ""
rm -rf run

# ---- the same bits as on one host

cluster=$learners
same=(--deterministic --total_steps=60k --actors_per_worker=2 --envs_per_actor=4 --evaluators=0)
agent=ppo both "${same[@]}"
pass_if "learners on two hosts" all_end 60 0 chief-0 learner-0
mv run hosts
"$tree/run_local.sh" cartpole ppo 4 4 --logdir=host --deterministic --learners=2 --total_steps=60k \
  --evaluators=0 >out 2>err </dev/null
pass_if "train as on one, bit for bit" same_bits hosts host
rm -rf hosts host

# ---- stopped and resumed

long=(--total_steps=1e9 --actors_per_worker=2 --envs_per_actor=4 --checkpoint_secs=0
  --learners_timeout_s=3)
both "${long[@]}"
pass_if "a long run trains" wait_for 30 trains 20000
kill -TERM "$(of_rank 1)"
pass_if "a signal to one of them stops both in order" all_end 20 0 chief-0 learner-0
at=$(updates_of run)
both "${long[@]}" --resume
pass_if "and both go on" wait_for 30 resumes "$at"
pass_if "and train" wait_for 30 trains 5000

# ---- one is killed; the run folder is that of both

for killed in 1 0 1 0; do
  before=$(updates_of run)
  kill -KILL "$(of_rank $killed)"
  if [ $killed = 1 ]; then
    pass_if "without learner 1 learner 0 ends" ends 30 chief-0 1
    pass_if "and names it" first_says "learner 1 of 2 has ended"
  else
    pass_if "without learner 0 learner 1 ends" ends 30 learner-0 1
    pass_if "and names it" second_says "learner 0 of 2 has ended"
  fi
  pass_if "with a checkpoint" wait_for 2 later run "$before"
  wait_for 20 none_left
  at=$(updates_of run)
  both "${long[@]}" --resume
  pass_if "which the job that is started again resumes" wait_for 30 resumes "$at"
  pass_if "and trains" wait_for 30 trains 5000
done

# ---- one hangs; meanwhile one learner alone goes on with the run, and ends it

has_one() { [ -e "$(newest_checkpoint "$1")" ]; }
# written: what a late learner must not change.
written() { sha256sum run/result.json run/checkpoints/*; }
for way in told lost; do
  before=$(updates_of run)
  hung=$(of_rank 1)
  kill -STOP "$hung"
  if [ $way = told ]; then
    pass_if "a learner that hangs is given up after its time" ends 13 chief-0 1
    pass_if "and named" first_says "learner 1 of 2 did not answer within 3 s"
    pass_if "with a checkpoint" wait_for 2 later run "$before"
  else
    kill -KILL "$(of_rank 0)"
    wait_for 10 test -s chief-0.code # of a process that was killed
  fi
  at=$(updates_of run)
  cluster='"chief": ["10.99.0.1:8686"]' start chief 0 "$here" "${long[@]}" --resume
  pass_if "one learner alone goes on" wait_for 30 resumes "$at"
  second=run wait_for 30 trains 1000 # it takes signals by then
  kill -TERM "$(pids learner | grep -vx "$hung")"
  pass_if "and ends the run" ends 20 chief-0 0
  written >before
  kill -CONT "$hung"
  pass_if "the one that hung ends when it goes on" ends 13 learner-0 1
  [ $way = lost ] ||
    pass_if "and is told why" second_says "have not heard from this learner, 1 of 2, within 3 s"
  written >after
  pass_if "and leaves the run's files as they are" cmp before after
  pass_if "its own result has its error" is "$(json run/learner-1/result.json reason)" error
  [ $way = lost ] && break
  wait_for 20 none_left
  rm -rf run
  both "${long[@]}" --checkpoint_secs=0.5
  pass_if "another run trains" wait_for 30 trains 5000
  pass_if "and has a checkpoint" wait_for 20 has_one run
done
rm -rf run

# ---- the cable is cut; each host has folders of its own

folder=$work/a start chief 0 "$here" "${long[@]}"
folder=$work/b start learner 0 "$there" "${long[@]}"
cut_off() {
  ln -sfn a/run run
  second=b/run/learner-1 trains 5000
}
pass_if "without a common file system they train as well" wait_for 30 cut_off
ip -n "$there" link set "bc$$" down
pass_if "without the network the first one ends" ends 13 chief-0 1
pass_if "and the second one" ends 13 learner-0 1
pass_if "each names the other" eval 'first_says "learner 1 of 2 did not answer within 3 s" &&
  second_says "learner 0 of 2 did not answer within 3 s"'
pass_if "and each has a checkpoint" eval 'has_one a/run && has_one b/run/learner-1'
at=$(updates_of a/run)
ip -n "$there" link set "bc$$" up
folder=$work/a start chief 0 "$here" "${long[@]}" --resume
folder=$work/b start learner 0 "$there" "${long[@]}" --resume
pass_if "the job goes on once there is a network" wait_for 30 resumes "$at"
pass_if "and trains" wait_for 30 cut_off
kill -TERM "$(of_rank 0)"
pass_if "until it is stopped" all_end 20 0 chief-0 learner-0
rm -rf run a b

# ---- learners that do not fit

start chief 0 "$here" "${long[@]}" --unroll_length=10
start learner 0 "$there" "${long[@]}" --unroll_length=20
pass_if "learners that disagree end" all_end 20 2 chief-0 learner-0
pass_if "both name both values" eval \
  'first_says "'"'--unroll_length=10' and '--unroll_length=20'"'" &&
    second_says "'"'--unroll_length=10' and '--unroll_length=20'"'"'
start chief 0 "$here" "${long[@]}" --learners_timeout_s=8
# stranger COMMAND: connected to the first learner's port for others by descriptor 3.
stranger() { ip netns exec "$there" bash -c "exec 3<>/dev/tcp/10.99.0.1/8750 && $1" 2>/dev/null; }
pass_if "a stranger connects" wait_for 5 stranger true
stranger "sleep 7" &
silent=$!
pass_if "another one asks for a page" stranger "echo 'GET / HTTP/1.1' >&3"
pass_if "one whose other never comes ends" all_end 20 2 chief-0
wait "$silent"
pass_if "and names it" first_says "learner 1 of 2, at 10.99.0.2:8750, has not come within 8 s"
pass_if "also before" first_says "learner 0 waits for 1 at 10.99.0.2:8750"
refused() { is "$(grep -c "a connection from 10.99.0.2 was refused: $1" chief-0.log)" "$2"; }
pass_if "the log has those that closed" refused "it closed the connection before it had proved" 2
pass_if "and the one that said nothing" refused "it did not prove itself within 5 s" 1
new_token other
start chief 0 "$here" "${long[@]}"
start learner 0 "$there" "${long[@]}" --token_file="$work/other"
pass_if "learners with other tokens end" all_end 20 2 chief-0 learner-0
pass_if "and the token is named" first_says "refused: it has another token"
"$tree/build/learner" --learners=2 --learner_rank=0 --learners_at=a:1 --logdir=no 2>err
pass_if "too few addresses are refused" says "--learners_at names 1 addresses, and --learners=2"
"$tree/build/learner" --learners=2 --learner_rank=0 --learners_at=a:1,b --logdir=no 2>err
pass_if "a word that is no address is, too" says "--learners_at, learner 1: address 'b' has no port"
finish
