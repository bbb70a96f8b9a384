#!/usr/bin/env bash
# deploy/kubernetes: manifests against the schemas of their kinds, and their containers as processes
# with a pod's environment: they train to the end, stop on SIGTERM with a checkpoint, and come back.
# As root the processes are those of an ordinary user on a read-only file system, number 1 of their
# process namespace.
. "$(dirname "$(readlink -f "$0")")/tasks/lib.sh"
here=$tree/tests/integration/kubernetes
manifests=$tree/deploy/kubernetes
python=$tree/.venv/bin/python
if ! "$python" -c 'import kubernetes_validate' 2>/dev/null; then
  echo "SKIP Kubernetes: kubernetes-validate is not in .venv (scripts/setup_python.sh kubernetes)"
  finish
fi
show_run() { tail -n 8 out err ./*.log 2>/dev/null | sed 's/^/    /'; }

# ---- schemas
check() { "$python" "$here/check.py" "$@" >out 2>err; }
pass_if "each field of the manifests is in the schema of its kind" check "$manifests"/*.yaml
pass_if "which is there for all but the Prometheus operator's" \
  is "$(grep -v '^ok ' out)" "unknown podmonitor.yaml PodMonitor acorn"
# misspelt FILE SED SENTENCE: the check finds it.
misspelt() {
  sed "$2" "$manifests/$1" >wrong.yaml
  ! cmp -s wrong.yaml "$manifests/$1" && ! check wrong.yaml && grep -qF -- "$3" out
}
pass_if "a field that there is not is found" misspelt jobset.yaml \
  's/completionMode/completonMode/' "'completonMode' was unexpected"
pass_if "in a TrainJob, too" misspelt trainjob.yaml \
  's/numNodes: 2/nodes: 2/' "'nodes' was unexpected"
pass_if "and in a TFJob" misspelt tfjob.yaml 's/claimName/claim/' "'claim' was unexpected"
pass_if "and in a claim" misspelt jobset.yaml 's/accessModes/modes/' "modes"
pass_if "and a value that cannot be" misspelt jobset.yaml \
  's/action: RestartJob,/action: Again,/' "'Again' is not one of"

# ---- pods
port=$(free_port) metrics_port=$(free_port)
mkdir data && chmod 711 . && chmod 777 data
# As the kubelet mounts a secret: links into a folder that changes as a whole.
mount_secret() { # NAME FILE...
  local file
  mkdir -p "$1/..1" && cp "${@:2}" "$1/..1" && chmod 400 "$1/..1"/* || return
  ln -s ..1 "$1/..data"
  for file in "${@:2}"; do ln -s "..data/${file##*/}" "$1/${file##*/}"; done
  [ "$(id -u)" != 0 ] || { chown -R 0:1000 "$1" && chmod 440 "$1/..1"/*; } # root's, by the group
}
"$tree/deploy/credentials.sh" credentials 127.0.0.1 &&
  mount_secret secrets-learner credentials/{token,ca.crt,learner/tls.crt,learner/tls.key} &&
  mount_secret secrets-actor credentials/{token,ca.crt,actor/tls.crt,actor/tls.key} || exit 1

apart=()
if [ "$(id -u)" = 0 ]; then
  cat >apart <<'EOF'
mount --bind "$0/data" "$0/data" && mount -o remount,bind,ro / &&
  exec setpriv --reuid=1000 --regid=1000 --clear-groups --no-new-privs --bounding-set=-all "$@"
EOF
  apart=(unshare --mount --pid --fork --kill-child --mount-proc bash -c "$(cat apart)" "$work")
  if ! "${apart[@]}" test -x "$tree/build/task" 2>err; then
    echo "SKIP the pods' file system and user: $(tail -n 1 err)"
    apart=()
  fi
fi
# pod_words MANIFEST JOB INDEX: sizes are those of a small machine.
pod_words() {
  echo "$python" "$here/pod.py" "$manifests/$1.yaml" "$2" "$3" "LEARNER=127.0.0.1:$port" \
    "/opt/acorn=$tree" "/data=$work/data" "/secrets=$work/secrets-${2/node/actor}" \
    "9100=$metrics_port" 8=1 10M=${steps:-1M}
}
# pod JOB INDEX: a pod of the JobSet in the background; NAME.log and NAME.code as of a task.
pod() {
  {
    # shellcheck disable=SC2046
    XDG_RUNTIME_DIR=$work "${apart[@]}" $(pod_words jobset "$1" "$2") >"$1-$2.log" 2>&1 </dev/null
    echo $? >"$1-$2.code"
  } 2>/dev/null &
}
# process JOB INDEX: number 1 of that pod, seen from here.
process() {
  local pid task=$2
  [ "$1" = actor ] || task=$1
  for pid in $(pids task); do
    grep -qsaF "ACORN_TASK=$task" "/proc/$pid/environ" && echo "$pid"
  done
}
# As the manifest's dependsOn has it: actors once the learner is ready.
is_ready() { (: <"/dev/tcp/127.0.0.1/$metrics_port") 2>/dev/null; }
start_pods() {
  rm -f ./*.code
  local index
  pod learner 0
  wait_for 60 is_ready
  for index in 0 1 2 3; do pod actor $index; done
}

start_pods
pass_if "the pods of jobset.yaml train to the end" \
  all_end 120 0 learner-0 actor-0 actor-1 actor-2 actor-3
pass_if "the budget was used" is "$(result learner-0 reason)" total_steps
num_envs() { json "data/acorn/run.json" starts.0.options.num_envs; }
pass_if "by all environments of all actors" is "$(num_envs)" 64
[ ${#apart[@]} -eq 0 ] || pass_if "as an ordinary user" is "$(stat -c %u data/acorn/run.json)" 1000
pass_if "with the secret's token and certificates" grep -q '^tls_cert=' data/acorn/address

# ---- a pod that is evicted
rm -rf data/acorn
steps=1e9
start_pods
play() { is "$(whole_metric serve/environments data/acorn)" "$1"; } # ENVIRONMENTS
pass_if "a long run plays" wait_for 60 play 64
probe() { # what the kubelet asks, and Prometheus
  "$python" - "$metrics_port" >out 2>err <<'EOF'
import sys, urllib.request
for path in "/", "/metrics":
    page = urllib.request.urlopen(f"http://127.0.0.1:{sys.argv[1]}{path}", timeout=60)
    print(page.read().decode())
EOF
  grep -q '^acorn_train_updates_total ' out
}
pass_if "the learner's probe and its metrics answer" probe
ends_with() { wait_for 60 test -s "$1.code" && is "$(cat "$1.code")" "$2"; } # POD CODE
kill -TERM "$(process actor 2)"
pass_if "an evicted pod of actors does not count as completed" ends_with actor-2 143
pass_if "and is missing" wait_for 60 play 48
rm actor-2.code
pod actor 2
pass_if "the next one takes its place" wait_for 60 play 64
kill -TERM "$(process learner 0)"
pass_if "nor does an evicted learner" ends_with learner-0 143
stopped_at=$(result learner-0 steps)
last_checkpoint() {
  "$tree/build/checkpoint" data/acorn >out 2>err && grep -q "^steps  *$stopped_at\b" out
}
pass_if "which has written a checkpoint of its last step" last_checkpoint
rm learner-0.code
pod learner 0
resumes() { grep -q "resuming from the checkpoint .*, step $stopped_at," learner-0.log; }
pass_if "its successor resumes" wait_for 60 resumes
goes_on() { metric_passes step $((stopped_at + 1000)) data/acorn && play 64; }
pass_if "and all actors join it" wait_for 60 goes_on
end_all

# ---- the TrainJob: its words
dry() { # JOB INDEX
  # shellcheck disable=SC2046
  $(pod_words trainjob "$1" "$2") --dry >words 2>err && mapfile -t words <words
}
job_words() {
  dry node 1 && for word in ACORN_TASK=1 ACORN_WORKERS=2 catch vtrace --total_steps=1M; do
    grep -qxF -- "$word" words || return
  done
}
pass_if "a TrainJob's environment, steps and number of hosts reach its nodes" job_words
planned() {
  dry learner 0 && env "${words[@]}" --dry_run >out 2>err &&
    grep -q 'role=learner .* num_envs=32$' out && grep -q '^learner .*--env=catch' out
}
pass_if "and its learner, which takes these words" planned
finish
