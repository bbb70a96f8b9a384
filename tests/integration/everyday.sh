#!/usr/bin/env bash
# The everyday tasks of a person who trains agents, by the commands and code of README and docs, as
# they are there: train, interrupt and resume, seeds, compare, evaluate, record, an environment of
# one's own in C and in Python, a sweep, a policy in numpy, pandas. Options that are appended make
# the runs small.
. "$(dirname "$(readlink -f "$0")")/lib.sh"
mkdir desk && cd desk || exit 1
# The commands are for the folder of the source tree; what they write lies here.
ln -s "$tree"/{run_local.sh,scripts,build,docs} .
make() { command make -s -C "$tree" "$@"; }
export HOME=$work/home MPLBACKEND=Agg

# command_in PAGE TEXT: prints the command of that page that begins with the text, without its
# comment.
command_in() {
  sed 's/`\([^`]*\)`.*/\1/' "$tree/$1" | grep -m 1 -F -- "$2" | sed 's/  *#.*//' | grep . ||
    echo "$1 has no command $2" >>"$work/err"
}

# does PAGE TEXT [WORD...]: runs that command, with these words appended; its output in out and err,
# its exit code in $code.
does() {
  local line
  code=127
  : >"$work/out" >"$work/err"
  line=$(command_in "$1" "$2")
  [ -n "$line" ] || return
  printf '%s\n' "$line" >>"$work/done"
  code=0
  eval "$line \"\${@:3}\"" >"$work/out" 2>"$work/err" </dev/null || code=$?
}

# block PAGE TEXT: prints the block of code that has the text.
block() {
  awk -v want="$2" '
    /^```/ {
      if (inside && index(text, want)) {
        printf "%s", text
        exit
      }
      inside = !inside
      text = ""
      next
    }
    inside {text = text $0 "\n"}' "$tree/$1"
}
is_png() { [ "$(head -c 8 "$1" | od -An -tx1 | tr -d ' \n')" = 89504e470d0a1a0a ]; }
at_least() { awk -v a="$1" -v b="$2" 'BEGIN {exit !(a + 0 >= b + 0)}'; }

# ---- train
does README.md "./run_local.sh cartpole vtrace 4" --logdir=runs/a
trained() {
  is "$code" 0 && is "$(value reason)" total_steps && at_least "$(value return_mean)" 400
}
pass_if "train: README's first command" trained

# ---- interrupt and resume
mine="./run_local.sh cartpole vtrace 4 --logdir=runs/mine --resume"
line=$(command_in docs/usage.md "$mine")
eval "exec env --default-signal=INT $line --total_steps=1e9" >"$work/out" 2>"$work/err" </dev/null &
run=$!
wait_for 30 metric_passes step 50000 runs/mine
kill -INT "$run"
ended 30
interrupted() {
  is "$(value reason)" signal && compgen -G "runs/mine/checkpoints/*.acorn" >kept
}
pass_if "interrupt: Ctrl-C leaves a checkpoint" interrupted
steps=$(value steps)
does docs/usage.md "$mine" --total_steps=$((steps + 50000))
resumed() { is "$code" 0 && at_least "$(value steps)" $((steps + 50000)) && says "resum"; }
pass_if "resume: the same command goes on" resumed

# ---- seeds, compare
does docs/usage.md "./scripts/sweep.py cartpole vtrace --seeds=1..5" --actors=2 \
  --envs_per_actor=8 --total_steps=20k
seeds() {
  is "$code" 3 && is "$(grep -c '^[1-5] ' "$work/out")" 5 && grep -q '^95 % high' "$work/out"
}
pass_if "seeds: a table with the interval" seeds
does docs/usage.md "./run_local.sh cartpole a2c 4" --logdir=runs/b --total_steps=50k
if command -v gnuplot >/dev/null; then
  does docs/usage.md "./scripts/plot.sh runs/a runs/b"
  compared() { is "$code" 0 && is_png curves.png; }
  pass_if "compare: a plot of two runs" compared
else
  echo "SKIP compare: gnuplot cannot be installed here"
fi

# ---- evaluate, record
does docs/usage.md "./scripts/eval.sh runs/a"
evaluated() { is "$code" 0 && at_least "$(awk '$1 == "greedy" {print $3}' "$work/out")" 475; }
pass_if "evaluate: greedy play of 100 episodes" evaluated
if command -v ffmpeg >/dev/null; then
  does docs/usage.md "./scripts/watch.sh runs/a"
  recorded() { is "$code" 0 && grep -qa ftyp <(head -c 12 play.mp4); }
  pass_if "record: a video" recorded
else
  echo "SKIP record: ffmpeg cannot be installed here"
fi

# ---- an environment of one's own
page=docs/environments.md
own_in_c() {
  does $page "make install" && is "$code" 0 &&
    does $page "cc -O2 -shared" && is "$code" 0 &&
    does $page "build/actor --env=./meadow.so --check_env" && is "$code" 0 &&
    does $page "./run_local.sh ./meadow.so vtrace 4" --total_steps=20k && is "$code" 0 &&
    is "$(value env)" meadow
}
pass_if "an environment in C: compiled, checked, trained" own_in_c
page=docs/gymnasium.md
if "$tree/scripts/setup.sh" gym >/dev/null 2>&1; then
  own_in_python() {
    does $page "./run_local.sh gym:Corridor-v0 vtrace 4" --total_steps=5k &&
      is "$code" 0 && is "$(value reason)" total_steps
  }
  pass_if "an environment in Python: trained" own_in_python
else
  echo "SKIP an environment in Python: Gymnasium cannot be installed here"
fi

# ---- sweep
does docs/usage.md "./scripts/sweep.py cartpole vtrace --learning_rate=3e-4" --actors=2 \
  --envs_per_actor=8 --total_steps=10k
swept() {
  is "$code" 0 && is "$(grep -cE '^(3e-4|1e-3) +0[.]0?1 +3 ' "$work/out")" 4 &&
    grep -q '^the best again: ' "$work/out"
}
pass_if "sweep: a table of four configurations" swept

# ---- the policy in numpy
python=
for candidate in python3 /usr/bin/python3 "$tree/.venv/bin/python"; do
  "$candidate" -c 'import numpy' 2>/dev/null && python=$candidate && break
done
if [ -n "$python" ]; then
  does docs/usage.md "./scripts/export.sh runs/a --format=safetensors"
  block docs/usage.md 'open("policy.safetensors"' >policy.py
  cat >play.py <<'END_PYTHON'
import sys
import numpy as np
from policy import act
from numpy_cartpole import step


def play(seed):
    state = np.random.default_rng(seed).uniform(-0.05, 0.05, 4)
    for steps in range(1, 501):
        state = step(state, act(state))
        if abs(state[0]) > 2.4 or abs(state[2]) > np.radians(12):
            break
    return steps


print(np.mean([play(seed) for seed in range(20)]))
END_PYTHON
  PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=.:$tree/tests/integration "$python" play.py \
    >"$work/out" 2>>"$work/err"
  pass_if "numpy: the policy keeps the pole up" at_least "$(cat "$work/out")" 475
else
  echo "SKIP numpy: there is no numpy (scripts/setup.sh compare)"
fi

# The same block, where the network reads more than the observation.
plays_the_same() {
  build/launch "$@" --logdir=runs/more --no_plot >"$work/out" 2>"$work/err" &&
    build/watch runs/more --seed=7 --episodes=10 >/dev/null 2>"$work/err" &&
    build/export runs/more --format=safetensors --output=policy.safetensors \
      >"$work/out" 2>>"$work/err" || return
  PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=.:$tree/tests/golden/envs:$tree/tests/integration \
    "$tree/.venv/bin/python" "$tree/tests/integration/numpy_policy.py" "$1" \
    $(sed -n 's/.*: return \([-0-9.e+]*\) in .*/\1/p' "$work/err") >"$work/out" 2>>"$work/err"
  code=$?
  rm -r runs/more
  is $code 0
}
if "$tree/.venv/bin/python" -c 'import gymnasium' 2>/dev/null; then
  block docs/usage.md 'open("policy.safetensors"' >policy.py
  more=(--previous_action --previous_reward)
  pass_if "numpy: with the previous action and reward" \
    plays_the_same cartpole vtrace 1 --total_steps=60k "${more[@]}"
  pass_if "numpy: and with an LSTM" plays_the_same cartpole vtrace 1 --total_steps=50k \
    --network=lstm --activation=relu "${more[@]}"
  pass_if "numpy: normalised observations" plays_the_same cartpole vtrace 1 --total_steps=60k \
    --normalize_observations "${more[@]}"
  pass_if "numpy: values of actions" \
    plays_the_same cartpole dqn 1 --total_steps=20k --eval_epsilon=0 "${more[@]}"
  pass_if "numpy: a dueling head" \
    plays_the_same cartpole dqn 1 --total_steps=20k --eval_epsilon=0 --dueling
  pass_if "numpy: a memory" plays_the_same tmaze vtrace 1 --total_steps=100k
else
  echo "SKIP numpy: with more inputs: no Gymnasium here (scripts/setup.sh gym)"
fi

# ---- pandas
if "$tree/.venv/bin/python" -c 'import pandas, matplotlib' 2>/dev/null; then
  awk '/^```python$/ {inside = 1; next} /^```$/ {inside = 0} inside' "$tree/docs/notebooks.md" \
    >notebook.py
  echo 'assert configs["learning_rate"].dtype == float' >>notebook.py
  "$tree/.venv/bin/python" notebook.py >"$work/out" 2>"$work/err"
  code=$?
  figures() {
    is "$code" 0 && is_png return.png && is_png episodes.png && is_png seeds.png &&
      grep -q '^\[[1-9][0-9]* rows x 5 columns\]' "$work/out"
  }
  pass_if "pandas: the page's code, block after block" figures
else
  echo "SKIP pandas: it is not in .venv (scripts/setup.sh compare)"
fi
finish
