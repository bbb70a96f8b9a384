# Helpers that scripts share. `root` is the folder of the source tree; the caller's folder stays.
# shellcheck shell=bash
# awk, printf and sort read numbers by the locale: where the decimal point is a comma, 0.55 is 0.
export LC_ALL=C.UTF-8
root=$(cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/.." && pwd)

started_as=$(readlink -f "$0") # before the script goes to another folder

# offer_help "$@": for --help as the first word the comment at the head of the script that calls.
offer_help() {
  case "${1:-}" in
    --help | -h) print_head ;;
    *) return 0 ;;
  esac
  exit 0
}

# need_words "$@": the same, also without words, which is a mistake.
need_words() {
  [ $# -gt 0 ] || { print_head; exit 2; }
  offer_help "$@"
}

# need_run "$@": the first word is no option.
need_run() {
  need_words "$@"
  case "$1" in
    -*) echo "$(basename "$started_as"): name the run folder first; see --help" >&2; exit 2 ;;
  esac
}

# refuse_option WORD NAMES: ends the script for a word that is no option of it; those of NAMES,
# "out|fps", have values.
refuse_option() {
  local why="is no option of it; --help lists them"
  [[ $1 != --@($2) ]] || why="has no value: options are written --name=value"
  echo "$(basename "$started_as"): $1 $why" >&2
  exit 2
}

# --version as the first word of any script: nothing is built for it.
if [ "${1:-}" = --version ]; then
  exec "$root/scripts/version.sh" --name="$(basename "$started_as")"
fi

# That comment, of the script that was started.
print_head() {
  sed -n '1d;/^#/!q;s/^# \{0,1\}//p' "$started_as"
}

# A bundle has all that is needed, and nothing to build: only the source tree has a Makefile.
has_sources() { [ -e "$root/Makefile" ]; }

# set_up [GROUP]: installs what is missing.
set_up() { ! has_sources || "$root/scripts/setup.sh" "$@"; }

in_tree() {
  make --no-print-directory -C "$root" "$@"
}

# Ends as SIGINT ends a script: a shell that waits for it ends its loop, which it would not do for
# an exit code of 130. Traps of EXIT are run.
end_interrupted() {
  trap - INT
  kill -INT $$
}

# A signal to the script alone is handled after the command that is running; bash would forget it if
# that command went on.
end_on_signals() {
  trap end_interrupted INT
  trap 'exit 143' TERM
  trap 'exit 129' HUP
}
end_on_signals

# hand_over PROGRAM WORDS...: goes on as that program. A signal that has come and was not handled
# yet ends the script before; exec with traps set would forget it.
hand_over() {
  trap - INT TERM HUP
  : # where bash looks for such a signal
  exec "$@"
}

# Ends a build that a signal meets, with everything it has started.
end_build() {
  kill -TERM -- "-$1" 2>/dev/null
  wait
  rm -f "$2"
  echo "stopped while building" >&2
  exit 130
}

# build TARGET...: says nothing when there is nothing to do; shows the compiler's words when it
# fails. One build at a time in a tree, since two runs may be started at once.
build() {
  has_sources || return 0
  in_tree -q "$@" >/dev/null 2>&1 && return
  if ! mkdir -p "$root/build" 2>/dev/null || [ ! -w "$root/build" ]; then
    echo "$root/build is older than its sources, or not there, and cannot be written: let its" \
      "owner run make there, or copy the tree" >&2
    return 1
  fi
  echo "building $* ..." >&2
  local log="$root/build/build-$$.log" code=0
  trap 'end_build "$!" "$log"' INT TERM HUP
  set -m # a process group of its own, so that it can be ended as one
  flock "$root/build/.lock" \
    make --no-print-directory -C "$root" -j"$(nproc)" "$@" >"$log" 2>&1 </dev/null &
  set +m
  wait $! || code=$?
  end_on_signals
  if [ $code -ne 0 ]; then
    grep -vE '^  (cc|c\+\+|link|proto) +' "$log" | tail -n 60 >&2 || true
    echo "the build of $* failed" >&2
  fi
  rm -f "$log"
  return $code
}

# take_run WORD: a run folder, or a checkpoint file in one. Sets `run`, and `checkpoint` to the file
# or "".
take_run() {
  run=$1 checkpoint=
  if [ -f "$run" ]; then
    checkpoint=$run
    run=$(dirname "$(dirname "$(realpath "$run")")")
  fi
  if [ -f "$run/config.txt" ]; then return; fi
  echo "$(basename "$0"): $1 is no run folder, nor a checkpoint in one: there is no" \
    "$run/config.txt" >&2
  exit 2
}

# An option of that run.
run_option() { sed -n "s/^$1 *= *//p" "$run/config.txt" | sed 's/^"\(.*\)"$/\1/'; }

# The bridge to Python: to .venv, or to the interpreter that the user has chosen, in which nothing
# is installed here.
build_bridge() {
  if [ -n "${ACORN_PYTHON:-}" ]; then
    if [ -d "$ACORN_PYTHON" ]; then
      echo "ACORN_PYTHON=$ACORN_PYTHON is a folder: name the interpreter in it," \
        "$ACORN_PYTHON/bin/python" >&2
      exit 2
    fi
    build gymnasium PYTHON="$(realpath -s -- "$ACORN_PYTHON")"
  else
    set_up gym && build gymnasium
  fi
}

# is_in_package WORD: whether that environment is played by processes of the Python that the package
# acorn-rl is installed in (deploy/python/acorn/train.py), whose programs have no bridge. Such a
# process plays only what its like have brought: it ends the script for another run.
is_in_package() {
  [[ ${ACORN_PACKAGE_PYTHON:+yes}:$1 = yes:@(join|gym:*) ]] || return
  [ "$(run_option env)" != join ] || return 0
  echo "$(basename "$started_as"): the environment of $run is $(run_option env), none that actors" \
    "in Python brought, and this package has no bridge to Python: play it in the source tree" >&2
  exit 2
}

# Builds what plays that run, or an environment named otherwise, and installs what that needs.
build_for_run() {
  has_sources || return 0
  set_up
  build all
  case "${1:-$(run_option env)}" in
    gym:* | atari | atari:* | football | dmlab) build_bridge ;;
  esac
}

# Installs what draws learning curves, where that goes without questions. A run does not need it: a
# machine that cannot have it is asked once a day.
offer_plot() {
  ! command -v gnuplot >/dev/null && has_sources || return 0
  local asked="$root/build/.asked_for_plot"
  [ -z "$(find "$asked" -mmin -1440 2>/dev/null)" ] || return 0
  set_up plot </dev/null && return
  touch "$asked" 2>/dev/null || true # somebody else's tree
  echo "the run goes on without a learning curve; scripts/setup.sh plot tries again" >&2
}
