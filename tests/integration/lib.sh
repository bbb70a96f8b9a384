# Helpers of the integration tests: real runs in a folder of their own, and what they leave behind.
# shellcheck shell=bash
export LC_ALL=C.UTF-8 # see scripts/lib.sh
set -u
tree=$(cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../.." && pwd)
work=$(mktemp -d /tmp/acorn-test-XXXXXX)
# Sockets of these runs lie here, and their processes are known by it.
export XDG_RUNTIME_DIR=$work
cd "$work" || exit 1
failures=0
# Limits of waiting are for an idle machine; a busy one may take so many times as long.
patience=${PATIENCE:-8}
trap 'end_all; rm -rf "$work"' EXIT

# pass_if NAME CONDITION...: one test; the condition is a command.
pass_if() {
  local name=$1
  shift
  if "$@"; then
    echo "PASS $name"
  else
    echo "FAIL $name"
    failures=$((failures + 1))
    show_run
  fi
}

finish() {
  exit $((failures > 0))
}

show_run() {
  local file
  for file in "$work"/out "$work"/err; do
    [ -s "$file" ] && echo "  $(basename "$file"):" && tail -n 15 "$file" | sed 's/^/    /'
  done
}

# What run starts: ./run_local.sh does, too, when it has looked for what it needs and has built,
# as this has.
(. "$tree/scripts/lib.sh" && build all) || exit 1
start=$tree/build/launch

# run WORDS...: it in the background; its id is in $run.
run() {
  : >"$work/out" >"$work/err" # what waits for a line must not see those of the run before
  env --default-signal=INT,HUP "$start" "$@" >"$work/out" 2>"$work/err" </dev/null &
  run=$!
}

# ended [SECONDS]: waits for the run and leaves its exit code in $code; 124 if it takes longer
# (default 60).
ended() {
  local tick
  code=124
  for ((tick = 0; tick < ${1:-60} * 20 * patience; tick++)); do
    if ! kill -0 "$run" 2>/dev/null; then
      wait "$run"
      code=$?
      return
    fi
    sleep 0.05
  done 2>/dev/null # bash would announce a run that was killed
}

# refused WORDS...: a run that must end by itself, soon.
refused() {
  run "$@"
  ended 20
}

# wait_for SECONDS CONDITION...
wait_for() {
  local tick seconds=$1
  shift
  for ((tick = 0; tick < seconds * 20 * patience; tick++)); do
    "$@" && return
    sleep 0.05
  done
  return 1
}

# same_bits RUN RUN: the newest checkpoints of two run folders; where they differ is printed.
same_bits() {
  python3 "$tree/tests/integration/compare_checkpoints.py" "$@" >differences || cat differences
  grep -q '^equal' differences
}

# pids NAME...: the processes of this test's runs with such a program name; they are known by their
# environment. Zombies have none.
pids() {
  local file program name
  for file in $(grep -lsaF "XDG_RUNTIME_DIR=$work" /proc/[0-9]*/environ); do
    program=
    { IFS= read -r -d '' program <"${file%environ}cmdline"; } 2>/dev/null
    for name in "$@"; do
      if [ "${program##*/}" = "$name" ]; then basename "${file%/environ}"; fi
    done
  done
}

num_actors() { [ "$(pids actor | wc -l)" -eq "$1" ]; }

# Nothing of this test's runs is left; they are given a moment, as the last ones end on a signal.
no_process() { wait_for 5 none_left; }
none_left() { [ -z "$(pids learner actor launch make cc1)" ]; }
no_socket() { ! ls "$work"/acorn-* >/dev/null 2>&1; }

# A port where nobody listens now; below those that the kernel gives to clients.
free_port() {
  local port
  until
    port=$((10000 + RANDOM % 20000))
    ! (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null
  do :; done
  echo $port
}

# new_token FILE: a secret for --token_file.
new_token() { (umask 077 && head -c 24 /dev/urandom | base64 >"$1"); }

end_all() {
  local pid
  for pid in $(pids launch learner actor); do kill -KILL "$pid" 2>/dev/null; done
}

# doc_block PAGE NUMBER: that block of code of a page of docs/.
doc_block() {
  awk -v want="$2" '/^```/ {inside = !inside; number += inside; next} inside && number == want' \
    "$tree/docs/$1"
}

# value KEY: of the result line, the last one on stdout.
value() { tail -n 1 "$work/out" | grep '^result ' | tr ' ' '\n' | sed -n "s/^$1=//p"; }
says() { grep -qF -- "$1" "$work/err"; }
is() { [ "$1" = "$2" ]; }

# plugins NAME...: builds the environments NAME.c of this folder, as ./FILE.so here.
plugins() {
  local plugin
  make -s -C "$tree" install PREFIX="$work/prefix" >/dev/null || exit 1
  for plugin in "$@"; do
    cc -std=c11 -O2 -Wall -Wextra -Werror -shared -fPIC -I"$work/prefix/include" \
      "$tree/tests/integration/$plugin.c" -o "${plugin##*/}.so" || exit 1
  done
}

# ---- a learner and actors that are started by hand

# learner WORDS...: in the background; its id is in $run. It listens on $address.
address="unix:$work/by-hand"
started=()
learner() {
  : >"$work/out" >"$work/err" # as in run
  env --default-signal=INT,HUP "$tree/build/learner" --listen="$address" "$@" \
    >"$work/out" 2>"$work/err" </dev/null &
  run=$!
  started+=("$run")
}

# actor TASK WORDS...: in the background; its log is actor-TASK.log, its id is in $actor.
actor() {
  local task=$1
  shift
  env --default-signal=INT,HUP "$tree/build/actor" --learner="$address" --task="$task" "$@" \
    >>"$work/actor-$task.log" 2>&1 </dev/null &
  actor=$!
  started+=("$actor")
}

end_by_hand() {
  {
    end_all
    wait "${started[@]}"
  } 2>/dev/null # bash would announce those that are killed
  started=()
}

# killed PID: kill -9, and its end.
killed() {
  {
    kill -KILL "$1"
    wait "$1"
  } 2>/dev/null # bash would announce it
}

# has_gone PID: it has ended. A zombie has, too: where process 1 does not reap, as in a container
# without an init, an orphan stays one.
has_gone() { ! grep -qs '^State:[[:blank:]]*[^ZX[:blank:]]' "/proc/$1/status"; }

# newest_checkpoint RUN: its file, by its name.
newest_checkpoint() { printf '%s\n' "$1"/checkpoints/checkpoint-*.acorn | tail -n 1; }

# updates_of [RUN]: of its newest checkpoint, as its name has them.
updates_of() { basename "$(newest_checkpoint "${1:-run}")" .acorn | cut -d- -f2; }

# two_train STEPS: two learners of the run in the folder run have made so many of its own.
two_train() {
  local at
  at=$(sed -n 's/.*resuming from the checkpoint of update [0-9]*, step \([0-9]*\).*/\1/p' err)
  says "run folder" && metric_passes step $((${at:-0} + $1)) &&
    metric_passes step "${at:-0}" run/learner-1
}

# json FILE KEY: a member of an object in a file; a path of keys and indices, a.0.b. Empty where it
# is null or not there.
json() {
  python3 -c 'import json, sys
value = json.load(open(sys.argv[1]))
for key in sys.argv[2].split("."):
    value = value[int(key)] if isinstance(value, list) else value.get(key)
print("" if value is None else value)' "$1" "$2" 2>/dev/null
}

# metric NAME [FOLDER]: in the newest line of the metrics of run/ or that folder.
metric() {
  tail -n 1 "${2:-run}/metrics.jsonl" 2>/dev/null | tr ',{}' '\n' | sed -n "s|^\"$1\": *||p"
}

# whole_metric NAME [FOLDER]: without a fraction, for bash to count with; 0 if there is none.
whole_metric() { printf '%.0f' "$(metric "$@" | grep . || echo 0)"; }

# metric_passes NAME VALUE [FOLDER]: whether it is larger.
metric_passes() {
  awk -v a="$(metric "$1" "${3:-run}")" -v b="$2" 'BEGIN {exit !(a + 0 > b + 0)}'
}

# ---- a run's newest checkpoint is played: by build/watch, whose pictures go nowhere, and as
# scripts/eval.sh does, with one environment

played() {
  "$tree/build/watch" "$1" --seed=7 --episodes="$3" --policy="$2" >/dev/null 2>err || return
  sed -n 's/.*: return \([-0-9.e+]*\) in .*/\1/p' err | sort -g | tr '\n' ' '
}
evaluated() {
  local config=$1/config.txt
  "$tree/build/launch" "$(sed -n 's/^env = //p' "$config")" "$(sed -n 's/^agent = //p' "$config")" \
    1 1 --mode=evaluate --logdir="$1" --seed=7 --episodes="$3" --policy="$2" >out 2>err
  grep '^evaluation ' out
}
# as_evaluated RUN POLICY EPISODES: the same mean, lowest and highest return.
as_evaluated() {
  local returns expected
  returns=$(played "$@" | awk '{for (i = 1; i <= NF; i++) sum += $i
    printf "%.6f %.6f %.6f %d", sum / NF, $1, $NF, NF}')
  expected=$(evaluated "$@" | tr ' ' '\n' | awk -F= '
    {value[$1] = $2}
    END {printf "%.6f %.6f %.6f %d", value["return_mean"], value["return_min"],
      value["return_max"], value["episodes"]}')
  is "$returns" "$expected" || echo "  $1 $2: $returns, not $expected"
  is "$returns" "$expected"
}
