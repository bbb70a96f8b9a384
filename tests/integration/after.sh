#!/usr/bin/env bash
# After a run: its learning curve, plots of known numbers, evaluation, checkpoints and their export,
# several seeds.
. "$(dirname "$(readlink -f "$0")")/lib.sh"
start=$tree/run_local.sh
scripts=$tree/scripts
near() { awk -v a="$1" -v b="$2" -v e="$3" 'BEGIN {exit !(a != "" && a - b <= e && b - a <= e)}'; }

# call COMMAND...: its output in out and err, its exit code in $code.
call() {
  code=0
  "$@" >out 2>err </dev/null || code=$?
}
fails() { [ "$code" -ne 0 ] && says "$1"; }

# ---- the curve of a run
run cartpole vtrace 2 8 --total_steps=100k --seed=3 --logdir=run
ended
is_png() { [ "$(head -c 8 "$1" | od -An -tx1 | tr -d ' \n')" = 89504e470d0a1a0a ]; }
if command -v gnuplot >/dev/null; then
  drawn() { is "$code" 0 && is_png run/learning_curve.png && says "run/learning_curve.png"; }
  pass_if "a run draws its learning curve and says where" drawn
else
  echo "SKIP a run draws its learning curve: gnuplot cannot be installed here"
fi
is_last() { is "$(value reason)" total_steps && is "$(wc -l <out)" 1; }
pass_if "the result line stays the last on stdout" is_last
dense() {
  awk '{match($0, /"seconds":[0-9.]+/); t = substr($0, RSTART + 10, RLENGTH - 10)}
    END {exit !(NR >= 5 * (t < 2 ? t : 2))}' run/metrics.jsonl
}
pass_if "a young run writes its metrics often" dense
run cartpole vtrace 1 4 --total_steps=10k --no_plot --logdir=plain
ended
no_curve() { is "$code" 0 && [ ! -e plain/learning_curve.png ] && ! says "learning curve:"; }
pass_if "--no_plot draws none" no_curve

# Of the returns that the result line is over: a gnuplot that keeps what it is given.
mkdir keeps
printf '#!/bin/sh\ncat "$1" >>%s/drawn\n' "$PWD" >keeps/gnuplot
chmod +x keeps/gnuplot
draws() {
  rm -f drawn
  PATH=$PWD/keeps:$PATH run cartpole "$1" 1 4 --total_steps="$3" --logdir="draws-$1"
  ended
  is "$code" 0 && grep -q "episode return (mean of the last 100, $2)" drawn
}
# A curve has two points at least.
pass_if "the curve of an agent with an evaluator is that of evaluation" draws dqn evaluation 10k
pass_if "the curve of any other is that of training" draws vtrace training 100k

# One that takes too long is not waited for after a signal.
printf '#!/bin/sh\necho >%s/draws; sleep 60\n' "$PWD" >keeps/gnuplot
PATH=$PWD/keeps:$PATH run cartpole vtrace 1 4 --total_steps=100k --logdir=slow
wait_for 60 [ -e draws ]
kill -TERM "$run"
ended 10
pass_if "a signal ends the drawing, and the exit code is that of the run" is "$code" 0

# A machine that has no gnuplot and cannot have it: all programs but that, and a broken apt-get.
mkdir bin
ln -s /usr/bin/* /usr/local/bin/* bin/ 2>/dev/null
ln -sf "$(command -v gcc)" bin/gcc
rm -f bin/gnuplot bin/apt-get bin/dpkg-query bin/sudo
printf '#!/bin/sh\necho no network; exit 100\n' >bin/apt-get
printf '#!/bin/sh\n/usr/bin/dpkg-query "$@" | grep -v gnuplot\n' >bin/dpkg-query
chmod +x bin/apt-get bin/dpkg-query
rm -f "$tree/build/.asked_for_plot"
without_gnuplot() {
  PATH=$work/bin run cartpole vtrace 1 4 --total_steps=10k --target_return=500 --logdir="$1"
  ended
  is "$code" 3 && is "$(value reason)" total_steps && says "no learning curve: gnuplot is missing"
}
asked() { without_gnuplot bare && says "without a learning curve"; }
pass_if "a machine that cannot have gnuplot trains and keeps its exit code" asked
asked_once() { without_gnuplot bare2 && ! says "without a learning curve"; }
pass_if "it is asked once" asked_once
rm -f "$tree/build/.asked_for_plot"

# ---- plots of known numbers
# make_run FOLDER LEARNING_RATE STEP:RETURN...
make_run() {
  local folder=$1 pair step
  mkdir -p "$folder"
  printf 'env = cartpole\nagent = vtrace\nlearning_rate = %s\n' "$2" >"$folder/config.txt"
  for pair in "${@:3}"; do
    step=${pair%:*}
    echo "{\"step\":$step,\"seconds\":$((step / 10)),\"train/episode_return\":${pair#*:}}"
  done >"$folder/metrics.jsonl"
}
make_run known/a 0.1 0:null 100:0 300:200
make_run known/b 0.1 0:0 200:100 400:100
make_run known/c 0.5 0:7 50:9
call "$scripts/plot.sh" known --data
# From 100 to 300: at 100 the runs have 0 and 50, at 200 100 and 100, at 300 200 and 100.
known_numbers() {
  is "$code" 0 && grep -qx '# cartpole vtrace learning_rate=0.1, 2 runs' out &&
    grep -qx '100 25 0 50' out && grep -qx '150 62.5 50 75' out && grep -qx '200 100 100 100' out &&
    grep -qx '300 150 100 200' out && is "$(grep -c '^[12]' out)" 200 &&
    grep -qx '# cartpole vtrace learning_rate=0.5, 1 run' out && grep -qx '50 9 9 9' out
}
pass_if "runs of one experiment are one curve: mean and range on a common grid" known_numbers
make_run known/a/learner-1 0.1 0:0 100:0
call "$scripts/plot.sh" known --data
pass_if "a run of several learners is one run" known_numbers
make_run unread/a 0.1 0:0 100:100
make_run unread/empty 0.1
make_run unread/strange 0.1 0:0 100:100
echo 'no_such_option = 1' >>unread/strange/config.txt
make_run unread/without 0.1
echo '{"step":1,"seconds":1}' >unread/without/metrics.jsonl
call "$scripts/plot.sh" unread --data
unread() {
  is "$code" 0 && grep -qx '# cartpole vtrace, 1 run' out && is "$(grep -c ': left out$' err)" 3 &&
    says "unread/empty/metrics.jsonl holds no line of metrics yet: left out" &&
    says "unread/strange/config.txt" && says "unread/without/metrics.jsonl has no such metric"
}
pass_if "runs that cannot be read are left out, and named" unread
call "$scripts/plot.sh" unread/empty unread/without --data
none_read() { is "$code" 2 && says "none of these 2 runs can be drawn"; }
pass_if "where none is left it fails" none_read
rm -r unread
call "$scripts/plot.sh" known/a known/b --data --x=seconds --band=interval
interval() { awk '$1 == 10 {found = $2 == 25 && $4 > 342 && $4 < 343} END {exit !found}' out; }
pass_if "seconds, and the interval of the mean" interval
if command -v gnuplot >/dev/null; then
  call "$scripts/plot.sh" known --out="two curves.png" --title="'It''s' \"one\" \`date\`"
  width() { od -An -tu1 -j18 -N2 "$1" | awk '{print $1 * 256 + $2}'; }
  picture() { is "$code" 0 && is_png "two curves.png" && is "$(width "two curves.png")" 1200; }
  pass_if "a picture of several runs" picture
  mkdir taken.png
  call "$scripts/plot.sh" known --out=taken.png
  nothing_left() { fails "cannot write taken.png" && [ ! -e taken.png.new ]; }
  pass_if "one that cannot be put in its place leaves nothing beside it" nothing_left
fi
mkdir lines && cp -r known/c "lines/a
b"
call "$scripts/plot.sh" lines --data
pass_if "also where a name has two lines" grep -qx '50 9 9 9' out
rm -r lines
call "$scripts/plot.sh" . --data
nested() { is "$code" 0 && grep -qx '# cartpole vtrace .*learning_rate=0.1.*, 2 runs' out; }
pass_if "also in folders of folders" nested
mkdir -p deep/a/b/c/d/e/f/g/h/i deep/young strange
make_run deep/a/run 0.1 0:0 100:100
cp known/a/config.txt deep/young
cp known/a/metrics.jsonl strange
call "$scripts/plot.sh" deep strange/.. --data
left_out() {
  is "$code" 0 && says "deep/young has no metrics.jsonl yet: left out" &&
    says "strange has metrics.jsonl but no config.txt, so it is no run: left out" &&
    says "deep is searched 8 levels deep: left out are deep/a/b/c/d/e/f/g/h/i"
}
pass_if "what is left out is named" left_out
make_run cut/a 0.1 0:0 100:100
make_run cut/b 0.1 0:0 400:100
call "$scripts/plot.sh" cut --data
pass_if "a run that cuts the curve short is named" \
  says "ends at 100 steps with its shortest run, cut/a"
make_run apart/a 0.1 0:0 100:100
make_run apart/b 0.1 200:0 400:100
call "$scripts/plot.sh" apart --data
pass_if "runs without a step in common are no curve" fails "the runs have no x in common"
make_run apart/c 0.5 0:7 50:9
call "$scripts/plot.sh" apart --data
others_drawn() {
  is "$code" 0 && says "one begins at 200, another ends at 100: left out" && is "$(wc -l <out)" 3
}
pass_if "which the others are still" others_drawn
call "$scripts/plot.sh" known --out=curves.pdf
pass_if "what is no PNG is refused" fails "--out=curves.pdf: it draws PNG alone"
call "$scripts/plot.sh" known --out=nowhere/curves.png
no_folder() { fails "there is no folder nowhere" && is "$(wc -l <err)" 1; }
pass_if "and a folder that is not there" no_folder
call "$scripts/plot.sh" known --y=train/nothing --data
pass_if "a metric that is not there is named, with those that are" fails "train/episode_return"
call "$scripts/plot.sh" nowhere
pass_if "so is a folder without a run" fails "nowhere holds no run"
call "$scripts/plot.sh" run --outt=x
pass_if "and an option that does not exist" fails "--outt=x is no option"

# ---- evaluation
call "$scripts/eval.sh" run --checkpoint=latest --episodes=20
both() {
  is "$code" 0 && grep -q '^evaluation episodes=20 .* policy=greedy$' out &&
    grep -q '^evaluation episodes=20 .* policy=sample$' out && grep -q '^greedy  *20 ' out
}
pass_if "eval.sh plays greedily and sampled" both
greedy=$(grep 'policy=greedy$' out | tr ' ' '\n' | sed -n 's/^return_mean=//p')
file=$(newest_checkpoint run)
call "$scripts/eval.sh" "$file" --episodes=20 --policy=greedy
one_file() {
  is "$code" 0 && grep -q "return_mean=$greedy " out && is "$(grep -c ^evaluation out)" 1
}
pass_if "a checkpoint file is played as well" one_file
# 500 episodes, mean 41.698 and standard deviation 8.3894 known exactly: +- 1.9647 s / sqrt(500).
call "$tree/build/launch" cartpole scripted 2 4 --mode=evaluate --seed=0 --episodes=500 \
  --env_args='{"max_steps": 200}'
ci() { sed -n "s/.* return_ci95_$1=\([0-9.]*\) .*/\1/p" out; }
known_interval() { near "$(ci low)" 40.96011 0.0005 && near "$(ci high)" 42.43589 0.0005; }
pass_if "the interval of a known sample" known_interval
call "$tree/build/launch" cartpole vtrace 1 --checkpoint="$file"
pass_if "a run that trains takes no checkpoint file" fails "is for --mode=evaluate"
mkdir -p empty/checkpoints && cp run/config.txt empty/
call "$scripts/eval.sh" empty
pass_if "a run without a checkpoint is an error" fails "there is no checkpoint in empty/checkpoints"
call "$scripts/eval.sh" nonsense
pass_if "so is what is no run" fails "nonsense is no run folder"
call "$scripts/eval.sh" run run
pass_if "and a second run" fails "run is one word too many: it plays one run"
call "$scripts/eval.sh" out
pass_if "or no checkpoint" fails "there is no ${PWD%/*}/config.txt"
# Episodes that do not end.
run synthetic vtrace 1 4 --total_steps=2000 --batch_size=4 --no_plot --logdir=endless \
  --env_args='{"episode_steps": 1000000000}'
ended
without_return() {
  is "$code" 0 && is "$(value episodes) $(value return_mean)" "0 nan" &&
    is "$(value reason)" total_steps && is "$(json endless/result.json return_mean)" "" &&
    says "no training episode of synthetic has ended in 20" && says "Try a larger --total_steps"
}
pass_if "a run in which no episode ended says why it has no return" without_return
run synthetic vtrace 1 4 --total_steps=1e9 --batch_size=4 --no_plot --logdir=stopped \
  --metrics_secs=0.25 --env_args='{"episode_steps": 1000000000}'
wait_for 20 metric_passes train/updates 1 stopped
kill -TERM "$run"
ended
unblamed() { is "$code" 0 && is "$(value reason)" signal && ! says "no training episode"; }
pass_if "one that was stopped before an episode ended is not blamed for that" unblamed
call timeout 60 "$scripts/eval.sh" endless --episode_steps=500
never_ends() {
  is "$code" 3 && is "$(grep -c '0 of 100 episodes have ended, and for 500 steps of each' err)" 2
}
pass_if "an evaluation of it ends, for both policies, and says so" never_ends
# How a run trained is no matter of its evaluation.
run cartpole vtrace 1 4 --total_steps=5k --deterministic --max_envs=8 --no_plot --logdir=lockstep
ended
call timeout 60 "$scripts/eval.sh" lockstep --episodes=20 --policy=greedy
pass_if "also a deterministic run, and one with few environments" is "$code" 0

# ---- checkpoints
call "$scripts/checkpoint.sh" run
described() {
  is "$code" 0 && grep -q '^params/hidden0/w  *256  float32 (4, 64)$' out &&
    grep -q "^checkpoint  *$file$" out && grep -q '^  learning_rate = 0.0012$' out &&
    grep -q '^steps  *10[0-9]* of the environments' out && grep -q '^seed  *3$' out
}
pass_if "checkpoint.sh shows arrays, counters and hyperparameters" described
python=
for candidate in python3 /usr/bin/python3; do
  "$candidate" -c 'import numpy' 2>/dev/null && python=$candidate && break
done
call "$scripts/export.sh" run --checkpoint=latest --format=safetensors --output=run.safetensors
if [ -n "$python" ]; then
  call "$python" "$tree/tests/integration/numpy_cartpole.py" "$file" run.safetensors 1000 20
  pass_if "numpy loads what the learner saved" is "$(head -n 1 out)" equal
  numpys=$(tail -n 1 out)
  pass_if "and plays like the learner: $numpys, $greedy" near "$numpys" "$greedy" 25
else
  echo "SKIP numpy loads what the learner saved: there is no numpy (scripts/setup.sh compare)"
fi
cp "$file" damaged.acorn
printf '\377' | dd of=damaged.acorn bs=1 seek=2500 conv=notrunc 2>/dev/null
call "$scripts/checkpoint.sh" damaged.acorn
pass_if "a damaged array is named" fails "the data of 'params/hidden1/w'"
head -c 1000 "$file" >cut.acorn
call "$scripts/checkpoint.sh" cut.acorn
pass_if "so is a cut file" fails "cut short"
call "$scripts/checkpoint.sh" run/checkpoints/best.json
pass_if "what is no checkpoint is not called a damaged one" \
  fails "best.json is no checkpoint: it does not begin like one"
call "$scripts/checkpoint.sh" empty
pass_if "and a folder without any" fails "there is no checkpoint in"
call "$scripts/checkpoint.sh" bestt
no_file() { fails "bestt cannot be read: No such file" && ! says "give best"; }
pass_if "and what is not there" no_file
call "$scripts/eval.sh" run --checkpoint=bestt
pass_if "where best and latest are words, they are named" \
  fails "bestt cannot be read: No such file or directory; give best, latest or a file"

# ---- seeds
seeds() { call "$scripts/sweep.py" cartpole vtrace --actors=1 "$@"; }
small=(--envs_per_actor=8 --total_steps=20k)
seeds --seeds=1,2 "${small[@]}"
table() {
  is "$code" 0 && grep -q '^1  *200[0-9]* .* train  total_steps$' out && grep -q '^mean  ' out &&
    grep -q '^95 % high  ' out && [ -s runs/cartpole-vtrace-seeds/seed-2/result.json ]
}
pass_if "sweep.py runs each seed and sums them up" table
cp out first
seeds --seeds=1..2 "${small[@]}"
again() { is "$code" 0 && cmp -s out first && says "seed 1: has finished before"; }
pass_if "a seed that has finished is not run again" again
seeds --seeds=1..2 --envs_per_actor=8 --total_steps=30k
pass_if "other flags are another experiment" fails "holds runs of another experiment"
seeds --seeds=2 --jobs=2 --dir=miss --total_steps=5k --target_return=500
pass_if "a missed target is exit code 3" is "$code" 3
seeds --seeds=1..3 --dir=bad --hidden=x
refused_seeds() { is "$code" 2 && says "--hidden" && [ ! -s out ] && [ ! -e bad ]; }
pass_if "wrong options end it at once and leave no folder" refused_seeds

env --default-signal=INT,HUP "$scripts/sweep.py" cartpole vtrace --seeds=1..2 --actors=1 \
  --dir=stop --total_steps=1e9 >out 2>err </dev/null &
run=$!
wait_for 20 test -s stop/seed-1/metrics.jsonl
kill -TERM $run
ended 10
stopped() {
  is "$code" 130 && is "$(json stop/seed-1/result.json reason)" signal &&
    [ ! -e stop/seed-2 ] && no_process
}
pass_if "a signal stops it in good order" stopped
kept() { [ -s "$(newest_checkpoint stop/seed-1)" ]; }
pass_if "with a checkpoint to go on from" kept
finish
