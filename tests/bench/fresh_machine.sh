#!/usr/bin/env bash
# The README's two commands on a bare Debian 12 and a bare Debian 13, one after the other: a minimal
# system in a temporary folder, with git and certificates, and a clean clone of HEAD in it. Needs
# root and a network.
# Usage: tests/bench/fresh_machine.sh [--suite=bookworm|trixie] [--first | --atari] [--keep]
#   --suite  only this Debian: bookworm is 12, trixie is 13
#   --first  only the first command, word for word; CartPole must be solved and its curve drawn
#            within 240 s
#   --atari  ./run_local.sh atari vtrace 4 instead: it must begin to train on Pong by itself
#   --keep   leave the folder there
set -euo pipefail
. "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../../scripts/lib.sh"
offer_help "$@"
cd "$root"
keep='' commands=two_commands.sh shown="both commands pass" suites=(bookworm trixie)
for word in "$@"; do
  case "$word" in
    --keep) keep=1 ;;
    --suite=bookworm | --suite=trixie) suites=("${word#*=}") ;;
    --first)
      commands=first_command.sh shown="the first command solves CartPole and draws its curve"
      ;;
    --atari) commands=atari_command.sh shown="Pong is trained on by one command" ;;
    *)
      echo "fresh_machine: '$word' is no option of it; --help lists them" >&2
      exit 2
      ;;
  esac
done
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
work=$(mktemp -d "${TMPDIR:-/tmp}/fresh_machine.XXXXXX")
chmod 755 "$work"
clean_up() {
  if [ -n "$keep" ]; then echo "kept: $work" >&2; else rm -rf --one-file-system "$work"; fi
}
trap clean_up EXIT

# copy_sources SUITE: the Debian sources of this machine, which may be those of another suite.
copy_sources() {
  local suite=$1 file known='(bookworm|trixie)(-[a-z-]+)?'
  mkdir "$work/sources-$suite"
  for file in /etc/apt/sources.list /etc/apt/sources.list.d/*.{list,sources}; do
    grep -qsE "(^|[[:space:]])$known([[:space:]]|\$)" "$file" && grep -qw main "$file" || continue
    sed -E "s/(^|[[:space:]])$known\b/\1$suite\3/g" "$file" \
      >"$work/sources-$suite/$(basename "$file")"
  done
}

# make_machine SUITE: with this machine's sources, proxies and keys, so that it works behind a
# mirror too.
make_machine() {
  local suite=$1 file sources=() settings=()
  copy_sources "$suite"
  for file in "$work/sources-$suite"/*; do
    if [ -e "$file" ]; then sources+=("$file"); fi
  done
  for file in /etc/apt/apt.conf.d/*; do
    grep -qiE 'proxy|Check-Valid|Check-Date|Verify|CaInfo|SslCert|SslKey|CAInfo' "$file" || continue
    settings+=("--aptopt=$file" "--customize-hook=cp '$file' \"\$1/etc/apt/apt.conf.d/\"")
  done
  mmdebstrap --quiet --variant=minbase --include=git,ca-certificates "${settings[@]}" \
    --customize-hook='cp /etc/resolv.conf "$1/etc/resolv.conf"' \
    --customize-hook='own=/usr/local/share/ca-certificates; mkdir -p "$1$own"
      cp -r "$own/." "$1$own/" 2>/dev/null || true
      chroot "$1" update-ca-certificates >/dev/null 2>&1 || true' \
    "$suite" "$work/$suite" "${sources[@]}" &&
    git clone --quiet --no-local . "$work/$suite/root/acorn" &&
    cp "$work"/*_command*.sh "$work/$suite/root"
}

cat >"$work/two_commands.sh" <<'COMMANDS'
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

cat >"$work/first_command.sh" <<'COMMANDS'
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

cat >"$work/atari_command.sh" <<'COMMANDS'
set -e
cd /root/acorn
start=$SECONDS
./run_local.sh atari vtrace 4 --total_steps=20k </dev/null | tee /tmp/out
echo "== it took $((SECONDS - start)) s"
tail -n 1 /tmp/out | grep -q '^result env=atari-Pong agent=vtrace steps=20.* reason=total_steps'
COMMANDS

# Mounts and processes of its own: nothing stays behind. A session of its own, since on a machine
# process 1 is in another than its users, which counts for who is orphaned. The root is a mount of
# its own, for tests that make namespaces in it.
run_in() {
  env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin TERM=dumb LANG=C.UTF-8 \
    http_proxy="${http_proxy:-}" https_proxy="${https_proxy:-}" no_proxy="${no_proxy:-}" \
    unshare --mount --pid --fork --kill-child bash -ec "
    mount --make-rprivate /
    mount --bind '$1' '$1'
    mount -t proc proc '$1/proc'
    mount --rbind /dev '$1/dev'
    mount -t tmpfs tmpfs '$1/tmp'
    chroot '$1' setsid --fork --wait bash /root/$commands
    exit" # so that bash stays process 1, which gets the orphans
}

declare -A name=([bookworm]="Debian 12" [trixie]="Debian 13")
failed=()
for suite in "${suites[@]}"; do
  echo "making a bare ${name[$suite]}" >&2
  if make_machine "$suite" && run_in "$work/$suite"; then
    echo "$shown on a bare ${name[$suite]}"
  else
    failed+=("${name[$suite]}")
  fi
  [ -n "$keep" ] || rm -rf --one-file-system "${work:?}/$suite"
done
if [ ${#failed[@]} -gt 0 ]; then
  echo "fresh_machine: failed on a bare ${failed[*]}" >&2
  exit 1
fi
