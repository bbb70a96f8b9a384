# Helpers of the tests on Slurm: a cluster of virtual nodes on this machine, and jobs on it. Each
# node is a slurmd with an address of its own in 127.0.1.0/24, or in a network namespace of its own
# (TEST_NETWORK, see tests/integration/slurm_network.sh). Files are in $work alone, no user but
# this one is needed, and the end of the test ends all of it.
# shellcheck shell=bash
. "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../lib.sh"
PATH=$PATH:/usr/sbin:/sbin # of the daemons, where a user's has none
namespaces=${TEST_NETWORK:-} # of the nodes, without their number
network=127.0.1 controller=127.0.0.1
[ -z "$namespaces" ] || network=10.86.88 controller=10.86.88.99
unset "${!SLURM@}" "${!SBATCH@}" "${!ACORN_@}" # the test may itself be a job
export SLURM_CONF=$work/cluster/slurm.conf
cluster=$work/cluster

has_slurm() {
  local program
  for program in slurmctld slurmd sbatch srun scancel scontrol squeue sinfo munged; do
    command -v $program >/dev/null || { echo "$program is not here" && return 1; }
  done
}

# processes_with TEXT: what has it in its environment.
processes_with() { grep -lsaF "$1" /proc/[0-9]*/environ | cut -d/ -f3; }

# ---- the end, of Slurm's own processes and of jobs

end_all() {
  local round pid
  for round in 1 2 3; do # what a process starts meanwhile is found in the next round
    for pid in $(processes_with "SLURM_CONF=$SLURM_CONF"); do kill -KILL "$pid"; done
  done 2>/dev/null
  wait 2>/dev/null
}

# ---- start

# Slurm before 23 looks for cgroups even where the configuration uses none.
cgroup_conf() {
  case "$(slurmd -V)" in
    *" 2"[0-2].*) printf 'CgroupPlugin=cgroup/v1\nCgroupAutomount=no\n' ;;
    *) echo 'CgroupPlugin=disabled' ;;
  esac
}

# slurm_conf NODES: the first node is the partition gpu, the others are cpu; all is the default. A
# node has more CPUs than the machine. A job has as long for its end as a slow machine needs.
slurm_conf() {
  local host i
  host=$(hostname -s)
  cat <<EOF
ClusterName=test
SlurmctldHost=$host($controller)
SlurmctldPort=$(free_port)
SlurmUser=$(id -un)
SlurmdUser=$(id -un)
AuthInfo=socket=$cluster/munge/socket
StateSaveLocation=$cluster/state
SlurmdSpoolDir=$cluster/spool-%n
SlurmctldPidFile=$cluster/slurmctld.pid
SlurmdPidFile=$cluster/%n.pid
SlurmctldLogFile=$cluster/slurmctld.log
SlurmdLogFile=$cluster/%n.log
MailProg=/bin/true
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerParameters=sched_interval=1,bf_interval=1,batch_sched_delay=0
SlurmdParameters=config_overrides
SlurmdTimeout=0
KillWait=$((30 * patience))
FirstJobId=$((1 + RANDOM % 9900)) # the learners' ports follow from it
EOF
  for ((i = 1; i <= $1; i++)); do
    echo "NodeName=n$i NodeHostname=$host NodeAddr=$network.$i Port=$(free_port) CPUs=8"
  done
  echo "PartitionName=gpu Nodes=n1"
  echo "PartitionName=cpu Nodes=n[2-$1]"
  echo "PartitionName=all Nodes=ALL Default=YES"
}

# daemon NAME COMMAND...: in the background, in a session of its own; its id is in $cluster/NAME.id.
daemon() {
  setsid "${@:2}" >"$cluster/$1.out" 2>&1 </dev/null &
  echo $! >"$cluster/$1.id"
}
node() { # NUMBER
  local host=()
  [ -z "$namespaces" ] || host=(ip netns exec "$namespaces-$1")
  daemon "n$1" "${host[@]}" slurmd -D -N "n$1"
}

# munged wants the path to its socket to be passable for others.
start_munge() {
  mkdir -m 711 "$cluster/munge" && chmod 711 "$work" &&
    (umask 077 && head -c 128 /dev/urandom >"$cluster/munge/key") || return
  local at=$cluster/munge
  daemon munged munged --foreground --socket="$at/socket" --key-file="$at/key" \
    --pid-file="$at/pid" --log-file="$at/log" --seed-file="$at/seed"
  wait_for 5 test -S "$at/socket"
}

nodes_are() { is "$(timeout 10 sinfo -h -N -p all -o %T 2>/dev/null | grep -cx idle)" "$1"; }

# start_cluster NODES: false if it does not come up; its logs are in $cluster.
start_cluster() {
  local i
  mkdir -p "$cluster"/state && slurm_conf "$1" >"$SLURM_CONF" &&
    cgroup_conf >"$cluster/cgroup.conf" && start_munge || return
  daemon slurmctld slurmctld -D -c
  for ((i = 1; i <= $1; i++)); do
    mkdir -p "$cluster/spool-n$i"
    node "$i"
  done
  wait_for 15 nodes_are "$1"
}

# ---- jobs

# submit WORDS...: sbatch with them; the job's number is in $job.
submit() {
  job=$(sbatch --parsable "$@" 2>"$work/err") || return
  job=${job%%;*}
}
# state JOB: PENDING, RUNNING, COMPLETED ... in its newest start.
state() {
  scontrol show job "$1" 2>/dev/null | sed -n 's/^ *JobState=\([A-Z_]*\).*/\1/p' | head -n 1
}
is_in() { is "$(state "$1")" "$2"; } # JOB STATE
# has_ended JOB STATE: no process of it is left.
has_ended() {
  is_in "$1" "$2" && [ -z "$(squeue --noheader --states=completing --jobs="$1" 2>/dev/null)" ]
}
# has_stopped JOB: in whatever state.
has_stopped() {
  case "$(state "$1")" in
    "" | PENDING | CONFIGURING | RUNNING | COMPLETING | REQUEUE*) return 1 ;;
  esac
  [ -z "$(squeue --noheader --states=completing --jobs="$1" 2>/dev/null)" ]
}
# No other end is waited out.
settled() { has_ended "$1" "$2" || has_stopped "$1"; }
ends() { # JOB STATE
  wait_for 60 settled "$1" "$2" && has_ended "$1" "$2" && return
  echo "  job $1 is $(state "$1"), not $2"
  return 1
}
# A job that is requeued waits two minutes; not here. A node refuses one that starts within the
# second in which it was ended there.
hasten() { scontrol update "JobId=$1" StartTime=now+2; }

# ---- nodes

# on_node NODE: the processes of this cluster's jobs there.
on_node() {
  local pid
  for pid in $(processes_with "SLURM_CONF=$SLURM_CONF"); do
    grep -zqxF "SLURMD_NODENAME=$1" "/proc/$pid/environ" 2>/dev/null && echo "$pid"
  done
}
# lose NODE: what is left of one whose power is cut; and what Slurm does once SlurmdTimeout is over.
lose() {
  local tasks pid watchers first=() steps=()
  mapfile -t tasks < <(on_node "$1")
  for pid in "${tasks[@]}" $(ps -o ppid= -p "$(IFS=, && echo "${tasks[*]}")" | sort -u); do
    case "$(cat "/proc/$pid/comm" 2>/dev/null)" in
      srun | learner) first+=("$pid") ;;
      slurmstepd) steps+=("$pid") ;;
    esac
  done
  # At once, and those first that would tell others: srun's child cancels its step where srun ends,
  # the learner says that it stops, slurmstepd reports an end.
  watchers=$(for pid in "${first[@]}"; do pgrep -P "$pid"; done)
  kill -KILL $watchers "${first[@]}" "${steps[@]}" "${tasks[@]}" 2>/dev/null
  killed "$(cat "$cluster/$1.id")"
  scontrol update "NodeName=$1" State=down Reason=lost
}
# The same node after a repair.
repair() {
  rm -rf "$cluster/spool-$1"/*
  node "${1#n}"
  scontrol update "NodeName=$1" State=resume
}
