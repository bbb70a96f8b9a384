#!/usr/bin/env bash
# scripts/track.py: what a tracker gets of a run, once each, also while the run goes on, of one that
# is stopped and resumed, and of one that is killed. By a module in the place of wandb, which keeps
# what it is given; by mlflow and wandb themselves where build/trackers has them.
. "$(dirname "$(readlink -f "$0")")/lib.sh"
python=$tree/build/trackers/bin/python
track() {
  code=0
  "$@" >"$work/out" 2>"$work/err" </dev/null || code=$?
}
script=$tree/scripts/track.py

# make_run FOLDER STEP...: a run with these lines of metrics.
make_run() {
  local folder=$1 step
  mkdir -p "$folder"
  cat >"$folder/config.txt" <<'END'
# Run
env = cartpole
env_args = "{\"a\":\"b\"}"
# resume = false
hidden = 64,64
learning_rate = 0.001
noisy = true
END
  for step in "${@:2}"; do
    echo "{\"step\":$step,\"seconds\":$((step / 10)).5,\"train/episode_return\":$step,\"x\":null}"
  done >>"$folder/metrics.jsonl"
}

# ---- a stand-in: a line "init ..." or "STEP KEYS" of all that it gets
mkdir fake
cat >fake/wandb.py <<'END_PYTHON'
import json, os


def write(*words):
    with open(os.environ["FAKE_LOG"], "a") as file:
        print(*words, file=file)


class Run:
    summary = {}

    def log(self, values, step):
        write(step, json.dumps(values, sort_keys=True))

    def finish(self, exit_code=None):
        write("finish", json.dumps(self.summary, sort_keys=True))
        if exit_code:
            write("failed", exit_code)


def init(project, name, id, resume, dir, config):
    write("init", project, name, id, resume, json.dumps(config, sort_keys=True))
    write("dir", dir)
    return Run()
END_PYTHON
export FAKE_LOG=$work/log
fake() { track env PYTHONPATH="$work/fake" python3 "$script" "$@"; }
steps() { sed -n 's/^\([0-9][0-9]*\) .*/\1/p' log | tr '\n' ' '; }

make_run runs/known 0 100 200
printf '{"step":300,"seconds":30.5' >>runs/known/metrics.jsonl # half a line
echo '{"agent":"vtrace","starts":[{"host":"old"},{"host":"new","options":{}}]}' >runs/known/run.json
echo '{"reason":"total_steps","return_mean":12.5}' >runs/known/result.json
fake runs/known --to=wandb
sent() {
  is "$code" 0 && is "$(steps)" "0 100 200 " &&
    grep -qF '100 {"seconds": 10.5, "train/episode_return": 100.0}' log
}
pass_if "each line of metrics is a point, without what is missing" sent
configured() {
  grep -q '^init acorn known [0-9a-f]* allow' log && grep -qF '"hidden": "64,64"' log &&
    grep -qF '"env_args": "{\"a\":\"b\"}"' log && grep -qF '"learning_rate": 0.001' log &&
    grep -qF '"noisy": true' log && grep -qF '"run.host": "new"' log && ! grep -qF '"resume"' log &&
    grep -qF 'finish {"result.reason": "total_steps", "result.return_mean": 12.5}' log
}
pass_if "with configuration, origin and result" configured
pass_if "the tracker's own files lie in the run folder" grep -qx "dir runs/known" log
track env -C runs/known PYTHONPATH="$work/fake" python3 "$script" . --to=wandb
pass_if "from its own folder a run has the same name" is "$(grep -c '^init acorn known' log)" 2
# The run was killed and resumed from the step before.
printf '\n{"step":150,"seconds":20.5}\n{"step":250,"seconds":21}\n' >>runs/known/metrics.jsonl
fake runs/known --to=wandb --project=other
once() {
  is "$code" 0 && is "$(steps)" "0 100 200 250 " &&
    is "$(sed -n 's/^init [a-z]* known \([^ ]*\).*/\1/p' log | uniq | wc -l)" 1
}
pass_if "one that was resumed is the same run, and nothing is sent twice" once
make_run runs/two/seed-1 5
make_run runs/two/seed-2 6
rm log
fake runs/two --to=wandb
both() { is "$(steps)" "5 6 " && is "$(grep -c '^init acorn two/seed-[12] ' log)" 2; }
pass_if "a folder of runs is each of them" both
make_run runs/two/seed-1/learner-1 7 # of the same run
echo '{"reason":"killed","exit_code":137}' >runs/two/seed-1/result.json
rm log
fake runs/two --to=wandb
both_still() { ! grep -q learner-1 log && is "$(grep -c '^init' log)" 2; }
pass_if "a run of several learners is one run" both_still
pass_if "one that was killed has failed, others not" is "$(grep '^failed' log)" "failed 137"
fake runs/two --to=wandb --follow
refused() { is "$code" 2 && says "$1"; }
pass_if "which cannot be followed at once" refused "--follow takes one run, these are 2"
fake nowhere --to=wandb
pass_if "a folder without a run is an error" refused "nowhere holds no run"
track python3 -S "$script" runs/known --to=mlflow
pass_if "and so is a tracker that is not there" refused "has no package mlflow. In an environment"

# ---- one whose lines a resume cuts off, followed
make_run runs/cut 100 200 300
: >log
PYTHONPATH=$work/fake python3 "$script" runs/cut --to=wandb --follow --idle_s=6 >follow 2>&1 &
follower=$!
sent_are() { is "$(steps)" "$1"; }
wait_for 20 sent_are "100 200 300 "
sed -i 2,3d runs/cut/metrics.jsonl
sleep 2
make_run runs/cut 200 400
wait $follower
pass_if "what follows lines that a resume has cut off is sent" sent_are "100 200 300 400 "

# ---- a run that goes on
: >log
run cartpole vtrace 1 4 --total_steps=1e9 --logdir=run --no_plot --metrics_secs=1
wait_for 20 test -s run/metrics.jsonl
env --default-signal=INT PYTHONPATH="$work/fake" python3 "$script" run --to=wandb --follow \
  >follow 2>&1 &
follower=$!
points_are() { [ "$(grep -c '^[0-9]' log)" -ge "$1" ]; }
wait_for 30 points_are 4
kill -TERM "$run"
ended 20
gone() { ! kill -0 $follower 2>/dev/null; }
wait_for 20 gone
ends_too() { wait $follower && grep -q '^finish' log; }
pass_if "a run is followed until it is over" ends_too
run cartpole vtrace 1 4 --total_steps=1e9 --logdir=run --no_plot --metrics_secs=1 --resume
before=$(grep -c '^[0-9]' log)
env --default-signal=INT PYTHONPATH="$work/fake" python3 "$script" run --to=wandb --follow \
  >follow 2>&1 &
follower=$!
wait_for 30 points_are $((before + 3))
kill -INT $follower
code=0
wait $follower || code=$?
pass_if "Ctrl-C stops following" is "$code" 130
kill -TERM "$run"
ended 20
fake run --to=wandb
each_once() {
  is "$(steps | tr ' ' '\n' | sort -n | uniq -d)" "" &&
    is "$(steps)" "$(python3 -c '
import json
newest = -1
for line in open("run/metrics.jsonl"):
    step = json.loads(line)["step"]
    if step > newest:
        print(step, end=" ")
        newest = step')"
}
pass_if "resumed, followed and sent again, each point is there once" each_once

# ---- the trackers themselves
if [ -x "$python" ] && "$python" -c 'import mlflow, sqlalchemy' 2>/dev/null; then
  export MLFLOW_TRACKING_URI=sqlite:///$work/mlflow.db
  make_run runs/mlflow 0 100
  track "$python" "$script" runs/mlflow --to=mlflow
  echo '{"step":150,"env//a/../b/":7}' >>runs/mlflow/metrics.jsonl # an environment's own name
  make_run runs/mlflow 200 300
  track "$python" "$script" runs/mlflow --to=mlflow
  in_database() {
    python3 -c '
import sqlite3, sys
print(*sqlite3.connect("mlflow.db").execute(sys.argv[1]).fetchall())' "$1"
  }
  stored() {
    is "$code" 0 && is "$(in_database 'select step, value from metrics where key = "seconds"
      order by step')" "(0, 0.5) (100, 10.5) (200, 20.5) (300, 30.5)" &&
      is "$(in_database 'select name, status from runs')" "('mlflow', 'RUNNING')" &&
      is "$(in_database 'select value from params where key = "hidden"')" "('64,64',)"
  }
  pass_if "mlflow has one run with each point, which nothing has seen end" stored
  make_run runs/old 0 3600
  echo '{"starts":[{"started":"2026-01-02T03:04:05Z"}]}' >runs/old/run.json
  echo '{"exit_code":137,"ended":"2026-01-02T03:10:00Z"}' >runs/old/result.json
  track "$python" "$script" runs/old --to=mlflow
  at_its_time() {
    is "$(in_database 'select status, start_time, end_time from runs where name = "old"')" \
      "('FAILED', 1767323045000, 1767323400000)" &&
      is "$(in_database 'select max(timestamp) from metrics where run_uuid =
        (select run_uuid from runs where name = "old")')" "(1767323405500,)"
  }
  pass_if "a run of before has its own times, and failed" at_its_time
  pass_if "under names that are paths" \
    is "$(in_database "select value from metrics where key = 'env/a/b'")" "(7.0,)"
  rm mlflow.db
  track "$python" "$script" runs/mlflow --to=mlflow
  unknown() { is "$code" 1 && says "remove the run folder's tracker-mlflow.json"; }
  pass_if "a run that mlflow does not know is an error with the remedy" unknown
else
  echo "SKIP mlflow: it is not in build/trackers (scripts/setup_python.sh trackers)"
fi
if [ -x "$python" ] && "$python" -c 'import wandb' 2>/dev/null; then
  make_run runs/wandb 0 100
  track env WANDB_MODE=offline "$python" "$script" runs/wandb --to=wandb
  make_run runs/wandb 200
  track env WANDB_MODE=offline "$python" "$script" runs/wandb --to=wandb
  num_parts() { ls -d runs/wandb/wandb/offline-run-* | wc -l; }
  offline() { is "$code" 0 && says "up to step 200" && is "$(num_parts)" 2; }
  pass_if "wandb takes a run offline, and goes on with it" offline
else
  echo "SKIP wandb: it is not in build/trackers (scripts/setup_python.sh trackers)"
fi
finish
