# Helpers of the benchmark scripts: the machine in one line, medians, figures out of a run's files.
# shellcheck shell=bash
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

machine() {
  local model
  model=$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)
  printf '%s, %s cores, %s' "$model" "$(nproc)" "$(uname -sr)"
}

# Median of the numbers on stdin.
median() {
  sort -g | awk '{a[NR] = $1}
    END {if (NR % 2) print a[(NR + 1) / 2]; else if (NR) print (a[NR / 2] + a[NR / 2 + 1]) / 2}'
}

# value KEY: of "key=value" words on stdin.
value() {
  tr ' ' '\n' | sed -n "s/^$1=//p" | tail -n 1
}

# User and system CPU seconds that process $1 has used.
cpu_seconds() {
  awk -v hz="$(getconf CLK_TCK)" '{sub(/^.*\) /, ""); print ($12 + $13) / hz}' "/proc/$1/stat"
}

ratio() {
  awk -v a="$1" -v b="$2" 'BEGIN {printf "%.3f", b ? a / b : 0}'
}

# row WHAT VALUE MUST: a line of the table, with a verdict. MUST is ">= x", "<= x" or "reported".
row() {
  local verdict
  verdict=$(awk -v v="$2" -v must="$3" 'BEGIN {
    split(must, word, " ")
    if (v !~ /^-?[0-9.]+(e[-+]?[0-9]+)?$/) print "MISSED"
    else if (word[1] == ">=") print (v + 0 >= word[2] + 0) ? "ok" : "MISSED"
    else if (word[1] == "<=") print (v + 0 <= word[2] + 0) ? "ok" : "MISSED"
    else print "-"}')
  printf '%-66s %12s   must %-12s %s\n' "$1" "$2" "$3" "$verdict"
  [ "$verdict" != MISSED ]
}
