#!/usr/bin/env bash
# Environments in Python: the bridge against Gymnasium itself, whole runs, and what is said where
# something is missing or goes wrong. Without Python's packages all of it is skipped. SLOW_TESTS=1
# adds what plays whole games.
. "$(dirname "$(readlink -f "$0")")/lib.sh"
. "$tree/scripts/lib.sh"
python=$tree/.venv/bin/python
helpers=$tree/tests/integration/gymnasium
program=$tree/build/actor

has_bridge() { build all gymnasium >"$work/err" 2>&1 && has_module ale_py && has_module gymnasium; }
has_module() { "$python" -c "import $1" 2>/dev/null; }
if ! has_bridge; then
  echo "SKIP environments in Python: there is no Gymnasium here (scripts/setup.sh gym)"
  exit 0
fi
export PYTHONPATH=$helpers

# compared FILE: its own lines, PASS and FAIL.
compared() {
  "$python" "$helpers/$1.py" 2>"$work/err"
  local code=$?
  [ $code -eq 0 ] || failures=$((failures + 1))
  [ $code -le 1 ] || pass_if "$1.py runs to its end" false
}
compared games
if has_module cv2; then
  compared atari_frames
else
  echo "SKIP the Atari against AtariPreprocessing: there is no OpenCV (scripts/setup.sh compare)"
fi

# ---- they keep the rules
checked() { "$program" --env="$1" --check_env "${@:2}" >"$work/out" 2>"$work/err"; }
keeps_rules() { checked "$@" && is "$(grep -c '^ok ' "$work/out")" 6; }
pass_if "gym:CartPole-v1 keeps the rules" keeps_rules gym:CartPole-v1
pass_if "every kind of observation too" keeps_rules gym:zoo:Everything-v0 --env_args='{"length": 7}'
# Assault begins otherwise after another game.
if [ -n "${SLOW_TESTS:-}" ]; then
  pass_if "the Atari too" keeps_rules atari --env_args='{"max_frames": 400, "life_loss": true}'
  pass_if "and a game that begins otherwise after another" \
    keeps_rules atari --env_args='{"game": "Assault", "max_frames": 2000, "life_loss": true}'
fi

# ---- whole runs
trained() { is "$code" 0 && is "$(value env)" "$1" && is "$(value reason)" "$2"; }
run gym:CartPole-v1 vtrace 2 --total_steps=1M --target_return=60
ended 60
pass_if "gym:CartPole-v1 learns" trained gym-CartPole-v1 target_return
run gym:CartPole-v1 vtrace 1 --mode=evaluate --logdir="$(echo runs/gym-*)" --episodes=5
ended 30
pass_if "its run is evaluated" is "$code" 0
# As a number the field that it shows leads to 0.04.
run gym:FrozenLake-v1 vtrace 2 16 --total_steps=2M --target_return=0.2
ended 60
pass_if "gym:FrozenLake-v1 learns, whose observation names a field" \
  trained gym-FrozenLake-v1 target_return
run atari vtrace 2 1 --total_steps=300 --env_args='{"game": "Breakout", "max_frames": 100}'
ended 60
pass_if "atari runs, with its options" trained atari-Breakout total_steps

# A learner without Python.
learner --env=join --num_envs=2 --total_steps=2000 --logdir="$work/run"
wait_for 10 says "waiting at"
actor 0 --env=gym:CartPole-v1 --envs=2
ended 30
pass_if "a learner needs no Python with --env=join" trained gym-CartPole-v1 total_steps

# Python takes handlers on the main thread alone, which imports the module.
cat >deaf.py <<'END'
import signal

import gymnasium
import zoo

gymnasium.register("Deaf-v0", zoo.Bound)
signal.signal(signal.SIGTERM, lambda *_: None)
signal.signal(signal.SIGINT, signal.SIG_IGN)
END
learner --env=join --num_envs=2 --total_steps=1e12 --logdir="$work/deaf"
wait_for 10 says "waiting at"
listens() { # SIGNAL CODE
  local code=0
  PYTHONPATH=$helpers:$PWD actor "$2" --env=gym:deaf:Deaf-v0 --envs=2
  wait_for 20 grep -qs "for the learner at" "actor-$2.log" && kill "-$1" "$actor"
  wait_for 10 has_gone "$actor" || return
  wait "$actor" || code=$?
  is $code "$2"
}
pass_if "SIGTERM ends the actor of a module with a handler of its own" listens TERM 143
pass_if "and SIGINT, which it ignores" listens INT 130
end_by_hand

# What inherits blocked signals would never end.
run gym:zoo:Everything-v0 vtrace 1 4 --total_steps=2000 --logdir=numbers
ended
numbers() {
  is "$(metric env/is_success numbers)" 1.0 && is "$(metric env/x/y numbers)" 0.5 &&
    is "$(metric env/nan numbers)" "" &&
    is "$(head -n 1 numbers/episodes.csv | cut -d , -f 9-)" \
      env/is_success,env/Wins___,env/x/y,env/zero
}
pass_if "scalars of info reach metrics.jsonl and episodes.csv" numbers
once() { is "$(grep -cF -- "$1" "$work/err")" 1; }
pass_if "a text is left out, which is told once" once "'motto' is text, which is left out"
run gym:zoo:Helped-v0 vtrace 1 1 --total_steps=300
ended 30
pass_if "one that starts processes can end them" trained gym-zoo-Helped-v0 total_steps

run gym:zoo:Loose-v0 vtrace 2 4 --total_steps=2000
ended 30
loose() {
  trained gym-zoo-Loose-v0 total_steps && once "'observation' is float64, the space says float32" &&
    once 'info["action_mask"] is not read'
}
pass_if "float64 for float32 and a mask that is none are told once" loose
# Random actions get 2 of 8, and forbidden ones fail.
for what in info bytes signed truth floats binary choices; do
  run gym:zoo:Masked-v0 ppo 1 8 --total_steps=2k --env_args="{\"what\": \"$what\"}" \
    --logdir="mask-$what"
  ended 30
  pass_if "a mask of actions is kept: $what" eval \
    'trained gym-zoo-Masked-v0 total_steps && ! grep -q "is forbidden" mask-$what/logs/actor-0.log'
done
# Random actions have 3 to 4 of 8.
fits() { trained gym-zoo-Several-v0 total_steps && ! grep -q "$2" "$1/logs/actor-0.log"; }
for what in multi square binary tuple dict alone; do
  run gym:zoo:Several-v0 ppo 1 8 --total_steps=8k --env_args="{\"what\": \"$what\"}" \
    --logdir="several-$what"
  ended 30
  pass_if "an action of several choices is made: $what" fits "several-$what" "is no action"
done
run gym:zoo:Several-v0 vtrace 1 8 --total_steps=4k --env_args='{"masks": true}' --logdir=several
ended 30
pass_if "within a mask of each" fits several "is forbidden"
refused gym:zoo:Several-v0 dqn 1 8
pass_if "agents of values refuse it" eval \
  'is "$code" 2 && says "has actions of several choices; agent " && says "(vtrace, a2c, ppo)"'
refused gym:zoo:Several-v0 ppo 1 8 --env_args='{"masks": "parts"}'
pass_if "a mask in parts is refused" eval \
  'is "$code" 2 && says "is no array of 9 numbers, one for each action, choice after choice"'
refused gym:zoo:Several-v0 ppo 1 8 --env_args='{"what": "box"}'
pass_if "a Box among choices is refused" eval \
  'is "$code" 2 && says "a part of its actions is a Box space"'
refused gym:zoo:Several-v0 ppo 1 8 --env_args='{"what": "many"}'
pass_if "so are too many" eval 'is "$code" 2 && says "its actions have 65 choices among 130"'
refused gym:zoo:Loose-v0 vtrace 2 4 --env_args='{"mistake": true}' --logdir="$work/mistaken"
mistaken() {
  is "$code" 2 && once "environment gym-zoo-Loose-v0: TypeError: unsupported" &&
    [ ! -e "$work/mistaken" ]
}
pass_if "a mistake in the environment's first step is told once, and nothing starts" mistaken
for game in Pong-v5 PongNoFrameskip-v4 SpaceInvaders; do
  named=${game%%[N-]*}
  refused "gym:$game" ppo 1 8
  pass_if "a game by another name: $game" \
    eval 'is "$code" 2 && says "that is atari:$named, or gym:ALE/$named-v5" && ! says Traceback'
done
for what in empty one; do
  refused gym:zoo:Masked-v0 ppo 1 8 --env_args="{\"what\": \"$what\"}"
  pass_if "what is no mask, but has its name, is refused: $what" eval \
    'is "$code" 2 && says "is no array of 7 numbers, one for each action"'
done

# Made, stepped and closed by one thread.
run gym:zoo:Bound-v0 vtrace 1 3 --streams=2 --total_steps=300
ended 30
pass_if "one that belongs to a thread works" trained gym-zoo-Bound-v0 total_steps
pass_if "and is closed there" \
  eval 'keeps_rules gym:zoo:Bound-v0 && grep -q "closed in its thread" "$work/out" "$work/err"'

# ---- faults in a run
wrong() { run gym:zoo:Wrong-v0 vtrace 1 1 --env_args="{\"what\": \"$1\"}" --streams=1 "${@:2}"; }
# The log may not be there yet.
logged() { grep -qF -- "$1" "$work"/run/logs/actor-0.log 2>/dev/null; }
end_by_hand
rm -rf "$work/run"
wrong step --total_steps=100k --logdir="$work/run"
goes_on() { logged "RuntimeError: the lamp broke" && logged "joining again"; }
wait_for 20 goes_on
pass_if "an exception: its traceback is in the log, and the environment is made anew" \
  eval 'goes_on && logged "line" && logged "raise RuntimeError(\"the lamp broke\")"'
kill -INT "$run" 2>/dev/null
ended 20
# Waits for the death of an actor that has stepped, which does not end the run.
dies() {
  wait_for 30 says "starting it again in 1 s"
  kill -INT "$run" 2>/dev/null
  ended 20
}
for what in nan "nan reward"; do
  rm -rf "$work/run"
  wrong "$what" --logdir="$work/run"
  dies
  named() { is "$code" 130 && grep -q "has nan\|is nan" "$work/err"; }
  pass_if "$what is named and ends its actor" named
done
rm -rf "$work/run"
wrong hang --hang_s=5 --logdir="$work/run"
dies
pass_if "one that hangs is named and ended" \
  eval 'is "$code" 130 && says "environment gym-zoo-Wrong-v0 hangs"'
rm -rf "$work/run"
wrong leave --logdir="$work/run"
dies
leaves() { is "$code" 130 && says "ended by itself (exit code 0)"; }
pass_if "so is one that ends the process with 0 in a step" leaves
# The first one is made to see what it looks like: the third one plays in stream 1, and the other
# stream waits for the lock that it keeps.
rm -rf "$work/run"
run gym:zoo:Greedy-v0 vtrace 1 2 --env_args='{"number": 3}' --streams=2 --hang_s=5 \
  --logdir="$work/run"
wait_for 30 says "starting it again"
kill -INT "$run" 2>/dev/null
ended 20
names_one() {
  logged "hangs: stream 1 has been stepping" && ! logged "hangs: stream 0 has been stepping"
}
pass_if "of two streams the one that hangs is named" names_one
makes_hang=(--env_args='{"what": "hang in make"}' --hang_s=3)
hangs_in_make() { is "$code" "$1" && says "gym-zoo-Wrong-v0 hangs in space for more than 3 s"; }
refused gym:zoo:Wrong-v0 vtrace 1 1 "${makes_hang[@]}"
pass_if "one that hangs while it is made is named by the launcher" hangs_in_make 2
timeout -k 1 20 "$program" --env=gym:zoo:Wrong-v0 "${makes_hang[@]}" >"$work/out" 2>"$work/err"
code=$?
pass_if "and by an actor" hangs_in_make 1
learner --env=gym:zoo:Wrong-v0 "${makes_hang[@]}"
ended 20
pass_if "and by a learner" hangs_in_make 2
# ends_in_make WHAT WORDS: the launcher and the learner name the end and fail.
ends_in_make() {
  local words="environment gym-zoo-Wrong-v0 $2"
  refused gym:zoo:Wrong-v0 vtrace 1 1 --env_args="{\"what\": \"$1 in make\"}" &&
    is "$code" 2 && says "$words" || return
  learner --env=gym:zoo:Wrong-v0 --env_args="{\"what\": \"$1 in make\"}"
  ended 20
  is "$code" 2 && says "$words"
}
pass_if "one that ends the process at once while it is made is named, too" \
  ends_in_make leave "ended the process in space (exit code 0)"
pass_if "and one that crashes" ends_in_make crash "crashed in space (SIGSEGV)"

# ---- what is missing or too old
refuses() {
  local words=$1
  shift
  ! "$@" --check_env >"$work/out" 2>"$work/err" && says "$words"
}
mkdir alone
cp "$program" alone/
pass_if "no bridge" refuses "scripts/setup.sh gym && make gymnasium" alone/actor --env=atari
cp "$tree/build/gymnasium.so" alone/
sed -i 's/libpython3/libpython0/' alone/gymnasium.so
pass_if "no libpython" refuses "scripts/setup.sh gym && make gymnasium" alone/actor --env=atari
no_packages() { ACORN_PYTHON=/usr/bin/python3 PYTHONNOUSERSITE=1 "$program" "$@"; }
if ! /usr/bin/python3 -c 'import gymnasium' 2>/dev/null; then
  pass_if "no Gymnasium" refuses "the module gymnasium is missing" no_packages --env=gym:X-v0
  pass_if "no ale-py" refuses "the module ale_py is missing" no_packages --env=atari
fi
mkdir lacking
echo 'raise ModuleNotFoundError(name="minigrid")' >lacking/minigrid.py
lacking() { PYTHONPATH=$PWD/lacking "$program" "$@"; }
pass_if "no MiniGrid" refuses "what installs it: $tree/.venv/bin/pip install minigrid" \
  lacking --env=gym:MiniGrid-Empty-5x5-v0
nowhere() { ACORN_PYTHON=/nope/bin/python "$program" "$@"; }
pass_if "no interpreter of that name" refuses "ACORN_PYTHON is /nope/bin/python, and no program" \
  nowhere --env=gym:CartPole-v1
mkdir -p old/gymnasium old/ale_py
echo '__version__ = "0.21.0"' | tee old/gymnasium/__init__.py >old/ale_py/__init__.py
old() { PYTHONPATH=$PWD/old "$program" "$@"; }
pass_if "an old Gymnasium" refuses "gymnasium 0.21.0 is too old, 1.0 is needed" old --env=gym:X-v0
sed -i 's/0.21/0.8/' old/ale_py/__init__.py
pass_if "an old ale-py" refuses "ale_py 0.8.0 is too old, 0.10 is needed" old --env=atari
refused atari vtrace 1 --env_args='{"game": "Brakout"}'
pass_if "an unknown game names the nearest" eval 'is "$code" 2 && says "the nearest: Breakout"'
refused atari vtrace 1 --game=Brakout
pass_if "by --game as well" eval 'is "$code" 2 && says "the nearest: Breakout"'
refused atari vtrace 1 --game=Combat
pass_if "a game that ale-py cannot play" eval 'is "$code" 2 && says "does not emulate"'
refused cartpole vtrace 1 --game=Pong
pass_if "--game is refused for others" eval 'is "$code" 2 && says "an option of the environment"'
run atari vtrace 1 1 --total_steps=60 --game=Breakout --resize=linear --logdir="$work/words" \
  --env_args='{"max_frames": 100}'
ended 60
all_words='atari({"game":"Breakout","max_frames":100,"resize":"linear"})'
pass_if "--game and --env_args go together" is "$(cat "$work/words/environment.txt")" "$all_words"
run atari:Breakout vtrace 1 1 --total_steps=60 --resize=linear --logdir="$work/colon" \
  --env_args='{"max_frames": 100}'
ended 60
pass_if "atari:Breakout is the same" is "$(cat "$work/colon/environment.txt")" "$all_words"
pass_if "also as the actor's --env" refuses "the nearest: Breakout" "$program" --env=atari:Brakout

# ---- how a game's score compares with people's, whoever names the game, and however
run atari vtrace 1 2 --total_steps=60 --batch_size=2 --unroll_length=5 --logdir="$work/people" \
  --env_args='{"game": "Space-Invaders"}' --network=mlp --hidden=8
ended 60
evaluates() {
  "$tree/scripts/eval.sh" "$work/$1" --episodes=1 --policy=greedy "${@:2}" \
    >"$work/out" 2>"$work/err"
}
compared_as() { evaluates people "${@:2}" && grep -q "^human_normalised $1\$" "$work/out"; }
pass_if "a game whose name has a dash is compared with people" \
  compared_as "game=Space-Invaders policy=greedy mean=.* random=148.0 human=1668.7"
if [ -n "${SLOW_TESTS:-}" ]; then
  pass_if "--game of the evaluation says which" \
    compared_as "game=Pong policy=greedy mean=.* random=-20.7 human=14.6" --game=Pong
  pass_if "so does --env_args" \
    compared_as "game=pong policy=greedy mean=.* random=-20.7 human=14.6" \
    --env_args='{"noops": 30, "game": "pong"}'
  pass_if "also with a blank in its name" \
    compared_as "game=space invaders policy=greedy mean=.* random=148.0 human=1668.7" \
    --env_args='{"game": "space invaders", "sticky_actions": 0.0}'
  pass_if "which else means the environment's own game" \
    compared_as "game=Pong policy=greedy mean=.* random=-20.7 human=14.6" --env_args='{}'
fi

# ---- and where it does not
mkdir short
cp -r people/. short
sed -i '/^env_args/s/}/, \\"max_frames\\": 200}/' short/config.txt
is_short() { grep -qE ' length_mean=([1-4]?[0-9]|50)(\.| )' "$work/out"; }
not_compared() { # WORDS RUN OPTIONS...
  evaluates "${@:2}" && is_short && ! grep -q "^human_normalised" "$work/out" &&
    says "no human_normalised: " && says "$1"
}
pass_if "a score of other rules is not compared" \
  not_compared "max_frames is 200, not 108000" people --env_args='{"max_frames": 200}'
pass_if "nor one of the run's other rules, which --game does not change" \
  not_compared "max_frames is 200, not 108000" short --game=Pong
pass_if "nor does --sticky_actions" not_compared \
  "max_frames is 200, not 108000, sticky_actions is 0.25, not 0" short --sticky_actions=0.25
pass_if "every rule that differs is named" \
  eval 'evaluates people --env_args="{\"game\": \"Pong\", \"frame_skip\": 2, \"max_frames\": 20}" &&
    says "frame_skip is 2, not 4, max_frames is 20"'
other_actions() {
  ! evaluates people --game=Breakout &&
    says "the run's network has 6 actions, and atari({\"game\":\"Breakout\"}) has 4"
}
pass_if "a game with another number of actions is refused by that" other_actions
finish
