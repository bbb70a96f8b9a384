#!/usr/bin/env bash
# A fleet: one learner on the first host and actors on all of them, started over ssh.
# deploy/fleet.sh --help says how; docs/fleet.md says more. Each host runs build/task with the same
# words under a TF_CONFIG of its own; its supervisor starts dead actors again.
set -u
export LC_ALL=C.UTF-8
# shellcheck disable=SC2034 # deploy/fleet_host.sh uses them
root=$(cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/.." && pwd)

usage() {
  cat <<'USAGE'
Usage: deploy/fleet.sh start  HOSTS ENV AGENT [--actors_per_host=N] [--flag=value ...]
       deploy/fleet.sh status HOSTS
       deploy/fleet.sh rotate HOSTS
       deploy/fleet.sh stop   HOSTS

start   the learner and N actors on the first host, N actors on each of the others. With --resume:
        only what does not run; the learner continues its run folder.
status  each host's processes and the learner's figures; collects the logs. Exit code 0: all well.
rotate  a new token and new certificates, without a stop; those of before stay valid until the next
        rotation.
stop    the learner first (it writes a checkpoint), then the others; collects the logs.

HOSTS is a list a,b,c or a file with a host on each line, as ssh takes them: [USER@]NAME.

  --actors_per_host=N    actor processes on each host (default 1)
  --port=P               the learner's port (default 8686); names the fleet with the first host
  --learner_host=NAME    under which the other hosts reach the first one (default: its name)
  --dir=FOLDER           this tree on the hosts (default: the same path as here)
  --copy[=FOLDER]        copies the programs and their libraries to FOLDER on the hosts (default
                         acorn-fleet in the home folder); needs nothing installed there
  --rsh=COMMAND          how to reach a host, instead of ssh: COMMAND HOST bash -s
  --insecure             no token and no TLS; default: both are made and handed out by this script
  --skip_unreachable     start without the hosts that cannot be reached; default: start nothing
  --fleet=FOLDER         what is kept here: logs and the record for status and stop (default
                         runs/fleet-HOST-PORT)
  other flags            as of deploy/run_task.sh --help: --envs_per_actor, --total_steps, ...
USAGE
}

fail() {
  echo "fleet: $*" >&2
  exit "${code:-2}"
}

# ---- words

command=${1:-}
case "$command" in
  start | status | rotate | stop) ;;
  --help | -h | help)
    usage
    exit 0
    ;;
  --version) exec "$root/scripts/version.sh" --name=fleet.sh ;;
  "")
    usage >&2
    exit 2
    ;;
  *) fail "'$command' is none of start, status, rotate, stop; --help says more" ;;
esac
[ $# -ge 2 ] || fail "$command: HOSTS is missing; --help says more"
hosts_word=$2
shift 2

rsh=(ssh -o BatchMode=yes -o ConnectTimeout=10)
actors_per_host=1 port=8686 learner_host='' dir=$root copy='' skip_unreachable='' fleet=''
insecure='' own_credentials=''
env='' agent='' logdir='' resume='' words=()

# Sets a variable of ours from --NAME=VALUE; false if the flag is not ours.
take_flag() {
  case "$1" in
    --actors_per_host=* | --port=* | --learner_host=* | --dir=* | --copy=* | --fleet=*)
      local name=${1%%=*}
      printf -v "${name#--}" %s "${1#*=}"
      ;;
    --copy) copy=acorn-fleet ;;
    --rsh=*) read -ra rsh <<<"${1#*=}" ;;
    --skip_unreachable) skip_unreachable=1 ;;
    --insecure) insecure=1 ;;
    *) return 1 ;;
  esac
}

take_words() {
  env='' agent='' own_credentials='' words=()
  local word
  for word in "$@"; do
    take_flag "$word" && continue
    case "$word" in
      --actors_per_host | --port | --learner_host | --dir | --fleet | --rsh)
        fail "$word: write $word=VALUE" ;;
      --resume | --resume=true) resume=1 words+=("$word") ;;
      --logdir=* | --job_dir=* | --job-dir=*) logdir=${word#*=} ;;
      --actors_per_worker* | --actors_on_learner*) fail "$word: --actors_per_host says how many" ;;
      --token_file=* | --tls_*=*) own_credentials=1 words+=("$word") ;;
      --log_folder* | --dry_run*) fail "$word cannot be given here" ;;
      --*) words+=("$word") ;;
      *)
        if [ -z "$env" ]; then
          env=$word
        elif [ -z "$agent" ]; then
          agent=$word
        else
          words+=("$word")
        fi
        ;;
    esac
  done
}

check_number() {
  [[ $2 =~ ^[0-9]{1,5}$ ]] && [ "$2" -ge 1 ] && [ "$2" -le "$3" ] ||
    fail "--$1=$2: a whole number from 1 to $3 is needed"
}

# ---- hosts

hosts=()
read_hosts() {
  local text host
  if [ -f "$hosts_word" ]; then
    text=$(sed 's/#.*//' "$hosts_word")
  else
    text=${hosts_word//,/ }
  fi
  read -r -d '' -a hosts <<<"$text"
  [ ${#hosts[@]} -gt 0 ] || fail "HOSTS: no host is named in '$hosts_word'"
  for host in "${hosts[@]}"; do
    [[ $host =~ ^[][A-Za-z0-9_.:@-]+$ && $host != -* ]] ||
      fail "HOSTS: '$host' is neither a host nor a file"
  done
  local twice
  twice=$(printf '%s\n' "${hosts[@]}" | sort | uniq -d | head -n 1)
  [ -z "$twice" ] || fail "HOSTS: $twice stands there twice"
}

# address HOST PORT: without the user; an IPv6 address in brackets.
address() {
  local name=${1##*@}
  [[ $name == *:* && $name != \[* ]] && name="[$name]"
  echo "$name:$2"
}

# The cluster as each task is told of it; actors do not listen, their ports only tell them apart.
tf_config() {
  local host=$1 index=$2 list='' i task
  for ((i = 1; i < ${#hosts[@]}; i++)); do
    list+="${list:+, }\"$(address "${hosts[i]}" 1)\""
  done
  task='"learner", "index": 0'
  [ "$index" -gt 0 ] && task="\"actor\", \"index\": $((index - 1))"
  echo "{\"cluster\": {\"learner\": [\"$(address "${learner_host:-${hosts[0]}}" "$port")\"]," \
    "\"actor\": [$list]}, \"task\": {\"type\": $task}}"
}

index_of() {
  local i
  for i in "${!hosts[@]}"; do [ "${hosts[i]}" = "$1" ] && echo "$i"; done
}

# ---- remote: the host's bash reads a script; nothing has to survive a command line

# remote SECONDS HOST COMMAND...: stdin of ours follows the script if COMMAND is host_copy.
remote() {
  local seconds=$1 host=$2 state=.fleet/$key/$2 program=$program tf_config port=$port
  local call=("${@:3}") index token='' tls_ca='' tls_cert='' tls_key=''
  index=$(index_of "$host")
  case "${call[0]}" in host_start | host_rotate) read_credentials "$index" ;; esac
  tf_config=$(tf_config "$host" "$index")
  [ "$index" -eq 0 ] || port=
  {
    declare -p host base program state tf_config words port resume token tls_ca tls_cert tls_key
    cat "$root/deploy/fleet_host.sh"
    printf '%q ' "${call[@]}"
    printf '; exit\n'
    [ "${call[0]}" != host_copy ] || cat
  } 2>/dev/null | timeout -k 5 "$seconds" "${rsh[@]}" "$host" bash -s
}

# each SECONDS COMMAND... -- HOST...: on all of them at once; what they say and return lies in
# $talk/HOST.{out,err,code}.
each() {
  local seconds=$1 call=() host running=0
  shift
  while [ "$1" != -- ]; do
    call+=("$1")
    shift
  done
  shift
  for host in "$@"; do
    rm -f "$talk/$host".*
    {
      remote "$seconds" "$host" "${call[@]}" >"$talk/$host.out" 2>"$talk/$host.err" \
        <"${archive:-/dev/null}"
      echo $? >"$talk/$host.code"
    } &
    running=$((running + 1))
    [ $((running % 32)) -ne 0 ] || wait
  done
  wait
}

code_of() { cat "$talk/$1.code"; }

# What went wrong on a host, in one line.
words_of() {
  local text
  text=$(tail -n 3 "$talk/$1.err" | tr '\n' ' ')
  case "$(code_of "$1")" in
    1 | 2) echo "${text:-it did not say why}" ;;
    124 | 137) echo "cannot be reached: no answer in time. $text" ;;
    *) echo "cannot be reached: $text" ;;
  esac
}

# Like each; then the hosts are in `good`, or in `bad` and named on stderr; a line that several of
# them print is printed once.
try_each() {
  local host words_said
  local -A who=()
  each "$@"
  good=() bad=()
  while [ "$1" != -- ]; do shift; done
  for host in "${@:2}"; do
    if [ "$(code_of "$host")" = 0 ]; then
      good+=("$host")
    else
      bad+=("$host")
      words_said=$(words_of "$host")
      who[$words_said]+="${who[$words_said]:+, }$host"
    fi
  done
  for words_said in "${!who[@]}"; do
    echo "fleet: ${who[$words_said]}: $words_said" >&2
  done
}

# ---- credentials: made here, handed out within the script that a host reads from its stdin

credentials() { # [--rotate] FOLDER
  "$root/deploy/credentials.sh" "$@" "${hosts[0]##*@}" ${learner_host:+"$learner_host"} \
    >"$talk/credentials" 2>&1
}

# Puts those that a rotation has made in their place; also the rest of that, after one that was
# interrupted.
place_credentials() {
  local folder=$fleet/credentials
  if [ -d "$folder" ] && [ -d "$folder.new" ]; then
    rm -rf "$folder.old" && mv "$folder" "$folder.old" || return
  fi
  [ ! -d "$folder.new" ] || mv "$folder.new" "$folder" || return
  rm -rf "$folder.old"
}
complete_credentials() { [ -d "$fleet/credentials" ] || place_credentials; }

remove_credentials() { rm -rf "$fleet/credentials" "$fleet/credentials".{new,old}; }

# A fleet that goes on keeps its own.
make_credentials() {
  if [ -n "$resume" ]; then complete_credentials; else remove_credentials; fi
  [ -z "$insecure$own_credentials" ] || return 0
  [ -z "$resume" ] || [ ! -f "$fleet/credentials/actor/tls.crt" ] || return 0
  local code=1
  credentials "$fleet/credentials" ||
    fail "$(tail -n 1 "$talk/credentials"); --insecure starts without a token and TLS"
}

# read_credentials INDEX: of a host, into variables of the caller.
read_credentials() {
  local folder=${fresh_credentials:-$fleet/credentials} pair=actor
  [ -d "$folder" ] && [ -z "$insecure$own_credentials" ] || return 0
  [ "$1" -gt 0 ] || pair=learner
  token=$(cat "$folder/token")
  tls_ca=$(cat "$folder/ca.crt")
  tls_cert=$(cat "$folder/$pair/tls.crt")
  tls_key=$(cat "$folder/$pair/tls.key")
}

# ---- the record of a fleet, for status and stop

read_record() {
  [ -f "$fleet/fleet.conf" ] || return 0
  # shellcheck disable=SC1091
  . "$fleet/fleet.conf"
}

write_record() {
  mkdir -p "$fleet" || fail "cannot make the folder $fleet; name another with --fleet=FOLDER"
  # -g: it is read by a function, too.
  local learner
  learner=$(address "${learner_host:-${hosts[0]}}" "$port") # scripts/status.sh reads it
  declare -p rsh port learner_host dir copy base program logdir insecure learner |
    sed 's/^declare/declare -g/' >"$fleet/fleet.conf.new" &&
    mv "$fleet/fleet.conf.new" "$fleet/fleet.conf"
}

collect_logs() {
  local host
  each 60 host_logs -- "$@"
  for host in "$@"; do
    [ "$(code_of "$host")" = 0 ] && [ -s "$talk/$host.out" ] || continue
    mkdir -p "$fleet/logs/$host" && tar -xz -C "$fleet/logs/$host" <"$talk/$host.out"
  done
}

# ---- start

bundle_id() {
  (cd "$1" && find build lib deploy -type f -print0 | sort -z | xargs -0 sha256sum) |
    sha256sum | cut -c 1-12
}

# Where the programs are on the hosts; with --copy a folder named by what is in it.
choose_program() {
  base=$dir program=.
  [ -n "$copy" ] || return 0
  bundle=$root
  [ -d "$root/lib" ] || bundle=$root/build/bundle/acorn
  [ -x "$bundle/build/task" ] || fail "--copy: there is no bundle yet; make bundle makes it"
  base=$copy program=acorn-$(bundle_id "$bundle")
}

copy_programs() {
  [ -n "$copy" ] || return 0
  each 60 host_has_copy -- "${hosts[@]}"
  local host lacking=()
  for host in "${hosts[@]}"; do [ "$(code_of "$host")" = 1 ] && lacking+=("$host"); done
  [ ${#lacking[@]} -gt 0 ] || return 0
  echo "fleet: copying the programs to ${lacking[*]}" >&2
  local archive=$talk/archive
  tar -C "$bundle" -czf "$archive" . || fail "cannot pack $bundle"
  each 600 host_copy -- "${lacking[@]}"
}

# Hosts that fail stop everything, or are left out; without the first there is no fleet.
check_hosts() {
  try_each 60 host_check -- "${hosts[@]}"
  # The hosts know the options of the programs alone; one that they refuse may be meant for us.
  grep -qs 'there is no such option' "$talk"/*.err && echo "fleet: options of fleet.sh itself:" \
    "--{actors_per_host,port,learner_host,dir,copy,rsh,skip_unreachable,fleet,insecure}" >&2
  [ ${#bad[@]} -gt 0 ] || return 0
  local host code=1
  for host in "${bad[@]}"; do
    case "$(code_of "$host")" in 1 | 2) fail "nothing was started" ;; esac
  done
  [ "${bad[0]}" != "${hosts[0]}" ] ||
    fail "nothing was started: the learner's host cannot be reached"
  [ -n "$skip_unreachable" ] || fail "nothing was started; --skip_unreachable starts the others"
  hosts=("${good[@]}")
}

start() {
  [ -n "$agent" ] || fail "start: ENV AGENT is missing, for example: start a,b cartpole vtrace"
  check_number actors_per_host "$actors_per_host" 4096
  check_number port "$port" 65535
  choose_program
  [ -n "$logdir" ] || logdir=runs/$env-$agent-$(date -u +%Y%m%d-%H%M%SZ)
  words=("$env" "$agent" "--actors_per_worker=$actors_per_host"
    "--actors_on_learner=$actors_per_host" "--logdir=$logdir" "${words[@]}")
  copy_programs
  check_hosts
  write_record
  make_credentials

  local code=1
  try_each 90 host_start -- "${hosts[0]}"
  [ ${#bad[@]} -eq 0 ] || fail "the learner did not start; nothing else was started"
  try_each 60 host_start -- "${hosts[@]:1}"
  echo "fleet: the learner listens at $(address "${learner_host:-${hosts[0]}}" "$port");" \
    "$actors_per_host actors on each of ${#hosts[@]} hosts; run folder $logdir on ${hosts[0]}"
  local which=$hosts_word
  [ "$port" = 8686 ] || which+=" --port=$port"
  [ "$fleet" = "runs/fleet-$key" ] || which+=" --fleet=$fleet"
  echo "fleet: deploy/fleet.sh status $which"
  echo "fleet: deploy/fleet.sh stop $which"
  [ ${#bad[@]} -eq 0 ]
}

# ---- status

status() {
  local host what learners actors restarts given_up code=0
  each 60 host_status -- "${hosts[@]}"
  echo "fleet ${hosts[0]}:$port, run folder ${logdir:-unknown}, logs in $fleet/logs"
  printf '%-24s %-12s %8s %7s %9s %9s\n' host state learner actors restarts 'given up'
  for host in "${hosts[@]}"; do
    if [ "$(code_of "$host")" != 0 ]; then
      printf '%-24s %-12s %s\n' "$host" UNREACHABLE "$(tail -n 1 "$talk/$host.err")"
      code=1
      continue
    fi
    read -r what learners actors restarts given_up <"$talk/$host.out"
    printf '%-24s %-12s %8s %7s %9s %9s\n' "$host" "$what" "$learners" "$actors" "$restarts" \
      "$given_up"
    [ "$what" = running ] || grep -qs '^result ' "$talk/${hosts[0]}.out" || code=1
  done
  [ "$(code_of "${hosts[0]}")" != 0 ] || tail -n +2 "$talk/${hosts[0]}.out"
  collect_logs "${hosts[@]}"
  return $code
}

# ---- rotate

# The learner first: it then accepts both. Hosts that are missed keep what they have, which is valid
# until the next rotation; `start --resume` hands them the new ones.
rotate() {
  local code=1 fresh_credentials=$fleet/credentials.new
  complete_credentials
  [ -f "$fleet/credentials/ca.key" ] ||
    fail "$fleet/credentials: this fleet has no credentials made by fleet.sh (--insecure, options" \
      "of its own, or it is not running): there is nothing to rotate"
  rm -rf "$fresh_credentials" && cp -pr "$fleet/credentials" "$fresh_credentials" &&
    credentials --rotate "$fresh_credentials" || fail "$(tail -n 1 "$talk/credentials")"
  try_each 60 host_rotate -- "${hosts[0]}"
  if [ ${#bad[@]} -gt 0 ]; then
    rm -rf "$fresh_credentials"
    fail "nothing was rotated: the learner's host comes first"
  fi
  place_credentials || exit 1
  fresh_credentials=
  try_each 60 host_rotate -- "${hosts[@]:1}"
  echo "fleet: a new token and new certificates on $((${#hosts[@]} - ${#bad[@]})) of" \
    "${#hosts[@]} hosts; those of before stay valid until the next rotation"
  [ ${#bad[@]} -gt 0 ] || return 0
  echo "fleet: not handed out: ${bad[*]}; call start with --resume when they are back, before the" \
    "next rotation" >&2
  return 1
}

# ---- stop

stop() {
  local code=0 goodbye=130
  try_each $((goodbye + 20)) host_stop $goodbye -- "${hosts[0]}"
  local lost=("${bad[@]}") reached=("${good[@]}")
  try_each 60 host_stop 10 -- "${hosts[@]:1}"
  lost+=("${bad[@]}") reached+=("${good[@]}")
  collect_logs "${reached[@]}"
  try_each 60 host_remove -- "${reached[@]}"
  [ ${#bad[@]} -eq 0 ] || code=1
  [ ${#lost[@]} -gt 0 ] || remove_credentials
  grep -hs '^result ' "$fleet/logs/${hosts[0]}/task.log" | tail -n 1
  echo "fleet: stopped on ${#reached[@]} of ${#hosts[@]} hosts; logs in $fleet/logs"
  [ ${#lost[@]} -eq 0 ] && return $code
  echo "fleet: not stopped: ${lost[*]}; call stop again when they are back (actors there end by" \
    "themselves after --reconnect_s without a learner)" >&2
  return 1
}

# ---- the record first, the command line over it

take_words "$@"
read_hosts
[ -n "$fleet" ] || fleet=runs/fleet-${hosts[0]##*@}-$port
base=$dir program=.
case "$command" in
  start) [ -z "$resume" ] || { read_record && take_words "$@"; } ;;
  *) read_record && take_words "$@" ;;
esac
key=${hosts[0]##*@}-$port
talk=$(mktemp -d) || exit 1
trap 'rm -rf "$talk"' EXIT
"$command"
