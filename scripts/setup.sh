#!/usr/bin/env bash
# Installs what is missing to build and run (no word), to draw learning curves (`plot`), to record
# play (`watch`), for environments in Python (`gym`, `atari`), for actors in Python (`python`), to
# test (`test`), or to check everything as CI does (`all`). Silent when all is there. Debian 12
# packages, and Python's in .venv; elsewhere it says what is needed.
# Usage: scripts/setup.sh [plot|watch|gym|atari|python|test|all]
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
offer_help "$@"

packages=(gcc g++ libc6-dev make libgrpc-dev libabsl-dev libprotobuf-c-dev protobuf-c-compiler libuv1-dev
  libjansson-dev libdnnl-dev)
headers=(grpc/grpc.h protobuf-c/protobuf-c.h uv.h jansson.h oneapi/dnnl/dnnl.h)
programs=(gcc g++ make protoc-c)
groups=() # of Python packages, see setup_python.sh
what=${1:-}
case "$what" in
  "") ;;
  plot)
    packages+=(gnuplot-nox)
    programs+=(gnuplot)
    ;;
  watch)
    packages+=(ffmpeg)
    programs+=(ffmpeg)
    ;;
  gym | atari)
    packages+=(python3-dev python3-venv)
    headers+=(python3.11/Python.h)
    groups=(gym)
    ;;
  test)
    packages+=(libcmocka-dev python3)
    ;;
  python)
    packages+=(python3 python3-grpcio python3-protobuf protobuf-compiler-grpc)
    ;;
  all)
    packages+=(libcmocka-dev python3 git clang clang-format libclang-rt-14-dev gnuplot-nox
      ffmpeg python3-numpy python3-grpcio python3-protobuf protobuf-compiler-grpc)
    programs+=(git clang clang-format gnuplot ffmpeg)
    # The readers of what the learner writes: promtool, and TensorBoard in .venv.
    packages+=(prometheus python3-dev python3-venv)
    groups=(tensorboard gym cv2)
    ;;
  *)
    echo "setup: '$1' is none of plot, watch, gym, atari, python, test, all" >&2
    exit 2
    ;;
esac

is_debian_12() {
  grep -qs '^ID=debian$' /etc/os-release && grep -q '^VERSION_ID="12"$' /etc/os-release
}

# Prints the packages that are not installed.
missing_packages() {
  local installed
  installed=$(dpkg-query -W -f '${db:Status-Status} ${Package}\n' "${packages[@]}" 2>/dev/null |
    sed -n 's/^installed //p') || true
  local package
  for package in "${packages[@]}"; do
    grep -qx -e "$package" <<<"$installed" || echo "$package"
  done
}

# Prints the programs and headers that the compiler does not find.
missing_parts() {
  local part
  for part in "${programs[@]}"; do
    command -v "$part" >/dev/null || echo "$part"
  done
  command -v gcc >/dev/null || return 0
  for part in "${headers[@]}"; do
    echo "#include <$part>" | gcc -E -x c - >/dev/null 2>&1 || echo "$part"
  done
}

say() {
  echo "setup: $*" >&2
}

# The packages are there. Without those of Python a test is skipped; where they were asked for, it
# fails.
finish() {
  local group
  for group in ${groups[@]+"${groups[@]}"}; do
    "$(dirname "${BASH_SOURCE[0]}")/setup_python.sh" "$group" || [ "$what" = all ] || exit 1
  done
  exit 0
}

if ! is_debian_12; then
  parts=$(missing_parts | tr '\n' ' ')
  [ -z "$parts" ] && finish
  say "this machine lacks: $parts"
  say "packages are installed by this script on Debian 12 only; install what corresponds to these:"
  say "  ${packages[*]}"
  exit 1
fi

mapfile -t missing < <(missing_packages)
[ ${#missing[@]} -eq 0 ] && finish
by_hand="apt-get update && apt-get install -y --no-install-recommends ${missing[*]}"

as_root=()
if [ "$(id -u)" != 0 ]; then
  if ! command -v sudo >/dev/null || ! { [ -t 0 ] || sudo -n true 2>/dev/null; }; then
    say "these packages are missing: ${missing[*]}"
    say "installing them needs root, and sudo is not at hand; have somebody run:"
    say "  $by_hand"
    exit 1
  fi
  as_root=(sudo)
fi

say "installing ${missing[*]}"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
apt() {
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get -o DPkg::Lock::Timeout=300 "$@" >>"$log" 2>&1 </dev/null
}
# The package lists may be absent or old: they are fetched only if the installation fails without.
install=(install -y --no-install-recommends "${missing[@]}")
if ! apt "${install[@]}" && ! { apt update && apt "${install[@]}"; }; then
  tail -n 15 "$log" >&2
  say "the installation failed (above); is there a network? By hand it is, as root:"
  say "  $by_hand"
  exit 1
fi
finish
