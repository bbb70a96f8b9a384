#!/usr/bin/env bash
# Several learners of one run: they train one network, stop and resume together, and end with a
# checkpoint when one of them is killed.
. "$(dirname "$(readlink -f "$0")")/lib.sh"

# cartpole WORDS...: a run of four actors.
cartpole() { run cartpole vtrace 4 4 --logdir=run --metrics_secs=0.25 "$@"; }
# of_rank R: the process of learner 0 or 1, of this test's runs; the first one starts the other.
of_rank() {
  local pid
  for pid in $(pids learner); do
    tr '\0' '\n' <"/proc/$pid/cmdline" | grep -qx -- --learner_rank=1 || continue
    if [ "$1" = 1 ]; then echo "$pid"; else sed -n 's/^PPid:[[:blank:]]*//p' "/proc/$pid/status"; fi
  done
}
log_of_1() { grep -qF -- "$1" run/logs/learner-1.log; }

# ---- a whole run

cartpole --learners=2 --target_return=475 --total_steps=6M --seed=3
ended 120
pass_if "two learners solve CartPole" is "$code $(value reason)" "0 target_return"
pass_if "the other one ends with it" grep -q "reason=target_return" run/logs/learner-1.log
pass_if "it leaves no checkpoint of its own" is "$(ls run/learner-1/checkpoints)" ""
episodes_of() { grep -c ",train," "$1/episodes.csv"; }
both_play() { [ "$(episodes_of run)" -gt 50 ] && [ "$(episodes_of run/learner-1)" -gt 50 ]; }
pass_if "both have episodes of their own" both_play
pass_if "no process is left" no_process
rm -rf run

cartpole --learners=2 --total_steps=200k
ended
within() { [ "$(value steps)" -ge 200000 ] && [ "$(value steps)" -lt 210000 ]; }
pass_if "the budget counts the steps of all learners" within
rm -rf run

# ---- the same bits

for round in 1 2; do
  run cartpole ppo 4 4 --logdir="same-$round" --deterministic --learners=2 --total_steps=60k \
    --normalize_observations --normalize_values --learning_rate_decay=linear
  ended
done
pass_if "with --deterministic two runs are the same, bit for bit" same_bits same-1 same-2

# ---- stopped and resumed

cartpole --learners=2 --total_steps=1e9
pass_if "a long run trains" wait_for 30 two_train 20000
kill -INT "$run"
ended
first=$(updates_of)
pass_if "Ctrl-C stops all learners, with a checkpoint" is "$code $(value reason)" "130 signal"
pass_if "no process is left of it" no_process
run cartpole vtrace 3 4 --logdir=run --metrics_secs=0.25 --learners=3 --resume --total_steps=1e9 \
  --batch_size=30
goes_on() { says "resuming from the checkpoint of update $((10#$first))," && two_train 20000; }
pass_if "it resumes with another number of learners" wait_for 30 goes_on
kill -TERM "$run"
ended
pass_if "SIGTERM stops it" is "$code" 0
rm -rf run

# ---- one is killed at any moment

kept_episodes() { "$tree/build/checkpoint" run | sed -n 's/^episodes *//p'; }
longest=0 had=0
now_ms() { echo $((${EPOCHREALTIME/[.,]/} / 1000)); }
rounds=${ROUNDS:-6}
for round in $(seq "$rounds"); do
  killed=$((round % 2))
  resume=--resume
  [ "$round" -gt 1 ] || resume=--no_resume
  cartpole --learners=2 --total_steps=1e9 --checkpoint_secs=0 "$resume"
  pass_if "round $round: it trains" wait_for 30 two_train $((round * 1000 + 5000))
  resumed() { [ "$round" -eq 1 ] || says "resuming from the checkpoint of update $left,"; }
  pass_if "round $round: what was left is resumed" resumed
  before=$(updates_of)
  sleep "0.0$((round * 7 % 10))"
  killed_ms=$(now_ms)
  kill -KILL "$(of_rank $killed)"
  pass_if "round $round: without learner $killed the others end" wait_for 30 none_left
  took=$(($(now_ms) - killed_ms))
  [ $took -le $longest ] || longest=$took
  ended
  later() { [ "$(updates_of)" != "$before" ]; }
  pass_if "round $round: with a checkpoint" wait_for 2 later
  left=$((10#$(updates_of)))
  pass_if "round $round: which has the episodes of all" [ "$(kept_episodes)" -gt "$had" ]
  had=$(kept_episodes)
  if [ $killed = 1 ]; then
    pass_if "round $round: the run fails, and names it" is "$code $(json run/result.json reason)" \
      "1 error"
    pass_if "round $round: the log does, too" says "learner 1 of 2 has ended"
    pass_if "round $round: and where the log of that one is" says "run/logs/learner-1.log"
  else
    pass_if "round $round: learner 1 names it" log_of_1 "learner 0 of 2 has ended"
  fi
done
echo "after $rounds kills the others ended within $longest ms"
pass_if "each time within 10 s" [ "$longest" -le 10000 ]
cartpole --learners=2 --resume --total_steps=1e9
pass_if "what they left is resumed" wait_for 30 says "resuming from the checkpoint of update"
pass_if "and trains" wait_for 30 two_train 5000

# ---- the best one

# 0.5 that evaluators had: whoever ends the run without them leaves it.
sed -i 's/"score":[^,}]*/"score":0.5/; s/"over":[^,}]*/"over":"eval"/' run/checkpoints/best.json
best=$(ls run/checkpoints/best-*)
kill -KILL "$(of_rank 0)"
wait_for 30 none_left
ended
pass_if "the one that takes over leaves the best checkpoint" \
  is "$(ls run/checkpoints/best-*) $(json run/checkpoints/best.json score)" "$best 0.5"

# ---- a run that is finished

run cartpole vtrace 4 4 --logdir=finished --learners=2 --total_steps=4000
ended
steps=$(value steps)
of_both() { for rank in "" /learner-1; do json finished$rank/result.json return_mean; done; }
figures=$(of_both)
for round in 1 2; do
  run cartpole vtrace 4 4 --logdir=finished --learners=2 --total_steps=4000 --resume
  ended
  pass_if "once more, round $round: both keep their figures" is "$(of_both)" "$figures"
  pass_if "once more, round $round: it ends at once, as it was" \
    is "$code $(value steps) $(json finished/result.json steps)" "0 $steps $steps"
done

# ---- a second job in the same folder

cartpole --learners=2 --resume --total_steps=1e9
pass_if "it goes on" wait_for 30 two_train 5000

other=$run
timeout 60 "$tree/build/launch" cartpole vtrace 2 --logdir=run --learners=2 --resume >out2 2>err2
is "$?" 2 || failures=$((failures + 1))
pass_if "a run folder in use is refused" grep -q "is in use by another learner" err2
run=$other
kill -TERM "$run"
ended

# ---- one has no actors

learner --env=cartpole --num_envs=4 --learners=2 --logdir=starved --metrics_secs=0.25 \
  --total_steps=100k
actor 0 --env=cartpole --envs=4 --streams=1
ended
pass_if "a learner without actors does not hold up the other" is "$code $(value reason)" \
  "0 total_steps"
trained() { [ $((10#$(updates_of starved))) -gt 100 ]; }
pass_if "which trains" trained
end_by_hand

# ---- started by something else

by_hand() {
  local rank=$1
  shift
  "$tree/build/learner" --env=cartpole --num_envs=4 --learners=2 --learner_rank="$rank" \
    --learners_file="$work/shared" --listen="unix:$work/rank-$rank" --logdir="hand-$rank" "$@" \
    >"out-$rank" 2>"err-$rank" </dev/null
}
# disagree WHAT OPTION OPTION SENTENCE: both learners, each with its option, end with it.
disagree() {
  local rank
  rm -f shared
  by_hand 0 "$2" --learners_timeout_s=30 &
  by_hand 1 "$3" --learners_timeout_s=30
  is "$?" 2 || failures=$((failures + 1))
  wait %-
  for rank in 0 1; do
    pass_if "learners of two $1 are refused: learner $rank" grep -qF -- "$4" "err-$rank"
  done
}
disagree lengths --unroll_length=10 --unroll_length=20 \
  "'--unroll_length=10' and '--unroll_length=20'"
disagree environments --env=cartpole --env=catch "'environment cartpole' and 'environment catch'"
rm -f shared
by_hand 0 --learners_timeout_s=3
pass_if "a learner that never comes is named" \
  grep -q "learner 1 of 2 has not come within 3 s" err-0
by_hand 0
pass_if "a file of another run is refused" grep -q "has a learner 0 already" err-0

# ---- what cannot be

while IFS='|' read -r words sentence; do
  # shellcheck disable=SC2086
  refused $words --logdir=no
  pass_if "refused: $words" is "$code" 2
  pass_if "it says: $sentence" says "$sentence"
done <<'END'
cartpole vtrace 3 --learners=2|3 actors cannot be spread evenly over 2 learners: give a multiple
cartpole dqn 2 --learners=2|several learners train agents without a replay only: vtrace, a2c and ppo
cartpole random 2 --learners=2|several learners train agents without a replay only
cartpole vtrace 2 --learners=2 --batch_size=1|each learner needs a window at least
cartpole vtrace 2 --learners=2 --spare_learners=2|one has to be left, so at most 1 can be lost
cartpole vtrace 2 --spare_learners=1|--spare_learners=1 of --learners=1, 1 of them
cartpole vtrace 2 --learners=2 --learner_rank=0 --learners_at=a:1,b:1 --spare_learners=1|1 of them
cartpole vtrace 2 --learners=2 --learner_rank=0|give all three
cartpole vtrace 2 --learners_at=a:1,b:1|give all three
END
finish
