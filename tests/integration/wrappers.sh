#!/usr/bin/env bash
# --wrapper: a run keeps it, whatever plays or continues the run; IDs of ALE, which are played as
# atari.
. "$(dirname "$(readlink -f "$0")")/lib.sh"
. "$tree/scripts/lib.sh"
if ! build all gymnasium >"$work/err" 2>&1 ||
  ! "$tree/.venv/bin/python" -c 'import gymnasium, ale_py' 2>/dev/null; then
  echo "SKIP --wrapper: there is no Gymnasium here (scripts/setup.sh gym)"
  exit 0
fi
unset PYTHONPATH
{
  cat "$tree/docs/examples/corridor.py"
  cat <<'PYTHON'


class Signs(gymnasium.ObservationWrapper):
    """Where the exit is, and a number that never changes."""

    observation_space = gymnasium.spaces.Box(-1, 2, (2,), numpy.float32)

    def observation(self, observation):
        return numpy.float32([observation[0], 2])
PYTHON
} >my_env.py

# ---- a run, and what it keeps
trained() { is "$code" 0 && is "$(value env)" "$1" && is "$(value reason)" "$2"; }
run gym:Corridor-v0 ppo 1 --module=my_env.py --wrapper=my_env:Signs --total_steps=200k \
  --target_return=0.95 --logdir=run
ended 60
pass_if "it learns in a wrapper of its own file" trained gym-Corridor-v0 target_return
wrapped='gym-Corridor-v0({"wrapper":"my_env:Signs"})'
pass_if "the wrapper is a part of the environment" is "$(cat run/environment.txt)" "$wrapped"
evaluated() {
  "$tree/scripts/eval.sh" "$work/run" --episodes=4 >"$work/out" 2>"$work/err" &&
    says "the environment runs code of my_env:Signs, with the rights of this account"
}
pass_if "eval.sh plays it in the wrapper, and names it" evaluated
cp -r run bare && rm -r bare/module
refuses_code() { # PROGRAM...
  ! "$@" bare --no_code >"$work/out" 2>"$work/err" &&
    says "--no_code: the environment would run code of my_env:Signs"
}
pass_if "eval.sh --no_code refuses it" refuses_code "$tree/scripts/eval.sh"
pass_if "so does export" refuses_code "$tree/build/export"
pass_if "export finds it" "$tree/build/export" run --output="$work/policy.onnx"
run gym:Corridor-v0 ppo 1 --total_steps=210k --target_return=2 --resume --logdir=run
ended 60
pass_if "--resume goes on with it" is "$code" 3
refused gym:Corridor-v0 ppo 1 --total_steps=220k --resume --logdir=run --wrapper=
pass_if "and refuses another" eval '[ "$code" -ne 0 ] && says "$wrapped"'

# ---- what is wrong
refused_with() { # WORDS OPTIONS...
  refused "${@:2}" --total_steps=100
  is "$code" 2 && says "$1"
}
pass_if "a wrapper of nothing" refused_with "pip install nowhere, or --module=nowhere.py" \
  gym:CartPole-v1 ppo 1 --wrapper=nowhere:X
pass_if "an unknown wrapper" refused_with "did you mean 'Signs'?" \
  gym:Corridor-v0 ppo 1 --module=my_env.py --wrapper=my_env:Sings
pass_if "an environment in C" refused_with "is an option of Gymnasium's environments, gym:ID, and" \
  cartpole ppo 1 --wrapper=my_env:Signs

# ---- bytes that are no image were bytes once, and are floats
sed -i 's/"dtype":"float32"/"dtype":"uint8"/' run/space.json
run gym:Corridor-v0 ppo 1 --total_steps=220k --resume --logdir=run
ended 20
pass_if "a run of before is refused, with both dtypes" eval '[ "$code" -ne 0 ] &&
  says "is uint8[2], and the environment now has float32[2]: play the run with the version"'

# ---- IDs of ALE
run gym:ALE/Pong-v5 vtrace 1 1 --total_steps=60 --logdir=pong
ended 60
pong='atari({"game":"Pong","sticky_actions":0.25})'
as_atari() {
  trained atari-Pong total_steps && is "$(cat pong/environment.txt)" "$pong" &&
    grep -q '"uint8","shape":\[84,84\]' pong/space.json &&
    grep -q '^network = impala_shallow' pong/config.txt
}
pass_if "gym:ALE/Pong-v5 is played as atari" as_atari
pass_if "which is logged, with the way to raw screens" eval \
  'is "$(grep -c "gym:ALE/Pong-v5 is played as atari:Pong, grey" "$work/err")" 1 &&
    says "gym:ale_py:ALE/Pong-v5 has raw screens"'
for flag in --sticky_actions=0 '--env_args={"sticky_actions": 0}'; do
  rm -rf loose
  run gym:ALE/Pong-v5 vtrace 1 1 --total_steps=60 --logdir=loose "$flag"
  ended 60
  pass_if "its sticky actions are no other's: $flag" grep -q '"sticky_actions":0[.0]*}' \
    loose/environment.txt
done
run gym:ale_py:ALE/Pong-v5 vtrace 1 1 --total_steps=60 --logdir=raw --network=mlp
ended 60
pass_if "gym:ale_py:ALE/Pong-v5 has raw screens" grep -qF '[210,160,3]' raw/space.json
pass_if "an option of another name is refused" refused_with "did you mean 'frame_skip'?" \
  gym:ALE/Pong-v5 vtrace 1 --env_args='{"frameskip": 1}'
pass_if "a wrapper, too" refused_with "and this one is atari" \
  gym:ALE/Pong-v5 vtrace 1 --wrapper=my_env:Signs
pass_if "an unknown game names the nearest" refused_with "the nearest: Breakout" \
  gym:ALE/Brakout-v5 vtrace 1
finish
