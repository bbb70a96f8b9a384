#!/usr/bin/env bash
# A run folder that is removed or renamed while its learner lives, and a new run of that name: each
# writes into its own folder, and the earlier one says what happened. FOLDERS (default 2) says how
# often, by rm and by mv in turn.
. "$(dirname "$(readlink -f "$0")")/lib.sh"
words=(--no_plot --logdir=run --checkpoint_secs=0.1 --metrics_secs=0.1)
agents=("vtrace --video_every=0.2")
agents+=("dqn --checkpoint_replay --replay_steps=20k --replay_min_steps=1k --checkpoint_steps=2k")

checkpoints() { find "$1/checkpoints" -name 'checkpoint-*.acorn' 2>/dev/null | sort; }
newest() { basename "$(newest_checkpoint "$1")" .acorn; }
has_another() { checkpoints "$1" | grep -q . && [ "$(newest "$1")" != "$2" ]; }
# passes FOLDER TIMES: so many newer checkpoints are written there.
passes() {
  local time before
  for ((time = 0; time < $2; time++)); do
    before=$(newest "$1")
    wait_for 20 has_another "$1" "$before" || return
  done
}
earlier_says() { grep -qF -- "$1" err.earlier; }
is_removed() { rm -rf run 2>/dev/null && [ ! -e run ]; } # what is written meanwhile is in its way

# own FOLDER SEED PLACE: everything in it is of the run of that seed, which was stopped.
own() {
  local best file
  best=$(json "$1/checkpoints/best.json" file)
  for file in "$1"/logs/* "$1"/checkpoints/*.tmp "$1"/*.new "$1"/*.tmp; do
    case $file in *'*'* | */actor-[01].log | */evaluator-0.log) ;; *) return 1 ;; esac
  done
  is "$(json "$1/result.json" seed)" "$2" && is "$(json "$1/result.json" reason)" signal &&
    is "$(json "$1/result.json" logdir)" "$3" && is "$(json "$1/run.json" starts.1)" "" &&
    is "$(json "$1/run.json" starts.0.exit_code)" 0 &&
    is "$(json "$1/run.json" starts.0.options.seed)" "$2" &&
    is "$(sed -n 's/^seed = //p' "$1/config.txt")" "$2" && [ -s "$1/checkpoints/$best" ] &&
    is "$(find "$1" -maxdepth 1 -name 'events.out.tfevents.*' | wc -l)" 1 &&
    [ "$(metric step "$1")" -le "$(json "$1/result.json" steps)" ]
}
# continues FOLDER AGENT: from the step at which the result says that it ended.
continues() {
  local steps
  steps=$(json "$1/result.json" steps)
  "$tree/build/launch" cartpole "$2" 2 4 "${words[@]}" --logdir="$1" --resume \
    --total_steps=$((steps + 2000)) >out.resumed 2>err.resumed
  [ $? -eq 0 ] && grep -q "resuming from the checkpoint of update [0-9]*, step $steps," err.resumed
}
stop() {
  kill -TERM "$1"
  run=$1
  ended
}

wrong() {
  echo "  $*"
  return 1
}

# one WAY WORDS: the words are the agent and its options. False where something is not as it should
# be, which is said.
one() {
  local way=$1 earlier now
  local -a agent
  read -ra agent <<<"$2"
  rm -rf run moved
  run cartpole "${agent[@]:0:1}" 2 4 "${agent[@]:1}" "${words[@]}" --total_steps=1e9 --seed=1
  earlier=$run
  passes run 2 || wrong "the first run writes no checkpoints" || return
  mv out out.earlier && mv err err.earlier
  if [ "$way" = mv ]; then mv run moved; else wait_for 20 is_removed; fi
  run cartpole "${agent[@]:0:1}" 2 4 "${agent[@]:1}" "${words[@]}" --total_steps=1e9 --seed=2
  now=$run
  passes run 4 || wrong "the new run writes no checkpoints" || return
  if [ "$way" = mv ]; then
    goes_on "$earlier" "${agent[0]}" || return
  else
    run=$earlier
    ended
    is "$code" 1 || wrong "the earlier run ended with $code" || return
    earlier_says "was removed while this learner was at work there" ||
      wrong "the earlier run does not say why it ended" || return
  fi
  passes run 2 || wrong "the new run has stopped writing" || return
  stop "$now"
  is "$code" 0 || wrong "the new run ended with $code" || return
  own run 2 "$work/run" || wrong "run/ is not the new run's alone" || return
  continues run "${agent[0]}" || wrong "run/ is not continued from its own end" || return
  ! grep -qF /proc/ err err.earlier || wrong "a path is named that means nothing to people"
}

# goes_on ID AGENT: the earlier run, in moved/, until it is stopped.
goes_on() {
  wait_for 20 earlier_says "moved or renamed: the run goes on in $work/moved" ||
    wrong "the earlier run does not say where it is" || return
  passes moved 2 || wrong "the earlier run does not go on" || return
  stop "$1"
  is "$code" 0 || wrong "the earlier run ended with $code" || return
  grep -q " logdir=$work/moved$" out.earlier || wrong "its result names another folder" || return
  own moved 1 "$work/moved" || wrong "moved/ is not the first run's alone" || return
  continues moved "$2" || wrong "moved/ is not continued from its end"
}

folders=${FOLDERS:-2} bad=(0 0) ways=(rm mv)
for ((i = 0; i < 2 * folders; i++)); do
  one "${ways[i % 2]}" "${agents[i / 2 % 2]}" && continue
  echo "  round $i, by ${ways[i % 2]}"
  show_run
  tail -n 15 err.earlier | sed 's/^/    earlier: /'
  bad[i % 2]=$((bad[i % 2] + 1))
  end_all
done
pass_if "$folders folders removed under a run: a new run of that name is alone in its own" \
  is "${bad[0]}" 0
pass_if "$folders folders renamed under a run: both runs go on, each in its own" is "${bad[1]}" 0
finish
