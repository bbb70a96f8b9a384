#!/usr/bin/env bash
# Policies as ONNX files: for each kind of policy and network a short run is exported, checked by
# onnx, and compared with our own inference row by row in onnxruntime; the code of docs/export.md;
# what is refused, and what is left behind then. Without onnx and onnxruntime (scripts/setup.sh
# compare) files are written and not read.
. "$(dirname "$(readlink -f "$0")")/lib.sh"
python=$tree/build/onnx/bin/python
helpers=$tree/tests/integration/export
rows=$tree/build/tests/integration/export/policy_rows
export PYTHONDONTWRITEBYTECODE=1

make -s -C "$tree" build/tests/integration/export/policy_rows >/dev/null || exit 1
plugins choices/locks box_actions/target masks/doors export/senses

has_onnxruntime() { "$python" -c 'import onnx, onnxruntime' 2>/dev/null; }
written=
has_onnxruntime || written=" (only written)"
has_onnxruntime || echo "SKIP what exported policies compute: there is no onnxruntime here" \
  "(scripts/setup.sh compare)"

export_run() {
  code=0
  "$tree/build/export" "$@" >"$work/out" 2>"$work/err" </dev/null || code=$?
}

# same RUN [DEVICE]: its newest checkpoint and its policy.onnx. The largest differences are shown.
same() {
  is "$code" 0 && [ -s "$1/policy.onnx" ] || return
  has_onnxruntime || return 0
  "$python" "$helpers/compare.py" "$rows" "$1" "$1/policy.onnx" latest "${2:-cpu}" \
    >"$work/out" 2>>"$work/err" && sed 's/^/  /' "$work/out"
}

# kind WHAT ENV AGENT STEPS OPTION...: a run of that many steps, in a folder of its own.
kind() {
  local name=run-$((++number))
  run "$2" "$3" 1 8 --total_steps="$4" --seed=1 --logdir="$name" --evaluators=0 --no_plot "${@:5}"
  ended 60
  [ "$code" -eq 0 ] && export_run "$name" --checkpoint=latest --format=safetensors
  [ "$code" -eq 0 ] && export_run "$name" --checkpoint=latest
  pass_if "$1$written" same "$name"
}
number=0

# ---- each kind
kind "mlp, discrete" cartpole ppo 10k
kind "normalised observations and values, previous action and reward" cartpole ppo 10k \
  --normalize_observations --normalize_values --previous_action --previous_reward
kind "relu, a head of two streams" cartpole vtrace 10k --activation=relu --hidden=32 \
  --head_hidden=32
kind "no hidden layer" cartpole a2c 5k --hidden=none
kind "several choices" ./locks.so ppo 10k
kind "several choices, masked, lstm" ./locks.so ppo 10k --network=lstm --env_args='{"stiff": 1}'
kind "a mask" ./doors.so ppo 5k
kind "a box, normalised" ./target.so ppo 10k --normalize_observations --normalize_values
kind "a box, lstm" ./target.so ppo 10k --network=lstm --head_hidden=16
for bounds in 1 2; do
  kind "a box with bounds of kind $bounds" ./target.so ppo 5k --env_args="{\"kind\": $bounds}"
done
kind "a box by sac" ./target.so sac 1500 --hidden=32
kind "a box by sac, normalised" ./target.so sac 1500 --hidden=32 --normalize_observations
kind "dqn" cartpole dqn 10k
kind "dqn, dueling, a mask" ./doors.so dqn 5k --dueling
kind "rainbow" cartpole rainbow 10k
kind "lstm" tmaze vtrace 10k
kind "r2d2" tmaze r2d2 8k --replay_min_steps=2000
# A rate that moves every weight.
small=(--env_args='{"size": 40}' --learning_rate=0.001 --unroll_length=8)
kind "impala_shallow, lstm" catch vtrace 1k "${small[@]}" --network=impala_shallow
kind "impala_deep, lstm" catch vtrace 500 "${small[@]}" --network=impala_deep
kind "nature, four frames" catch vtrace 1k "${small[@]}" --network=nature
kind "nature, rainbow" catch rainbow 700 "${small[@]}" --replay_min_steps=200
kind "nature, the previous action beside the image" catch ppo 500 "${small[@]}" \
  --network=nature --previous_action --previous_reward
small=(--learning_rate=0.001 --unroll_length=8)
kind "every kind of tensor, in front of a mlp" ./senses.so ppo 500 "${small[@]}" --network=mlp \
  --hidden=16 --normalize_observations --previous_action --previous_reward
kind "every kind of tensor, in front of nature, with frames" ./senses.so ppo 500 "${small[@]}" \
  --network=nature --frame_stack=3 --normalize_observations --previous_action
kind "every kind of tensor, in front of impala_shallow, lstm" ./senses.so vtrace 500 \
  "${small[@]}" --network=impala_shallow --previous_reward --no_clip_reward_input
kind "an image, a box" ./senses.so ppo 500 "${small[@]}" --network=nature \
  --env_args='{"action": 2}' --normalize_observations --frame_stack=2
kind "an image, a box, lstm, the previous action" ./senses.so vtrace 500 "${small[@]}" \
  --network=impala_deep --env_args='{"action": 2}' --previous_action
kind "images as numbers, a box by sac" ./senses.so sac 260 --env_args='{"action": 2}' \
  --network=mlp --hidden=16 --replay_min_steps=200 --normalize_observations
kind "an image, several choices, lstm" ./senses.so ppo 500 "${small[@]}" \
  --network=impala_shallow --env_args='{"action": 1}' --previous_action
kind "rainbow, lstm" tmaze rainbow 5k --network=lstm --replay_min_steps=1000 \
  --learning_rate=0.001
small=(--env_args='{"size": 40}' --learning_rate=0.001 --replay_min_steps=200)
kind "rainbow, impala_shallow, lstm" catch rainbow 1k "${small[@]}" --network=impala_shallow
kind "r2d2, impala_deep, lstm" catch r2d2 800 "${small[@]}" --network=impala_deep \
  --unroll_length=8 --burn_in=4 --batch_size=4
kind "double_dqn, impala_deep without lstm" catch double_dqn 1k "${small[@]}" \
  --network=impala_deep --lstm_size=0

# The reference device computes by other code, in double precision.
if has_onnxruntime; then
  code=0
  for number in 2 8 12 16 20 22; do
    pass_if "run-$number against the reference device" same run-$number ref_double
  done
fi

# ---- the parameters alone
weights() {
  export_run "$1" --checkpoint=latest --format=safetensors
  is "$code" 0 && [ -s "$1/policy.safetensors" ] || return
  ! has_safetensors || "$python" "$helpers/weights.py" "$(newest_checkpoint "$1")" \
    "$1/policy.safetensors" >"$work/out" 2>"$work/err"
}
has_safetensors() { "$python" -c 'import safetensors' 2>/dev/null; }
has_safetensors || written=" (only written)"
for number in 2 10 14 17; do
  pass_if "safetensors: parameters of run-$number as in its checkpoint$written" weights run-$number
done
export_run run-2 --checkpoint=latest --format=safetensors --output=again.safetensors
pass_if "safetensors: the same bytes again" cmp -s again.safetensors run-2/policy.safetensors

# ---- which checkpoint, and where to
export_run run-1 --checkpoint=best --output=best.onnx
pass_if "the best checkpoint" eval 'is $code 0 && [ -s best.onnx ]'
"$tree/scripts/export.sh" "$(newest_checkpoint run-1)" --output=file.onnx >out 2>err </dev/null
pass_if "a file, by the script: the bytes of the newest" cmp -s file.onnx run-1/policy.onnx
export_run run-1 --output=default.onnx
pass_if "none named: the best" cmp -s default.onnx best.onnx
best=(run-1/checkpoints/best-*.acorn)
mv "${best[0]}" kept.acorn
export_run run-1 --output=newest.onnx
pass_if "and while there is no best one, the newest" cmp -s newest.onnx run-1/policy.onnx
truncate -s 500 "${best[0]}"
export_run run-1 --output=whole.onnx
pass_if "or that is damaged" \
  eval 'cmp -s whole.onnx run-1/policy.onnx && says "the newest whole one is taken"'
mv kept.acorn "${best[0]}"

# ---- the code of docs/export.md
if has_onnxruntime && "$python" -c 'import gymnasium' 2>/dev/null; then
  mkdir -p runs
  run cartpole ppo 2 8 --total_steps=150k --seed=1 --logdir=runs/a --no_plot
  ended 120
  "$tree/scripts/export.sh" runs/a >out 2>err </dev/null
  doc_block export.md 2 >play.py
  plays() { "$python" play.py >score 2>>"$work/err" && awk '{exit !($1 >= 1)}' score; }
  pass_if "docs: the policy plays an episode of Gymnasium's CartPole" plays
  rm -r runs/a
  run cartpole ppo 2 8 --total_steps=5k --seed=1 --logdir=runs/a --no_plot --network=lstm \
    --previous_action --previous_reward
  ended 60
  "$tree/scripts/export.sh" runs/a >out 2>err </dev/null
  doc_block export.md 3 >play.py
  echo 'assert [feed[name][0] for name in list(past)[2:]] == [found["action"][0], reward]' >>play.py
  pass_if "docs: a policy with memory is given its last action and reward" plays
else
  echo "SKIP the code of docs/export.md: there is no Gymnasium beside onnxruntime"
fi

# ---- what is refused
refused_with() { is "$code" "$1" && says "$2" && ! ls ./*.onnx* >/dev/null 2>&1; }
rm -f ./*.onnx
code=0
"$tree/scripts/export.sh" nothing --output=x.onnx >out 2>err </dev/null || code=$?
pass_if "a folder that is no run" refused_with 2 "nothing is no run folder"
export_run nothing --output=x.onnx
pass_if "and by the program" refused_with 2 "nothing holds no run: there is no config.txt"
export_run run-1 --outptu=x.onnx
pass_if "an unknown option" refused_with 2 "outptu"
export_run run-1 --format=npz
pass_if "an unknown format" refused_with 2 "onnx, safetensors"
export_run run-1 --format=safetensors --output=none/x
pass_if "parameters: a folder that is not there" refused_with 1 "cannot write none/x: No such"
export_run --output=x.onnx
pass_if "no run" refused_with 2 "name one run folder"
export_run run-1 --checkpoint=none.acorn --output=x.onnx
pass_if "a checkpoint that is not there" refused_with 1 "none.acorn"
cp "$(newest_checkpoint run-1)" damaged.acorn
printf 'xxxxxxxx' | dd of=damaged.acorn bs=1 seek=3000 conv=notrunc 2>/dev/null
export_run run-1 --checkpoint=damaged.acorn --output=x.onnx
pass_if "a checkpoint that is damaged" refused_with 1 "damaged.acorn"
export_run run-1 --output=none/x.onnx
pass_if "a folder that is not there" refused_with 1 "cannot write none/x.onnx: No such file"
mkdir folder
export_run run-1 --output=folder
pass_if "a folder in the place of the file" refused_with 1 "cannot write folder: Is a dir"
pass_if "nothing is left beside it" eval '! ls folder.new >/dev/null 2>&1'
(ulimit -f 8 && export_run run-20 --output=x.onnx; exit "$code")
code=$?
pass_if "a disk that is full" refused_with 1 "cannot write x.onnx: File too large"
run ./senses.so ppo 1 8 --total_steps=100 --network=mlp --hidden=4 --logdir=clash --no_plot \
  --env_args='{"clash": 1}'
ended 20
export_run clash --output=x.onnx
pass_if "two names that become one" refused_with 2 "would be named 'observation_action': rename"
run cartpole random 1 8 --total_steps=1k --logdir=random --no_plot
ended 20
export_run random --output=x.onnx
pass_if "an agent that learns nothing" refused_with 2 "agent random learns nothing"
export_run run-8 --env=cartpole --output=x.onnx
pass_if "another environment" refused_with 2 "does not fit"
export_run run-8 --no_code --output=x.onnx
pass_if "--no_code: a plugin is not run" refused_with 2 "target.so"

finish
