#!/usr/bin/env bash
# A few hosts without a scheduler: one learner on the first and actors on all of them, over ssh.
# Each host runs build/task, whose supervisor starts dead actors again. docs/fleet.md says more.
set -u
export LC_ALL=C.UTF-8
root=$(cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/.." && pwd)

usage() {
  cat <<'USAGE'
Usage: deploy/fleet.sh start  [USER@]HOST,... ENV AGENT [--actors_per_host=N] [--flag=value ...]
       deploy/fleet.sh status [USER@]HOST,...
       deploy/fleet.sh stop   [USER@]HOST,...

start   the learner and N actors on the first host, N actors on each of the others. With --resume:
        only what does not run; the learner continues its run folder.
status  what runs on each host, and the learner's figures. Exit code 0: all well.
stop    the learner first (it writes a checkpoint), then the others; collects the logs.

  --actors_per_host=N    actor processes on each host (default 1)
  --port=P               the learner's port (default 8686); names the fleet with the first host
  --learner_host=NAME    under which the others reach the first one; [IPV6] (default: its name)
  --dir=FOLDER           this tree, or a bundle, on the hosts (default: the same path as here)
  --rsh=COMMAND          how to reach a host, instead of ssh: COMMAND HOST bash -s
  --insecure             no token and no TLS, also to be given with --resume; default: both are made
                         and handed out by this script
  other flags            as of deploy/run_task.sh --help: --envs_per_actor, --total_steps, ...
USAGE
}

fail() { echo "fleet: $*" >&2; exit 1; }
misuse() { echo "fleet: $*; --help says more" >&2; exit 2; }

command=${1:-}
case "$command" in
  start | status | stop) [ $# -ge 2 ] || misuse "$command: HOST,... is missing" ;;
  --help | -h | help) usage && exit 0 ;;
  --version) exec "$root/scripts/version.sh" --name=fleet.sh ;;
  "") usage >&2 && exit 2 ;;
  *) misuse "'$command' is none of start, status, stop" ;;
esac
[[ $2 != --help ]] || { usage && exit; }
[[ ,$2 =~ ^(,[][A-Za-z0-9_.:@][][A-Za-z0-9_.:@-]*)+$ ]] || misuse "'$2' is not a list HOST,HOST"
IFS=, read -ra hosts <<<"$2"
hosts_word=$2 last=$((${#hosts[@]} - 1))
twice=$(printf '%s\n' "${hosts[@]}" | sort | uniq -d | head -n 1)
[ -z "$twice" ] || misuse "$twice is listed twice"

rsh=(ssh -o BatchMode=yes -o ConnectTimeout=10 -o ServerAliveInterval=10)
actors_per_host=1 port=8686 learner_host='' dir=$root insecure='' logdir='' resume=''
take_words() {
  local word name rest
  words=() # ENV AGENT, then flags for the tasks
  for word in "$@"; do
    name=${word%%=*} && rest=${name:2} && name=${name:0:2}${rest//-/_} # as the programs read it
    case "$name" in
      --actors_per_host | --port | --learner_host | --dir | --rsh | --logdir | --job_dir)
        [[ $word == *=* ]] || misuse "$word: its value is missing; write $word=VALUE" ;;
    esac
    case "$name" in
      --actors_per_host | --port | --learner_host | --dir)
        printf -v "${name#--}" %s "${word#*=}" ;;
      --rsh) read -ra rsh <<<"${word#*=}" ;;
      --insecure) insecure=1 ;;
      --logdir | --job_dir) logdir=${word#*=} ;;
      --actors_per_worker | --actors_on_learner | --log_folder | --dry_run)
        misuse "$word cannot be given here; --actors_per_host=N says how many actors" ;;
      --listen) misuse "$word cannot be given here; --port=N chooses the port" ;;
      *)
        [ "$command" = start ] || misuse "$command: '$word' is no flag of it"
        [[ ! ${word,,} =~ ^--resume(=(true|1|yes|on))?$ ]] || resume=1
        [[ $name != --token_file && $name != --tls_* ]] || insecure=own
        words+=("$word")
        ;;
    esac
  done
  [[ $learner_host != *,* ]] || misuse "--learner_host=$learner_host: one name is needed"
  [[ $port =~ ^[1-9][0-9]{0,4}$ && $port -le 65535 ]] ||
    misuse "--port=$port: a number from 1 to 65535 is needed"
  [[ $actors_per_host =~ ^[1-9][0-9]{0,3}$ && $actors_per_host -le 4096 ]] ||
    misuse "--actors_per_host=$actors_per_host: a number from 1 to 4096 is needed"
}

# remote SECONDS INDEX COMMAND...: a script on stdin: nothing has to survive a command line, and
# secrets are on none. SECONDS 0: without a limit.
remote() {
  local state=.fleet/$key/${hosts[$2]} learner_port=$port credentials='' pair=learner
  local ACORN_TASK=learner ACORN_LEARNER=$learner ACORN_WORKERS=$last
  [ "$2" -eq 0 ] || ACORN_TASK=$(($2 - 1)) pair=actor learner_port=
  [ "$3" != host_start ] || [ -n "$insecure" ] || credentials=$(tar -C "$fleet/credentials" -c \
    token ca.crt -C "$pair" tls.crt tls.key | base64)
  {
    declare -p dir state words logdir learner_port resume credentials ACORN_{TASK,LEARNER,WORKERS}
    cat "$root/deploy/fleet_host.sh"
    printf '%q ' "${@:3}"
  } | timeout -k 5 "$1" "${rsh[@]}" "${hosts[$2]}" bash -s | LC_ALL=C sed '0,/^acorn$/d'
  return "${PIPESTATUS[1]}"
}

# on FIRST LAST SECONDS COMMAND...: on these hosts at once; what they print is in
# $talk/HOST.{out,err}, those that failed in `bad` and named on stderr. False if there are any.
on() {
  local i host text
  local -A who=()
  bad=()
  for ((i = $1; i <= $2; i++)); do
    host=$talk/${hosts[i]}
    { remote "$3" "$i" "${@:4}" >"$host.out" 2>"$host.err" </dev/null || echo $? >"$host.bad"; } &
  done
  wait
  for host in "${hosts[@]:$1:$(($2 - $1 + 1))}"; do
    [ -f "$talk/$host.bad" ] || continue
    text=$(tail -n 3 "$talk/$host.err" | tr '\n' ' ')
    # Other codes than 1 and 2 are the launcher's.
    [ "$(cat "$talk/$host.bad")" -le 2 ] || text="cannot be reached: $text"
    [[ $text == *[a-z]* ]] || text="failed without a word"
    rm "$talk/$host.bad"
    bad+=("$host") who[$text]+="${who[$text]:+, }$host"
  done
  for text in "${!who[@]}"; do echo "fleet: ${who[$text]}: $text" >&2; done
  [ ${#bad[@]} -eq 0 ]
}

make_credentials() {
  [ -n "$resume" ] || rm -rf "$fleet/credentials"
  [ -z "$insecure" ] && [ ! -f "$fleet/credentials/ca.key" ] || return 0
  "$root/deploy/credentials.sh" "$fleet/credentials" "${hosts[0]##*@}" \
    ${learner_host:+"$learner_host"} >"$talk/credentials" 2>&1 ||
    fail "$(tail -n 1 "$talk/credentials"); --insecure starts without a token and TLS"
}

# The logs of the fleet before are kept: those of its actors are nowhere else.
keep_logs() {
  [ -n "$resume" ] || [ ! -d "$fleet/logs" ] ||
    { rm -rf "$fleet/logs.before" && mv "$fleet"/logs{,.before}; }
}

start() {
  [[ ${#words[@]} -ge 2 && ${words[0]} != -* && ${words[1]} != -* ]] ||
    misuse "start: ENV AGENT is missing, for example: start a,b cartpole vtrace"
  [ -n "$logdir" ] || logdir=runs/${words[0]}-${words[1]}-$(date -u +%Y%m%d-%H%M%SZ)
  words+=("--actors_per_worker=$actors_per_host" "--actors_on_learner=$actors_per_host"
    "--logdir=$logdir")
  on 0 $last 60 host_check || fail "nothing was started; options of fleet.sh itself:" \
    "--{actors_per_host,port,learner_host,dir,rsh,insecure}"
  all=$hosts_word
  # Run folders are others' to read.
  (mkdir -p runs && umask 077 && mkdir -p "$fleet" && declare -p rsh port learner_host dir logdir \
    insecure learner all >"$fleet/fleet.conf") || fail "cannot write to the folder $fleet"
  keep_logs
  make_credentials
  on 0 0 90 host_start || fail "no learner listens; nothing else was started"
  on 1 $last 60 host_start
  echo "fleet: the learner listens at $learner; $actors_per_host actors on each of" \
    "${#hosts[@]} hosts; run folder $logdir on ${hosts[0]}"
  printf "fleet: deploy/fleet.sh %s $hosts_word --port=$port\n" status stop
  [ ${#bad[@]} -eq 0 ]
}

status() {
  local host what code=0
  on 0 $last 60 host_status || code=1
  echo "fleet $key, run folder ${logdir:-unknown}"
  for host in "${hosts[@]}"; do
    what=unreachable
    [[ " ${bad[*]} " == *" $host "* ]] || read -r what <"$talk/$host.out"
    printf '%-24s %s\n' "$host" "$what"
    [[ $what == running* ]] || grep -qs '^result ' "$talk/${hosts[0]}.out" || code=1
  done
  tail -n +2 "$talk/${hosts[0]}.out"
  return $code
}

# A host's logs are removed once they are here.
stop() {
  local i host logs result lost=()
  [ -f "$fleet/fleet.conf" ] || fail "no fleet $key has been started here; --port names another"
  on 0 0 0 host_stop || lost=("${bad[@]}")
  on 1 $last 60 host_stop 10 || lost+=("${bad[@]}")
  for ((i = 0; i <= last; i++)); do
    host=${hosts[i]} logs=$fleet/logs/${hosts[i]}
    [[ " ${lost[*]} " != *" $host "* ]] || continue
    [ -s "$talk/$host.out" ] || continue # stopped before, or never started
    mkdir -p "$logs" && tar -xz -C "$logs" <"$talk/$host.out" && on "$i" "$i" 60 host_remove ||
      lost+=("$host")
  done
  logs=$fleet/logs/${hosts[0]}
  result=$(grep -hs '^result ' "$logs/task.log" | tail -n 1)
  [ -z "$result" ] || echo "$result"
  echo "fleet: stopped on $((last + 1 - ${#lost[@]})) hosts; logs in $fleet/logs"
  [ ${#lost[@]} -eq 0 ] || fail "not stopped: ${lost[*]}; call stop again when they are back" \
    "(actors there end by themselves after --reconnect_s without a learner)"
  rm -rf "$fleet/credentials"
  [ -n "$result" ] || [ ! -f "$logs/told" ] ||
    fail "the learner ended without a result, maybe before its last checkpoint: $logs/task.log"
}

# What start has recorded, the command line over it; but --insecure has to be given each time.
take_words "${@:3}"
key=${hosts[0]##*@}-$port fleet=runs/fleet-$key
if [ -f "$fleet/fleet.conf" ] && [[ $command != start || $resume ]]; then
  # shellcheck disable=SC1091
  . "$fleet/fleet.conf" && before=$insecure insecure=''
  take_words "${@:3}"
  [[ $command != start || -z $before || $insecure ]] ||
    echo "fleet: it ran with --insecure, or with --token_file and --tls_* of yours: give them" \
      "again, or stop the actors that still run: they cannot rejoin with credentials made now" >&2
  [[ $command != stop || $all == "$hosts_word" ]] || fail "this fleet's hosts are $all: name them"
fi
learner=${learner_host:-${hosts[0]##*@}}:$port # scripts/status.sh reads it in the record
talk=$(mktemp -d) || exit 1
trap 'rm -rf "$talk"' EXIT
"$command"
