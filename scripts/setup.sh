#!/usr/bin/env bash
# Installs what is missing to build and run (no word), to test (`test`), or to check everything as
# CI does (`all`). Silent when all is there. Debian 12 packages only; elsewhere it says what is
# needed.
# Usage: scripts/setup.sh [test|all]
set -euo pipefail

packages=(gcc libc6-dev make libgrpc-dev libprotobuf-c-dev protobuf-c-compiler libuv1-dev
  libjansson-dev)
headers=(grpc/grpc.h protobuf-c/protobuf-c.h uv.h jansson.h)
programs=(gcc make protoc-c)
case "${1:-}" in
  "") ;;
  test)
    packages+=(libcmocka-dev)
    ;;
  all)
    packages+=(libcmocka-dev git clang clang-format libclang-rt-14-dev)
    programs+=(git clang clang-format)
    ;;
  *)
    echo "setup: '$1' is neither test nor all" >&2
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

if ! is_debian_12; then
  parts=$(missing_parts | tr '\n' ' ')
  [ -z "$parts" ] && exit 0
  say "this machine lacks: $parts"
  say "packages are installed by this script on Debian 12 only; install what corresponds to these:"
  say "  ${packages[*]}"
  exit 1
fi

mapfile -t missing < <(missing_packages)
[ ${#missing[@]} -eq 0 ] && exit 0
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
