#!/usr/bin/env bash
# The README's two commands on a bare Debian 12 and a bare Debian 13, one after the other: a minimal
# system in a temporary folder, with git and certificates, and a clean clone of HEAD in it. Needs
# root and a network.
# Usage: tests/bench/fresh_machine.sh [--suite=SUITE] [--first | --atari | --wheel | --onnx]
#        [--keep]
#   --suite  only this Debian: bookworm is 12, trixie is 13; bullseye, 11, with --wheel
#   --first  only the first command, word for word; CartPole must be solved and its curve drawn
#            within 240 s
#   --atari  ./run_local.sh atari vtrace 4 instead: it must begin to train on Pong by itself
#   --wheel  the wheel of the Python package instead, without compilers: it is installed, trains,
#            acts and passes Gymnasium's checker; on Debian 11, whose glibc is older, it is refused
#   --onnx   what tests/integration/export.sh exports is run by Debian 13's own onnxruntime instead
#   --keep   leave the folder there
set -euo pipefail
. "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../../scripts/lib.sh"
offer_help "$@"
cd "$root"
keep='' commands=two_commands.sh shown="both commands pass" suites=(bookworm trixie)
include=git,ca-certificates brought=''
for word in "$@"; do
  case "$word" in
    --keep) keep=1 ;;
    --suite=bookworm | --suite=trixie | --suite=bullseye) suites=("${word#*=}") ;;
    --first)
      commands=first_command.sh shown="the first command solves CartPole and draws its curve"
      ;;
    --wheel)
      commands=wheel_command.sh shown="the wheel passes" suites=(bookworm trixie bullseye)
      include+=,python3-venv
      ;;
    --onnx)
      commands=onnx_command.sh shown="each kind of exported policy computes the same"
      suites=(trixie) include+=,python3-onnxruntime
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
  local suite=$1 file known='(bookworm|trixie|bullseye)(-[a-z-]+)?'
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
  mmdebstrap --quiet --variant=minbase --include=$include "${settings[@]}" \
    --customize-hook='cp /etc/resolv.conf "$1/etc/resolv.conf"' \
    --customize-hook='own=/usr/local/share/ca-certificates; mkdir -p "$1$own"
      cp -r "$own/." "$1$own/" 2>/dev/null || true
      chroot "$1" update-ca-certificates >/dev/null 2>&1 || true' \
    "$suite" "$work/$suite" "${sources[@]}" &&
    git clone --quiet --no-local . "$work/$suite/root/acorn" &&
    cp -r "$work"/*_command*.sh $brought "$work/$suite/root"
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

cat >"$work/onnx_command.sh" <<'COMMANDS'
cd /root
python3 cases/replay.py cases
COMMANDS

cat >"$work/wheel_command.sh" <<'COMMANDS'
export PIP_CERT=/etc/ssl/certs/ca-certificates.crt PIP_DISABLE_PIP_VERSION_CHECK=1
cd /root
check=acorn/tests/integration/python_package/check.py
wheel=$(echo acorn_rl-*.whl) failures=0
# row WHAT COMMAND...: a line of the table; what the command printed, if it failed.
row() {
  local verdict=ok
  "${@:2}" >/tmp/out 2>&1 </dev/null || verdict=MISSED
  printf '%-78s %s\n' "$1" "$verdict"
  [ $verdict = ok ] && return
  failures=$((failures + 1))
  tail -n 5 /tmp/out
}
has_no_compiler() { ! compgen -c | grep -xE '(cc|gcc|c\+\+|g\+\+|clang|make|ld)(-[0-9]+)?'; }
is_small() { [ "$(stat -c %s "$wheel")" -le 60000000 ]; }
says() { # WORDS COMMAND...: it fails, with these words and none of a library's
  ! "${@:2}" >/tmp/said 2>&1 || return
  cat /tmp/said
  grep -qF -- "$1" /tmp/said && ! grep -qE 'Traceback|GLIBC_[0-9]' /tmp/said
}
trains() {
  play/bin/acorn train "$@" &&
    grep -q '^result .* agent=ppo steps=.* reason=total_steps' /tmp/out
}
plays() {
  play/bin/acorn eval "$1" --policy=greedy --episodes=8 >/tmp/eval &&
    play/bin/python -I $check plays "$1" "$(sed -n 's/.* return_mean=\([^ ]*\).*/\1/p' /tmp/eval)"
}
row "no compiler is here; glibc is $(getconf GNU_LIBC_VERSION | cut -d ' ' -f 2)" has_no_compiler
row "the wheel has at most 60 MB: $(($(stat -c %s "$wheel") / 1000000))" is_small
row "python3 -m venv, of $(python3 --version)" python3 -m venv play
if ! dpkg --compare-versions "$(getconf GNU_LIBC_VERSION | cut -d ' ' -f 2)" ge 2.36; then
  row "pip refuses it by its tag" says "is not a supported wheel" play/bin/pip install "$wheel"
  python3 -m zipfile -e "$wheel" "$(echo play/lib/python3.*/site-packages)"
  words="this package needs glibc 2.36 or newer, this system has"
  row "unpacked all the same: acorn train prints a sentence" \
    says "acorn: $words" play/bin/python -m acorn.command train cartpole
  play/bin/pip -q install numpy 2>/dev/null
  row "and so does acorn.load" says "$words" play/bin/python -c '
import acorn, sys
try:
    acorn.load("policy.safetensors")
except acorn.AcornError as error:
    sys.exit(str(error))'
  exit $((failures > 0))
fi
row "pip install, with Gymnasium" play/bin/pip -q install "$wheel" gymnasium==1.4.0
row "acorn train cartpole" trains cartpole ppo 2 8 --total_steps=30k --logdir=run --no_plot
row "acorn train gym:CartPole-v1" trains gym:CartPole-v1 ppo 2 8 --total_steps=5k --logdir=gym
row "acorn.Run reads the run" play/bin/python -I $check run run
row "acorn.load(RUN).act plays 8 episodes as acorn eval does" plays run
row "the same of a run of gym:CartPole-v1" play/bin/python -I $check brought gym
row "VectorEnv, step by step as Gymnasium's CartPole" play/bin/python -I $check same
row "VectorEnv passes Gymnasium's checker" play/bin/python -I $check checker
exit $((failures > 0))
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

declare -A name=([bookworm]="Debian 12" [trixie]="Debian 13" [bullseye]="Debian 11")
failed=()
if [ $commands = wheel_command.sh ]; then
  scripts/wheel.sh >&2
  brought=$(echo build/wheel/*.whl)
fi
if [ $commands = onnx_command.sh ]; then
  brought=$work/cases
  mkdir "$brought" && cp tests/integration/export/replay.py "$brought"
  scripts/setup.sh compare >&2
  ONNX_CASES=$brought tests/integration/export.sh >"$work/export" 2>&1 || {
    grep -A 8 '^FAIL' "$work/export" >&2
    exit 1
  }
fi
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
