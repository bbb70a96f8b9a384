#!/usr/bin/env bash
# Learners that meet by MPI: they train one network, with the bits that they have by memory, stop
# and resume together, and end with a checkpoint where one hangs or is killed; what is refused.
. "$(dirname "$(readlink -f "$0")")/lib.sh"
unset "${!PMI@}" "${!SLURM@}" "${!OMPI@}" # the test may itself be a job

plugin=$tree/build/libacorn_mpi.so
# by_mpi PROCESSES WORDS...: a run of so many learners, each with two actors or those that WORDS
# have.
by_mpi() {
  : >"$work/out" >"$work/err" # as in run
  env --default-signal=INT,HUP mpiexec -n "$1" "$tree/run_local.sh" cartpole "${@:2}" \
    --learners_mpi --metrics_secs=0.25 >"$work/out" 2>"$work/err" </dev/null &
  run=$!
}
# of_rank R: the process of that learner, of this test's runs.
of_rank() {
  local pid
  for pid in $(pids learner); do
    tr '\0' '\n' <"/proc/$pid/cmdline" | grep -qx -- "--learner_rank=$1" && echo "$pid"
  done
}

# ---- what cannot be

# learner_says SENTENCE COMMAND...: it is refused with that.
learner_says() {
  timeout $((60 * patience)) "${@:2}" >out 2>err </dev/null
  is $? 2 && says "$1"
}
learner=("$tree/build/learner" --env=cartpole --num_envs=4 --listen="unix:$work/s" --learners_mpi)
launched=(env PMI_RANK=1 PMI_SIZE=2 "${learner[@]}" --logdir=no)
pass_if "without a launcher of MPI it is refused" learner_says \
  "no launcher of MPI has started this process: put mpiexec -n N" "${learner[@]}" --logdir=no
pass_if "by run_local.sh, too" learner_says "no launcher of MPI has started this process" \
  "$tree/run_local.sh" cartpole vtrace 1 --learners_mpi --logdir=no
pass_if "a world of one is refused" learner_says "MPI has started this process alone" \
  env PMI_RANK=0 PMI_SIZE=1 "${learner[@]}" --logdir=no
pass_if "so is a run without a folder" learner_says "--learners_mpi without --logdir" \
  env PMI_RANK=1 PMI_SIZE=2 "${learner[@]}"
pass_if "another number of learners is, too" learner_says \
  "--learners=3 with --learners_mpi, and MPI has started 2 processes" "${launched[@]}" --learners=3
pass_if "and a second way" learner_says "--learners_file=$work/f, --learners_at=, --learners_mpi" \
  "${launched[@]}" --learners_file="$work/f"
pass_if "and an evaluation" learner_says "--learners_mpi with --mode=evaluate" \
  "${launched[@]}" --mode=evaluate
pass_if "and a spare learner" learner_says \
  "--spare_learners: leave it out; a job of --learners_mpi ends as a whole" \
  env PMI_RANK=1 PMI_SIZE=2 "$tree/run_local.sh" cartpole vtrace 1 --learners_mpi --logdir=no \
  --spare_learners=1
pass_if "and a rank" learner_says \
  "--learner_rank=0 with --learners_mpi: MPI gives ranks, here 1 of 2; leave it out" \
  "${launched[@]}" --learner_rank=0 --learners=2
pass_if "by run_local.sh, too" learner_says \
  "--learner_rank=1 with --learners_mpi: MPI gives ranks" \
  env PMI_RANK=1 PMI_SIZE=2 "$tree/run_local.sh" cartpole vtrace 1 --learners_mpi --logdir=no \
  --learner_rank=1 --learners=2
pass_if "and a replay" learner_says "several learners train agents without a replay only" \
  "${launched[@]}" --agent=dqn
pass_if "run_task.sh refuses it" learner_says "it is run_local.sh's" \
  "$tree/deploy/run_task.sh" cartpole vtrace --learners_mpi
pass_if "a plugin that is not there is named, and what to install" learner_says \
  "needs $work/absent.so, which is not there: install MPICH (scripts/setup.sh mpi" \
  env ACORN_MPI_PLUGIN="$work/absent.so" "${launched[@]}"

# library NAME TEXT [WORDS...]: ./NAME.so of C.
library() { cc -shared -fPIC -o "$1.so" "${@:3}" -x c - <<<"$2" || exit 1; }
library other 'const unsigned acorn_mpi_plugin[2] = {99, 8};'
pass_if "one of another version is refused with both" learner_says \
  "other.so is of version 99.8, this program needs 1." \
  env ACORN_MPI_PLUGIN=other.so "${launched[@]}"
library nothing 'int nothing;'
pass_if "a library that is none is refused" learner_says "nothing.so is no plugin of this program" \
  env ACORN_MPI_PLUGIN=./nothing.so "${launched[@]}"
library libabsent 'int absent;'
library needs 'extern int absent; int *needs(void) {return &absent;}' -Wl,--no-as-needed \
  ./libabsent.so
rm libabsent.so
pass_if "what a plugin needs is named" learner_says "libabsent.so: cannot open shared object" \
  env ACORN_MPI_PLUGIN=./needs.so "${launched[@]}"

if ! [ -e "$plugin" ] || ! command -v mpiexec >/dev/null; then
  echo "SKIP learners by MPI: no mpiexec or no $plugin (Debian: mpich, libmpich-dev)"
  finish
fi
pass_if "the learner itself needs no MPI" eval '! ldd "$tree/build/learner" | grep -qi mpi'
# A launcher of another MPI: for this library the process is alone.
pass_if "a launcher that is not this MPI's is refused" learner_says \
  "MPI makes this process 0 of 1, and its launcher's variables or --learner_rank make it 1 of 2" \
  "${launched[@]}"
library old 'int MPI_Get_version(int *a, int *b) {*a = 2, *b = 1; return 0;}'
pass_if "a library of another version of MPI is refused with both" learner_says \
  "MPI's library is of version 2.1 of the standard, and libacorn_mpi.so was built with" \
  env LD_PRELOAD=./old.so "${launched[@]}"
disagree() {
  ! timeout $((60 * patience)) mpiexec -n 1 "${learner[@]}" --logdir=no --unroll_length=10 : \
    -n 1 "${learner[@]}" --logdir=no --unroll_length=20 >out 2>err </dev/null &&
    says "learners 0 and 1 disagree: '--unroll_length=10' and '--unroll_length=20'"
}
pass_if "learners that disagree are refused, with both values" disagree

# MPI itself would wait for ever. The folder that is left can be used again.
one_is_refused() {
  ! timeout $((60 * patience)) mpiexec -n 1 "${learner[@]}" --logdir=no --learners_timeout_s=3 : \
    -n 1 "${learner[@]}" --logdir=no --entropy_cost=oops >out 2>err </dev/null &&
    says "learner 0 of 2: MPI has not started all 2 processes within 3 s: look at the logs of" &&
    says "--entropy_cost: 'oops' is not a number"
}
pass_if "where one is refused before MPI starts, the other ends after the timeout" one_is_refused
pass_if "and no process is left" no_process
pass_if "and leaves no run" disagree

# ignores_hangup: all learners do.
ignores_hangup() {
  local pid learners=0
  for pid in $(pids learner); do
    says "learner $learners of the 2 of an MPI job" || return
    (($(sed -n 's/^SigIgn:\t/16#/p' "/proc/$pid/status") & 1)) || return
    learners=$((learners + 1))
  done
  [ "$learners" = 2 ]
}
env --default-signal=INT mpiexec -n 2 nohup "${learner[@]}" --logdir=hangup >out 2>err </dev/null &
run=$!
listens() { [ -S "$work/s" ] && [ -S "$work/s-1" ]; }
pass_if "learners under nohup start" wait_for 30 listens
pass_if "and libraries of MPI leave SIGHUP ignored" ignores_hangup
kill -TERM "$(pids learner | head -n 1)"
ended
pass_if "and no process is left of them" no_process

# ---- a whole run

by_mpi 2 vtrace 2 4 --logdir=run --target_return=475 --total_steps=6M --seed=3
ended 120
pass_if "two learners solve CartPole" is "$code $(value reason)" "0 target_return"
pass_if "the other one ends with it" is "$(json run/learner-1/result.json reason)" target_return
pass_if "it leaves no checkpoint of its own" is "$(ls run/learner-1/checkpoints)" ""
episodes_of() { grep -c ",train," "$1/episodes.csv"; }
both_play() { [ "$(episodes_of run)" -gt 50 ] && [ "$(episodes_of run/learner-1)" -gt 50 ]; }
pass_if "both have episodes of their own" both_play
pass_if "one result is printed, the first learner's" is "$(grep -c '^result ' out)" 1
pass_if "no process is left" no_process
rm -rf run

# A learner with this comes to its end 2 s after another one has left.
library late '#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>
void (*signal(int number, void (*handler)(int)))(int) {
  struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART};
  if (number == SIGTERM && strcmp(program_invocation_short_name, "learner") == 0) sleep(2);
  return sigaction(number, &action, 0) == 0 ? SIG_DFL : SIG_ERR;
}'
words=("$tree/run_local.sh" cartpole vtrace 1 4 --logdir=run --learners_mpi --total_steps=20k)
mpiexec -n 1 "${words[@]}" : -n 1 env LD_PRELOAD="$work/late.so" "${words[@]}" \
  >out 2>err </dev/null &
run=$!
ended
pass_if "a run ends whose last learner is late" is "$code $(value reason)" "0 total_steps"
pass_if "the others are not lost for it" eval '! grep -q "has ended\|as it is" err'
pass_if "and it writes no checkpoint" is "$(ls run/learner-1/checkpoints)" ""
rm -rf run
words[-1]=--total_steps=1e9
env --default-signal=INT mpiexec -n 1 env LD_PRELOAD="$work/late.so" "${words[@]}" : \
  -n 1 "${words[@]}" >out 2>err </dev/null &
run=$!
wait_for 30 two_train 5000
kill -INT "$run"
ended
# All of them exit with 130; mpiexec itself may say 0 then.
none_was_killed() { is "$(value reason)" signal && ! grep -q "BAD TERMINATION" out; }
pass_if "nor is one that is late after Ctrl-C" none_was_killed
rm -rf run
mpiexec -n 1 env LD_PRELOAD="$work/late.so" "${words[@]}" : -n 1 "${words[@]}" \
  >out 2>err </dev/null &
run=$!
wait_for 30 two_train 5000
kill -INT "$(of_rank 1)"
wait_for 30 test -s run/learner-1/result.json
kill -INT "$(of_rank 0)"
ended
pass_if "the first signal of one that another's has stopped is not its second" \
  is "$(value reason) $(json run/result.json reason)" "signal signal"
rm -rf run

# ---- the same bits as by memory

same=(ppo --deterministic --total_steps=60k --normalize_observations --normalize_values
  --learning_rate_decay=linear)
run cartpole "${same[@]}" --logdir=by-memory --learners=2 2 4
ended
by_mpi 2 ppo 1 4 "${same[@]:1}" --logdir=by-mpi
ended
pass_if "with --deterministic the bits are those of learners by memory" \
  same_bits by-memory by-mpi

# ---- stopped and resumed

by_mpi 2 vtrace 2 4 --logdir=run --total_steps=1e9
pass_if "a long run trains" wait_for 30 two_train 20000
# An actor's environment may use MPI.
of_launcher() {
  local pid=$1 name
  name=$(tr '\0' '\n' <"/proc/$pid/environ" | sed -n 's/^PMI_FD=//p')
  readlink "/proc/$pid/fd/$name"
}
connections=("$(of_launcher "$(of_rank 0)")" "$(of_launcher "$(of_rank 1)")")
are_apart() {
  local pid
  for pid in $(pids actor); do
    ! readlink "/proc/$pid"/fd/* | grep -qxF "$1" || return
    ! readlink "/proc/$pid"/fd/* | grep -qxF "$2" || return
  done
}
pass_if "learners have connections to the launcher of MPI" \
  eval '[[ "${connections[*]}" =~ ^socket:.*\ socket: ]]'
pass_if "actors have none" are_apart "${connections[@]}"
kill -INT "$run"
ended
pass_if "Ctrl-C stops all learners, with a checkpoint" is "$(json run/result.json reason)" signal
pass_if "no process is left of it" no_process
first=$(updates_of)
by_mpi 3 vtrace 1 4 --logdir=run --resume --total_steps=1e9
goes_on() { says "resuming from the checkpoint of update $((10#$first))," && two_train 20000; }
pass_if "it resumes with another number of learners" wait_for 30 goes_on
kill -TERM "$(of_rank 2)"
ended
pass_if "SIGTERM of one stops all" is "$code $(value reason)" "0 signal"
rm -rf run

# ---- one hangs

# Rank 0 stops: learner 1 cannot have its folder.
for rank in 1 0; do
  by_mpi 3 vtrace 1 4 --logdir=run --total_steps=1e9 --checkpoint_secs=0 --learners_timeout_s=5
  pass_if "three learners train" wait_for 30 two_train 5000
  kill -STOP "$(of_rank $rank)"
  ended
  pass_if "where learner $rank hangs the others end after the timeout, and name it" \
    says "learner $rank of 3 did not answer within 5 s"
  is "$code" 0 && failures=$((failures + 1))
  pass_if "no process is left of it" wait_for 30 none_left
  written=run
  [ $rank = 1 ] || written=run/learner-1
  pass_if "the first of them has written a checkpoint" test -s "$(newest_checkpoint $written)"
  rm -rf run
done

# ---- one is killed

has_checkpoint() { [ -s "$(newest_checkpoint run)" ]; }
for rank in 1 0; do
  by_mpi 2 vtrace 2 4 --logdir=run --total_steps=1e9 --checkpoint_secs=1 --resume \
    --learners_timeout_s=5
  pass_if "two learners train" wait_for 30 two_train 20000
  pass_if "and write checkpoints" wait_for 30 has_checkpoint
  before=$((10#$(updates_of)))
  kill -KILL "$(of_rank $rank)"
  ended
  pass_if "where learner $rank is killed the launcher ends the job" \
    eval '[ "$code" -ne 0 ] && wait_for 30 none_left'
  # The other one writes its last, unless it was copying from that process: UCX aborts it then.
  pass_if "its checkpoints stay" [ "$((10#$(updates_of)))" -ge "$before" ]
done
by_mpi 2 vtrace 2 4 --logdir=run --total_steps=1e9 --resume
pass_if "what they left is resumed" wait_for 30 says "resuming from the checkpoint of update"
pass_if "and trains" wait_for 30 two_train 5000
kill -TERM "$run"
ended
finish
