#!/usr/bin/env bash
# A fleet over a real ssh: an sshd of this test's own, on a free port, for this user alone.
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
ListenAddress 127.0.0.1
ListenAddress 127.0.0.2
HostKey $work/host_key
AuthorizedKeysFile $work/authorized_keys
PidFile $work/sshd.pid
StrictModes no
PasswordAuthentication no
KbdInteractiveAuthentication no
UsePAM no
SetEnv XDG_RUNTIME_DIR=$work
EOF
# Root's sshd wants a folder that packages make when they start it.
[ "$(id -u)" != 0 ] || mkdir -p /run/sshd
"$sshd" -D -f "$work/sshd_config" -E "$work/sshd.log" &
daemon=$!
trap 'end_all; kill $daemon 2>/dev/null; rm -rf "$work"' EXIT
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
pass_if "status sees both hosts" is "$(grep -c ' running ' out)" 2
pass_if "quotes and blanks arrive as they were typed" \
  test -f "base/runs/it's \"a\" \$HOME/config.txt"
fleet stop "$hosts"
pass_if "it stops" ok
pass_if "and leaves nothing" wait_for 5 none_left

"$fleet" start "127.0.0.1,127.0.0.3" "${words[@]}" "--port=$learner_port" >out 2>err </dev/null
unreached() { says "127.0.0.3: cannot be reached" && says "nothing was started" && none_left; }
pass_if "a host without sshd is named in ssh's words" unreached
finish
