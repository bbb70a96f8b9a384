#!/usr/bin/env bash
# ACORN_PYTHON: interpreters other than the system's get a bridge of their own, and one without
# Gymnasium is told the command that helps it. Deprecated IDs warn.
. "$(dirname "$(readlink -f "$0")")/lib.sh"
start=$tree/run_local.sh
. "$tree/scripts/lib.sh"
python=$tree/.venv/bin/python
if ! build gymnasium >"$work/err" 2>&1 || ! "$python" -c 'import gymnasium' 2>/dev/null; then
  echo "SKIP other interpreters: there is no Gymnasium here (scripts/setup.sh gym)"
  exit 0
fi
unset PYTHONPATH PYTHONHOME
program=$tree/build/actor
packages=$("$python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')

# bridge_of PYTHON: what is built for it.
bridge_of() { echo "$tree/build/gymnasium$(realpath "$1" | tr / -).so"; }
made=("$work") # what goes at the end
trap 'end_all; rm -rf "${made[@]}"' EXIT

# An interpreter that is not the system's takes what .venv has, where it is of the same version.
with() { ACORN_PYTHON=$1 PYTHONPATH=$packages "${@:2}"; }
refuses() {
  local words=$1
  shift
  ! "$@" --env=gym:CartPole-v1 --check_env >"$work/out" 2>"$work/err" && says "$words"
}
runs_with() {
  ACORN_PYTHON=$1 PYTHONPATH=$packages run gym:CartPole-v1 vtrace 1 4 --total_steps=2k
  ended 120
  is "$code" 0 && is "$(value steps)" 2000 && [ -e "$(bridge_of "$1")" ]
}
# checks NAME PYTHON
checks() {
  local bridge
  bridge=$(bridge_of "$2")
  made+=("$bridge" "$tree/build/obj/envs/$(basename "$bridge" .so)")
  rm -f "$bridge"
  pass_if "$1: without a bridge the command that makes it is named" \
    refuses "make gymnasium PYTHON=$2" with "$2" "$program"
  pass_if "$1: run_local.sh makes one and trains" runs_with "$2"
}

/usr/bin/python3 -m venv --without-pip --copies copied
checks "a copy of the system's" "$work/copied/bin/python"
rm "$(bridge_of copied/bin/python)"
pass_if "by a relative path, too" runs_with copied/bin/python
pyenv=${PYENV_ROOT:-$HOME/.pyenv}/versions
other=$(compgen -G "$pyenv/$version.*/bin/python" | head -n 1)
if [ -n "$other" ]; then
  checks "one of pyenv" "$other"
else
  echo "SKIP an interpreter of pyenv: there is no $version in $pyenv"
fi

# ---- without Gymnasium
lacking() { env -u PYTHONPATH ACORN_PYTHON="$1" "$program" "${@:2}"; }
pass_if "one without Gymnasium: pip of that one" \
  refuses "$work/copied/bin/python -m pip install 'gymnasium>=1.0'" \
  lacking "$work/copied/bin/python"
mark=$(/usr/bin/python3 -c 'import sysconfig; print(sysconfig.get_path("stdlib"))')
if [ -e "$mark/EXTERNALLY-MANAGED" ] && ! /usr/bin/python3 -c 'import gymnasium' 2>/dev/null; then
  pass_if "the system's, where pip refuses: a virtual environment" \
    refuses "/usr/bin/python3 -m venv my_venv && my_venv/bin/pip install 'gymnasium>=1.0'" \
    lacking /usr/bin/python3
fi
cp /usr/bin/false not_python
made+=("$tree/build/obj/envs/gymnasium$(realpath not_python | tr / -)")
pass_if "no interpreter: make fails and names the file" \
  eval '! make -C "$tree" gymnasium PYTHON="$work/not_python" >"$work/out" 2>"$work/err"'

# ---- an ID that is out of date
old=$("$python" - <<'END'
import gymnasium
print(*[i for i in ("CartPole-v0", "Taxi-v3", "CliffWalking-v0") if i in gymnasium.registry][:1])
END
)
warnings_in() { cat "$@" | grep -c "$old is out of date"; }
if [ -n "$old" ]; then
  run "gym:$old" vtrace 1 4 --total_steps=1k --logdir="$work/old"
  ended 60
  pass_if "$old warns once on the terminal" is "$(warnings_in "$work/err" "$work/out")" 1
  pass_if "and once in the actor's log" is "$(warnings_in old/logs/actor-0.log)" 1
fi
finish
