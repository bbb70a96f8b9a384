# Helpers of the tests of deploy/run_task.sh: what a task would run under a platform's variables,
# and whole clusters of real tasks on this machine.
# shellcheck shell=bash
. "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../lib.sh"
run_task=$tree/deploy/run_task.sh
# This machine's own platform, if it has one, says nothing here.
unset TF_CONFIG CLUSTER_SPEC SM_HOSTS SM_CURRENT_HOST SM_RESOURCE_CONFIG

# plan NAME=VALUE... WORDS...: what the task would run; its exit code is in $code.
plan() {
  local variables=()
  while [[ ${1:-} =~ ^[A-Z_]+= ]]; do
    variables+=("$1")
    shift
  done
  env "${variables[@]}" "$run_task" cartpole vtrace --dry_run "$@" >"$work/out" 2>"$work/err"
  code=$?
}

# expect NAME "role=... index=... learner=... listen=... num_envs=...": of the plan.
expect() { pass_if "$1" is "$(sed -n '1s/^task source=[^ ]* //p' out)" "$2"; }
# The tasks that a plan's actors have, in one line.
numbers() { sed -n 's/^actor .*--task=\([0-9]*\).*/\1/p' out | tr '\n' ' '; }
has_word() { sed -n "/^$1 /p" out | tr ' ' '\n' | grep -qxF -- "$2"; } # PROGRAM WORD
refused_with() { is "$code" 2 && says "$1"; }

# task NAME VARIABLE=VALUE... -- WORDS...: one task of a cluster in the background, as its container
# would start it. Its output goes to NAME.log, its exit code to NAME.code.
task() {
  local name=$1 variables=()
  shift
  while [ "$1" != -- ]; do
    variables+=("$1")
    shift
  done
  shift
  {
    env "${variables[@]}" "$run_task" cartpole vtrace "$@" >"$name.log" 2>&1 </dev/null
    echo $? >"$name.code"
  } 2>/dev/null & # bash would announce a task that was killed
}

# all_end SECONDS CODE NAME...: whether these tasks end so, and nothing of them stays.
all_end() {
  local name
  for name in "${@:3}"; do
    wait_for "$1" test -s "$name.code" && is "$(cat "$name.code")" "$2" || return
  done
  none_left
}
none_left() { [ -z "$(pids learner actor task)" ]; }
end_all() {
  local pid
  for pid in $(pids task learner actor); do kill -KILL "$pid" 2>/dev/null; done
  wait 2>/dev/null # what writes here ends with them
}
show_run() { tail -n 5 out err ./*.log 2>/dev/null | sed 's/^/    /'; }
result() { grep -h '^result ' "$1.log" | tr ' ' '\n' | sed -n "s/^$2=//p"; } # TASK KEY
