#!/usr/bin/env bash
# tests/integration/slurm.sh on five hosts that are network namespaces, which a bridge in a sixth
# joins; there the test itself runs. Needs root; with ALL=1 (scripts/test.sh --all) only.
. "$(dirname "$(readlink -f "$0")")/lib.sh"
[ -n "${ALL:-}" ] || finish
name=acorn-$$
end_hosts() {
  local host
  for host in hub 1 2 3 4 5; do ip netns del "$name-$host" 2>/dev/null; done
  rm -rf "$work"
}
trap end_hosts EXIT
at() { ip netns exec "$name-$1" "${@:2}"; } # NAMESPACE COMMAND...
make_hub() {
  ip netns add "$name-hub" && at hub ip link add bridge type bridge &&
    at hub ip addr add 10.86.88.99/24 dev bridge && at hub ip link set bridge up &&
    at hub ip link set lo up
}
make_host() { # NUMBER
  ip netns add "$name-$1" &&
    at hub ip link add "port$1" type veth peer name eth0 netns "$name-$1" &&
    at hub ip link set "port$1" master bridge up && at "$1" ip addr add "10.86.88.$1/24" dev eth0 &&
    at "$1" ip link set eth0 up && at "$1" ip link set lo up
}
make_hosts() {
  local host
  make_hub || return
  for host in 1 2 3 4 5; do make_host "$host" || return; done
}
if ! make_hosts 2>err; then
  echo "SKIP Slurm on hosts in network namespaces: $(tail -n 1 err)"
  finish
fi
unset XDG_RUNTIME_DIR # that of this test
TEST_NETWORK=$name at hub "$tree/tests/integration/slurm.sh" | sed 's/^PASS /&in namespaces: /'
exit "${PIPESTATUS[0]}"
