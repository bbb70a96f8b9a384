#!/usr/bin/env bash
# Limits of the system (ulimit): each is named where it stands in the way, and nothing waits for
# ever or dies of a signal.
. "$(dirname "$(readlink -f "$0")")/lib.sh"

# ---- ulimit -n, open files

# few LIMIT COMMAND...: with so many open files at most.
few() {
  local limit=$1
  shift
  (
    ulimit -n "$limit"
    exec timeout -k 1 $((20 * patience)) "$@"
  ) >"$work/out" 2>"$work/err" </dev/null
  code=$?
}
# refuses LIMIT WHO: the message names the limit, what is needed, and what to do.
refuses() {
  is $code 2 && says "a process may open $1 files here (ulimit -n), and $2 needs" &&
    says "raise the limit (ulimit -n" && [ ! -s out ]
}
# Every limit works or is refused at once. The shell itself needs 8.
each_limit() {
  local limit
  for limit in 8 10 12 14 16 20 24 28 31 32 33 36 40 48 64; do
    few $limit "$tree/run_local.sh" cartpole vtrace 2 4 --streams=1 --total_steps=2k --no_plot \
      --logdir="few-$limit"
    if [ $code -eq 0 ]; then
      is "$(value reason)" total_steps && continue
    else
      refuses $limit "this run's learner" && [ ! -e "few-$limit" ] && continue
    fi
    echo "  ulimit -n $limit: exit code $code"
    return 1
  done
}
pass_if "./run_local.sh under each limit of open files runs, or names the limit" each_limit
pass_if "the last of them was enough" is $code 0
few 16 "$tree/build/learner" --listen="$address" --logdir=few
pass_if "so does the learner, without a folder" eval 'refuses 16 "the learner" && [ ! -e few ]'
needs=$(sed -n 's/.* needs \([0-9]*\):.*/\1/p' err)
own=$(sed -n 's/.*: \([0-9]*\) of its own.*/\1/p' err)
few 16 "$tree/build/actor" --learner="$address" --envs=8 --streams=8
pass_if "and an actor" refuses 16 "an actor"
TF_CONFIG='{"cluster": {"chief": ["127.0.0.1:1"]}, "task": {"type": "chief", "index": 0}}' \
  few 14 "$tree/build/task" cartpole vtrace
pass_if "and a task" refuses 14 "this task"

# With no file more than it asks for, everything that opens one is on.
port=$(free_port)
(
  ulimit -n "$needs"
  exec "$tree/build/learner" --listen="127.0.0.1:$port" --num_envs=4 --logdir=exact \
    --metrics_port="$(free_port)" --metrics_secs=0.05 --checkpoint_secs=0.05 --total_steps=1e9
) >out 2>err </dev/null &
run=$!
started+=("$run")
"$tree/build/actor" --learner="127.0.0.1:$port" --envs=4 --streams=1 >actor.log 2>&1 </dev/null &
started+=("$!")
writes() { [ "$(find exact/checkpoints -name '*.acorn' 2>/dev/null | wc -l)" -ge 3 ]; }
steps_pass() { metric_passes step 1000 exact; }
plays() { wait_for 20 writes && wait_for 20 steps_pass && ! says "Too many open files"; }
pass_if "a learner with exactly as many as it asks for plays and writes" plays
# Those of this shell are not its own.
kept() { comm -23 <(readlink "/proc/$1"/fd/* | sort) <(readlink "/proc/$$"/fd/* | sort) | wc -l; }
pass_if "it keeps no more open than it counts" [ "$(kept "$run")" -le $((own + 1)) ]
kill -TERM "$run"
ended 10
pass_if "and ends well" is "$code" 0
end_by_hand

# ---- ulimit -v and -u: a thread that cannot be started

gcc -std=gnu11 -D_GNU_SOURCE -O2 -Wall -Wextra -shared -fPIC -o fail_thread.so \
  "$tree/tests/integration/fail_thread.c" || exit 1
# failing THREAD COMMAND...: its thread of that number does not start.
failing() {
  FAIL_THREAD=$1 LD_PRELOAD=$work/fail_thread.so timeout -k 1 $((15 * patience)) "${@:2}"
}
words=(--env=cartpole --envs=4 --streams=2)
play_learner() {
  rm -rf threads
  "$tree/build/actor" --learner="$address" "${words[@]}" >actor.log 2>&1 </dev/null &
  local actor=$! code
  failing "$1" "$tree/build/learner" --listen="$address" --logdir=threads --total_steps=2k \
    >out 2>threads.err </dev/null
  code=$?
  killed $actor
  return $code
}
# refused_threads NUMBER...: where one of these threads does not start, the learner names the limits
# at once, with exit code 2.
refused_threads() {
  local thread code
  for thread in "$@"; do
    : >threads.err
    play_learner "$thread"
    code=$?
    is $code 2 && grep -qE "cannot start [0-9]+ threads here, only $((thread - 1)) " threads.err &&
      continue
    echo "  thread $thread: exit code $code" && cat threads.err
    return 1
  done
}
pass_if "a learner that cannot start its threads exits with 2 and names the limits" \
  refused_threads 1 16
# One of gRPC's, which waits for it at its end; with another version it may be another thread.
ends_anyway() {
  play_learner 24
  code=$?
  [ $code -ne 124 ] && [ $code -ne 137 ] && { [ $code -ne 0 ] || grep -q '^result ' out; }
}
pass_if "a learner whose gRPC lost a thread later ends all the same" ends_anyway
# Where memory ends is by chance: it ends somehow, and soon.
under_memory() {
  local kb
  for kb in 90000 146000 350000 500000 700000; do
    rm -rf threads
    "$tree/build/actor" --learner="$address" "${words[@]}" >actor.log 2>&1 </dev/null &
    actor=$!
    (
      ulimit -v $kb
      exec timeout -k 1 $((20 * patience)) "$tree/build/learner" --listen="$address" \
        --logdir=threads --total_steps=2k
    ) >out 2>err </dev/null
    code=$?
    killed $actor
    case $code in
      0) continue ;;
      1 | 2) grep -q 'error: ' err && continue ;;
      124 | 137) ;;
      *) continue ;; # a library's, which aborts where it has no memory
    esac
    echo "  $kb KB: exit code $code"
    tail -n 3 err
    return 1
  done
}
pass_if "a learner with little memory runs or ends with an error, and never hangs" under_memory

# ---- ulimit -f, the size of files: a failed write like any other

# limited COMMAND...: with files of 1 KiB, or $kib, at most; what it prints goes to err, through a
# pipe.
limited() {
  (
    ulimit -f "${kib:-1}"
    exec "$@"
  ) 2>&1 </dev/null | cat >"$work/err"
  code=${PIPESTATUS[0]}
}
limited "$tree/run_local.sh" cartpole vtrace 2 8 --total_steps=30k --logdir=undescribed
undescribed() {
  is $code 1 && says "cannot write undescribed/config.txt: File too large" && says "reason=error"
}
pass_if "a run whose config.txt cannot be written ends at once" undescribed
kib=16 limited "$tree/run_local.sh" cartpole vtrace 2 8 --total_steps=500k --metrics_secs=0.05 \
  --logdir=limited
each_is_named() {
  says "cannot write limited/metrics.jsonl: File too large" &&
    says "cannot be written: File too large; raise the limit of file sizes (ulimit -f)"
}
pass_if "files that reach the limit of their size are each named with the reason" each_is_named
to_its_end() { is $code 1 && says "result env=cartpole" && says "reason=total_steps"; }
pass_if "the run goes on to its end, with exit code 1 for its last checkpoint" to_its_end
run cartpole vtrace 2 8 --total_steps=30k --logdir=usual --metrics_secs=0.05
ended
limited "$tree/build/export" usual --format=safetensors --output=limited.export
no_export() { is $code 1 && says "cannot write limited.export: File too large"; }
pass_if "so is an export" no_export
pass_if "of which no half is left" eval '! ls limited.export* >/dev/null 2>&1'
limited sh -c "$tree/build/curves usual --title='$(printf '%1024s' x)' >script"
no_curve() { is $code 1 && says "plot: cannot write to stdout: File too large"; }
pass_if "and a plot" no_curve

finish
