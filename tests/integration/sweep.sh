#!/usr/bin/env bash
# scripts/sweep.py: grids and random trials, their table, sweep.csv and plot; what it refuses before
# anything runs; runs that fail; stopped and started again. Seeds alone are in after.sh.
. "$(dirname "$(readlink -f "$0")")/lib.sh"
scripts=$tree/scripts
short=(--actors=1 --envs_per_actor=8 --total_steps=5k)

# call COMMAND...: its output in out and err, its exit code in $code.
call() {
  code=0
  "$@" >out 2>err </dev/null || code=$?
}
sweep() { call "$scripts/sweep.py" cartpole vtrace "$@"; }

# ---- what it refuses
refuses() {
  sweep "${@:2}" --dir=refused
  is "$code" 2 && says "$1" && [ ! -s out ] && [ ! -e refused ]
}
pass_if "nothing to try is refused" refuses "no option has several values" --learning_rate=1e-3
pass_if "so is a range without trials" \
  refuses "--learning_rate=1e-4..1e-2: a range needs --trials=N" --learning_rate=1e-4..1e-2
pass_if "a range from 0" refuses "a number above 0" --learning_rate=0..1 --trials=2
pass_if "an empty value" refuses "nothing before or after a comma" --learning_rate=1e-3,
pass_if "no value" refuses "--learning_rate=: there is no value" --learning_rate=
pass_if "no name" refuses "--=1,2: there is no name" --=1,2
pass_if "a seed of one's own" refuses "--seed=3 cannot be given" --learning_rate=1e-3,1e-4 --seed=3
pass_if "the last value, before the first one runs" \
  refuses "--entropy_cost: 'x' is not a number" --learning_rate=1e-3,1e-4 --entropy_cost=0.1,x
pass_if "the end of a range" refuses "--learning_rate: '1e3' is out of range" \
  --learning_rate=1e-3..1e3 --trials=2
pass_if "what only the learner sees" refuses "--max_envs=1 is less" \
  --learning_rate=1e-3,1e-4 --max_envs=1
pass_if "classes of --wrapper, which are one value" \
  refuses "no option has several values" --wrapper=pole:Twice,pole:Thrice
pass_if "words" refuses "1..5 is one word too many after ENV AGENT" 1..5 --learning_rate=1e-3,1e-4

# ---- every combination
grid=(--learning_rate=1e-3,1e-12 --hidden=8,8 --hidden=16 --seeds=2 --dir=grid "${short[@]}")
sweep "${grid[@]}"
cp out first
table() {
  is "$code" 0 && grep -qE '^learning_rate  hidden  seeds  return +95 % low +95 % high' out &&
    grep -qE '^1e-12 +8,8 +2 +[0-9.]+ +-?[0-9.]+ +[0-9.]+ +500[0-9] +[0-9.]+ +-$' out &&
    is "$(grep -cE '^1e-(3|12) ' out)" 4
}
pass_if "every combination is a row" table
sorted() { awk '/^1e-/ {if (rows++ && $4 > last) exit 1; last = $4} END {exit rows != 4}' out; }
pass_if "the best first" sorted
folders() { is "$(cd grid && echo */seed-[12]/result.json | wc -w)" 8; }
pass_if "each run has its folder" folders
rows() {
  is "$(wc -l <grid/sweep.csv)" 9 &&
    grep -qE '^"learning_rate=1e-3,hidden=8,8",1e-3,"8,8",2,[0-9.]+,[0-9.]+,500' grid/sweep.csv
}
pass_if "and its row in sweep.csv" rows
! command -v gnuplot >/dev/null || pass_if "a plot" [ -s grid/learning_curve.png ]
best=$(sed -n 's/^the best again: //p' out)
trains_again() {
  local row=($(sed -n 2p first))
  [[ "$best" = *" --learning_rate=${row[0]} --hidden=${row[1]} --seed=1" ]] &&
    call bash -c "$best --logdir=again" && is "$(value env)" cartpole && is "$code" 0
}
pass_if "the command that trains the best does" trains_again
sweep "${grid[@]}"
again() { is "$code" 0 && cmp -s out first && says "seed-1: has finished before"; }
pass_if "what has finished is not run again" again
rm grid/learning_rate=1e-3,hidden=16/seed-2/result.json
sweep "${grid[@]}" --learning_rate=1e-5
more() {
  is "$code" 0 && is "$(grep -c ': runs$' err)" 5 && is "$(grep -cE '^1e-' out)" 6
}
pass_if "more values add to it" more
sweep "${grid[@]}" --discount=0.9
pass_if "another experiment is refused" says "grid holds runs of another experiment"

# Killed while its run goes on, which holds the folder until it has ended.
"$scripts/sweep.py" cartpole vtrace --seeds=1 --actors=1 --dir=outlived --total_steps=400k \
  >out 2>err </dev/null &
run=$!
wait_for 20 test -s outlived/seed-1/metrics.jsonl
killed $run
outlived() {
  wait_for 30 test -s outlived/seed-1/result.json && wait_for 20 flock -n outlived true &&
    call "$scripts/sweep.py" cartpole vtrace --seeds=1 --actors=1 --dir=outlived \
      --total_steps=400k && is "$code" 0 && says "seed 1: has finished before"
}
pass_if "the end of a run that outlived its sweep is its result" outlived

# ---- random trials
trials=(--learning_rate=1e-4..1e-2 --unroll_length=5..40 --network=mlp,lstm --dir=trials)
sweep "${trials[@]}" --trials=2 "${short[@]}" --jobs=2
drawn() {
  is "$code" 0 && python3 - <<'END_PYTHON'
import csv
rows = list(csv.DictReader(open("trials/sweep.csv")))
assert len(rows) == 2, rows
for row in rows:
    assert 1e-4 <= float(row["learning_rate"]) <= 1e-2, row
    assert 5 <= int(row["unroll_length"]) <= 40, row
    assert row["network"] in ("mlp", "lstm") and row["reason"] == "total_steps", row
END_PYTHON
}
pass_if "trials are drawn from ranges and lists" drawn
ls -d trials/*/ >two
sweep "${trials[@]}" --trials=3 "${short[@]}"
added() {
  is "$code" 0 && is "$(grep -c 'has finished before' err)" 2 &&
    is "$(ls -d trials/*/ | grep -cxFf two)" 2 && is "$(ls -d trials/*/ | wc -l)" 3
}
pass_if "the same ones again, and one more" added

# ---- what ends otherwise
sweep --learning_rate=1e-3,1e-4 --target_return=500 --dir=miss "${short[@]}"
pass_if "a missed target is exit code 3" is "$code" 3
sweep --learning_rate=0,0.002 --target_return=30 --actors=1 --envs_per_actor=8 --total_steps=40k \
  --dir=reached
reached() { is "$code" 3 && is "$(sed -n 2p out | cut -d' ' -f1)" 0.002; }
pass_if "the one that reaches the target is the best" reached

# ended_so FOLDER REASON CODE STEPS RETURN: what that run would have left.
ended_so() {
  mkdir -p "$1"
  echo "result env=cartpole steps=$4 seconds=1.00 return_mean=$5 over=train reason=$2" \
    >"$1/stdout.txt"
  echo "  \"exit_code\": $3," >"$1/result.json"
}
for seed in 1 2; do
  ended_so ranked/learning_rate=1e-3/seed-$seed target_return 0 900 30
  ended_so ranked/learning_rate=1e-4/seed-$seed target_return 0 500 25
done
ended_so ranked/learning_rate=1e-5/seed-1 target_return 0 100 200
ended_so ranked/learning_rate=1e-5/seed-2 total_steps 3 1000 20
ranked() {
  sweep --learning_rate=1e-5,1e-3,1e-4 --seeds=2 --dir=ranked "$@"
  awk '/^1e-/ {print $1}' out | xargs
}
pass_if "with a target: by the seeds that reached it, then by steps" \
  is "$(ranked --target_return=25)" "1e-4 1e-3 1e-5"
sed -i 's/target_return/total_steps/' ranked/*/*/stdout.txt
pass_if "without: by the mean return" is "$(ranked)" "1e-5 1e-3 1e-4"
pass_if "also with a target that none reached" \
  is "$(ranked --target_return=300)" "1e-5 1e-3 1e-4"

# An environment that ends its actor, if asked for.
sed 's/^  if (seed) env->random = .*/&\n  if (env->holes > 0.4) abort();/' \
  "$tree/docs/examples/meadow.c" >meadow.c
mkdir include && ln -s "$tree/envs" include/acorn
cc -std=c11 -O2 -shared -fPIC -Iinclude meadow.c -o meadow.so || exit 1
holes=(--env_args='{"holes": 0.5}' --env_args='{"holes": 0.1}')
call "$scripts/sweep.py" ./meadow.so vtrace "${holes[@]}" --seeds=4..5 --max_deaths=1 \
  --total_steps=2k --actors=1 --dir=fails
failed() {
  is "$code" 1 && sed -n 2p out | grep -q '0[.]1} .* -$' &&
    sed -n 3p out | grep -q '0[.]5} *0 .* seed-4 seed-5$' &&
    is "$(grep -c ',4,,,,,,,,failed,' fails/sweep.csv)" 1
}
pass_if "runs that fail are named, after all others" failed

env --default-signal=INT,HUP "$scripts/sweep.py" cartpole vtrace --learning_rate=1e-3,1e-4 \
  --actors=1 --jobs=1 --dir=stop --total_steps=1e9 >out 2>err </dev/null &
run=$!
wait_for 20 test -s stop/learning_rate=1e-3/seed-1/metrics.jsonl
call "$scripts/sweep.py" cartpole vtrace --learning_rate=1e-3,1e-4 --actors=1 --dir=stop \
  --total_steps=1e9
second() { is "$code" 2 && says "stop is in use by another sweep.py"; }
pass_if "a second sweep in its folder is refused" second
kill -INT $run
ended 10
stopped() {
  is "$code" 130 && [ ! -e stop/learning_rate=1e-4 ] && no_process &&
    compgen -G "stop/learning_rate=1e-3/seed-1/checkpoints/*.acorn" >kept
}
pass_if "Ctrl-C stops it in good order, with a checkpoint to go on from" stopped
finish
