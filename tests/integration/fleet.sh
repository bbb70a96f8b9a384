#!/usr/bin/env bash
# Fleets of real processes on 127.0.0.1 to 127.0.0.5, by a launcher that runs a host's part here;
# with ALL=1 (scripts/test.sh --all) also in network namespaces with addresses of their own.
. "$(dirname "$(readlink -f "$0")")/lib.sh"
fleet=$tree/deploy/fleet.sh
mkdir base
ln -s "$tree/build" base/build

# As ssh does: the words are joined and read by the host's shell. A host with a file down-HOST
# cannot be reached.
cat >rsh <<'EOF'
#!/usr/bin/env bash
host=$1
shift
if [ -e "${0%/*}/down-$host" ]; then
  echo "connect to host $host: no route" >&2
  exit 255
fi
export TEST_HOST=$host
exec bash -c "$*"
EOF
chmod +x rsh

# fleet WORDS...: its exit code is then in $code, its words in out and err.
fleet() {
  token=exported "$fleet" "$@" >"$work/out" 2>"$work/err" </dev/null
  code=$?
}
start() { fleet start "$@" "--rsh=$rsh" "--dir=$work/base" --envs_per_actor=4; }

# pids_on HOST NAME: processes of a host with such a program name.
pids_on() {
  local pid
  for pid in $(pids "$2"); do
    grep -qsaF "TEST_HOST=$1" "/proc/$pid/environ" && echo "$pid"
  done
}
on_hosts() { # COUNT NAME HOST...: so many processes on each
  local number=$1 name=$2 host
  for host in "${@:3}"; do
    [ "$(pids_on "$host" "$name" | wc -l)" -eq "$number" ] || return
  done
}
metrics() { cat "base/$1/metrics.jsonl" 2>/dev/null; } # RUN_FOLDER
# full RUN_FOLDER ENVIRONMENTS [LINES]: so many play, by the last of more than LINES lines
full() {
  [ "$(metrics "$1" | wc -l)" -gt "${3:-0}" ] &&
    is "$(whole_metric serve/environments "base/$1")" "$2"
}
ok() { is "$code" 0; }
no_state() { ! [ -e base/.fleet ]; }
none_left() { [ -z "$(pids learner actor launch task)" ]; }
printed() { grep -qF -- "$1" "$work/out"; }

# ---- mistakes start nothing

rsh=$work/rsh port=$(free_port)
hosts=127.0.0.1,127.0.0.2,127.0.0.3,127.0.0.4,127.0.0.5
refused_with() { ! ok && says "$1"; }
refuses() { refused_with "$1" && none_left; }
start 127.0.0.1,127.0.0.1 cartpole vtrace
pass_if "a host that stands there twice" refuses "127.0.0.1 is listed twice"
start "$hosts" cartpole
pass_if "no agent" refuses "ENV AGENT is missing"
start 127.0.0.1,-oProxyCommand=x cartpole vtrace
pass_if "a host that ssh would take for an option" refuses "is not a list HOST,HOST"
start "$hosts" cartpole vtrace --port=88888
pass_if "a port that there is not" refuses "88888"
fleet stop 127.0.0.1 --prot=9999
misused() { is "$code" 2 && says "$1"; }
pass_if "a flag that stop does not have" misused "stop: '--prot=9999' is no flag of it; --help says"
fleet stop 127.0.0.1 "--port=$(free_port)" "--rsh=$rsh"
not_started() { is "$code" 1 && says "no fleet 127.0.0.1-" && says "--port names another"; }
pass_if "a stop of no fleet" not_started
start "$hosts" cartpole vtrace --learner_host=a,b
pass_if "two names for the learner" misused "--learner_host=a,b: one name is needed"
start "$hosts" cartpole vtrace --actors_per_host=0
pass_if "no actors" misused "--actors_per_host=0: a number from 1 to 4096 is needed"
start "$hosts" cartpole vtrace --dry-run
pass_if "an option that start has no use for, with a dash" misused "--dry-run cannot be given here"
start "$hosts" cartpole vtrace --listen=0.0.0.0:9999
pass_if "a port that actors would not get" misused "--port=N chooses the port"
start "$hosts" cartpole vtrace --port 9999
pass_if "a value without =" misused "--port: its value is missing; write --port=VALUE"
start "$hosts" cartpole vtrace --total_step=5 "--port=$port"
pass_if "a flag that does not exist, named by the hosts" refuses "did you mean --total_steps"
once() { is "$(grep -c 'no such option' err)" 1 && refuses "$1"; }
pass_if "once for all of them" once "127.0.0.4, 127.0.0.5: run_task: --total_step: there is"
start "$hosts" cartpole vtrace --actors_per_hots=2 "--port=$port"
pass_if "also one of the fleet's own" once "fleet.sh itself: --{actors_per_host,"
fleet start 127.0.0.1 cartpole vtrace "--rsh=$rsh" "--dir=$work/nowhere"
pass_if "a host without the programs" refuses "no programs run in"
touch down-127.0.0.2
start "$hosts" cartpole vtrace "--port=$port"
pass_if "a host that cannot be reached is named, nothing starts" \
  refuses "127.0.0.2: cannot be reached: connect to host 127.0.0.2: no route"
rm down-127.0.0.2
mkdir no-locks
printf '#!/bin/sh\necho No locks available >&2\nexit 71\n' >no-locks/flock
chmod +x no-locks/flock
PATH=$work/no-locks:$PATH start 127.0.0.1 cartpole vtrace "--port=$port"
no_lock="/127.0.0.1/lock cannot be locked, flock's exit code is 71 (No locks available)"
pass_if "a host whose file system has no locks is named, nothing starts" refuses "$no_lock"

# ---- a fleet of five hosts

folder="runs/it's \"a\" \$HOME *  ; run"
start "$hosts" cartpole vtrace "--port=$port" --total_steps=1e9 --step_delay_us=3000 \
  "--logdir=$folder"
pass_if "a fleet starts on five hosts" ok
whole_commands() {
  printed "fleet.sh status $hosts --port=$port" && printed "fleet.sh stop $hosts --port=$port"
}
pass_if "and says how to look after it" whole_commands
pass_if "all its environments play" wait_for 20 full "$folder" 20
one_each() { on_hosts 1 actor ${hosts//,/ } && on_hosts 1 learner 127.0.0.1; }
pass_if "one actor on each host, the learner on the first" one_each
pass_if "quotes and blanks arrive as they were typed" test -f "base/$folder/config.txt"
fleet status "$hosts" "--port=$port"
shows() { ok && is "$(grep -c '^127.0.0..* running,' out)" 5 && grep -q '[0-9] environments' out; }
pass_if "status shows five hosts and the learner's figures" shows

PATH=$work/no-locks:$PATH fleet status "$hosts" "--port=$port"
pass_if "status does not take a lock that fails for one that is held" refused_with "$no_lock"
PATH=$work/no-locks:$PATH fleet stop "$hosts" "--port=$port"
not_stopped() { refused_with "$no_lock" && says "not stopped: 127.0.0.1" && wait_for 10 one_each; }
pass_if "and stop ends no process by it" not_stopped

# ---- with a token and TLS, which nobody had to ask for
token=runs/fleet-127.0.0.1-$port/credentials/token # as grep -f: not in our own command lines
kept_out() { # WORDS FLAGS...
  timeout $((10 * patience)) "$tree/build/actor" --learner="127.0.0.1:$port" --env=cartpole \
    --reconnect_s=1 "${@:2}" >said 2>&1
  [ $? -ne 0 ] && grep -qF -- "$1" said
}
pass_if "an actor that has neither is kept out" kept_out "it may ask for TLS"
credentials=base/.fleet/127.0.0.1-$port/127.0.0.2/credentials
pass_if "and one without the token" kept_out "this learner asks for a token" --reconnect_s=20 \
  --tls_ca="$credentials/ca.crt" --tls_cert="$credentials/tls.crt" --tls_key="$credentials/tls.key"
all_private() { ! find runs/fleet-*/credentials "$credentials" -type f -perm /077 | grep .; }
pass_if "only their owner can read the files" all_private
as_any_folder() { mkdir any && is "$(stat -c %a runs)" "$(stat -c %a any)"; }
pass_if "the folder of all runs is as open as any" as_any_folder
not_told() {
  ! grep -rqFf "$token" base/.fleet/*/*/task.log base/.fleet/*/*/logs "base/$folder" &&
    ! cat /proc/[0-9]*/{cmdline,environ} 2>/dev/null | grep -qaFf "$token"
}
pass_if "no log, run folder, command line or environment has the token" not_told
own_pair() { ! cmp -s "$credentials/tls.key" "${credentials/0.2/0.1}/tls.key"; }
pass_if "actors' hosts do not have the learner's key" own_pair

# ---- rotation, while it plays; a host is missed

answers() {
  timeout $((20 * patience)) "$tree/scripts/status.sh" "$@" >said 2>&1
  grep -q 'cartpole vtrace' said
}
pass_if "scripts/status.sh takes the fleet's folder" answers "runs/fleet-127.0.0.1-$port"
mkdir theirs && sed '1i touch owned' "runs/fleet-127.0.0.1-$port/fleet.conf" >theirs/fleet.conf
runs_nothing() { timeout 20 "$tree/scripts/status.sh" theirs >said 2>&1; [ ! -e owned ]; }
pass_if "and runs nothing that is written there" runs_nothing
pass_if "and the run folder" answers "base/$folder"
actor_before=$(pids_on 127.0.0.3 actor) learner_before=$(pids_on 127.0.0.1 learner)
cp "$token" first-token
rotate() { # HOSTS: new files here, which start --resume hands out to them
  "$tree/deploy/credentials.sh" --rotate "runs/fleet-127.0.0.1-$port/credentials" 127.0.0.1
  start "$1" cartpole vtrace "--port=$port" --total_steps=1e9 --step_delay_us=3000 --resume
}
rotate "${hosts%,*}"
lines_of() { is "$(wc -l <"base/.fleet/127.0.0.1-$port/$1/credentials/token")" "$2"; }
handed_out() { ok && lines_of 127.0.0.1 2 && lines_of 127.0.0.4 2 && lines_of 127.0.0.5 1; }
pass_if "a rotation, of which a host has not heard" handed_out
for host in 127.0.0.3 127.0.0.5; do kill -KILL "$(pids_on "$host" actor)"; done
anew() {
  on_hosts 1 actor 127.0.0.3 127.0.0.5 && ! is "$(pids_on 127.0.0.3 actor)" "$actor_before"
}
wait_for 10 anew
pass_if "half a rotation: actors with the old files and with the new ones rejoin" \
  wait_for 20 full "$folder" 20 "$(($(metrics "$folder" | wc -l) + 1))"
pass_if "the learner was not started again" is "$(pids_on 127.0.0.1 learner)" "$learner_before"
pass_if "status goes on" answers "runs/fleet-127.0.0.1-$port"
rotate "$hosts"
pass_if "the next rotation reaches all" ok
gone_everywhere() { ! grep -rqFf first-token base/.fleet runs; }
pass_if "and drops the first token" gone_everywhere
pass_if "nobody can read the files but their owner" all_private
pass_if "no log has a token" not_told

victim=$(pids_on 127.0.0.3 actor)
kill -KILL "$victim"
replaced() { on_hosts 1 actor 127.0.0.3 && [ "$(pids_on 127.0.0.3 actor)" != "$victim" ]; }
pass_if "an actor that is killed comes back where it was" wait_for 10 replaced
victim=$(pids_on 127.0.0.3 actor)
kill -TERM "$victim"
pass_if "so does one that somebody stops" wait_for 10 replaced
pass_if "and plays" wait_for 20 full "$folder" 20 "$(metrics "$folder" | wc -l)"
start "$hosts" cartpole vtrace "--port=$port"
runs_already() {
  ! ok && says "runs here already" && wait_for 10 one_each
}
pass_if "the same fleet is not started twice" runs_already

# ---- a second one on the same hosts

other=$(free_port)
# Actors that start when the run is over have not heard of its end: they look for the learner.
start 127.0.0.1,127.0.0.2 cartpole vtrace "--port=$other" --actors_per_host=2 --target_return=100 \
  --total_steps=4M --reconnect_s=20
pass_if "a second fleet starts beside it" ok
over() { fleet status 127.0.0.1,127.0.0.2 "--port=$other" && ok && printed 'result env=cartpole'; }
over_by_itself() { over && ! printed running; }
pass_if "it trains to its end" wait_for 60 over_by_itself
pass_if "for which it has learned" printed "reason=target_return"
start 127.0.0.1,127.0.0.2 cartpole vtrace "--port=$other" --total_steps=1e9 --insecure \
  --logdir=runs/cartpole-vtrace-plain
unsecured() {
  ok && ! ls -d "runs/fleet-127.0.0.1-$other/credentials" \
    "base/.fleet/127.0.0.1-$other"/*/credentials 2>/dev/null
}
pass_if "without a stop it starts again with --insecure, and keeps no credentials" unsecured
pass_if "and all its environments play" wait_for 20 full runs/cartpole-vtrace-plain 8
fleet stop 127.0.0.1,127.0.0.2 "--port=$other"
stopped() { ok && printed 'result env=cartpole' && ! [ -e "base/.fleet/127.0.0.1-$other" ]; }
pass_if "its logs are collected" stopped
pass_if "the first one has not noticed" wait_for 10 one_each

# ---- a third one, with credentials of the user's own

"$tree/deploy/credentials.sh" own 127.0.0.1
third=(127.0.0.1 cartpole vtrace "--port=$other" --total_steps=1e9 --step_delay_us=1000
  --logdir=runs/cartpole-vtrace-own)
start "${third[@]}" "--token-file=$work/own/token" "--tls-ca=$work/own/ca.crt" \
  "--tls-cert=$work/own/learner/tls.crt" "--tls-key=$work/own/learner/tls.key"
made=runs/fleet-127.0.0.1-$other/credentials
own_ones() { ok && ! [ -e "$made" ] && full runs/cartpole-vtrace-own 4; }
pass_if "options of the user's own, with dashes, take the place of what fleet.sh makes" \
  wait_for 20 own_ones
fleet status 127.0.0.1 "--port=$other"
pass_if "status shows its learner's figures" grep -q '[0-9] environments' out
mv base/runs/cartpole-vtrace-own/address .
fleet status 127.0.0.1 "--port=$other"
pass_if "or that they are missing" printed "the learner's figures are missing"
mv address base/runs/cartpole-vtrace-own
learner=$(pids_on 127.0.0.1 learner | sort -n | tail -n 1)
kill -KILL "$learner"
wait_for 10 eval 'fleet status 127.0.0.1 "--port=$other"; printed ended'
start "${third[@]}" --resume
new_ones() { ok && says "again, or stop the actors" && [ -f "$made/token" ]; }
pass_if "a resume without them makes new ones, with a line that says so" new_ones
fleet stop 127.0.0.1 "--port=$other"
pass_if "it stops as usual" ok

# ---- the learner dies, and goes on by --resume

before=$(pids_on 127.0.0.2 actor) lines=$(metrics "$folder" | wc -l)
kill -KILL "$(pids_on 127.0.0.1 learner)"
noticed() { fleet status "$hosts" "--port=$port" && ! ok && printed ended; }
ended_there() { on_hosts 0 task 127.0.0.1; }
pass_if "the learner's end ends its host's part" wait_for 10 ended_there
pass_if "status says so" noticed
start "$hosts" cartpole vtrace "--port=$port" --total_steps=1e9 --step_delay_us=3000 --resume
pass_if "the same command with --resume starts the learner" ok
pass_if "actors rejoin by themselves" wait_for 30 full "$folder" 20 "$lines"
pass_if "those of the other hosts are the same" is "$(pids_on 127.0.0.2 actor)" "$before"
one_folder() { ! ls base/runs | grep -v '^cartpole-vtrace' | grep -qvxF "${folder#*/}"; }
pass_if "in the same run folder" one_folder

# ---- a host is lost

touch down-127.0.0.5
fleet status "$hosts" "--port=$port"
lost() { ! ok && printed "127.0.0.5                unreachable" && says "127.0.0.5: no route"; }
pass_if "status names a lost host" lost
fleet stop "$hosts" "--port=$port"
named() { ! ok && says "not stopped: 127.0.0.5"; }
pass_if "stop names it" named
pass_if "and stops the others" wait_for 5 on_hosts 0 task 127.0.0.1 127.0.0.2 127.0.0.3 127.0.0.4
rm down-127.0.0.5
fleet stop "$hosts" "--port=$port"
pass_if "once it is back, stop finishes" ok
pass_if "no process is left" wait_for 10 none_left
pass_if "and no state" no_state
collected() { ls "runs/fleet-127.0.0.1-$port/logs"/*/task.log | wc -l; }
pass_if "the logs of all hosts are here" is "$(collected)" 5
no_secrets() { ! find runs base/.fleet -name 'token' -o -name '*.key' 2>/dev/null | grep .; }
pass_if "the credentials are not" no_secrets

# ---- hosts that answer otherwise

cat >rsh-banner <<'EOF'
#!/usr/bin/env bash
echo "Welcome to $1"
exec "${0%-banner}" "$@"
EOF
cat >rsh-mute <<'EOF'
#!/usr/bin/env bash
[ "$1" != 127.0.0.2 ] || exit 1
exec "${0%-mute}" "$@"
EOF
chmod +x rsh-banner rsh-mute
plain=$rsh rsh=$work/rsh-banner
start 127.0.0.1,127.0.0.2 cartpole vtrace "--port=$port" --total_steps=1e9
pass_if "a fleet starts on hosts whose shells print something first" ok
fleet status 127.0.0.1,127.0.0.2 "--port=$port"
pass_if "status knows what runs there" is "$(grep -c ' running,' out)" 2
fleet stop 127.0.0.1 "--port=$port"
pass_if "stop wants all of its hosts" refused_with "hosts are 127.0.0.1,127.0.0.2"
fleet stop 127.0.0.1,127.0.0.2 "--port=$port" "--rsh=$work/rsh-mute"
mute() { ! ok && says "127.0.0.2: failed without a word" && says "not stopped: 127.0.0.2"; }
pass_if "a host that fails without a word is named" mute
first_log() { grep -q '^result ' "runs/fleet-127.0.0.1-$port/logs/127.0.0.1/task.log"; }
pass_if "the learner's log is here" first_log
fleet stop 127.0.0.1,127.0.0.2 "--port=$port"
collected_both() { ok && is "$(collected)" 2 && no_state; }
pass_if "the next stop ends the rest" collected_both
rsh=$plain

python3 -c "import socket, time
s = socket.create_server(('127.0.0.1', $port))
print('ready', flush=True)
time.sleep(1e9)" >taken &
taken=$!
wait_for 5 grep -q ready taken
start 127.0.0.1,127.0.0.2 cartpole vtrace "--port=$port"
pass_if "a port that something else has" refuses "something else listens at port $port"
kill $taken

# What a host's task is when its run is over by the time that it is looked at, or has failed.
mkdir -p brief/build
ln -s "$tree/build/"{actor,learner} brief/build
cat >brief/build/task <<'EOF'
#!/usr/bin/env bash
[[ " $* " = *" --dry_run"* ]] || echo "that was all"
[[ " $* " = *" --dry_run"* ]] || exit "$(cat code)"
EOF
chmod +x brief/build/task
echo 0 >brief/code
fleet start 127.0.0.1,127.0.0.2 cartpole vtrace "--port=$port" "--rsh=$rsh" "--dir=$work/brief"
pass_if "a run that is over before its hosts are looked at has started" ok
fleet stop 127.0.0.1,127.0.0.2 "--port=$port"
pass_if "and is stopped as usual" ok
echo 3 >brief/code
fleet start 127.0.0.1,127.0.0.2 cartpole vtrace "--port=$port" "--rsh=$rsh" "--dir=$work/brief"
failed_at_once() { ! ok && says "127.0.0.1: that was all" && says "no learner listens"; }
pass_if "one that has failed has not" failed_at_once
pass_if "and leaves the logs of the fleet before" \
  grep -q "that was all" "runs/fleet-127.0.0.1-$port/logs.before/127.0.0.1/task.log"

# A learner's task that saves for long: a second signal ends it at once.
mkdir -p slow/build
ln -s "$tree/build/"{actor,learner} slow/build
cat >slow/build/task <<EOF
#!/usr/bin/env python3
import os, signal, socket, sys, time
def stop(*_):
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    time.sleep(3)
    print("" if os.path.exists("killed") else "result saved=1")
    sys.exit()
if "--dry_run" not in sys.argv:
    signal.signal(signal.SIGTERM, stop)
    server = socket.create_server(("127.0.0.1", $port))
    time.sleep(1e9)
EOF
cat >rsh-short <<'EOF'
#!/usr/bin/env bash
exec timeout 1.5 "${0%-short}" "$@"
EOF
chmod +x slow/build/task rsh-short
slow() { fleet "$1" 127.0.0.1 "${@:2}" "--port=$port" "--dir=$work/slow" --insecure; }
slow start cartpole vtrace "--rsh=$rsh"
slow stop "--rsh=$work/rsh-short"
pass_if "a stop that is interrupted while the learner saves" refused_with "not stopped: 127.0.0.1"
slow stop
saved() { ok && printed "result saved=1"; }
pass_if "is waited for by the next one, with no second signal" saved
touch slow/killed
slow start cartpole vtrace "--rsh=$rsh"
slow stop
pass_if "a learner that ends without a result has not been stopped" \
  refused_with "the learner ended without a result"

# ---- a bundle: hosts that have nothing but a shell's programs

bundle() {
  (. "$tree/scripts/lib.sh" && build bundle) >out 2>err
  mkdir "a bundle" && tar -C "a bundle" --strip-components=1 -xzf "$tree/build/bundle/acorn.tar.gz"
}
pass_if "a bundle is unpacked" bundle
fleet start 127.0.0.1,127.0.0.2 cartpole vtrace "--port=$port" "--rsh=$rsh" \
  "--dir=$work/a bundle" --envs_per_actor=4 --total_steps=20k --evaluators=1
pass_if "a fleet starts from it" ok
over() { fleet status 127.0.0.1,127.0.0.2 "--port=$port" && printed 'reason=total_steps'; }
pass_if "it trains to the end" wait_for 30 over
pass_if "with an evaluator on the learner's host" printed 'over=eval'
fleet stop 127.0.0.1,127.0.0.2 "--port=$port"
pass_if "and stops as usual" ok

[ -n "${ALL:-}" ] || finish

# ---- hosts of their own: network namespaces that a bridge joins

prefix=acorn-$$
if ! ip netns add "$prefix-hub" 2>/dev/null; then
  echo "SKIP fleets in network namespaces: ip netns needs root and the right to make them"
  finish
fi
# shellcheck disable=SC2317 # the trap calls it
remove_namespaces() {
  local name
  end_all
  for name in $(ip netns list | sed -n "s/^\($prefix-[^ ]*\).*/\1/p"); do ip netns del "$name"; done
}
trap 'remove_namespaces; rm -rf "$work"' EXIT

# add_host ADDRESS NUMBER
add_host() {
  local name=$prefix-$1
  ip netns add "$name" &&
    ip -n "$prefix-hub" link add "port$2" type veth peer name eth0 netns "$name" &&
    ip -n "$prefix-hub" link set "port$2" master bridge up &&
    ip -n "$name" addr add "$1/24" dev eth0 &&
    ip -n "$name" link set eth0 up && ip -n "$name" link set lo up
}
make_hosts() {
  local i
  ip -n "$prefix-hub" link add bridge type bridge && ip -n "$prefix-hub" link set bridge up &&
    for i in 1 2 3 4; do add_host "10.86.86.$i" "$i" || return; done
}
if ! make_hosts 2>err; then
  echo "SKIP fleets in network namespaces: $(tail -n 1 err)"
  finish
fi
cat >rsh-namespace <<EOF
#!/usr/bin/env bash
host=\$1
shift
export TEST_HOST=\$host
exec ip netns exec "$prefix-\$host" bash -c "\$*"
EOF
chmod +x rsh-namespace

rsh=$work/rsh-namespace

hosts=10.86.86.1,10.86.86.2,10.86.86.3,10.86.86.4
folder=runs/namespaces
start "$hosts" cartpole vtrace --actors_per_host=2 --total_steps=1e9 "--logdir=$folder"
pass_if "a fleet starts on four hosts with networks of their own" ok
pass_if "all environments play" wait_for 30 full "$folder" 32
for pid in $(pids_on 10.86.86.3 actor); do kill -KILL "$pid"; done
lines=$(($(metrics "$folder" | wc -l) + 1))
both_back() { on_hosts 2 actor 10.86.86.3 && full "$folder" 32 "$lines"; }
pass_if "all actors of a host die and come back" wait_for 20 both_back
kill -KILL $(pids_on 10.86.86.4 task) $(pids_on 10.86.86.4 actor)
pass_if "a host loses everything: the others go on" wait_for 20 full "$folder" 24
fleet status "$hosts"
pass_if "status says so" printed "10.86.86.4               ended"
start "$hosts" cartpole vtrace --actors_per_host=2 --total_steps=1e9 --resume
pass_if "--resume starts what is missing" wait_for 30 full "$folder" 32
kill -KILL "$(pids_on 10.86.86.1 learner)"
wait_for 10 on_hosts 0 task 10.86.86.1
start "$hosts" cartpole vtrace --actors_per_host=2 --resume --target_return=475 --total_steps=20M
pass_if "the learner is killed and goes on by --resume" ok
solved() { fleet status "$hosts" && printed "reason=target_return"; }
pass_if "CartPole is solved over the network" wait_for 120 solved
fleet stop "$hosts"
pass_if "stop finds everything over" ok
pass_if "nothing is left" wait_for 10 none_left
finish
