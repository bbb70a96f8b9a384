#!/usr/bin/env bash
# The scripts themselves: they work through a symbolic link, by a relative path, from any folder.
. "$(dirname "$(readlink -f "$0")")/lib.sh"

# ---- symbolic links, as in ~/bin
mkdir bin elsewhere
same_help() {
  "$1" --help >help </dev/null && [ -s help ] &&
    (cd elsewhere && "$2" --help >"$work/out" 2>"$work/err" </dev/null) && cmp -s help out
}
for script in "$tree"/run_local.sh "$tree"/scripts/*.sh "$tree"/deploy/*.sh; do
  [ -x "$script" ] || continue # a library
  link=../bin/$(basename "$script" .sh) # as seen from elsewhere/
  ln -s "$script" "bin/${link##*/}"
  pass_if "$(basename "$link") --help, by a symbolic link" same_help "$script" "$link"
done

run catch vtrace 1 4 --total_steps=4k --logdir="$work/run" --seed=1
ended
evaluates() {
  (cd elsewhere && ../bin/eval "$work/run" --episodes=4 >"$work/out" 2>"$work/err") &&
    is "$(grep -c '^evaluation episodes=4 ' out)" 2
}
pass_if "eval.sh plays a run, by a symbolic link" evaluates
finish
