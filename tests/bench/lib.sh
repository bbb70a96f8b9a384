# Helpers of the benchmark scripts: what they need, the machine in one line, medians, figures out of
# a run's files.
# shellcheck shell=bash
export LC_ALL=C.UTF-8 # see scripts/lib.sh
started_as=$(readlink -f "$0")
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../.." || exit 1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# The comment at a script's beginning.
show_help() {
  sed -n '1d;/^#/!q;s/^# \{0,1\}//p' "$started_as"
}

# seeds_and_options WORD...: arrays of a script's words, 1 2 3 where there are no seeds; --help ends
# the script.
seeds_and_options() {
  local word
  seeds=() options=()
  for word in "$@"; do
    case "$word" in
      --help | -h) show_help && exit 0 ;;
      -*) options+=("$word") ;;
      *) seeds+=("$word") ;;
    esac
  done
  [ ${#seeds[@]} -gt 0 ] || seeds=(1 2 3)
}

# until_return RETURN SEED ENV AGENT OPTION...: prints after how many steps the mean return of the
# last 100 training episodes is that, or what it is after 3 M; 2 actors with 16 environments each.
until_return() {
  local target=$1 seed=$2 env=$3 agent=$4
  shift 4
  rm -rf "$work/run"
  build/launch "$env" "$agent" 2 16 --target_return="$target" --total_steps=3M --seed="$seed" "$@" \
    "${options[@]}" --evaluators=0 --no_plot --logdir="$work/run" >"$work/out" 2>"$work/err" || {
    tail -n 3 "$work/err" >&2
    exit 1
  }
  echo "$env $agent $* seed=$seed steps=$(value steps <"$work/out")" \
    "return=$(value return_mean <"$work/out")"
}

# steps_to RETURN ENV AGENT OPTION...: a run of each of `seeds`, with `options`; shows what came of
# it, and adds a line to $work/steps: the steps after which the mean return of the last 100 training
# episodes was that, or inf.
steps_to() {
  local target=$1 seed code result
  shift
  for seed in "${seeds[@]}"; do
    code=0
    ./run_local.sh "$@" --target_return="$target" --seed="$seed" --no_plot \
      --logdir="$work/$seed" "${options[@]}" >"$work/out" 2>"$work/err" || code=$?
    [ $code -eq 0 ] || [ $code -eq 3 ] || { # 3: it has not got there
      tail -n 3 "$work/err" >&2
      exit 1
    }
    result=$(grep '^result ' "$work/out")
    echo "seed $seed: $result"
    if [ "$(value reason <<<"$result")" = target_return ]; then
      value steps <<<"$result"
    else
      echo inf
    fi >>"$work/steps"
    rm -rf "${work:?}/$seed"
  done
}

# need [TARGET...]: installs what building takes, and builds the programs of a run and these.
need() {
  (. scripts/lib.sh && "$root/scripts/setup.sh" && build all "$@") || exit 1
}

# build_earlier COMMIT [TARGET...]: the tree of that commit as $work/earlier, with the programs of a
# run and these targets built there by its own Makefile. It is kept for the next time.
build_earlier() {
  local commit=$1 tree
  shift
  tree=$PWD/build/earlier/$(git rev-parse --short "$commit^{commit}") || exit 2
  if [ ! -L "$tree/.venv" ]; then
    mkdir -p "$tree"
    git archive "$commit" | tar -x -C "$tree" || exit 2
    ln -s "$PWD/.venv" "$tree/.venv"
  fi
  ln -s "$tree" "$work/earlier"
  echo "building $commit" >&2
  make -s -C "$tree" -j"$(nproc)" all "$@" >"$work/build" 2>&1 ||
    { tail -n 5 "$work/build" && exit 1; }
}

machine() {
  local model
  model=$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)
  printf '%s, %s cores, %s' "$model" "$(nproc)" "$(uname -sr)"
}

# Whether this machine computes in bf16; if not, says so for the rows that want it.
has_bf16() {
  grep -qw avx512bw /proc/cpuinfo && return
  echo "bf16 is not measured here: it needs a processor with AVX-512"
  return 1
}

# What counts as one; that of a measurement that failed is a word.
number='^[-+]?[0-9.]+(e[-+]?[0-9]+)?$'

# Median of the numbers on stdin; "failed" where one is none.
median() {
  sort -g | awk -v number="$number" '{a[NR] = $1} $1 !~ number {failed = 1}
    END {if (failed) print "failed"
         else if (NR % 2) print a[(NR + 1) / 2]
         else if (NR) print (a[NR / 2] + a[NR / 2 + 1]) / 2}'
}

# Between which two of the numbers on stdin the median of what they are drawn from lies 19 times of
# 20: their ranks are those of the sign test, half the count and 0.98 of its root to either side.
interval() {
  sort -g | awk '{a[NR] = $1}
    END {
      low = int(NR / 2 - 0.98 * sqrt(NR))
      if (low < 1) low = 1
      print a[low] " and " a[NR + 1 - low]
    }'
}

# value KEY: of "key=value" words on stdin.
value() {
  tr ' ' '\n' | sed -n "s/^$1=//p" | tail -n 1
}

# User and system CPU seconds that process $1 has used.
cpu_seconds() {
  awk -v hz="$(getconf CLK_TCK)" '{sub(/^.*\) /, ""); print ($12 + $13) / hz}' "/proc/$1/stat"
}

# field NAME LINE [FOLDER]: a number of one line of the metrics of $work/run, or of that folder's.
field() {
  sed -n "$2p" "${3:-$work/run}/metrics.jsonl" | tr ',{}' '\n' | sed -n "s|^\"$1\": *||p"
}

# per_second NAME LINE: how fast a total has grown from line LINE to the last but one.
per_second() {
  local last
  last=$(($(wc -l <"$work/run/metrics.jsonl") - 1))
  awk -v a="$(field "$1" "$2")" -v b="$(field "$1" "$last")" \
    -v t0="$(field seconds "$2")" -v t1="$(field seconds "$last")" \
    'BEGIN {printf "%.0f", (b - a) / (t1 - t0)}'
}

# ratio A B: "failed" where one of them is no number, or B is 0, so that its row is missed.
ratio() {
  awk -v a="$1" -v b="$2" -v number="$number" 'BEGIN {
    if (a ~ number && b ~ number && b > 0) printf "%.3f\n", a / b; else print "failed"}'
}

# two COMMAND...: runs it twice at once; the sum of the numbers that both print.
two() {
  "$@" >"$work/1" &
  "$@" >"$work/2"
  wait
  cat "$work/1" "$work/2" | awk '{sum += $1} END {print NR == 2 ? sum : "failed"}'
}

# row WHAT VALUE MUST: a line of the table, with a verdict. MUST is ">= x", "<= x" or "reported".
row() {
  local verdict
  verdict=$(awk -v v="$2" -v must="$3" -v number="$number" 'BEGIN {
    split(must, word, " ")
    if (v !~ number) print "MISSED"
    else if (word[1] == ">=") print (v + 0 >= word[2] + 0) ? "ok" : "MISSED"
    else if (word[1] == "<=") print (v + 0 <= word[2] + 0) ? "ok" : "MISSED"
    else print "-"}')
  printf '%-66s %12s   must %-12s %s\n' "$1" "$2" "$3" "$verdict"
  [ "$verdict" != MISSED ]
}
