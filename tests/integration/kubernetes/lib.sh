# Pods of the manifests as processes, and what they have to do. Its callers say where a container
# runs:
#   contain JOB COMMAND...  a container of that job: number 1 of its process namespace
#   places JOB              FROM=TO for the paths of its manifest, see pod.py
# shellcheck shell=bash
. "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../tasks/lib.sh"
pods=$tree/tests/integration/kubernetes
python=$tree/.venv/bin/python
show_run() { tail -n 8 out err ./*.log 2>/dev/null | sed 's/^/    /'; }

port=$(free_port) metrics_port=$(free_port)
second_port=$(free_port) second_metrics_port=$(free_port) # of the second of two learners
mkdir data && chmod 711 . && chmod 777 data
# As the kubelet mounts a secret: links into a folder that changes as a whole.
mount_secret() { # NAME FILE...
  local file
  mkdir -p "$1/..1" && cp "${@:2}" "$1/..1" && chmod 400 "$1/..1"/* || return
  ln -s ..1 "$1/..data"
  for file in "${@:2}"; do ln -s "..data/${file##*/}" "$1/${file##*/}"; done
  [ "$(id -u)" != 0 ] || { chown -R 0:1000 "$1" && chmod 440 "$1/..1"/*; } # root's, by the group
}
"$tree/deploy/credentials.sh" credentials acorn-learner-0-0.acorn acorn-learner-0-1.acorn &&
  mount_secret secrets-learner credentials/{token,ca.crt,learner/tls.crt,learner/tls.key} &&
  mount_secret secrets-actor credentials/{token,ca.crt,actor/tls.crt,actor/tls.key} || exit 1

# pod_words MANIFEST JOB INDEX: into $words; sizes are those of a small machine.
pod_words() {
  local metrics=$metrics_port
  [ "$2-$3" != learner-1 ] || metrics=$second_metrics_port
  # shellcheck disable=SC2046
  mapfile -t words < <("$python" "$pods/pod.py" "$tree/deploy/kubernetes/$1.yaml" "$2" "$3" \
    "LEARNER=127.0.0.1:$port" "acorn-learner-0-0.acorn=127.0.0.1:$port" \
    "acorn-learner-0-1.acorn=127.0.0.1:$second_port" \
    $(places "$2") "9100=$metrics" 8=1 "10M=${steps:-1M}")
}
# pod MANIFEST JOB INDEX [VARIABLE=VALUE]: a pod in the background; JOB-INDEX.log and .code as of a
# task.
pod() {
  {
    pod_words "$1" "$2" "$3"
    contain "$2" env "${@:4}" "${words[@]}" >"$2-$3.log" 2>&1 </dev/null
    echo $? >"$2-$3.code"
  } 2>/dev/null &
}
# process JOB INDEX: number 1 of that pod, seen from here. learner-1: of the second learner's.
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
  pod jobset learner 0
  wait_for 60 is_ready
  for index in 0 1 2 3; do pod jobset actor $index; done
}


# ---- what they have to do
num_envs() { json "data/acorn/run.json" starts.0.options.num_envs; }
play() { is "$(whole_metric serve/environments data/acorn)" "$1"; } # ENVIRONMENTS
probe() { # what the kubelet asks, and Prometheus
  "$python" - "$metrics_port" >out 2>err <<'EOF'
import sys, urllib.request
for path in "/", "/metrics":
    page = urllib.request.urlopen(f"http://127.0.0.1:{sys.argv[1]}{path}", timeout=60)
    print(page.read().decode())
EOF
  grep -q '^acorn_train_updates_total ' out
}
ends_with() { wait_for 60 test -s "$1.code" && is "$(cat "$1.code")" "$2"; } # POD CODE
last_checkpoint() {
  "$tree/build/checkpoint" data/acorn >out 2>err && grep -q "^steps  *$stopped_at\b" out
}
resumes() { grep -q "resuming from the checkpoint .*, step $stopped_at," learner-0.log; }
goes_on() { metric_passes step $((stopped_at + 1000)) data/acorn && play 64; }

check_pods() {
  start_pods
  pass_if "the pods of jobset.yaml train to the end" \
    all_end 120 0 learner-0 actor-0 actor-1 actor-2 actor-3
  pass_if "the budget was used" is "$(result learner-0 reason)" total_steps
  pass_if "by all environments of all actors" is "$(num_envs)" 64
  pass_if "with the secret's token and certificates" grep -q '^tls_cert=' data/acorn/address

  # ---- a pod that is evicted
  rm -rf data/acorn
  steps=1e9
  start_pods
  pass_if "a long run plays" wait_for 60 play 64
  pass_if "the learner's probe and its metrics answer" probe
  kill -TERM "$(process actor 2)"
  pass_if "an evicted pod of actors does not count as completed" ends_with actor-2 143
  pass_if "and is missing" wait_for 60 play 48
  rm actor-2.code
  pod jobset actor 2
  pass_if "the next one takes its place" wait_for 60 play 64
  kill -TERM "$(process learner 0)"
  pass_if "nor does an evicted learner" ends_with learner-0 143
  stopped_at=$(result learner-0 steps)
  pass_if "which has written a checkpoint of its last step" last_checkpoint
  rm learner-0.code
  pod jobset learner 0
  pass_if "its successor resumes" wait_for 60 resumes
  pass_if "and all actors join it" wait_for 60 goes_on
  end_all
}
