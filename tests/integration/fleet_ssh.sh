#!/usr/bin/env bash
# A fleet over a real ssh: an sshd of this test's own, on a free port, for this user alone. Then, as
# root, on two hosts that are network namespaces: what a packet capture shows of a fleet with and
# without encryption, and an actor without the secret.
. "$(dirname "$(readlink -f "$0")")/lib.sh"
fleet=$tree/deploy/fleet.sh
sshd=$(command -v sshd || echo /usr/sbin/sshd)
if [ ! -x "$sshd" ] || ! command -v ssh >/dev/null; then
  echo "SKIP a fleet over ssh: there is no sshd (openssh-server, a service: install it by hand)"
  finish
fi

port=$((20000 + RANDOM % 12000))
make_keys() {
  ssh-keygen -q -t ed25519 -N '' -f host_key && ssh-keygen -q -t ed25519 -N '' -f key &&
    cp key.pub authorized_keys
}
make_keys || exit 1
cat >sshd_config <<EOF
Port $port
HostKey $work/host_key
AuthorizedKeysFile $work/authorized_keys
PidFile none
StrictModes no
PasswordAuthentication no
KbdInteractiveAuthentication no
UsePAM no
SetEnv XDG_RUNTIME_DIR=$work
EOF
# Root's sshd wants a folder that packages make when they start it.
[ "$(id -u)" != 0 ] || mkdir -p /run/sshd
daemons=()
# serve_ssh [COMMAND...]: by that command, on all addresses that are there.
serve_ssh() {
  "$@" "$sshd" -D -f "$work/sshd_config" -E "$work/sshd.log" &
  daemons+=($!)
}
serve_ssh
# shellcheck disable=SC2317 # the trap calls it
end_hosts() {
  local name
  end_all
  kill "${daemons[@]}" 2>/dev/null
  for name in hub 1 2; do ip netns del "acorn-$$-$name" 2>/dev/null; done
  rm -rf "$work"
}
trap end_hosts EXIT
rsh="ssh -F none -p $port -i $work/key -o BatchMode=yes -o ConnectTimeout=5"
rsh+=" -o StrictHostKeyChecking=no -o UserKnownHostsFile=$work/known"
answers() { $rsh 127.0.0.2 true 2>err; }
if ! wait_for 5 answers; then
  echo "SKIP a fleet over ssh: sshd does not let this user in: $(tail -qn 1 sshd.log err)"
  finish
fi

mkdir base
ln -s "$tree/build" base/build
hosts=127.0.0.1,$(id -un)@127.0.0.2 learner_port=$((port + 1))
fleet() {
  "$fleet" "$@" "--port=$learner_port" >out 2>err </dev/null
  code=$?
}
ok() { is "$code" 0; }
none_left() { [ -z "$(pids learner actor task)" ]; }
words=(cartpole vtrace "--rsh=$rsh" "--dir=$work/base" --envs_per_actor=4)
fleet start "$hosts" "${words[@]}" --total_steps=1e9 --step_delay_us=1000 \
  "--logdir=runs/it's \"a\" \$HOME"
pass_if "a fleet starts over ssh" ok
full() { is "$(whole_metric serve/environments base/runs/*)" 8; }
pass_if "and plays, after ssh has gone" wait_for 20 full
fleet status "$hosts"
pass_if "status sees both hosts" is "$(grep -c ' running,' out)" 2
pass_if "quotes and blanks arrive as they were typed" \
  test -f "base/runs/it's \"a\" \$HOME/config.txt"
fleet stop "$hosts"
pass_if "it stops" ok
pass_if "and leaves nothing" wait_for 5 none_left

killed "${daemons[0]}"
fleet start 127.0.0.1,127.0.0.3 "${words[@]}"
unreached() { says "127.0.0.3: cannot be reached" && says "nothing was started" && none_left; }
pass_if "hosts without sshd are named in ssh's words" unreached

# ---- two hosts: network namespaces that a bridge in a third joins, where fleet.sh is called

at() { ip netns exec "acorn-$$-$1" "${@:2}"; } # NAMESPACE COMMAND...
make_hub() {
  ip netns add "acorn-$$-hub" && at hub ip link add bridge type bridge &&
    at hub ip addr add 10.86.87.9/24 dev bridge && at hub ip link set bridge up &&
    at hub ip link set lo up
}
make_host() { # NUMBER
  ip netns add "acorn-$$-$1" &&
    at hub ip link add "port$1" type veth peer name eth0 netns "acorn-$$-$1" &&
    at hub ip link set "port$1" master bridge up && at "$1" ip addr add "10.86.87.$1/24" dev eth0 &&
    at "$1" ip link set eth0 up && at "$1" ip link set lo up
}
if ! { make_hub && make_host 1 && make_host 2; } 2>err; then
  echo "SKIP two hosts in network namespaces: $(tail -n 1 err)"
  finish
fi
command -v python3 >/dev/null || { echo "SKIP a packet capture: python3 is not here" && finish; }
for host in 1 2; do serve_ssh ip netns exec "acorn-$$-$host"; done
hosts=10.86.87.1,10.86.87.2
fleet() {
  at hub "$fleet" "$@" "--port=$learner_port" >out 2>err </dev/null
  code=$?
}
let_in() { at hub $rsh 10.86.87.1 true 2>err && at hub $rsh 10.86.87.2 true 2>err; }
pass_if "both hosts have an sshd" wait_for 10 let_in

# catch NAME FLAGS...: a fleet that plays Catch; packets of the second host are in the file NAME.
catch() {
  local logdir=base/runs/$1 capture before
  ip netns exec "acorn-$$-hub" python3 "$tree/tests/hostile/capture.py" port2 600 >"$1" &
  capture=$!
  fleet start "$hosts" catch vtrace "--rsh=$rsh" "--dir=$work/base" --envs_per_actor=4 \
    --total_steps=1e9 --step_delay_us=1000 "--logdir=runs/$1" "${@:2}"
  ok && wait_for 20 joined "$logdir" || return
  before=$(whole_metric train/updates "$logdir")
  wait_for 20 metric_passes train/updates $((before + 20)) "$logdir"
  kill $capture
  wait $capture 2>/dev/null
  [ "$(wc -c <"$1")" -gt 100000 ]
}
joined() { is "$(whole_metric serve/environments "$1")" 8; }
shows() { LC_ALL=C grep -qaP -- "$2" "$1"; }
# Cells of the boards of a message, a byte each: 0, and 255 for ball and paddle.
board='\xff[\x00\xff]{60}'
pass_if "a fleet of two hosts plays without encryption, and is captured" catch plain --insecure
pass_if "the packets show observations" shows plain "$board"
called() { shows plain /acorn.Acorn/Join && shows plain catch; }
pass_if "and calls" called
fleet stop "$hosts"
pass_if "it stops" ok
pass_if "a fleet of two hosts plays with what fleet.sh sets up, and is captured" catch encrypted
pass_if "the packets are TLS records" shows encrypted '\x17\x03\x03'
credentials=runs/fleet-10.86.87.1-$learner_port/credentials
hides() {
  ! shows encrypted "$board" && ! shows encrypted /acorn.Acorn/ && ! shows encrypted catch &&
    ! shows encrypted Bearer && ! LC_ALL=C grep -qaFf "$credentials/token" encrypted
}
pass_if "they show no observation, no call and no token" hides

# refused CODE TEXT FLAGS...: an actor on the second host.
refused() {
  at 2 timeout $((10 * patience)) "$tree/build/actor" --learner="10.86.87.1:$learner_port" \
    --env=catch --envs=1 --reconnect_s=5 "${@:3}" >said 2>&1
  is $? "$1" && grep -qF -- "$2" said
}
logged() { grep -qF -- "$1" "base/.fleet/10.86.87.1-$learner_port/10.86.87.1/task.log"; }
pass_if "an actor without TLS and the secret is refused with a sentence" refused 4 \
  "the learner hung up: it may ask for TLS (--tls_ca)"
pass_if "the learner logs one" wait_for 5 logged "a client without TLS: it needs --tls_ca"
pass_if "so is one with TLS and without the secret" refused 1 \
  "refused: this learner asks for a token: name a file with its secret by --token_file" \
  "--tls_ca=$credentials/ca.crt" "--tls_cert=$credentials/actor/tls.crt" \
  "--tls_key=$credentials/actor/tls.key"
pass_if "the learner logs one, with its address" wait_for 5 logged \
  "without a valid token were refused with UNAUTHENTICATED, the last one from 10.86.87.2:"
pass_if "the fleet has not noticed" joined base/runs/encrypted
fleet stop "$hosts"
pass_if "it stops" ok
pass_if "and leaves nothing" wait_for 5 none_left
finish
