#!/usr/bin/env bash
# The README's two commands on a bare Debian 12: a minimal system in a temporary folder, with git
# and certificates, and a clean clone of HEAD in it. Needs root and a network.
# Usage: scripts/fresh_machine.sh [--keep | --first | --atari]
#   --first  only the first command, word for word; CartPole must be solved and its curve drawn
#            within 240 s
#   --atari  ./run_local.sh atari vtrace 4 instead: it must begin to train on Pong by itself
set -euo pipefail
. "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/lib.sh"
offer_help "$@"
cd "$root"
keep='' commands=two_commands.sh shown="both commands pass"
case "${1:-}" in
  "") ;;
  --keep) keep=1 ;;
  --first)
    commands=first_command.sh shown="the first command solves CartPole and draws its curve"
    ;;
  --atari) commands=atari_command.sh shown="Pong is trained on by one command" ;;
  *)
    echo "usage: scripts/fresh_machine.sh [--keep | --first | --atari]" >&2
    exit 2
    ;;
esac
if [ "$(id -u)" != 0 ]; then
  echo "fresh_machine: this makes a root file system; run it as root" >&2
  exit 1
fi

if ! command -v mmdebstrap >/dev/null; then
  echo "installing mmdebstrap" >&2
  install=(apt-get install -y --no-install-recommends mmdebstrap)
  "${install[@]}" >/dev/null 2>&1 || { apt-get update >/dev/null && "${install[@]}" >/dev/null; }
fi

# Not under a folder that is mounted noexec or nodev: TMPDIR says otherwise.
machine=$(mktemp -d "${TMPDIR:-/tmp}/fresh_machine.XXXXXX")
chmod 755 "$machine"
clean_up() {
  if [ -n "$keep" ]; then echo "kept: $machine" >&2; else rm -rf --one-file-system "$machine"; fi
}
trap clean_up EXIT

# This machine's sources, proxies and keys, so that it works behind a mirror too.
echo "making a bare Debian 12" >&2
sources=()
lists=/etc/apt/sources.list
for file in $lists $lists.d/*.list $lists.d/*.sources; do
  [ -s "$file" ] && grep -q bookworm "$file" && sources+=("$file")
done
settings=()
for file in /etc/apt/apt.conf.d/*; do
  grep -qiE 'proxy|Check-Valid|Check-Date|Verify|CaInfo|SslCert|SslKey|CAInfo' "$file" || continue
  settings+=("--aptopt=$file" "--customize-hook=cp '$file' \"\$1/etc/apt/apt.conf.d/\"")
done
mmdebstrap --quiet --variant=minbase --include=git,ca-certificates "${settings[@]}" \
  --customize-hook='cp /etc/resolv.conf "$1/etc/resolv.conf"' \
  --customize-hook='own=/usr/local/share/ca-certificates; mkdir -p "$1$own"
    cp -r "$own/." "$1$own/" 2>/dev/null || true
    chroot "$1" update-ca-certificates >/dev/null 2>&1 || true' \
  bookworm "$machine" "${sources[@]}"

git clone --quiet --no-local . "$machine/root/acorn"
cat >"$machine/root/two_commands.sh" <<'COMMANDS'
set -e
cd /root/acorn
echo "== ./run_local.sh cartpole vtrace 4"
start=$SECONDS
./run_local.sh cartpole vtrace 4 --total_steps=200k </dev/null
echo "== it took $((SECONDS - start)) s"
echo "== ./scripts/test.sh"
start=$SECONDS
./scripts/test.sh </dev/null
echo "== it took $((SECONDS - start)) s"
COMMANDS

cat >"$machine/root/first_command.sh" <<'COMMANDS'
set -e
cd /root/acorn
start=$SECONDS
./run_local.sh cartpole vtrace 4 </dev/null | tee /tmp/out
seconds=$((SECONDS - start))
return=$(tail -n 1 /tmp/out | tr ' ' '\n' | sed -n 's/^return_mean=//p')
curve=$(ls runs/cartpole-vtrace-*/learning_curve.png)
echo "== $seconds s to a return of $return and $curve; must: 240 s, 475"
[ "$seconds" -lt 240 ] && [ "${return%.*}" -ge 475 ]
COMMANDS

cat >"$machine/root/atari_command.sh" <<'COMMANDS'
set -e
cd /root/acorn
start=$SECONDS
./run_local.sh atari vtrace 4 --total_steps=20k </dev/null | tee /tmp/out
echo "== it took $((SECONDS - start)) s"
tail -n 1 /tmp/out | grep -q '^result env=atari agent=vtrace steps=20.* reason=total_steps'
COMMANDS

# Mounts and processes of its own: nothing stays behind. A session of its own, since on a machine
# process 1 is in another than its users, which counts for who is orphaned.
env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin TERM=dumb LANG=C.UTF-8 \
  http_proxy="${http_proxy:-}" https_proxy="${https_proxy:-}" no_proxy="${no_proxy:-}" \
  unshare --mount --pid --fork --kill-child bash -ec "
  mount --make-rprivate /
  mount -t proc proc '$machine/proc'
  mount --rbind /dev '$machine/dev'
  mount -t tmpfs tmpfs '$machine/tmp'
  chroot '$machine' setsid --fork --wait bash /root/$commands
  exit" # so that bash stays process 1, which gets the orphans
echo "$shown on a bare Debian 12"
