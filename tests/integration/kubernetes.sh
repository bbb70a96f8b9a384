#!/usr/bin/env bash
# deploy/kubernetes: manifests against the schemas of their kinds, and their containers as processes
# with a pod's environment: they train to the end, stop on SIGTERM with a checkpoint, and come back.
# As root the processes are those of an ordinary user on a read-only file system, number 1 of their
# process namespace.
. "$(dirname "$(readlink -f "$0")")/kubernetes/learners/lib.sh"
if ! "$python" -c 'import kubernetes_validate' 2>/dev/null; then
  echo "SKIP Kubernetes: kubernetes-validate is not in .venv (scripts/setup_python.sh kubernetes)"
  finish
fi

# ---- schemas
check() { "$python" "$pods/check.py" "$@" >out 2>err; }
pass_if "each field of the manifests is in the schema of its kind" check "$manifests"/*.yaml
pass_if "which is there for all but the Prometheus operator's" \
  is "$(grep -v '^ok ' out)" "unknown podmonitor.yaml PodMonitor acorn"
has_claim() { is "$(grep -c "^ok $1 PersistentVolumeClaim acorn\$" out)" 1; }
for manifest in $(cd "$manifests" && grep -l claimName ./*.yaml); do
  pass_if "$manifest has the claim that its learner names" has_claim "${manifest#./}"
done
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
contain() { "${apart[@]}" "${@:2}"; } # JOB COMMAND...
places() { echo "/opt/acorn=$tree" "/data=$work/data" "/secrets=$work/secrets-${1/node/actor}"; }
check_pods
[ ${#apart[@]} -eq 0 ] || pass_if "as an ordinary user" is "$(stat -c %u data/acorn/run.json)" 1000

# ---- two learners
check_learners

# ---- without its secret no container starts, unless the manifest allows it; one that lacks a file
is_needed() { ! grep -n 'optional' "$manifests"/*.yaml; }
pass_if "no secret is optional" is_needed
rm -f secrets-actor/token actor-0.code
pod jobset actor 0
pass_if "a pod whose secret has no token ends" ends_with actor-0 1
pass_if "and names the file" grep -qF -- "--token_file=$work/secrets-actor/token: " actor-0.log

# ---- the TrainJob: its words
job_words() {
  local word
  pod_words trainjob node 1
  for word in ACORN_TASK=1 ACORN_WORKERS=2 catch vtrace --total_steps=1M; do
    printf '%s\n' "${words[@]}" | grep -qxF -- "$word" || return
  done
}
pass_if "a TrainJob's environment, steps and number of hosts reach its nodes" job_words
planned() {
  pod_words trainjob learner 0 && env "${words[@]}" --dry_run >out 2>err &&
    grep -q 'role=learner .* num_envs=32$' out && grep -q '^learner .*--env=catch' out
}
pass_if "and its learner, which takes these words" planned
finish
