#!/usr/bin/env bash
# What a run tells about itself: run.json, result.json, eval.json, --version; an interrupted run
# ends a shell loop; the best checkpoint and those by steps; metrics by steps; the policy in numpy,
# by the commands of docs/usage.md alone.
. "$(dirname "$(readlink -f "$0")")/lib.sh"
scripts=$tree/scripts

# ---- versions

version=$(cut -d' ' -f1 "$tree/VERSION")
# versions WORDS...: of every program and script.
versions() {
  local program
  for program in "$@"; do
    "$program" --version </dev/null 2>&1 |
      grep -qE "^[a-z_.]+ \(Acorn\) $version, commit [0-9a-z-]+$" && continue
    echo "  $program --version: $("$program" --version </dev/null 2>&1 | head -n 1)"
    return 1
  done
}
pass_if "each program prints its version" versions \
  "$tree"/build/{learner,actor,launch,status,task,curves,checkpoint,watch}
pass_if "each script, too" versions "$tree/run_local.sh" "$tree"/deploy/{fleet,run_task}.sh \
  "$scripts"/{{eval,watch,plot,status,checkpoint,setup,info}.sh,sweep.py}
mkdir -p plain/scripts
cp "$scripts/version.sh" plain/scripts
cp "$tree/VERSION" plain
pass_if "a tree without git has the version of VERSION" \
  is "$(plain/scripts/version.sh)" "$version unknown"

# ---- provenance and results

run cartpole vtrace 2 8 --total_steps=300k --seed=3 --logdir="a run" --no_plot \
  --checkpoint_steps=100k --metrics_steps=50k
ended
described() {
  is "$code" 0 && is "$(json "a run/run.json" starts.0.version)" "$version" &&
    is "$(json "a run/run.json" starts.0.options.total_steps)" 300000 &&
    is "$(json "a run/run.json" starts.0.actors)" 2 &&
    is "$(json "a run/run.json" starts.0.reason)" total_steps &&
    [ -n "$(json "a run/run.json" starts.0.packages.onednn)" ] &&
    json "a run/run.json" starts.0.command | grep -qF -- "./run_local.sh cartpole vtrace 2 8" &&
    json "a run/run.json" starts.0.command | grep -qF -- "'--logdir=a run'"
}
pass_if "run.json tells which program ran with what" described
same_figures() {
  is "$(json "a run/result.json" steps)" "$(value steps)" &&
    is "$(json "a run/result.json" seed)" 3 && is "$(value seed)" 3 &&
    is "$(json "a run/result.json" exit_code)" 0 &&
    is "$(json "a run/result.json" reason)" "$(value reason)" &&
    is "$(json "a run/result.json" logdir)" "$work/a run" && grep -q ' logdir=a run$' out
}
pass_if "result.json has the figures of the result line" same_figures
# whole FILE: it has the members of the table in docs/usage.md.
whole() {
  local member
  for member in $(sed -n '/^| `result.json` | |/,/^$/s/^| \(`[^|]*\) |.*/\1/p' \
    "$tree/docs/usage.md" | tr -d '`,' | grep -v '^result\.json'); do
    grep -q "^  \"$member\": " "$1" || { echo "  $1: no $member" && return 1; }
  done
}
pass_if "it has every member" whole "a run/result.json"
next_works() {
  local command
  command=$(sed -n 's/^next: //p' err)
  eval "$command --episodes=1" >next 2>&1 && [ -s "a run/eval.json" ]
}
pass_if "what comes next is printed, as a shell reads it there" next_works
pass_if "but not on stdout" is "$(wc -l <out)" 1
no_tails() {
  is "$(sed -n 's/^ *"learning_rate": \([0-9.]*\),$/\1/p' "a run/run.json")" 0.0012
}
pass_if "and numbers are written as they are typed" no_tails

# metric_steps: of all lines but the last, whether each is a multiple of 50,000.
metric_steps() {
  sed '$d' "a run/metrics.jsonl" | tr ',{' '\n' | sed -n 's/^"step": *//p' >steps
  [ -s steps ] && awk '$1 % 50000 {exit 1}' steps
}
pass_if "--metrics_steps puts lines at its multiples" metric_steps
# Multiples that pass within one tick share a checkpoint: a busy machine may leave some out.
by_steps() { (cd "a run/checkpoints" && echo step-*) |
  grep -qE '^(step-000000[12]00000.acorn )*step-000000300000.acorn$'; }
pass_if "--checkpoint_steps keeps a checkpoint at its multiples" by_steps
one_best() { is "$(find "a run/checkpoints" -name 'best-*.acorn' | wc -l)" 1; }
pass_if "there is one best checkpoint" one_best

# A run that ends before the update that would have served the request.
run cartpole vtrace 1 1 --total_steps=8000 --checkpoint_steps=6000 --logdir=ends --no_plot \
  --unroll_length=100 --batch_size=100
ended
pass_if "also where the run ends before its next update" \
  test -e ends/checkpoints/step-000000006000.acorn

run cartpole vtrace 2 8 --total_steps=320k --logdir="a run" --no_plot --resume
ended
appended() {
  is "$code" 0 && is "$(json "a run/run.json" starts.0.options.total_steps)" 300000 &&
    is "$(json "a run/run.json" starts.1.options.total_steps)" 320000 &&
    [ "$(json "a run/run.json" starts.1.step)" -ge 300000 ]
}
pass_if "a resumed run appends its start" appended
pass_if "and tells what another budget does to the learning rate" says "the learning rate "
run cartpole vtrace 2 8 --total_steps=320k --logdir="a run" --no_plot --resume
ended
keeps_its_result() {
  is "$code" 0 && says "this run is finished" && [ -n "$(json "a run/run.json" starts.2.ended)" ] &&
    [ -n "$(json "a run/result.json" return_mean)" ]
}
pass_if "a finished run that is resumed keeps its result" keeps_its_result
echo '{"starts": [' >"a run/run.json"
run cartpole vtrace 2 8 --total_steps=340k --logdir="a run" --no_plot --resume
ended
set_aside() {
  is "$code" 0 && says "a run/run.json is no JSON object" &&
    is "$(cat "a run/run.json.broken")" '{"starts": [' &&
    is "$(json "a run/run.json" starts.0.options.total_steps)" 340000
}
pass_if "a broken run.json is set aside" set_aside

# ---- runs that fail

# A learner that is killed cannot write a result.
run cartpole vtrace 2 4 --total_steps=1e12 --logdir=killed --no_plot
wait_for 20 test -s killed/metrics.jsonl
during() { [ ! -e killed/result.json ] && is "$(json killed/run.json starts.0.ended)" ""; }
pass_if "a run that goes on has no result" during
changes_nothing() {
  "$tree/build/launch" cartpole vtrace 1 --logdir=killed "$@" >other 2>&1 </dev/null
  is "$?" 2 && [ ! -e killed/result.json ] && is "$(json killed/run.json starts.1.step)" ""
}
pass_if "nor after another start in its folder was refused" changes_nothing --resume
kill -KILL "$(pids learner)"
ended
killed_is_told() {
  is "$code" 137 && is "$(json killed/result.json reason)" killed &&
    is "$(json killed/result.json logdir)" "$work/killed" &&
    json killed/result.json error | grep -qF "killed by signal 9" && whole killed/result.json
}
pass_if "a learner that is killed leaves a result that tells so" killed_is_told
rm killed/result.json # as if the launcher had been killed, too
pass_if "a start that is refused writes none for it" changes_nothing
address=127.0.0.1:$(free_port)
cluster="{\"chief\": [\"$address\"]}"
TF_CONFIG="{\"cluster\": $cluster, \"task\": {\"type\": \"chief\", \"index\": 0}}" \
  "$tree/build/task" cartpole vtrace --actors_per_worker=1 --total_steps=1e12 --logdir=task \
  >out 2>err </dev/null &
run=$!
started+=("$run")
wait_for 20 test -s task/metrics.jsonl
kill -KILL "$(pids learner)"
ended
task_tells() {
  is "$(json task/result.json reason)" killed && is "$(json task/result.json agent)" vtrace
}
pass_if "so does that of a cluster's task" task_tells
end_by_hand

mkdir bin
cp "$tree/build/launch" "$tree/build/learner" bin
printf '#!/bin/sh\necho "no such package"\nexit 7\n' >bin/actor
chmod +x bin/actor
bin/launch cartpole vtrace 1 4 --logdir=deserted --no_plot >out 2>err </dev/null
code=$?
no_actors() {
  is "$code" 1 && is "$(value reason)" no_actors &&
    is "$(json deserted/result.json reason)" no_actors &&
    json deserted/result.json error | grep -qF "no actor is left" &&
    is "$(json deserted/result.json return_mean)" ""
}
pass_if "a run without actors tells why it failed" no_actors

mkdir there
refused cartpole vtrace 1 --logdir=there --hidden=x
refusal() {
  is "$code" 2 && is "$(json there/result.json reason)" refused &&
    json there/result.json error | grep -qF -- "--hidden" && whole there/result.json
}
pass_if "so does one that is refused, in a folder that is there" refusal
refused cartpole vtrace 1 --logdir=interrupted-never --hidden=x
pass_if "which leaves no folder otherwise" test ! -e interrupted-never

# ---- Ctrl-C

run cartpole vtrace 2 4 --total_steps=1e12 --logdir=interrupted --no_plot
wait_for 20 test -s interrupted/metrics.jsonl
kill -INT "$run"
ended
interrupted() {
  is "$code" 130 && is "$(value reason)" signal &&
    is "$(json interrupted/result.json exit_code)" 130 && [ -n "$(newest_checkpoint interrupted)" ]
}
pass_if "an interrupted run stops in order and exits with 130" interrupted

# On a terminal's Ctrl-C each process of the foreground gets the signal; the shell goes by how its
# child has ended.
cat >loop.sh <<LOOP
for i in 1 2 3; do "$tree/build/launch" cartpole vtrace 1 4 --total_steps=1e12 \
  --logdir=loop-\$i --no_plot; done
echo went on >loop.out
LOOP
setsid env --default-signal=INT,HUP bash loop.sh >out 2>err </dev/null &
loop=$!
wait_for 20 test -s loop-1/metrics.jsonl
kill -INT -- "-$loop"
wait_for 20 has_gone "$loop"
loop_ended() { [ -s loop-1/result.json ] && [ ! -e loop-2 ] && [ ! -e loop.out ]; }
pass_if "Ctrl-C ends a shell loop over runs" loop_ended

# ---- evaluation, and the policy in numpy

run cartpole vtrace 4 --logdir=solved --no_plot --seed=1
ended 120
evaluated() {
  "$scripts/eval.sh" solved --episodes=20 >out 2>err &&
    is "$(json solved/eval.json greedy.episodes)" 20 &&
    is "$(json solved/eval.json sample.policy)" sample &&
    json solved/eval.json greedy.checkpoint | grep -q '/best-[0-9]*\.acorn$' &&
    [ "$(json solved/eval.json greedy.step)" -gt 0 ]
}
pass_if "eval.sh plays the best checkpoint and writes eval.json" evaluated

python=
for try in /usr/bin/python3 "$tree/.venv/bin/python"; do
  if "$try" -c 'import numpy' 2>/dev/null; then python=$try && break; fi
done
if [ -n "$python" ]; then
  # The first block of Python in docs/usage.md, and CartPole of numpy_cartpole.py.
  sed -n '/^```python$/,/^```$/{/^```/d;p}' "$tree/docs/usage.md" >policy.py
  cat >>policy.py <<PYTHON

source = open("$tree/tests/integration/numpy_cartpole.py").read()
world = {"np": np}
begin, end = source.index("def step("), source.index("def main(")
exec(source[begin:end].replace("act(params, state)", "params(state)"), world)
print(np.mean([world["play"](act, seed) for seed in range(1000, 1020)]))
PYTHON
  best=$(echo solved/checkpoints/best-*.acorn)
  plays_in_numpy() {
    "$scripts/export.sh" "$best" --format=safetensors --output=policy.safetensors >out 2>err &&
      "$python" policy.py >score 2>>err && awk '{exit !($1 >= 475)}' score
  }
  pass_if "the policy of docs/usage.md reaches 475 in numpy" plays_in_numpy
else
  echo "SKIP the policy in numpy: no numpy here (scripts/setup.sh test)"
fi

# ---- an address that can be dialled

address="0.0.0.0:$(free_port)"
new_token token
learner --env=cartpole --num_envs=4 --logdir=nobody --token_file=token
pass_if "actors are expected at a name, not at 0.0.0.0" \
  wait_for 20 says "they are expected at $(hostname):${address##*:}"
end_by_hand
finish
