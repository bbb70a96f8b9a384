#!/usr/bin/env bash
# Tries values of options: every combination of them, or random ones, each with several seeds. Sums
# them up, the best first: a table, sweep.csv, a plot, and the command that trains the best again.
#
# Usage: scripts/sweep.sh ENV AGENT --flag=a,b,c [--other=x,y ...] [--seeds=1] [--trials=N]
#        [--draw_seed=1] [--jobs=N] [--actors=4] [--envs_per_actor=N] [--dir=FOLDER]
#
#   --flag       any option of ./run_local.sh. One value: all runs have it. Several, separated by
#                commas or by giving the option again: they are tried. A value of --hidden, and
#                one that begins with { or [ (JSON), has commas of its own and is never split:
#                --hidden=64,64 --hidden=256,256
#   --trials     so many random combinations instead of all. Then LOW..HIGH is a range, too:
#                drawn log-uniformly, and rounded where both are whole numbers
#   --draw_seed  of these draws: the same ones each time it is started; more --trials add to them
#   --seeds      3: the seeds 1, 2 and 3; or 1..3, or 1,2,7
#   --jobs       so many runs at a time; default: as many as there are cores for, each taking one
#                for its learner and one for each of its actors
#   --dir        default: runs/ENV-AGENT-sweep; the runs are FOLDER/flag=a,other=x/seed-1, ...
#
# The values are checked before anything runs. The best is the one with the highest mean return;
# with --target_return the one that reached it with the most seeds, then in the fewest steps.
# Started again it goes on where it was, also with other values: a run that has finished is not run
# again, one that was stopped is resumed. Exit code 0: all have finished; 3: some missed
# --target_return; 1: some failed; 2: wrong options; 130: stopped.
set -euo pipefail
. "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/lib.sh"
. "$root/scripts/lib_runs.sh"
PLOTTED=5 # configurations in the plot

# ---- the options and their values

trials='' draw_seed=1 seeds_text=1
names=()             # of options that have values, in their order
declare -A values=() # of an option, one a line, each once
switches=()          # --dueling, --no_dueling

# add_values NAME VALUE
add_values() {
  local parts value
  case "$1=$2" in
    =*) fail "--=$2: there is no name" ;;
    "$1=") fail "--$1=: there is no value" ;;
    hidden=* | *={* | *=[[]*) parts=$2 ;;
    *,,* | *=,* | *,) fail "--$1=$2: there is nothing before or after a comma" ;;
    *) parts=${2//,/$'\n'} ;;
  esac
  [ -n "${values[$1]+set}" ] || names+=("$1")
  while IFS= read -r value; do
    grep -qxF -e "$value" <<<"${values[$1]-}" || values[$1]+=$value$'\n'
  done <<<"$parts"
}

for word in "$@"; do
  case "$word" in
    --trials=*) trials=${word#*=} ;;
    --draw[-_]seed=*) draw_seed=${word#*=} ;;
    --seeds=*) seeds_text=${word#*=} ;;
    *)
      take_word "$word" && continue
      case "$word" in
        *$'\n'*) fail "$word: a value is one line" ;;
        *=*) name=${word%%=*} && name=${name#--} && add_values "${name//-/_}" "${word#*=}" ;;
        *) switches+=("$word") ;;
      esac
      ;;
  esac
done
check_words "cartpole vtrace --learning_rate=3e-4,1e-3" ENV AGENT
env=${words[0]} agent=${words[1]}
[[ "$trials" =~ ^([1-9][0-9]{0,3})?$ ]] ||
  fail "--trials=$trials: a number from 1 to 9999 is needed"
case "$seeds_text" in
  0 | *[!0-9]*) ;;
  ?*) seeds_text=1..$seeds_text ;;
esac
read_seeds "$seeds_text"
[[ "$actors" =~ ^[1-9][0-9]{0,4}$ ]] || fail "--actors=$actors: a number from 1 on is needed"
jobs=${jobs:-$(($(nproc) / (actors + 1)))}
[ "$jobs" != 0 ] || jobs=1
check_jobs

number='([0-9]+\.?[0-9]*|\.[0-9]+)(e[+-]?[0-9]+)?'
is_range() { [[ "$1" =~ ^$number\.\.$number$ ]]; }
count_of() { grep -c . <<<"${values[$1]}"; }

swept=() flags=("${switches[@]}")
for name in "${names[@]}"; do
  first=${values[$name]%%$'\n'*}
  while IFS= read -r value; do
    is_range "$value" || continue
    [ -n "$trials" ] || fail "--$name=$value: a range needs --trials=N, how many values to draw"
    awk -v low="${value%%..*}" -v high="${value#*..}" \
      'BEGIN {exit !(0 < low + 0 && low + 0 < high + 0)}' ||
      fail "--$name=$value: a range goes from a number above 0 to a larger one"
  done <<<"${values[$name]%$'\n'}"
  if [ "$(count_of "$name")" -gt 1 ] || is_range "$first"; then
    swept+=("$name")
  else
    flags+=("--$name=$first")
  fi
done
[ ${#swept[@]} -gt 0 ] ||
  fail "no option has several values to try: --learning_rate=3e-4,1e-3 (see --help)"

# ---- configurations: words "--name=value", one a line

configurations=()
# all_combinations: the first option changes slowest.
all_combinations() {
  local name value before grown
  configurations=('')
  for name in "${swept[@]}"; do
    grown=()
    for before in "${configurations[@]}"; do
      while IFS= read -r value; do
        grown+=("$before--$name=$value"$'\n')
      done <<<"${values[$name]%$'\n'}"
    done
    configurations=("${grown[@]}")
    [ ${#grown[@]} -le 1000 ] || fail "more than 1000 combinations: --trials=N tries N of them"
  done
}

# draw TRIAL NAME: prints a value, the same for the same words.
draw_value() {
  local hash list value
  hash=$(printf '%s' "$draw_seed $1 $2" | sha256sum)
  mapfile -t list <<<"${values[$2]%$'\n'}"
  value=${list[$((16#${hash:0:8} % ${#list[@]}))]}
  is_range "$value" || { echo "$value" && return; }
  awk -v low="${value%%..*}" -v high="${value#*..}" -v draw=$((16#${hash:8:8})) 'BEGIN {
    value = low * exp(draw / 2 ^ 32 * log(high / low))
    printf((low high) ~ /^[0-9]+$/ ? "%.0f" : "%.3g", value)
  }'
}

random_combinations() {
  local trial name configuration
  declare -A seen=()
  for ((trial = 1; trial <= trials; trial++)); do
    configuration=
    for name in "${swept[@]}"; do
      configuration+="--$name=$(draw_value $trial "$name")"$'\n'
    done
    [ -n "${seen[$configuration]-}" ] || configurations+=("$configuration")
    seen[$configuration]=1
  done
  [ ${#configurations[@]} -eq "$trials" ] ||
    echo "sweep.sh: of $trials trials ${#configurations[@]} are different" >&2
}

# folder_of CONFIGURATION: its folder, "name=value,name=value". What a file name should not have is
# replaced, and a checksum keeps such names different.
folder_of() {
  local plain=${1%$'\n'} safe
  plain=${plain#--} && plain=${plain//$'\n'--/,}
  safe=${plain//[!A-Za-z0-9.,=+_-]/_}
  [ "$safe" = "$plain" ] && [ ${#safe} -le 120 ] ||
    safe=${safe:0:120}-$(printf '%s' "$1" | cksum | cut -d' ' -f1)
  echo "$safe"
}

if [ -n "$trials" ]; then random_combinations; else all_combinations; fi
declare -A configuration_of=() # by folder
folders=() runs=()
for configuration in "${configurations[@]}"; do
  folder=$(folder_of "$configuration")
  folders+=("$folder")
  configuration_of[$folder]=$configuration
  for seed in "${seeds[@]}"; do runs+=("$folder/seed-$seed"); done
done

own_flags() {
  mapfile -t own <<<"${configuration_of[${1%/*}]%$'\n'}"
  own+=(--seed="${1##*seed-}")
}
label() { echo "$1"; }

# ---- runs

# try WORD...: a run of one step; ends the script if it refuses these options.
try() {
  local code=0
  rm -rf "$work/run"
  "$root/build/launch" "$env" "$agent" "$actors" ${envs:+"$envs"} "${flags[@]}" "$@" \
    --total_steps=1 --logdir="$work/run" --no_plot >"$work/out" 2>&1 </dev/null || code=$?
  [ $code -eq 2 ] || return 0
  tail -n 5 "$work/out" >&2
  fail "these options are refused (above); nothing was run"
}

# Each value once, with the first values of the other options.
check_values() {
  local work name value ends first=() i
  work=$(mktemp -d)
  trap 'rm -rf "'"$work"'"' EXIT
  for name in "${swept[@]}"; do
    mapfile -t ends < <(ends_of "$name")
    first+=("--$name=${ends[0]}")
  done
  try "${first[@]}"
  for i in "${!swept[@]}"; do
    mapfile -t ends < <(ends_of "${swept[i]}")
    for value in "${ends[@]:1}"; do
      try "${first[@]:0:i}" "--${swept[i]}=$value" "${first[@]:i+1}"
    done
  done
}

# ends_of NAME: the values of an option, of a range both ends.
ends_of() {
  local value
  while IFS= read -r value; do
    if is_range "$value"; then printf '%s\n' "${value%%..*}" "${value#*..}"; else echo "$value"; fi
  done <<<"${values[$1]%$'\n'}"
}

dir=${dir:-runs/$(basename "$env" .so)-$agent-sweep}
claim_folder "$env" "$agent" "$actors" ${envs:+"$envs"} "${flags[@]}" sweep "${swept[@]}"
build_for_run "$env"
offer_plot
[ -z "$(unfinished "${runs[@]}" 2>/dev/null)" ] || check_values
echo "sweep.sh: ${#configurations[@]} configurations x ${#seeds[@]} seeds, $jobs at a time, in" \
  "$dir" >&2
play "${runs[@]}"

# ---- the table and sweep.csv

# part KEY: of a line "key=number key=number ...".
part() { tr ' ' '\n' | sed -n "s/^$1=//p"; }

# row FOLDER: tab-separated: two keys to sort by, the folder, and the cells of the table.
row() {
  local all done_runs of_return run words cells reached=0 steps seconds mean failed=()
  all=("${seeds[@]/#/$1/seed-}")
  mapfile -t done_runs < <(finished "${all[@]}")
  mapfile -t words <<<"${configuration_of[$1]%$'\n'}"
  cells=("${words[@]#*=}")
  for run in "${all[@]}"; do is_finished "$run" || failed+=("${run##*/}"); done
  if [ ${#done_runs[@]} -eq 0 ]; then
    printf '%s\t' inf inf "$1" "${cells[@]}" 0 - - - - -
  else
    of_return=$(statistics return_mean "${done_runs[@]}")
    steps=$(statistics steps "${done_runs[@]}" | part mean)
    seconds=$(statistics seconds "${done_runs[@]}" | part mean)
    mean=$(part mean <<<"$of_return")
    for run in "${done_runs[@]}"; do
      [ "$(value reason "$dir/$run/result.txt")" != target_return ] || reached=$((reached + 1))
    done
    printf '%s\t' $((-reached)) "$(rank "$mean" "$steps")" "$1" "${cells[@]}" ${#done_runs[@]}
    printf '%.3f\t' "$mean"
    if [ ${#done_runs[@]} -gt 1 ]; then
      printf '%.3f\t' "$(part low <<<"$of_return")" "$(part high <<<"$of_return")"
    else
      printf -- '-\t-\t'
    fi
    printf '%.0f\t%.2f\t' "$steps" "$seconds"
  fi
  echo "${failed[*]:--}"
}

# rank MEAN STEPS: smaller is better.
rank() {
  case "${values[target_return]-} $1" in
    ' '*nan*) echo inf ;;
    ' '*) awk -v x="$1" 'BEGIN {print -x}' ;;
    *) echo "$2" ;;
  esac
}

# Lines of tab-separated cells as columns.
align() {
  awk -F'\t' '
    {
      for (i = 1; i <= NF; i++) {
        cell[NR, i] = $i
        if (length($i) > width[i]) width[i] = length($i)
      }
      columns = NF
    }
    END {
      for (row = 1; row <= NR; row++) {
        line = ""
        for (i = 1; i <= columns; i++) line = line sprintf("%-" width[i] + 2 "s", cell[row, i])
        sub(/ +$/, "", line)
        print line
      }
    }'
}

# csv CELL...: one line; a cell with a comma or a quote is quoted.
csv() {
  local cell line=
  for cell; do
    case "$cell" in *[,\"]*) cell=\"${cell//\"/\"\"}\" ;; esac
    line+=,$cell
  done
  echo "${line:1}"
}

# For pandas: a row for each run; of one that failed the figures are empty.
write_csv() {
  local run result words cells key
  csv configuration "${swept[@]}" seed return_mean return_std steps seconds sps episodes over \
    reason folder
  for run in "${runs[@]}"; do
    result=$dir/$run/result.txt
    mapfile -t words <<<"${configuration_of[${run%/*}]%$'\n'}"
    cells=("${run%/*}" "${words[@]#*=}" "${run##*seed-}")
    for key in return_mean return_std steps seconds sps episodes over; do
      cells+=("$(value $key "$result")")
    done
    if is_finished "$run"; then cells+=("$(value reason "$result")"); else cells+=(failed); fi
    csv "${cells[@]}" "$dir/$run"
  done
}

# quoted WORD...: as a shell reads them.
quoted() {
  local word line=
  for word; do
    case "$word" in *[!A-Za-z0-9.,:/=+_-]* | '') word=${word@Q} ;; esac
    line+=" $word"
  done
  echo "${line:1}"
}

rows=$(for folder in "${folders[@]}"; do row "$folder"; done | sort -s -t$'\t' -k1,1g -k2,2g)
{
  printf '%s\t' "${swept[@]}" seeds return "95 % low" "95 % high" steps seconds
  echo failed
  cut -f4- <<<"$rows"
} | align
write_csv >"$dir/sweep.csv.new" && mv "$dir/sweep.csv.new" "$dir/sweep.csv"
echo "sweep.sh: each run is a row of $dir/sweep.csv" >&2

mapfile -t best < <(cut -f3 <<<"$rows" | head -n $PLOTTED)
mapfile -t drawn < <(for folder in "${best[@]}"; do finished "${seeds[@]/#/$folder/seed-}"; done)
if [ ${#drawn[@]} -gt 0 ]; then
  [ ${#folders[@]} -le $PLOTTED ] ||
    echo "sweep.sh: the plot has the best $PLOTTED of ${#folders[@]} configurations" >&2
  draw "${drawn[@]}"
  run_local=./run_local.sh
  [ "$PWD" = "$root" ] || run_local=$root/run_local.sh
  own_flags "${best[0]}/seed-${seeds[0]}"
  echo "the best again: $(quoted "$run_local" "$env" "$agent" "$actors" ${envs:+"$envs"} \
    "${flags[@]}" "${own[@]}")"
fi
exit "$(exit_code "${runs[@]}")"
