#!/usr/bin/env bash
# Draws learning curves of runs as a PNG. Runs of the same environment, agent and hyperparameters
# (seeds) are one curve, their mean with a band; others are curves of their own.
#
# Usage: scripts/plot.sh RUN... [--out=FILE.png] [--x=steps|seconds] [--y=METRIC]
#        [--band=range|interval] [--title=TEXT] [--data]
#
#   RUN      a run folder, or a folder of run folders, also of folders of them (as
#            scripts/sweep.py makes); of several, what has no metrics, or not that of --y, or cannot
#            be read is left out, and named
#   --out    default: learning_curve.png in the RUN; beside the first if there are several
#   --y      a metric of metrics.jsonl: train/episode_return (default), eval/episode_return, ...
#   --band   range (default): from the lowest to the highest run; interval: the 95 % confidence
#            interval of the mean over runs (Student's t)
#   --data   print the points instead, a row "x mean low high" each
#
# A mean is over all of its runs: it begins where the last of them begins and ends where the first
# ends; between its points a run is a straight line. gnuplot draws; it is installed if it is
# missing.
set -euo pipefail
. "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/lib.sh"

out='' data='' if_possible='' flags=() words=()
for word in "$@"; do
  case "$word" in
    --help | -h) print_head; exit 0 ;;
    --out=*) out=${word#*=} ;;
    --data) data=1 flags+=("$word") ;;
    --if_possible) if_possible=1 ;; # the end of a run: nothing is installed, no curve is no error
    --x=* | --y=* | --band=* | --title=*) flags+=("$word") ;;
    -*) refuse_option "$word" "out|x|y|band|title" ;;
    *) words+=("$word") ;;
  esac
done
[ ${#words[@]} -gt 0 ] || { echo "plot.sh: name one or more run folders; see --help" >&2; exit 2; }

case "$out" in
  '' | *.png | *.PNG) ;;
  *) echo "plot.sh: --out=$out: it draws PNG alone; name it FILE.png" >&2; exit 2 ;;
esac
if [ -n "$out" ] && [ ! -d "$(dirname "$out")" ]; then
  echo "plot.sh: --out=$out: there is no folder $(dirname "$out")" >&2
  exit 2
fi

# A folder of run folders stands for these.
levels=8 # below it
# find_runs FOLDER: prints the run folders in it, each with a NUL behind, and names those that are
# left out.
find_runs() {
  local folder deep deeper=$((levels + 1))
  while IFS= read -rd '' folder; do
    [ ! -e "${folder%/*}/config.txt" ] || continue # of another learner of a run
    if [ ! -e "$folder/metrics.jsonl" ]; then
      echo "plot.sh: $folder has no metrics.jsonl yet: left out" >&2
    elif [ ! -e "$folder/config.txt" ]; then
      echo "plot.sh: $folder has metrics.jsonl but no config.txt, so it is no run: left out" >&2
    else
      printf '%s\0' "$folder"
    fi
  done < <(find -L "$1" -maxdepth $deeper \( -name metrics.jsonl -o -name config.txt \) \
    -printf '%h\0' | sort -zu)
  deep=$(find -L "$1" -mindepth $deeper -maxdepth $deeper -type d -print -quit) || true
  [ -z "$deep" ] ||
    echo "plot.sh: $1 is searched $levels levels deep: left out are $deep and what is beside it" >&2
}
runs=()
for word in "${words[@]}"; do
  found=()
  [ -n "$if_possible" ] || [ ! -d "$word" ] || mapfile -td '' found < <(find_runs "$word")
  if [ ${#found[@]} -gt 0 ]; then runs+=("${found[@]}"); else runs+=("$word"); fi
done
if [ -z "$out" ]; then
  out=$(dirname "${words[0]}")/learning_curve.png
  if [ ${#words[@]} -eq 1 ]; then out=${words[0]}/learning_curve.png; fi
fi

if [ -n "$if_possible" ]; then
  if [ ! -e "${words[0]}/metrics.jsonl" ]; then exit 0; fi
  if ! command -v gnuplot >/dev/null; then
    hint=''
    ! has_sources || hint=" (scripts/setup.sh plot installs it)"
    echo "no learning curve: gnuplot is missing$hint" >&2
    exit 0
  fi
else
  set_up
  [ -n "$data" ] || set_up plot
  build all
fi
if [ -z "$data" ] && ! command -v gnuplot >/dev/null; then
  echo "plot.sh: gnuplot is missing, which draws; install it (on Debian: apt-get install" \
    "gnuplot-nox)" >&2
  exit 1
fi
if [ -n "$data" ]; then exec "$root/build/curves" "${flags[@]}" "${runs[@]}"; fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
code=0
"$root/build/curves" "${flags[@]}" "${runs[@]}" >"$work/script" 2>"$work/said" || code=$?
if [ $code -eq 4 ] && [ -n "$if_possible" ]; then exit 0; fi
cat "$work/said" >&2
if [ $code -eq 4 ]; then echo "plot.sh: there is nothing to draw" >&2; fi
[ $code -eq 0 ] || exit $code
if ! gnuplot "$work/script" >"$work/picture" 2>"$work/said"; then
  cat "$work/said" >&2
  echo "plot.sh: gnuplot failed (above)" >&2
  exit 1
fi
# Beside its place first: a picture that is looked at is never half a one.
if ! { cp "$work/picture" "$out.new" && mv -T "$out.new" "$out"; } 2>/dev/null; then
  rm -f "$out.new"
  echo "plot.sh: cannot write $out; choose another --out" >&2
  exit 1
fi
echo "learning curve: $out" >&2
