#!/usr/bin/env bash
# Runs an experiment with several seeds, one after another, and sums them up: a table, the mean over
# seeds with its 95 % confidence interval (Student's t), and one plot with mean and band.
#
# Usage: scripts/seeds.sh ENV AGENT SEEDS [--jobs=1] [--actors=4] [--envs_per_actor=N]
#        [--dir=FOLDER] [--flag=value ...]
#
#   SEEDS    1..5 or 1,2,7; from 0 to 9000000000000000
#   --jobs   so many runs at a time
#   --dir    default: runs/ENV-AGENT-seeds; the runs are FOLDER/seed-1, ...
#   --flag   any option of ./run_local.sh
#
# Started again it goes on where it was: a seed that has finished is not run again, one that was
# stopped is resumed. Exit code 0: every seed has finished; 3: some missed --target_return; 1: some
# failed; 2: wrong options; 130: stopped.
set -euo pipefail
. "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/lib.sh"

fail() {
  echo "seeds.sh: $*" >&2
  exit 2
}

# ---- what to run

words=() seeds=() flags=() jobs=1 actors=4 envs='' dir=''
for word in "$@"; do
  case "$word" in
    --help | -h) print_head; exit 0 ;;
    --jobs=*) jobs=${word#*=} ;;
    --actors=*) actors=${word#*=} ;;
    --envs_per_actor=*) envs=${word#*=} ;;
    --dir=*) dir=${word#*=} ;;
    --seed=* | --logdir=* | --job-dir=*) fail "$word cannot be given: each run has its own" ;;
    --*) flags+=("$word") ;;
    *) words+=("$word") ;;
  esac
done
[ ${#words[@]} -eq 3 ] || fail "ENV AGENT SEEDS are needed: cartpole vtrace 1..5 (see --help)"
[[ "$jobs" =~ ^[1-9][0-9]{0,2}$ ]] || fail "--jobs=$jobs: a number from 1 on is needed"
env=${words[0]} agent=${words[1]}

largest=9000000000000000 # --seed's
refuse_seeds() { fail "${words[2]}: seeds are from 0 to $largest, written 1..5 or 1,2,7"; }
# seed WORD: the number, if it is a seed.
seed() {
  [[ "$1" =~ ^0*([0-9]{1,16})$ ]] && [ "${BASH_REMATCH[1]}" -le $largest ] &&
    echo "${BASH_REMATCH[1]}"
}
if [[ "${words[2]}" =~ ^([0-9]+)\.\.([0-9]+)$ ]]; then
  first=$(seed "${BASH_REMATCH[1]}") && last=$(seed "${BASH_REMATCH[2]}") || refuse_seeds
  [ "$first" -le "$last" ] || fail "${words[2]}: the first seed is larger than the last"
  [ $((last - first)) -lt 1000 ] || fail "${words[2]}: more than 1000 seeds"
  for ((number = first; number <= last; number++)); do seeds+=("$number"); done
elif [[ "${words[2]}" =~ ^[0-9]+(,[0-9]+)*$ ]]; then
  for word in ${words[2]//,/ }; do
    number=$(seed "$word") || refuse_seeds
    seeds+=("$number")
  done
  mapfile -t seeds < <(printf '%s\n' "${seeds[@]}" | sort -nu)
else
  refuse_seeds
fi

# One folder holds one experiment.
dir=${dir:-runs/$(basename "$env" .so)-$agent-seeds}
experiment=$(printf '%q ' "$env" "$agent" "$actors" ${envs:+"$envs"} "${flags[@]}")
if compgen -G "$dir/seed-*/config.txt" >/dev/null &&
  [ "$(cat "$dir/experiment.txt" 2>/dev/null)" != "$experiment" ]; then
  fail "$dir holds seeds of another experiment ($(cat "$dir/experiment.txt")): choose another --dir"
fi
build_for_run "$env"
offer_plot
mkdir -p "$dir"
echo "$experiment" >"$dir/experiment.txt"

# ---- runs

value() { sed -n '$p' "$2" 2>/dev/null | tr ' ' '\n' | sed -n "s/^$1=//p"; }
is_finished() { [ -s "$dir/seed-$1/result.txt" ]; }

declare -A seed_of=() # of a running launcher, by its process id
stopping='' refused=''
stop_all() {
  stopping=1
  [ ${#seed_of[@]} -eq 0 ] || kill -TERM "${!seed_of[@]}" 2>/dev/null || true
}

start_seed() {
  local run=$dir/seed-$1
  mkdir -p "$run"
  echo "seed $1: runs" >&2
  set -m # a terminal's Ctrl-C comes to this script alone, which passes it on once
  "$root/build/launch" "$env" "$agent" "$actors" ${envs:+"$envs"} --seed="$1" --logdir="$run" \
    --resume --no_plot "${flags[@]}" >"$run/stdout.txt" 2>>"$run/stderr.txt" </dev/null &
  seed_of[$!]=$1
  set +m
}

# A run that was refused has left nothing but these words.
remove_empty() {
  [ ! -e "$1/config.txt" ] || return 0
  rm -f "$1/stdout.txt" "$1/stderr.txt"
  rmdir "$1" 2>/dev/null || true
}

# Wrong options are wrong for every seed.
end_refused() {
  echo "seeds.sh: stopped, the options are refused (above)" >&2
  compgen -G "$dir/seed-*" >/dev/null || rm -f "$dir/experiment.txt"
  rmdir "$dir" 2>/dev/null || true
  exit 2
}

# end_seed SEED CODE: a budget or a target that has ended a run makes it a result.
end_seed() {
  local run=$dir/seed-$1 reason
  reason=$(value reason "$run/stdout.txt")
  case "$2-$reason" in
    0-total_steps | 0-target_return | 3-total_steps)
      echo "$(tail -n 1 "$run/stdout.txt") code=$2" >"$run/result.txt"
      echo "seed $1: return $(value return_mean "$run/result.txt") after $(value steps \
        "$run/result.txt") steps, $reason" >&2
      return
      ;;
  esac
  if [ "$2" -eq 2 ]; then
    [ -n "$refused" ] || tail -n 5 "$run/stderr.txt" >&2
    refused=1
    stop_all
    remove_empty "$run"
    return
  fi
  [ -n "$stopping" ] && { echo "seed $1: stopped" >&2; return; }
  tail -n 5 "$run/stderr.txt" >&2
  echo "seed $1: failed with exit code $2 (its last words are above)" >&2
}

trap stop_all INT TERM HUP
waiting=()
for seed in "${seeds[@]}"; do
  if is_finished "$seed"; then
    echo "seed $seed: has finished before" >&2
  else
    waiting+=("$seed")
  fi
done
while [ ${#seed_of[@]} -gt 0 ] || { [ ${#waiting[@]} -gt 0 ] && [ -z "$stopping" ]; }; do
  while [ ${#waiting[@]} -gt 0 ] && [ ${#seed_of[@]} -lt "$jobs" ] && [ -z "$stopping" ]; do
    start_seed "${waiting[0]}"
    waiting=("${waiting[@]:1}")
  done
  ended='' code=0
  wait -n -p ended "${!seed_of[@]}" || code=$?
  [ -n "${ended:-}" ] || continue # a signal
  end_seed "${seed_of[$ended]}" $code
  unset "seed_of[$ended]"
done
[ -z "$refused" ] || end_refused
[ -z "$stopping" ] || exit 130

# ---- what they came to

format='%-8s %12s %10s %12s %10s  %-6s %s\n'
code=0 done_seeds=()
printf "$format" seed steps seconds return std over reason
for seed in "${seeds[@]}"; do
  result=$dir/seed-$seed/result.txt
  if is_finished "$seed"; then
    printf "$format" "$seed" "$(value steps "$result")" "$(value seconds "$result")" \
      "$(value return_mean "$result")" "$(value return_std "$result")" "$(value over "$result")" \
      "$(value reason "$result")"
    done_seeds+=("$seed")
    [ "$(value code "$result")" = 0 ] || [ $code -ne 0 ] || code=3
  else
    printf "$format" "$seed" - - - - - failed
    code=1
  fi
done

# statistic KEY PART: of a figure of the result lines over all seeds that have one.
statistic() {
  for seed in "${done_seeds[@]}"; do value "$1" "$dir/seed-$seed/result.txt"; done |
    "$root/build/interval" | tr ' ' '\n' | sed -n "s/^$2=//p" | xargs printf "$3"
}
if [ ${#done_seeds[@]} -gt 1 ]; then
  for part in mean low high; do
    name=$part
    [ $part = mean ] || name="95 % $part"
    printf "$format" "$name" "$(statistic steps $part %.0f)" "$(statistic seconds $part %.2f)" \
      "$(statistic return_mean $part %.3f)" "" "" "(${#done_seeds[@]} seeds)"
  done
fi
if [ ${#done_seeds[@]} -gt 0 ] && command -v gnuplot >/dev/null; then
  "$root/scripts/plot.sh" "${done_seeds[@]/#/$dir/seed-}" --out="$dir/learning_curve.png" || true
fi
exit $code
