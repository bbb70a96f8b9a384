#!/usr/bin/env bash
# A user's locale with a decimal comma changes no figure: neither of the scripts (awk, printf and
# sort read numbers by the locale) nor of a program whose environment calls setlocale.
. "$(dirname "$(readlink -f "$0")")/lib.sh"
scripts=$tree/scripts

# A locale of this test's own: few machines have one with a decimal comma.
export LOCPATH=$work/locales
mkdir "$LOCPATH"
if ! localedef -i de_DE -f UTF-8 "$LOCPATH/de_DE.UTF-8" >err 2>&1; then
  echo "SKIP figures under a locale with a decimal comma: localedef cannot make one" \
    "($(tail -n 1 err)); Debian's package locales has it"
  finish
fi
german() { LC_ALL=de_DE.UTF-8 "$@"; }
pass_if "the locale has a decimal comma" is "$(german /usr/bin/printf %.1f 0,5)" 0,5

# same COMMAND...: it prints the same under both locales, and something.
same() {
  "$@" >expected 2>err </dev/null && [ -s expected ] &&
    german "$@" >out 2>err </dev/null && cmp expected out
}

# ---- scripts
run catch vtrace 1 4 --total_steps=100k --logdir="$work/run" --seed=1
ended
pass_if "eval.sh" same "$scripts/eval.sh" run --episodes=8
pass_if "plot.sh --data" same "$scripts/plot.sh" run --data
pass_if "info.sh" same "$scripts/info.sh"
seeds=("$scripts/sweep.py" catch vtrace --seeds=1,2 --actors=1 --dir=seeds --total_steps=4k)
german "${seeds[@]}" >out 2>err </dev/null
pass_if "sweep.py" same "${seeds[@]}" # all have finished: only its table

# ---- what judges figures
in_bench() { bash -c ". '$tree/tests/bench/lib.sh'; $*"; }
in_learning() { bash -c ". '$tree/tests/learning/lib.sh'; $*"; }
export -f in_bench in_learning
export tree
pass_if "a benchmark's row" same in_bench 'row rate 0.55 ">= 0.9"; [ $? -eq 1 ]'
pass_if "a benchmark's median" same in_bench 'printf "1.5\n0.25\n1.75\n0.5\n" | median'
pass_if "a learning test's check" same in_learning 'check return 0.55 ">=" 0.9; [ $failed -eq 1 ]'
pass_if "an integration test's metric_passes" same bash -c \
  ". '$tree/tests/integration/lib.sh'; mkdir run && echo '{\"x\":0.55}' >run/metrics.jsonl
   metric_passes x 0.5 && ! metric_passes x 0.6 && whole_metric x"

# ---- an environment that sets the locale of the process that it plays in
cp "$tree/docs/examples/meadow.c" .
sed 's/  space->num_tensors = 2;/  if (!setlocale(LC_ALL, "de_DE.UTF-8")) return -1;\n&/
  1i #include <locale.h>' meadow.c >german.c
mkdir include && ln -s "$tree/envs" include/acorn
for name in meadow german; do
  cc -std=c11 -O2 -shared -fPIC -Iinclude $name.c -o $name.so || exit 1
done
run ./german.so vtrace 1 4 --env_args='{"holes": 0.25}' --total_steps=4k --logdir=german
ended 30
joins() { is "$code" 0 && grep -qxF "meadow(holes=0.25)" german/environment.txt; }
pass_if "an environment that sets the locale has the learner's options" joins
pass_if "its actor's log has a decimal point" grep -qE '^[0-9]+[.][0-9]{3} ' german/logs/actor-0.log
"$tree/build/actor" --env=./german.so --check_env >out 2>err
checks() { grep -q 'holes = 0[.]12 ' out && grep -qE 'mean return -?[0-9]+[.][0-9]{3} ' out; }
pass_if "and so has --check_env" checks
learner --env=./german.so --num_envs=4 --total_steps=4k --logdir=measured
actor 0 --env=./german.so --envs=4 --measure
wait "$actor"
pass_if "and --measure" grep -qE '^actor .* step_us=[0-9]+[.]' actor-0.log
"$tree/build/watch" german --env=./german.so --max_steps=20 --seed=1 >german.ppm 2>err
"$tree/build/watch" german --env=./meadow.so --max_steps=20 --seed=1 >meadow.ppm 2>/dev/null
pass_if "and the pictures of watch.sh" cmp german.ppm meadow.ppm
finish
