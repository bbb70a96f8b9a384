# The pods of jobset-learners.yaml: two learners and the actors of both. As the Job and the JobSet's
# failurePolicy have it, all learners start again once the pod of one has failed and those of the
# others have ended; actors stay.
# shellcheck shell=bash
. "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../lib.sh"
manifests=$tree/deploy/kubernetes
second=data/acorn/learner-1

start_learners() {
  rm -f learner-0.code learner-1.code
  pod jobset-learners learner 0
  pod jobset-learners learner 1
}
# As the manifest's dependsOn has it: actors once all learners are ready.
are_ready() { is_ready && (: <"/dev/tcp/127.0.0.1/$second_metrics_port") 2>/dev/null; }
start_job() {
  rm -f ./*.code
  local index
  start_learners
  wait_for 60 are_ready
  for index in 0 1 2 3; do pod jobset-learners actor $index; done
}
# Half of the environments each.
both_play() {
  is "$(whole_metric serve/environments data/acorn)" 32 &&
    is "$(whole_metric serve/environments $second)" 32
}
both_go_on() {
  metric_passes step $((stopped_at + 1000)) data/acorn &&
    metric_passes step $((stopped_at + 1000)) $second && both_play
}
no_actor_ended() { ! ls actor-*.code 2>/dev/null; }
# A namespace has a code of its own where its first process is killed: any but 0.
has_failed() { wait_for 60 test -s "$1.code" && [ "$(cat "$1.code")" != 0 ]; } # POD
# resume NAME: all learners start again.
resume() {
  start_learners
  pass_if "$1 resume once all have started again" wait_for 60 resumes
  pass_if "and the actors of both join" wait_for 60 both_go_on
  pass_if "whose pods have not ended" no_actor_ended
}

# The names that JobSet's headless service gives to the pods are those of the manifest, of the
# certificate, and of the command in the documentation.
pod_names() {
  "$python" - "$manifests/jobset-learners.yaml" <<'EOF'
import sys, yaml
jobset = [part for part in yaml.safe_load_all(open(sys.argv[1])) if part["kind"] == "JobSet"][0]
spec, name = jobset["spec"], jobset["metadata"]["name"]
job = {job["name"]: job["template"]["spec"] for job in spec["replicatedJobs"]}["learner"]
assert job["parallelism"] == job["completions"] and job["completionMode"] == "Indexed"
for index in range(job["completions"]):
    print(f"{name}-learner-0-{index}.{spec['network']['subdomain']}")
EOF
}
names_agree() {
  local names name
  names=$(pod_names) || return
  grep -qxF "value: $(tr '\n' , <<<"$names" | sed 's/,$//')" \
    <(sed 's/^ *//' "$manifests/jobset-learners.yaml") || return
  for name in $names; do
    openssl x509 -in credentials/learner/tls.crt -noout -checkhost "$name" >out 2>err
    grep -q 'does match' out && grep -qF " $name" "$tree/docs/cluster.md" || return
  done
}

# last_checkpoint_of LEARNER: the one that was killed may have written it, just before.
last_checkpoint_of() {
  last_checkpoint && return
  grep -q 'as it is: the newest checkpoint there is not older$' "$1.log" || return
  stopped_at=$(awk '$1 == "steps" {print $2}' out)
}

check_learners() {
  local lost
  pass_if "names of pods are those of the learners, the certificate and the command" names_agree
  rm -rf data/acorn
  unset steps
  start_job
  pass_if "the pods of jobset-learners.yaml train to the end" \
    all_end 120 0 learner-0 learner-1 actor-0 actor-1 actor-2 actor-3
  pass_if "the budget was used, by both learners" \
    is "$(result learner-0 reason) $(result learner-1 reason)" "total_steps total_steps"
  pass_if "each with half of the environments" \
    is "$(num_envs) $(json $second/run.json starts.0.options.num_envs)" "32 32"
  pass_if "and only the first with checkpoints" is "$(ls $second/checkpoints)" ""

  # ---- a pod is killed, and one is evicted
  rm -rf data/acorn
  steps=1e9
  start_job
  pass_if "a long run plays" wait_for 60 both_play
  for lost in 1 0; do
    kill -KILL "$(process learner-$lost 0)"
    pass_if "the pod of learner $lost is killed" has_failed learner-$lost
    pass_if "the other one ends, too" ends_with learner-$((1 - lost)) 1
    stopped_at=$(result learner-$((1 - lost)) steps)
    pass_if "with a checkpoint of its last step" last_checkpoint_of learner-$((1 - lost))
    resume "both learners"
  done
  kill -TERM "$(process learner-1 0)"
  pass_if "an evicted learner does not count as completed" ends_with learner-1 143
  pass_if "and stops the other one, which alone would not be started again" ends_with learner-0 0
  stopped_at=$(result learner-0 steps)
  pass_if "with a checkpoint" last_checkpoint
  resume "they"
  end_all
}
