#!/usr/bin/env bash
# --module: docs/examples/corridor.py, trained, evaluated and continued where neither its
# file nor PYTHONPATH names it any more; and what is wrong with other files.
. "$(dirname "$(readlink -f "$0")")/lib.sh"
. "$tree/scripts/lib.sh"
if ! build all gymnasium >"$work/err" 2>&1 ||
  ! "$tree/.venv/bin/python" -c 'import gymnasium' 2>/dev/null; then
  echo "SKIP --module: there is no Gymnasium here (scripts/setup.sh gym)"
  exit 0
fi
unset PYTHONPATH
program=$tree/build/actor
mkdir project elsewhere
cp "$tree/docs/examples/corridor.py" project/my_env.py

checked() { "$program" --check_env "$@" >"$work/out" 2>"$work/err"; }
keeps_rules() { checked "$@" && is "$(grep -c '^ok ' "$work/out")" 6; }
pass_if "docs/examples/corridor.py keeps the rules" \
  keeps_rules --env=gym:Corridor-v0 --module=project/my_env.py
pass_if "so does docs/examples/parcel.py" \
  keeps_rules --env=gym:Parcel-v0 --module="$tree/docs/examples/parcel.py"

# ---- a run, and what it keeps
reached() { is "$code" 0 && is "$(value env)" gym-Corridor-v0 && is "$(value reason)" "$1"; }
run gym:Corridor-v0 vtrace 2 --module=project/my_env.py --total_steps=400k --target_return=0.98 \
  --logdir="$work/run"
ended 60
pass_if "it learns" reached target_return
pass_if "the run keeps the file" cmp project/my_env.py run/module/my_env.py
pass_if "and nothing else beside it" is "$(ls run/module)" my_env.py
pass_if "the path of the file is no part of the environment" \
  is "$(cat run/environment.txt)" gym-Corridor-v0

mv project/my_env.py elsewhere/ # every later command finds the copy only
evaluated() {
  "$tree/scripts/eval.sh" "$work/run" --episodes=20 --policy=greedy >"$work/out" 2>"$work/err" &&
    says "runs code of $work/run/module/my_env.py, with the rights of this account" &&
    awk '{sub(/.*return_mean=/, ""); exit !($1 > 0.9)}' <(grep '^evaluation ' "$work/out")
}
pass_if "eval.sh plays it with the copy" evaluated
run gym:Corridor-v0 vtrace 2 --total_steps=500k --target_return=2 --resume --logdir="$work/run"
ended 60
pass_if "--resume goes on with the copy" is "$code" 3
moved() { mv run moved && "$tree/build/watch" moved >/dev/null 2>"$work/err"; }
sees_no_picture() {
  ! moved && says "runs code of moved/module/my_env.py, with the rights of this account" &&
    says "environment gym-Corridor-v0 cannot be watched"
}
pass_if "watch finds the copy, also where the run folder has moved, and names it" sees_no_picture

# ---- an evaluation plays each seed once
run gym:Seeds-v0 ppo 1 8 --module="$tree/tests/integration/module/seeds.py" --total_steps=1k \
  --target_return=10 --no_plot --logdir="$work/seeds"
ended 60
# seeds_mean EPISODES MEAN WORDS...
seeds_mean() {
  run gym:Seeds-v0 ppo 1 8 --module="$tree/tests/integration/module/seeds.py" --mode=evaluate \
    --logdir="$work/seeds" --seed=1000 --policy=greedy --episodes="$1" "${@:3}"
  ended 60
  says_result "episodes=$1 return_mean=$2 "
}
says_result() { grep -q "^evaluation $1" "$work/out"; }
pass_if "beyond the target of its run" seeds_mean 400 199.5
pass_if "after a failure, too" seeds_mean 40 19.5 --env_args='{"breaks": 1017}'
pass_if "which there was" [ -e broke ]

# ---- a run folder of somebody else's: nothing of it is run
# Whatever its file is, and whatever module its config.txt names.
cp -r moved theirs && echo "open('$work/owned', 'w')" | tee -a theirs/module/my_env.py >owner.py
refuses_code() {
  ! "$@" --no_code >"$work/out" 2>"$work/err" && [ ! -e "$work/owned" ] &&
    says "--no_code: the environment would run code of $code_of"
}
code_of=$work/theirs/module/my_env.py
pass_if "eval.sh --no_code refuses the module" refuses_code "$tree/scripts/eval.sh" "$work/theirs"
pass_if "so does watch.sh" refuses_code "$tree/scripts/watch.sh" "$work/theirs"
rm -r theirs/module && echo "module = $work/owner.py" >>theirs/config.txt
names_another() {
  ! "$@" >"$work/out" 2>"$work/err" && [ ! -e "$work/owned" ] && says "Corridor"
}
pass_if "a learner runs no module that config.txt names" names_another timeout $((20 * patience)) \
  "$tree/build/learner" --mode=evaluate --logdir="$work/theirs" --listen="unix:$work/theirs.socket"
pass_if "nor does watch" names_another "$tree/build/watch" "$work/theirs"

# ---- a picture, a vector, choices and their mask, by the name alone; random actions have -0.51
run gym:Parcel-v0 --module="$tree/docs/examples/parcel.py" --seed=1 --total_steps=150k \
  --target_return=0.6 --logdir=parcel
ended 120
parcel() {
  is "$code" 0 && is "$(value agent)" ppo && is "$(value reason)" target_return &&
    grep -q '^network = impala_shallow' parcel/config.txt
}
pass_if "docs/examples/parcel.py is learned by its name alone" parcel

# ---- a run that goes on with another file
sed 's/length=5/length=4/' elsewhere/my_env.py >project/second.py
run gym:Corridor-v0 vtrace 2 --total_steps=501k --target_return=2 --resume --logdir="$work/moved" \
  --module=project/second.py
ended 60
keeps_second() {
  is "$(ls moved/module)" second.py && cmp project/second.py moved/module/second.py
}
pass_if "a run that goes on with another file keeps that one" keeps_second

# ---- a module beside it, which no run keeps
mkdir divided && sed 's/^import numpy/from lengths import length\n&/; s/length=5/length=length/' \
  elsewhere/my_env.py >divided/my_env.py && echo 'length = 5' >divided/lengths.py
PYTHONPATH=$work/divided run gym:Corridor-v0 vtrace 1 --module=divided/my_env.py \
  --total_steps=2k --logdir="$work/parted"
ended 60
misses_it() {
  ! "$@" >"$work/out" 2>"$work/err" && says "/parted/module/my_env.py: No module named 'lengths'" &&
    says "where it is a file of your own, lengths.py, which no run keeps: export PYTHONPATH="
}
pass_if "eval.sh names the file and PYTHONPATH" \
  misses_it "$tree/scripts/eval.sh" "$work/parted" --policy=greedy
pass_if "so does watch" misses_it "$tree/build/watch" "$work/parted"

# ---- what is wrong
refused_with() { # WORDS OPTIONS...
  refused "${@:2}" vtrace 1
  is "$code" 2 && says "$1"
}
echo 'x = (' >broken.py
echo 'import nowhere_at_all' >lacking.py
echo 'X = 1' | tee idle.py helper.py >json.py
echo 'import helper' >divided.py
pass_if "a file that is not there" \
  refused_with "--module=none.py: No such file or directory" gym:Corridor-v0 --module=none.py
pass_if "a file of another kind" \
  refused_with "name the file of the module" gym:Corridor-v0 --module=my_env
pass_if "an environment in C" \
  refused_with "registers environments for gym:ID" cartpole --module=idle.py
pass_if "a file with an error" refused_with "SyntaxError" gym:Corridor-v0 --module=broken.py
pass_if "a file that lacks a module" \
  refused_with "No module named 'nowhere_at_all'" gym:Corridor-v0 --module=lacking.py
pass_if "a file that lacks the one beside it" \
  refused_with "export PYTHONPATH=$work" gym:Corridor-v0 --module=divided.py
pass_if "a file that registers nothing" \
  refused_with "$work/idle.py registers nothing" gym:Corridor-v0 --module=idle.py
pass_if "a file that registers something else" \
  refused_with "/second.py registers Corridor-v0" gym:Maze-v0 --module=project/second.py
pass_if "a file with the name of a module of Python's" \
  refused_with "Python has a module 'json' already" gym:Corridor-v0 --module=json.py
pass_if "an ID that nothing has registered hints at both ways" \
  refused_with "gym:my_module:Corridor-v0, or give its file: --module=my_module.py" gym:Corridor-v0
finish
