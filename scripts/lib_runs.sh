# Runs of one experiment, each in a folder of its own under `dir`: started, resumed, stopped in
# order and summed up. seeds.sh and sweep.sh source it after lib.sh. They fill `words` and `flags`
# by take_word, set `env` and `agent`, and define
#   own_flags RUN   sets the array `own` to the options that this run alone has
#   label RUN       prints what a message calls it
# where RUN is its folder's path below `dir`.
# shellcheck shell=bash
export LC_ALL=C.UTF-8 # see lib.sh

program=$(basename "$started_as")
fail() {
  echo "$program: $*" >&2
  exit 2
}

# ---- what to run

words=() flags=() jobs='' actors=4 envs='' dir=''
# take_word WORD: of the command line, what all experiments have; fails if it is none of that.
take_word() {
  case "$1" in
    --help | -h) print_head; exit 0 ;;
    --jobs=*) jobs=${1#*=} ;;
    --actors=*) actors=${1#*=} ;;
    --envs_per_actor=*) envs=${1#*=} ;;
    --dir=*) dir=${1#*=} ;;
    --seed=* | --logdir=* | --job[-_]dir=*) fail "$1 cannot be given: each run has its own" ;;
    --*) return 1 ;;
    *) words+=("$1") ;;
  esac
}

# check_words EXAMPLE NAME...: `words` are what these names stand for, no fewer and no more.
check_words() {
  local example=$1
  shift
  [ ${#words[@]} -le $# ] ||
    fail "${words[$#]} is one word too many after $*: options are written --name=value (see --help)"
  [ ${#words[@]} -eq $# ] || fail "$* are needed: $example (see --help)"
}

check_jobs() {
  [[ "$jobs" =~ ^[1-9][0-9]{0,2}$ ]] || fail "--jobs=$jobs: a number from 1 on is needed"
}

largest=9000000000000000 # --seed's
# seed WORD: the number, if it is a seed.
seed() {
  [[ "$1" =~ ^0*([0-9]{1,16})$ ]] && [ "${BASH_REMATCH[1]}" -le $largest ] &&
    echo "${BASH_REMATCH[1]}"
}

# read_seeds TEXT: sets `seeds` to those of "1..5" or "1,2,7".
read_seeds() {
  local refusal="$1: seeds are from 0 to $largest, written 1..5 or 1,2,7" first last number
  seeds=()
  if [[ "$1" =~ ^([0-9]+)\.\.([0-9]+)$ ]]; then
    first=$(seed "${BASH_REMATCH[1]}") && last=$(seed "${BASH_REMATCH[2]}") || fail "$refusal"
    [ "$first" -le "$last" ] || fail "$1: the first seed is larger than the last"
    [ $((last - first)) -lt 1000 ] || fail "$1: more than 1000 seeds"
    for ((number = first; number <= last; number++)); do seeds+=("$number"); done
  elif [[ "$1" =~ ^[0-9]+(,[0-9]+)*$ ]]; then
    for number in ${1//,/ }; do
      number=$(seed "$number") || fail "$refusal"
      seeds+=("$number")
    done
    mapfile -t seeds < <(printf '%s\n' "${seeds[@]}" | sort -nu)
  else
    fail "$refusal"
  fi
}

# claim_folder WORD...: one folder holds one experiment, which these words describe.
claim_folder() {
  experiment=$(printf '%q ' "$@")
  [ -n "$(find "$dir" -maxdepth 3 -name config.txt -print -quit 2>/dev/null)" ] || return 0
  [ "$(cat "$dir/experiment.txt" 2>/dev/null)" = "$experiment" ] ||
    fail "$dir holds runs of another experiment" \
      "($(cat "$dir/experiment.txt" 2>/dev/null)): choose another --dir"
}

# ---- runs

# value KEY FILE: of the result line, the last one of the file.
value() { sed -n '$p' "$2" 2>/dev/null | tr ' ' '\n' | sed -n "s/^$1=//p"; }
is_finished() { [ -s "$dir/$1/result.txt" ]; }

declare -A run_of=() # of a running launcher, by its process id
stopping='' refused='' interrupted=''
stop_all() {
  stopping=1
  [ ${#run_of[@]} -eq 0 ] || kill -TERM "${!run_of[@]}" 2>/dev/null || true
}

start_run() {
  local run=$dir/$1
  mkdir -p "$run"
  echo "$(label "$1"): runs" >&2
  own_flags "$1"
  set -m # a terminal's Ctrl-C comes to this script alone, which passes it on once
  "$root/build/launch" "$env" "$agent" "$actors" ${envs:+"$envs"} --logdir="$run" --resume \
    --no_plot "${flags[@]}" "${own[@]}" >"$run/stdout.txt" 2>>"$run/stderr.txt" </dev/null &
  run_of[$!]=$1
  set +m
}

# A run that was refused has left nothing but these words.
remove_empty() {
  [ ! -e "$1/config.txt" ] || return 0
  rm -f "$1/stdout.txt" "$1/stderr.txt" "$1/result.json"
  rmdir "$1" "$(dirname "$1")" 2>/dev/null || true
}

# Options that are wrong for one run are wrong for the experiment.
end_refused() {
  echo "$program: stopped, the options are refused (above)" >&2
  [ -n "$(find "$dir" -mindepth 1 ! -name experiment.txt -print -quit)" ] ||
    rm -f "$dir/experiment.txt"
  rmdir "$dir" 2>/dev/null || true
  exit 2
}

# take_result RUN CODE: a budget or a target that has ended a run makes it a result.
take_result() {
  local run=$dir/$1 reason
  reason=$(value reason "$run/stdout.txt")
  case "$2-$reason" in
    0-total_steps | 0-target_return | 3-total_steps) ;;
    *) return 1 ;;
  esac
  echo "$(tail -n 1 "$run/stdout.txt") code=$2" >"$run/result.txt"
  echo "$(label "$1"): return $(value return_mean "$run/result.txt") after" \
    "$(value steps "$run/result.txt") steps, $reason" >&2
}

end_run() {
  local run=$dir/$1
  take_result "$1" "$2" && return
  if [ "$2" -eq 2 ]; then
    [ -n "$refused" ] || tail -n 5 "$run/stderr.txt" >&2
    refused=1
    stop_all
    remove_empty "$run"
    return
  fi
  [ -n "$stopping" ] && { echo "$(label "$1"): stopped" >&2; return; }
  tail -n 5 "$run/stderr.txt" >&2
  echo "$(label "$1"): failed with exit code $2 (its last words are above)" >&2
}

recorded_code() {
  sed -n 's/^ *"exit_code": \([0-9]*\),$/\1/p' "$dir/$1/result.json" 2>/dev/null
}

# unfinished RUN...: prints those that have no result yet, and names the others. A run may have
# ended after its script was killed.
unfinished() {
  local run
  for run; do
    if is_finished "$run" || take_result "$run" "$(recorded_code "$run")"; then
      echo "$(label "$run"): has finished before" >&2
    else
      echo "$run"
    fi
  done
}

# play RUN...: all that are unfinished, `jobs` at a time. Returns when each has ended; ends the
# script if they are refused or stopped. The runs inherit the lock: it lasts while one goes on.
play() {
  local waiting ended code lock
  mkdir -p "$dir"
  exec {lock}<"$dir"
  flock -n "$lock" || fail "$dir is in use by another $program, or by runs that it has left"
  echo "$experiment" >"$dir/experiment.txt"
  trap 'interrupted=1; stop_all' INT
  trap stop_all TERM HUP
  mapfile -t waiting < <(unfinished "$@")
  while [ ${#run_of[@]} -gt 0 ] || { [ ${#waiting[@]} -gt 0 ] && [ -z "$stopping" ]; }; do
    while [ ${#waiting[@]} -gt 0 ] && [ ${#run_of[@]} -lt "$jobs" ] && [ -z "$stopping" ]; do
      start_run "${waiting[0]}"
      waiting=("${waiting[@]:1}")
    done
    ended='' code=0
    wait -n -p ended "${!run_of[@]}" || code=$?
    [ -n "${ended:-}" ] || continue # a signal
    end_run "${run_of[$ended]}" $code
    unset "run_of[$ended]"
  done
  end_on_signals
  [ -z "$refused" ] || end_refused
  [ -z "$interrupted" ] || end_interrupted
  [ -z "$stopping" ] || exit 130
}

# ---- what they came to

# exit_code RUN...: 1 if some have not finished, else 3 if some have missed a target, else 0.
exit_code() {
  local run code=0
  for run; do
    if ! is_finished "$run"; then
      code=1
    elif [ "$(value code "$dir/$run/result.txt")" != 0 ] && [ $code -eq 0 ]; then
      code=3
    fi
  done
  echo $code
}

# finished RUN...: prints those that have a result.
finished() {
  local run
  for run; do
    if is_finished "$run"; then echo "$run"; fi
  done
}

# statistics KEY RUN...: "count=5 mean=... std=... low=... high=..." of a figure of their results.
statistics() {
  local run
  for run in "${@:2}"; do value "$1" "$dir/$run/result.txt"; done | "$root/build/interval"
}

# draw RUN...: their learning curves, of the returns that the results are over.
draw() {
  local y=train
  command -v gnuplot >/dev/null || return 0
  [ "$(value over "$dir/$1/result.txt")" != eval ] || y=eval
  "$root/scripts/plot.sh" "${@/#/$dir/}" --y=$y/episode_return --out="$dir/learning_curve.png" ||
    true
}
