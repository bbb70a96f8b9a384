#!/usr/bin/env bash
# scripts/acorn.sbatch on a Slurm cluster of five virtual nodes: jobs that end, that are requeued
# and resume, that lose nodes, that are cancelled; an array of seeds, a heterogeneous job; secrets;
# what it refuses.
. "$(dirname "$(readlink -f "$0")")/slurm/lib.sh"
batch=$tree/scripts/acorn.sbatch
show_run() {
  tail -n 8 err ./*.out runs/*/logs/worker-* "$cluster/slurmctld.log" 2>/dev/null | sed 's/^/    /'
}

# ---- outside of Slurm
refuses() { # SENTENCE COMMAND...
  "${@:2}" >out 2>err </dev/null
  is $? 2 && says "$1"
}
pass_if "outside of Slurm it tells how it is submitted" refuses \
  "this is no batch job of Slurm: sbatch scripts/acorn.sbatch ENV AGENT" "$batch" cartpole vtrace

if ! why=$(has_slurm); then
  echo "SKIP jobs on Slurm: $why (Debian: slurmctld, slurmd, slurm-client, munge)"
  finish
fi
if ! start_cluster 5; then
  echo "SKIP jobs on Slurm: no cluster comes up here: $(tail -qn 1 "$cluster"/*.out)"
  finish
fi

# Few and small processes, however many CPUs a node has.
small=(--envs_per_actor=4 --actors_per_worker=1 --actors_on_learner=1)
# Of a job: its log, a member of its result, its run folder; whether so many environments play, or
# so many steps have been made.
log() { cat "acorn-$1.out"; }
result() { log "$1" | grep '^result ' | tail -n 1 | tr ' ' '\n' | sed -n "s/^$2=//p"; }
run_of() { echo "runs/acorn-$1"; }
plays() { is "$(whole_metric serve/environments "$(run_of "$1")")" "$2"; }
passes() { metric_passes step "$2" "$(run_of "$1")"; }

# ---- what it refuses in a job
job_refuses() { # SENTENCE WORDS...
  submit --nodes=1 --cpus-per-task=1 "${@:2}" && ends "$job" FAILED && log "$job" | grep -qF -- "$1"
}
pass_if "a job without AGENT says so" job_refuses "ENV and AGENT are missing" "$batch" cartpole
pass_if "or an option in its place" job_refuses "ENV and AGENT are missing" "$batch" cartpole --x=1
mkdir -p elsewhere/scripts
cp "$batch" elsewhere/scripts
pass_if "a job without the programs says where they should be" job_refuses \
  "there is no $work/elsewhere/build/task on n1: build it" \
  elsewhere/scripts/acorn.sbatch cartpole vtrace
pass_if "an option without its value is refused" job_refuses \
  "--logdir: its value is missing; write --logdir=VALUE" "$batch" cartpole vtrace --logdir here
pass_if "an option that there is not is refused by the learner's task" job_refuses \
  "--colour" "$batch" cartpole vtrace --colour=red

# ---- to the end, on three nodes
submit --cpus-per-task=2 "$batch" cartpole vtrace --total_steps=15k --step_delay_us=500 \
  "${small[@]}"
pass_if "a job of three nodes trains to the end" ends "$job" COMPLETED
pass_if "the budget was used" is "$(result "$job" reason)" total_steps
all_played() {
  local logs
  logs=$(run_of "$job")/logs
  is "$(grep -l "the learner is at $network.1:" "$logs"/worker-[01]-*.log | wc -l)" 2 &&
    [ -s "$logs/actor-0.log" ]
}
pass_if "with actors on each node, whose logs are in the run folder" all_played
pass_if "its credentials go with it" eval '! ls "$(run_of "$job")" | grep -q credentials'

# ---- as docs/cluster.md has it: solved on three nodes, and played
if [ -n "${ALL:-}" ]; then
  submit "$batch" cartpole vtrace --target_return=475
  pass_if "a job of three nodes solves its environment" ends "$job" COMPLETED
  pass_if "and ends by that" is "$(result "$job" reason)" target_return
  plays_well() { # an untrained one has 20; ten episodes of one that had 475 may have far less
    "$tree/scripts/eval.sh" "$(run_of "$job")" --episodes=10 >out 2>err
    awk -F= '/^return_mean=/ {found = $2 >= 200} END {exit !found}' RS=' ' out
  }
  pass_if "eval.sh plays what it learned" plays_well
fi

# ---- a requeue, a lost node, scancel
submit "$batch" cartpole vtrace --total_steps=1e9 --step_delay_us=1000 --checkpoint_secs=1000 \
  --reconnect_s=3 "${small[@]}"
folder=$(run_of "$job")
pass_if "a long job plays on three nodes" wait_for 60 plays "$job" 12
secrets=$folder/credentials-$job
pass_if "its token is a file that its owner alone may read" \
  is "$(stat -c %a "$secrets/token" "$secrets" | xargs)" "600 700"
is_secret() {
  local token
  token=$(cat "$secrets/token")
  ! grep -lsaF -e "$token" /proc/[0-9]*/{cmdline,environ} &&
    ! grep -rqF -e "$token" "acorn-$job.out" "$folder"/{logs,config.txt,run.json}
}
pass_if "and on no command line, in no environment or log" is_secret
stranger() {
  local port=$((20000 + job / 64 % 78 * 128 + job % 64)) # as acorn.sbatch
  "$tree/build/actor" --learner="$network.1:$port" --env=cartpole --task=9 \
    --tls_ca="$secrets/ca.crt" --tls_cert="$secrets/actor/tls.crt" \
    --tls_key="$secrets/actor/tls.key" >out 2>err
  is $? 1 && says token
}
pass_if "a client without it is refused" stranger
asked() {
  srun --overlap --jobid="$job" --nodes=1 --ntasks=1 "$tree/build/status" "$folder" >out 2>err
  grep -q '12 of 12' out
}
pass_if "build/status answers on the first node" asked
long=$job
pass_if "a second job in its run folder is refused" job_refuses "another learner" "$batch" \
  cartpole vtrace --resume --logdir="$folder"
job=$long
pass_if "which leaves the first one its secrets" test -s "$secrets/token"
wait_for 20 passes "$job" 2000
scontrol requeue "$job"
pass_if "a requeued job waits" ends "$job" PENDING
steps=$(result "$job" steps)
pass_if "its learner has stopped in order" is "$(result "$job" reason)" signal
hasten "$job"
resumes() { log "$job" | grep -q "resuming from the checkpoint of update [0-9]*, step $steps,"; }
pass_if "it resumes by itself, from the last step" wait_for 60 resumes
pass_if "and goes on with all of its nodes" wait_for 60 plays "$job" 12
pass_if "from there" wait_for 60 passes "$job" $((steps + 1000))

lose n3
pass_if "a lost node costs its actors" wait_for 60 plays "$job" 8
at=$(whole_metric step "$folder")
pass_if "and nothing else" wait_for 60 passes "$job" $((at + 1000))
pass_if "the job goes on" is_in "$job" RUNNING
lose n1
pass_if "where the learner's node is lost, the others requeue the job" ends "$job" PENDING
hasten "$job"
on_others() { log "$job" | grep -q "the learner is at $network.2:" && plays "$job" 12; }
pass_if "and it resumes on other nodes" wait_for 60 on_others
scancel "$job"
pass_if "scancel ends it" ends "$job" CANCELLED
last_checkpoint() {
  "$tree/build/checkpoint" "$folder" >out 2>err &&
    grep -q "^steps  *$(result "$job" steps)\b" out
}
pass_if "with a checkpoint of the last step" last_checkpoint
repair n1
repair n3
submit --no-kill=off --nodelist=n[4-5] --nodes=2 "$batch" cartpole vtrace --total_steps=1e9 \
  --step_delay_us=1000 "${small[@]}"
pass_if "a job without --no-kill plays on two nodes" wait_for 60 plays "$job" 8
lose n5
pass_if "and waits for others when it has lost one" ends "$job" PENDING
scancel "$job"
repair n5
pass_if "the nodes come back" wait_for 30 nodes_are 5

# ---- the signal ahead of the time limit: bit for bit what a resume by hand gives
exact=(--deterministic --streams=1 --seed=3 --total_steps=12k --step_delay_us=1000)
submit --nodes=2 --cpus-per-task=1 "$batch" cartpole vtrace "${exact[@]}" --envs_per_actor=4
folder=$(run_of "$job")
wait_for 60 passes "$job" 2000
scancel --batch --signal=USR1 "$job"
pass_if "ahead of its time limit a job is requeued" ends "$job" PENDING
cp -r "$folder" by-hand
hasten "$job"
pass_if "and completes its run" ends "$job" COMPLETED
run cartpole vtrace 2 4 "${exact[@]}" --resume --no_plot --logdir=by-hand
ended
pass_if "the same run is resumed by hand" is "$code" 0
equal() { python3 "$tree/tests/integration/compare_checkpoints.py" "$folder" by-hand >out 2>err; }
pass_if "both have the same parameters and optimiser, bit for bit" equal

# ---- learners on two nodes
submit --cpus-per-task=2 "$batch" cartpole vtrace --learner_nodes=2 --total_steps=60k \
  --step_delay_us=200 --envs_per_actor=4 --actors_per_worker=2 --actors_on_learner=1
pass_if "a job with learners on two of its nodes trains to the end" ends "$job" COMPLETED
pass_if "its budget was used" is "$(result "$job" reason)" total_steps
two_learners() {
  local folder
  folder=$(run_of "$job")
  is "$(json "$folder/learner-1/result.json" reason)" total_steps &&
    grep -q "this task is learner 1;" "$folder"/logs/learner-1-*.log &&
    grep -q "this task is actor 0;" "$folder"/logs/worker-0-*.log &&
    is "$(grep -l "actor: cartpole" "$folder"/logs/{actor-0.log,learner-1-*.log} | wc -l)" 2
}
pass_if "each has actors of its own beside it" two_learners
pass_if "a job with fewer nodes is refused" job_refuses \
  "--learner_nodes=2: a number from 1 to 1" "$batch" cartpole vtrace --learner_nodes=2

# ---- learners by MPI, which srun starts
if [ -e "$tree/build/libacorn_mpi.so" ] && srun --mpi=list 2>&1 | grep -q pmi2; then
  submit --nodes=2 --ntasks-per-node=1 --cpus-per-task=2 --output=acorn-%j.out --wrap="srun \
    --mpi=pmi2 '$tree/run_local.sh' cartpole vtrace 1 4 --learners_mpi --logdir=by-mpi \
    --total_steps=60k --step_delay_us=200"
  pass_if "a job whose learners meet by MPI trains to the end" ends "$job" COMPLETED
  pass_if "its budget was used" is "$(result "$job" reason)" total_steps
  both_trained() {
    log "$job" | grep -q "learner 1 of the 2 of an MPI job" &&
      is "$(json by-mpi/learner-1/result.json reason)" total_steps
  }
  pass_if "by a learner on each node" both_trained
else
  echo "SKIP learners by MPI: no build/libacorn_mpi.so (Debian: mpich, libmpich-dev), or no pmi2"
fi

# ---- an array of seeds
new_token token
submit --array=1-3 --nodes=1 --cpus-per-task=1 "$batch" cartpole vtrace --total_steps=20k \
  "${small[@]}" --token-file="$work/token"
all_end() {
  local seed
  for seed in 1 2 3; do
    ends "${job}_$seed" COMPLETED || return
    grep -qx "seed = $seed" "$(run_of "${job}_$seed")/config.txt" || return
    grep -qxF "token_file=$work/token" "$(run_of "${job}_$seed")/address" || return
  done
}
pass_if "an array trains a run for each seed, with a token of the user's own" all_end

# ---- a heterogeneous job
submit --partition=gpu --nodes=1 : --partition=cpu --nodes=2 --cpus-per-task=2 "$batch" cartpole \
  vtrace --total_steps=20k --envs_per_actor=4
pass_if "a heterogeneous job trains to the end" ends "$job" COMPLETED
apart() {
  [ ! -e "$(run_of "$job")/logs/actor-0.log" ] &&
    is "$(json "$(run_of "$job")/run.json" starts.0.options.num_envs)" 16 &&
    grep -q "this task is actor 1;" "$(run_of "$job")"/logs/worker-1-*.log
}
pass_if "with the learner alone on its group, and an actor on each CPU of the other" apart
submit --partition=gpu --nodes=1 : --partition=cpu --nodes=1 --cpus-per-task=1 "$batch" cartpole \
  vtrace --total_steps=1e9 --envs_per_actor=4
pass_if "another one trains" wait_for 30 passes "$job" 1000
scancel "$job.0" 2>/dev/null # of both groups, and the first has no step
pass_if "once all of its actors have ended it fails" ends "$job" FAILED
pass_if "and its log says so" grep -qF "all actors have ended before the run" "acorn-$job.out"
pass_if "with a checkpoint" [ -n "$(ls "$(run_of "$job")/checkpoints")" ]
finish
