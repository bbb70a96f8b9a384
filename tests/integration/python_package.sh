#!/usr/bin/env bash
# The Python package: its wheel in a fresh environment. Programs by the command `acorn`; policies,
# runs, environments and actors by the modules; what is refused. Without PyPI it is skipped.
. "$(dirname "$(readlink -f "$0")")/lib.sh"
unset LD_LIBRARY_PATH PYTHONPATH PYTHONDONTWRITEBYTECODE
export PYTHONPYCACHEPREFIX=$work/bytecode
checks=$tree/tests/integration/python_package
# Without byte code of what no one imports, which takes longer than to install it.
pip_install() { venv/bin/pip -q --disable-pip-version-check install --no-compile "$@"; }

if ! /usr/bin/python3 -m venv venv >out 2>&1; then
  echo "SKIP python_package: no venv: $(head -n 1 out)"
  exit
fi
if ! pip_install gymnasium==1.4.0 >out 2>err; then
  echo "SKIP python_package: PyPI cannot be reached: $(tail -n 1 err)"
  exit
fi

# ---- the wheel
made() { "$tree/scripts/wheel.sh" >out 2>err; }
pass_if "make wheel" made
wheel=$(echo "$tree"/build/wheel/acorn_rl-*.whl)
is_small() { [ "$(du -m "$wheel" | cut -f 1)" -le 60 ]; }
pass_if "it has at most 60 MiB: $(du -m "$wheel" | cut -f 1)" is_small
is_tagged() { [[ $wheel =~ -py3-none-manylinux_2_[0-9]+_x86_64\.whl$ ]]; }
pass_if "it is for Linux on x86-64 with a glibc, and for every Python 3" is_tagged
installed() { pip_install "$wheel" >out 2>err; }
pass_if "it is installed" installed
[ $failures -eq 0 ] || finish
package=$(echo venv/lib/python3.*/site-packages/acorn)

# ---- programs
acorn() {
  code=0
  PATH=$work/venv/bin:/usr/bin:/bin command acorn "$@" >"$work/out" 2>"$work/err" </dev/null ||
    code=$?
}
says_out() { grep -qF -- "$1" "$work/out"; }
check() { # NAME WORDS...: a function of check.py
  venv/bin/python -I "$checks/check.py" "$@" >"$work/out" 2>"$work/err" </dev/null
}
acorn --version
pass_if "acorn --version" eval 'is $code 0 && says_out "acorn $(cut -d" " -f 1 "$tree/VERSION")"'
acorn train cartpole ppo 2 8 --total_steps=30k --seed=1 --logdir=run --no_plot
pass_if "acorn train" eval 'is $code 0 && says_out "result env=cartpole agent=ppo"'
acorn train gym:CartPole-v1 ppo 2 8 --total_steps=5k --logdir=gym --no_plot --evaluators=0
pass_if "acorn train gym:ID: with actors in Python" \
  eval 'is $code 0 && says_out "result env=CartPole-v1 agent=ppo" && [ -s gym/space.json ]'
acorn eval gym --episodes=8
pass_if "acorn eval of it, greedily and sampled" \
  eval 'is $code 0 && [ "$(grep -c "^evaluation episodes=8 " out)" = 2 ]'
cp -r gym foreign && echo 'theirs-X({"id":"theirs:CartPole-v1"})' >foreign/environment.txt
echo 'open("owned", "w").close()' >theirs.py
plays_foreign() { # acorn.train | acorn.watch WORDS...: as eval.sh and watch.sh play that run
  local module=$1 words=(foreign)
  [ "$module" = acorn.watch ] || words=(join ppo 1 4 --mode=evaluate --logdir=foreign --episodes=4)
  rm -f owned
  code=0
  PYTHONPATH=$work venv/bin/python -m "$module" "${words[@]}" "${@:2}" >out 2>err </dev/null ||
    code=$?
}
refuses_code() {
  local module flag
  for module in acorn.train acorn.watch; do
    plays_foreign "$module"
    [ -e owned ] || return
    for flag in --no_code --no-code --no_code=1 --no_code=true --code=false --code=0; do
      plays_foreign "$module" "$flag"
      is $code 1 && says "$flag: the environment would run code of theirs:CartPole-v1" &&
        [ ! -e owned ] || return
    done
  done
}
pass_if "--no_code, in any spelling: an environment that is a module's" refuses_code
pass_if "words, numbers and files that name no environment are refused" check words gym
pass_if "an actor that never steps is given up, however long it lives" check deaths
pass_if "what actors print is kept within a bound, and shown at a death of a new kind" check logs
pass_if "a mask in the info is that environment's alone" check masks
pass_if "True and False, and arrays of one, end an episode; nothing else does" check ends
pass_if "reset and step return what Gymnasium says" check returns
echo cartpole >foreign/environment.txt
acorn eval foreign
pass_if "acorn eval: an environment that is not Gymnasium's" \
  eval 'is $code 1 && says "say where it is here, --env=./my_env.so or --env=gym:ID"'
acorn eval foreign --env=gym:CartPole-v1 --episodes=8 --policy=greedy
pass_if "acorn eval --env of it" eval 'is $code 0 && says_out "evaluation episodes=8 "'
cp -r gym bridged && sed -i 's/^env = .*/env = gym:CartPole-v1/' bridged/config.txt
acorn eval bridged
pass_if "acorn eval: a run of the source tree's bridge" \
  eval 'is $code 2 && says "this package has no bridge to Python: play it in the source tree"'
acorn train gym:NoSuch-v1
pass_if "an environment that Gymnasium does not have" eval 'is $code 1 && says NoSuch'
acorn train gym:CartPole-v1 ppo two
pass_if "a number that is none" eval 'is $code 1 && says "NUM_ACTORS"'
acorn train gym:CartPole-v1 ppo 1 --no_such_option=1
pass_if "an option that the learner does not have" eval 'is $code 2 && says no_such_option'

acorn sweep gym:CartPole-v1 ppo --seeds=2 --dir=swept
pass_if "acorn sweep: built-in environments and plugins alone" \
  eval 'is $code 2 && says "sweeps built-in environments and plugins alone" && [ ! -e swept ]'
for word in --learners=2 --evaluators=2 --eval_envs=8 --max-deaths=2 --reconnect_s=9 --plot; do
  acorn train gym:CartPole-v1 ppo 1 8 --total_steps=1k $word
  pass_if "$word is refused by name" \
    eval 'is $code 1 && says "acorn: $word: " && says "leave it out"'
done

# A copy of Gymnasium's CartPole, in a module of the user's.
cat >pole.py <<'END'
import os
import subprocess

import gymnasium
from gymnasium.envs.classic_control import CartPoleEnv


class Pole(CartPoleEnv):
    def step(self, action):
        if self.spec.id == "Wrong-v0":
            raise ValueError("no step is taken")
        if self.spec.id == "Exits-v0":
            os._exit(0)
        if self.spec.id == "Invalid-v0":
            return *super().step(action)[:2], "False", False, {}
        if self.spec.id == "Starts-v0" and not hasattr(self, "started"):
            self.started = subprocess.Popen(["sleep", "1000"])
            with open("started", "a") as file:
                print(self.started.pid, file=file)
        return super().step(action)

    def render(self):
        return self.np_random.integers(0, 256, (40, 60, 3), "uint8")


for name in ("Pole-v0", "Wrong-v0", "Exits-v0", "Invalid-v0", "Starts-v0"):
    gymnasium.register(name, Pole, max_episode_steps=200)


class Twice(gymnasium.RewardWrapper):
    def reward(self, reward):
        return 2 * reward


class Lonely:
    def __init__(self, env):
        pass
END
export PYTHONPATH=$work
wrapped=(--wrapper=pole:Twice '--env_args={"max_episode_steps": 5}')
acorn train gym:CartPole-v1 ppo 1 8 --total_steps=2k
acorn train gym:CartPole-v1 ppo 1 8 --total_steps=2k --logdir=wrapped "${wrapped[@]}"
pass_if "--wrapper and --env_args" eval 'is $code 0 && says_out " return_mean=10.000 "'
acorn train gym:CartPole-v1 ppo 1 8 --total_steps=4k --logdir=wrapped --resume \
  '--env_args={"max_episode_steps":5,"wrapper":"pole:Twice"}'
pass_if "a run goes on with the same, said otherwise" \
  eval 'is $code 0 && says_out " return_mean=10.000 "'
cp -r wrapped runs/CartPole-v1-ppo-20300101-000000Z # the newest of them
acorn train gym:CartPole-v1 ppo 1 8 --total_steps=5k --resume
pass_if "--resume without --logdir: the newest run" \
  eval 'is $code 0 && says_out " return_mean=10.000 " && says_out -ppo-20300101-000000Z'
rm -r runs
acorn train gym:CartPole-v1 ppo 1 8 --total_steps=6k --logdir=wrapped --resume
pass_if "a run goes on with them" eval 'is $code 0 && says_out " return_mean=10.000 "'
acorn eval wrapped --episodes=8 --policy=greedy
pass_if "acorn eval with them" eval 'is $code 0 && says_out " return_mean=10 "'
pass_if "which names the code that the run brings" \
  says "the run brings code of pole:Twice, which is run: --no_code refuses it"
acorn eval wrapped --episodes=8 --policy=greedy '--env_args={"max_episode_steps": 7}'
pass_if "acorn eval with others, in the same wrapper" \
  eval 'is $code 0 && says_out " return_mean=14 "'
acorn eval wrapped --episodes=8 --no_code
pass_if "acorn eval --no_code of a run with a wrapper" \
  eval 'is $code 1 && says "--no_code: the environment would run code of pole:Twice"'
refused() { is "$code" 1 && says "--wrapper: $1" && ! says "--module"; }
refuses_wrapper() { # CLASS TEXT
  acorn train gym:CartPole-v1 ppo 1 --wrapper="$1"
  pass_if "--wrapper=$1" refused "$2"
}
for word in pole :Twice .pole:Twice; do
  refuses_wrapper $word "'$word' names no class: write MODULE:CLASS"
done
refuses_wrapper pole:Thrice "the module pole has no 'Thrice'; did you mean 'Twice'?; it has: Twice"
refuses_wrapper pole:Lonely "pole:Lonely is no class derived from gymnasium.Wrapper"
refuses_wrapper no_module:Twice "there is no module 'no_module' to import for no_module:Twice: "
acorn train gym:CartPoles-v1
pass_if "an ID that there is not" eval 'is $code 1 && says "; the nearest: CartPole-v"'
acorn train gym:pole:Wrong-v0 ppo 1 --total_steps=5k --logdir=wrong
pass_if "an actor that never steps is given up, with its reason" \
  eval 'is $code 1 && says "no step is taken" && says "every actor has ended"'
pass_if "which is shown with its traceback at the first death" \
  eval 'sed -n "/^---- the last lines of actor 0/,/^----$/p" err | grep -q "pole.py\", line"'
acorn train gym:pole:Invalid-v0 ppo 1 --total_steps=5k --logdir=invalid
pass_if "so is one whose every step is invalid" \
  eval 'is $code 1 && says "must be True or False" && says "every actor has ended"'
acorn train gym:pole:Exits-v0 ppo 1 --total_steps=5k --logdir=exits
pass_if "an environment that ends its process is no run that is over" \
  eval 'is $code 1 && says "actor 0 is started again in 0.2 s; it has died by exit code 0"'
runs_on() { ps -o stat= -p "$(paste -sd, started)" | grep -qv Z; }
ends_what_was_started() { # STEPS [SIGNAL]: to the process group, as a terminal sends it
  rm -rf started starts
  setsid env --default-signal=HUP venv/bin/acorn train gym:pole:Starts-v0 ppo 2 2 \
    --total_steps="$1" --logdir=starts >"$work/out" 2>"$work/err" </dev/null &
  run=$!
  wait_for 60 test -s started || return
  [ $# = 1 ] || kill "-$2" -- -$run
  ended 60 && [ -s starts/result.json ] && ! runs_on
}
pass_if "what an environment has started ends with the run" ends_what_was_started 2k
for signal in INT TERM HUP; do
  pass_if "after SIG$signal, too" ends_what_was_started 1e9 $signal
done
acorn train gym:pole:Pole-v0 ppo 1 8 --total_steps=2k --logdir=module
# As the package's first version named it.
echo Pole-v0 >module/environment.txt
acorn train gym:pole:Pole-v0 ppo 1 8 --total_steps=4k --logdir=module --resume
pass_if "a run goes on that was named without its module" \
  eval 'is $code 0 && says_out "result env=Pole-v0 " && says_out " steps=4000 "'
# dies: actor 1, each time that it plays; the learner goes on with the other meanwhile.
dies() {
  venv/bin/acorn train gym:pole:Pole-v0 ppo 2 8 --total_steps=1e9 --logdir=dies --metrics_secs=0.2 \
    >"$work/out" 2>"$work/err" </dev/null &
  run=$! killed=
  for pause in 1 2; do
    wait_for 60 both_play && kill -KILL "$victim" || return
    killed=$victim
    wait_for 60 says "actor 1 is started again in $pause s; it has died by signal 9" || return
  done
  wait_for 60 both_play && kill -TERM $run && ended 20 && is "$code" 0
}
# Actor 1 as another process than before, and all environments, as the learner has them.
both_play() {
  victim=$(pgrep -P $run -f "acorn.actor .* train 1 ") && [ "$victim" != "$killed" ] &&
    "$package/bundle/build/status" dies 2>/dev/null | grep -q "^actors *16 of 16 environments"
}
pass_if "an actor that is killed is started again, and again" dies
if command -v ffmpeg >/dev/null; then
  acorn watch dies --out=dies.gif --episodes=2 --max_steps=9
  pass_if "acorn watch of an environment in a module" \
    eval 'is $code 0 && says "episode 2: return 9 in 9 steps" && [ -s dies.gif ]'
  acorn watch dies --policy=sample
  pass_if "acorn watch: not sampled" eval 'is $code 1 && says "greedy policy alone"'
  acorn watch gym
  pass_if "acorn watch: what draws nothing" eval 'is $code 1 && says "cannot be drawn"'
else
  echo "SKIP acorn watch: ffmpeg is not here"
fi
export PYTHONPATH=$tree/tests/integration/gymnasium
acorn train gym:zoo:Masked-v0 ppo 1 8 --total_steps=4k --logdir=masked
pass_if "a mask in the last info, whose environment refuses what it forbids" \
  eval 'is $code 0 && says_out "result env=zoo-Masked-v0"'
unset PYTHONPATH
acorn eval run --policy=greedy --episodes=8
pass_if "acorn eval" eval 'is $code 0 && says_out "evaluation episodes=8"'
greedy=$(sed -n 's/^evaluation .* return_mean=\([^ ]*\).*/\1/p' out)
acorn export run
pass_if "acorn export" eval 'is $code 0 && [ -s run/policy.onnx ]'
acorn export run --checkpoint=latest --format=safetensors
acorn status run
pass_if "acorn status: the run is over" says "no learner is at work in it"
acorn checkpoint run
pass_if "acorn checkpoint" eval 'is $code 0 && says_out hidden0/w'
acorn
pass_if "no command" eval 'is $code 2 && says_out "acorn COMMAND"'
acorn trian cartpole
pass_if "an unknown command" eval 'is $code 2 && says "there is no command trian"'
acorn train cartpool
pass_if "an unknown environment" eval 'is $code 2 && says cartpool'

# ---- modules
pass_if "acorn.Run: metrics, episodes, config, result" check run run
pass_if "acorn.load: 8 episodes as acorn eval plays them ($greedy)" check plays run "$greedy"
pass_if "of a checkpoint, the best, a file: the same policy" check sources run \
  "$(newest_checkpoint run)"
pass_if "observations of another shape, number or type are refused" check observations run
pass_if "acorn.load: a run whose actors brought the environment" check brought gym
pass_if "several threads share a policy" check threads run
pass_if "VectorEnv: step by step as Gymnasium's CartPole" check same
pass_if "VectorEnv passes Gymnasium's checker" check checker
pass_if "VectorEnv: several choices, boxes, masks, seeds, pictures" check kinds
pass_if "an actor in Python trains" check actor "$package/bundle/build/learner"
pip_install onnxruntime==1.32.0 pandas >out 2>err
pass_if "acorn.load: the ONNX file acts as the run" check onnx run
acorn train tmaze vtrace 2 8 --total_steps=60k --seed=1 --logdir=memory --no_plot
acorn export memory
pass_if "with an LSTM, rows that begin singly" check remembers memory tmaze 0
loop() { venv/bin/python -I "$checks/check.py" loop memory tmaze < <(doc_block python.md 3); }
pass_if "docs: the state is zero where an episode begins" loop
acorn train catch ppo 2 8 --total_steps=6k --seed=1 --logdir=frames --no_plot --frame_stack=3 \
  --network=nature '--env_args={"size": 40}'
acorn export frames
pass_if "acorn.Run: a text of config.txt in quotes" check quoted frames
pass_if "with stacked frames, rows that begin singly" check remembers frames catch 40
plugins box_actions/target masks/doors
acorn train "$work/target.so" sac 1 8 --total_steps=1500 --seed=1 --hidden=32 --previous_action \
  --logdir=squashed --no_plot
acorn export squashed
pass_if "sac's actions before, which tanh has squashed" check remembers squashed "$work/target.so" 0
acorn train "$work/doors.so" ppo 1 8 --total_steps=2k --seed=1 --logdir=doors --no_plot
acorn export doors
pass_if "a mask of int8, in a shape of its own" check masked doors
pass_if "what is no exported policy, what is NaN" check foreign run
pass_if "acorn.Run: DataFrames, with pandas" check pandas run

# ---- the commands and programs of docs/python.md, with shorter runs and another port
ln -s venv play
block() { # NUMBER
  doc_block python.md "$1" | sed "s|gym:CartPole-v1 |&--total_steps=20k |
    s|total_steps=100k|total_steps=10k|; s|8686|$port|"
}
port=$(free_port)
docs() { # NUMBER: of a block of commands
  bash -e <(block "$1" | grep -v '^make wheel\|venv play') >"$work/out" 2>"$work/err" </dev/null
}
pass_if "docs: train and act" eval 'docs 1 && tail -n 1 out | grep -q "^[01]$"'
if command -v ffmpeg >/dev/null; then
  pass_if "docs: evaluate and watch" eval 'docs 2 && says_out "evaluation episodes=100 " &&
    [ -s runs/c/play.mp4 ]'
fi
pass_if "docs: a policy" venv/bin/python -I <(block 3)
pass_if "docs: a run" eval 'venv/bin/python -I <(block 4) >"$work/out" 2>"$work/err" &&
  grep -q "$(cut -d " " -f 1 "$tree/VERSION")" out'
pass_if "docs: an actor of one's own" eval 'docs 5 && wait_for 20 test -s runs/b/result.json'

# ---- what is refused
pass_if "what is no run, no policy, a damaged one" check refused run
cp -r run later
sed -i '1a option_of_2031 = 7' later/config.txt
pass_if "a run of a later version" check fails later "option_of_2031"
cp -r run ahead && rm ahead/policy.*
for file in ahead/checkpoints/*.acorn; do
  printf '\11' | dd of="$file" bs=1 seek=8 conv=notrunc 2>/dev/null
done
pass_if "a checkpoint of a later format" check fails ahead "format"
pass_if "a glibc that is too old, none: a sentence" check old_libc
finish
