#!/usr/bin/env bash
# Runs that are continued: after their end, after Ctrl-C, after a crash before and after the first
# checkpoint, twice in a row, from a damaged checkpoint; what they keep.
. "$(dirname "$(readlink -f "$0")")/lib.sh"
start=$tree/run_local.sh

steps_of() { sed -n 's/^{"step":\([0-9]*\),.*/\1/p' "$1"; }
seconds_of() { sed -n 's/^{"step":[0-9]*,"seconds":\([0-9.]*\),.*/\1/p' "$1"; }
never_back() { sort -c -g "$1"; }

# Whole lines only, whose steps and seconds never go back; rows of episodes, likewise.
metrics_continue() {
  cut -d , -f 2 run/episodes.csv | tail -n +2 >ends
  never_back ends || return
  cp run/metrics.jsonl now
  steps_of now >steps
  seconds_of now >seconds
  is "$(wc -l <steps)" "$(wc -l <now)" && never_back steps && never_back seconds
}
checkpoints() { find run/checkpoints -name 'checkpoint-*.acorn' 2>/dev/null | sort; }
has_checkpoints() { [ "$(checkpoints | wc -l)" -ge "$1" ]; }
number_of() { echo $((10#$(basename "$1" .acorn | cut -d- -f2))); }

# play WORDS...: the run with its one actor.
play() {
  learner --env=cartpole --num_envs=4 --logdir=run --metrics_secs=0.25 --checkpoint_secs=0.3 "$@"
  actor 0 --env=cartpole --envs=4 --streams=1
}
crash() {
  killed "$run"
  end_by_hand
}

# ---- before the first checkpoint

play --total_steps=1e9 --checkpoint_secs=0
wait_for 20 metric_passes step 1000
crash
play --total_steps=1e9 --resume
pass_if "a run that crashed before its first checkpoint starts anew and says so" \
  wait_for 10 says "the run starts anew"
pass_if "it plays" wait_for 20 has_checkpoints 2
pass_if "its metrics have no steps that were lost" metrics_continue
lost_is_kept() { [ -s run/metrics.lost.jsonl ] && says "metrics.lost.jsonl"; }
pass_if "which are kept beside them" lost_is_kept

# ---- twice in a row, killed each time, once before it has written a checkpoint

for round in 1 2 3; do
  crash
  seconds=2
  if [ $round -eq 2 ]; then seconds=0; fi
  newest=$(checkpoints | tail -n 1)
  play --total_steps=1e9 --resume --checkpoint_secs=$seconds
  # The second is said once the lines of lost steps are out of metrics.jsonl.
  resumed() {
    says "resuming from the checkpoint of update $(number_of "$newest")," && says "run folder"
  }
  pass_if "kill $round: the newest checkpoint is resumed from" wait_for 10 resumed
  at=$(sed -n 's/.*resuming from the checkpoint of update [0-9]*, step \([0-9]*\).*/\1/p' err)
  pass_if "kill $round: steps go on from there" wait_for 20 metric_passes step $((at + 2000))
  pass_if "kill $round: metrics continue" metrics_continue
done

# ---- after Ctrl-C

kill -INT "$run"
ended 10
last=$(value steps) episodes=$(value episodes)
end_by_hand
play --total_steps=$((last + 20000)) --resume
ended
after_stop() {
  says "step $last, in run" && is "$code" 0 && is "$(value reason)" total_steps &&
    [ "$(value steps)" -ge $((last + 20000)) ] && [ "$(value episodes)" -gt "$episodes" ]
}
pass_if "after Ctrl-C not one step is lost" after_stop
# Its seconds are this learner's own: steps per second are those that it has made in them.
own_seconds() {
  awk -v steps="$(value steps)" -v before="$last" -v seconds="$(value seconds)" \
    -v sps="$(value sps)" 'BEGIN {
      made = steps - before # in seconds that are rounded
      exit !((sps + 0.5) * (seconds + 0.006) > made - 1 &&
        (sps - 0.5) * (seconds - 0.006) < made + 1)}'
}
pass_if "the result line counts the resumed part's seconds, and all steps" own_seconds
pass_if "metrics continue" metrics_continue

# ---- after its end: at once, without actors

end_by_hand
ended_with=$(grep -o 'episodes=.* over=[a-z]*' out)
total=$(value steps) lines=$(wc -l <run/metrics.jsonl)
learner --env=cartpole --num_envs=4 --logdir=run --total_steps=$((last + 20000)) --resume
ended 3
finished() {
  is "$code" 0 && says "this run is finished" && is "$(value steps)" "$total" &&
    is "$(value reason)" total_steps
}
pass_if "a finished run ends at once, with exit code 0" finished
pass_if "and prints the return that it ended with" \
  is "$(grep -o 'episodes=.* over=[a-z]*' out)" "$ended_with"
pass_if "and adds nothing to its metrics" is "$(wc -l <run/metrics.jsonl)" "$lines"
run cartpole vtrace 1 4 --logdir=run --total_steps=$((last + 20000)) --resume
ended 20
pass_if "so does ./run_local.sh" finished
cp -r run copied
figures() { sed '/"logdir"\|"exit_code"\|"ended"/d' "$1/result.json"; }
for target in -1e6 1e6; do
  run cartpole vtrace 1 4 --logdir=copied --total_steps=$((last + 20000)) --resume \
    --target_return=$target
  ended 20
  with_target() {
    is "$code $(json copied/result.json exit_code)" "$1 $1" &&
      is "$(json copied/result.json logdir)" "$PWD/copied" &&
      is "$(figures copied)" "$(figures run)"
  }
  pass_if "as a copy, with a target of $target" with_target $((${target%e*} > 0 ? 3 : 0))
done
rm -rf copied

# ---- with another network: the option is named before anything that follows from it

contents() { find run -type f ! -name lock -exec sha256sum {} + | sort; }
contents >before
# other OPTION=VALUE ITS_VALUE WORDS...: refused, with both values.
other() {
  refused cartpole vtrace 1 4 --logdir=run --total_steps=1e9 "--$1" "${@:3}"
  is "$code" 2 && says "--$1: the run in run has --${1%%=*}=$2, and its checkpoints fit nothing" &&
    contents | cmp -s before - && [ ! -s out ]
}
pass_if "--resume with another --network names it and both values" other network=lstm mlp --resume
pass_if "with other sizes it names those" other hidden=32,32 64,64 --resume
# The layer that is left fits its part of the checkpoint.
pass_if "with a layer less, too" other hidden=64 64,64 --resume
pass_if "so does an evaluation" other network=lstm mlp --mode=evaluate

# ---- checkpoints that are damaged

play --total_steps=1e9 --resume --checkpoint_secs=0.2
wait_for 20 has_checkpoints 3
crash
mapfile -t files < <(checkpoints)
newest=${files[-1]} second=${files[-2]} third=${files[-3]}
truncate -s $(($(stat -c %s "$newest") / 2)) "$newest"
# One bit of the other.
byte=$(od -An -tu1 -j5000 -N1 "$second")
printf "%b" "\\x$(printf %x $((byte ^ 16)))" |
  dd of="$second" bs=1 seek=5000 conv=notrunc status=none
play --total_steps=1e9 --resume
one_before() {
  says "resuming from the checkpoint of update $(number_of "$third")," &&
    says "$newest is damaged" && says "$second is damaged"
}
pass_if "half a checkpoint and one with a wrong bit: both named, the one before them is used" \
  wait_for 10 one_before
pass_if "the run goes on from it" wait_for 20 metric_passes train/updates "$(number_of "$third")"
pass_if "metrics continue" metrics_continue
# Three are kept, and there were three: these two are none of them any more.
aside() { [ -s "$newest.aside-1" ] && [ -s "$second.aside-1" ] && has_checkpoints 3; }
pass_if "the damaged ones are set aside, and do not count towards those that are kept" \
  wait_for 20 aside
pass_if "which is logged" says "it does not count, and is not removed"
crash

# ---- checkpoints by other names, and what is no file

mapfile -t files < <(checkpoints)
newest=$(number_of "${files[-1]}")
mv "${files[0]}" run/checkpoints/checkpoint-000999999999.acorn
mkfifo run/checkpoints/checkpoint-000999999998.acorn
ln -s /dev/zero run/checkpoints/checkpoint-000999999997.acorn
ln -s checkpoint-000999999996.acorn run/checkpoints/checkpoint-000999999996.acorn
mkdir run/checkpoints/checkpoint-000999999995.acorn
shown() {
  timeout 10 "$tree/build/checkpoint" run >out 2>err &&
    grep -q "^version  *$newest (updates)" out && grep -q "^checkpoint .*${files[-1]}" out
}
pass_if "the content of a checkpoint says which is the newest, not its name" shown
no_regular_file() { says "checkpoint-00099999999$1.acorn is damaged: it is no regular file"; }
pass_if "a FIFO, a device and a folder are named and not waited for" \
  eval 'no_regular_file 8 && no_regular_file 7 && no_regular_file 5'
pass_if "so is a link in a circle" says "Too many levels of symbolic links"
learner --mode=evaluate --checkpoint=latest --num_envs=4 --episodes=4 --logdir=run
actor 0 --env=cartpole --envs=4 --streams=1 --role=eval
ended 20
evaluates() { is "$code" 0 && says "playing the checkpoint of update $newest,"; }
pass_if "an evaluation of the latest plays the same one" evaluates
end_by_hand
play --total_steps=1e9 --resume
goes_on() { says "resuming from the checkpoint of update $newest,"; }
pass_if "and a resumed run goes on from it" wait_for 10 goes_on
replaced() { [ ! -e run/checkpoints/checkpoint-000999999999.acorn ] && has_checkpoints 3; }
pass_if "the one of the wrong name is the first to be removed" wait_for 20 replaced
crash

# None is whole.
find run/checkpoints -type f -name 'checkpoint-*.acorn' -exec truncate -s 100 {} +
contents >before
learner --env=cartpole --num_envs=4 --logdir=run --resume
ended 10
contents >after
none_whole() { is "$code" 2 && says "is whole" && [ ! -s out ]; }
pass_if "none is whole: an error that says so" none_whole
pass_if "and nothing in the folder has changed" cmp -s before after

# ---- files of the run that are none

rm -rf run
play --total_steps=4000
ended
end_by_hand
# refuses SENTENCE PROGRAM WORDS...: it ends by itself, with an error that has the sentence.
refuses() {
  local sentence=$1
  shift
  timeout $((20 * patience)) "$@" >out 2>err </dev/null
  code=$?
  is "$code" 2 && says "$sentence"
}
launch=("$tree/build/launch" cartpole vtrace 1 --no_plot --logdir=run)
cp run/config.txt config.kept
sentence="run/config.txt': it is no regular file"
for make in "mkfifo run/config.txt" "ln -s /dev/zero run/config.txt"; do
  rm run/config.txt
  $make
  pass_if "config.txt by ${make%% *}: no learner resumes from it" refuses "$sentence" \
    "$tree/build/learner" --env=cartpole --logdir=run --resume
  pass_if "nor does the launcher" refuses "$sentence" "${launch[@]}" --resume
  pass_if "nor is it evaluated" refuses "$sentence" "${launch[@]}" --mode=evaluate
  pass_if "nor watched" refuses "$sentence" "$tree/build/watch" run
  pass_if "nor drawn" refuses "$sentence" "$tree/build/curves" run
  timeout $((20 * patience)) "$tree/build/checkpoint" run >out 2>err
  code=$?
  shown_without() { is "$code" 0 && grep -q '^params/head/b' out && says "$sentence"; }
  pass_if "a checkpoint is shown without it" shown_without
done
rm run/config.txt
cp config.kept run/config.txt
mv run/metrics.jsonl metrics.kept
for make in "mkfifo run/metrics.jsonl" "ln -s /dev/zero run/metrics.jsonl"; do
  $make
  pass_if "metrics.jsonl by ${make%% *}: no curve is drawn of it" refuses \
    "run/metrics.jsonl cannot be read: it is no regular file" "$tree/build/curves" run
  rm run/metrics.jsonl
done
mv metrics.kept run/metrics.jsonl

# All others at once; a run that is resumed replaces what it writes.
others=(run.json result.json environment.txt space.json address checkpoints/best.json config.txt.new
  run.json.new)
for file in "${others[@]}"; do
  rm -f "run/$file"
  mkfifo "run/$file"
done
play --total_steps=8000 --resume
ended
pass_if "FIFOs by other names are not waited for" is "$code" 0
regular() {
  local file
  for file in "${others[@]}"; do [ ! -e "run/$file" ] || [ -f "run/$file" ] || return; done
}
pass_if "and are replaced" regular
end_by_hand

# The launcher's own files.
rm -rf run/logs
mkdir run/logs
mkfifo run/logs/actor-0.log
timeout $((20 * patience)) "${launch[@]}" --resume --total_steps=12000 >out 2>err </dev/null
code=$?
others=(logs/actor-0.log)
pass_if "nor is an actor's log, by the launcher" is "$code" 0
pass_if "which replaces it" regular
finish
